"""Records: equal to what the fast path computes, and recording does not change the model."""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import clearhead
from clearhead.api.exporting import export_model
from clearhead.decoding.engine import Hypothesis
from clearhead.decoding.fast_decoder import FastDecoder
from clearhead.errors import ConfigError, DataError
from clearhead.inspect.explanation import explain
from clearhead.inspect.record import DETAILS, Record, heat_table
from clearhead.inspect.recording import (
    LONGEST,
    record,
    record_classification,
    record_translation,
)
from clearhead.model.attention import (
    Attend,
    MultiHeadAttention,
    attention,
    explicit_attention,
    fused_attention,
)
from clearhead.model.build import build_classifier
from clearhead.model.transformer import EncoderDecoder
from clearhead.settings import ClassifierConfig, DropoutConfig, Learned, ModelConfig, NoPositions
from clearhead.tokenizer import BOS, EOS
from exported_models import pieces, random_folder
from hostile import HOSTILE
from made_records import SOURCE as WORDS_READ
from made_records import TARGET as WORDS_WRITTEN
from made_records import made_record, words
from small_models import configs, labelled_run, padded, random_model, small_config
from small_translators import SOURCE, TARGET, Classifier, Translator, random_classifier

ALL_FORMS = pytest.mark.parametrize("norm", ["pre", "post"])
ALL_ATTENTIONS = pytest.mark.parametrize("attend", [explicit_attention, fused_attention, attention])


def close(ours: np.ndarray, theirs: Tensor) -> None:
    np.testing.assert_allclose(ours, theirs.detach().numpy(), rtol=0, atol=1e-10)


def dropping_model(norm: Literal["pre", "post"] = "pre") -> EncoderDecoder:
    """A model in training mode, with dropout everywhere."""
    return random_model(small_config(norm=norm, dropout=DropoutConfig.everywhere(0.5))).train()


SENTENCES = (([5], [4, 3, 9, 10, 6, 8]), (SOURCE, TARGET), ([12, 3, 3, 11, 8, 4, 9], []))
"""Sources and targets, each with padding in a batch of them all."""


def recorded_as_computed(model: EncoderDecoder, number: int = 1) -> Record:
    """The record of a sentence, after a check that it equals what the fast path computes.

    The fast path computes all sentences as one batch, in which they are padded.
    """
    source, target = SENTENCES[number]
    found = record_translation(model, source, target)
    memory, mask = model.encode(padded([source for source, _ in SENTENCES]))
    hidden = model.decode(padded([[BOS, *target] for _, target in SENTENCES]), memory, mask)
    close(found.memory, memory[number, : len(source)])
    close(found.hidden, hidden[number, : len(target) + 1])
    close(found.logits, model.output(hidden)[number, : len(target) + 1])
    return found


@ALL_FORMS
@ALL_ATTENTIONS
def test_a_translation_s_record_equals_the_fast_path(
    norm: Literal["pre", "post"], attend: Attend
) -> None:
    found = recorded_as_computed(random_model(small_config(norm=norm), attend=attend).eval())
    assert found.logits.dtype == np.float64
    assert found.input.tolist() == SOURCE


@pytest.mark.slow
@pytest.mark.parametrize("features", [False, True])
@pytest.mark.parametrize("convolution", [(), (3,), (3, 4)])
def test_a_classification_s_record_equals_the_fast_path(
    features: bool, convolution: tuple[int, ...]
) -> None:
    model = random_classifier(features, input_convolution=convolution).eval()
    row = torch.randn(7, 6) if features else torch.tensor([1, 5, 2, 2])
    found = record_classification(model, row.numpy())
    memory, mask = model.encode(row[None])
    close(found.memory, memory[0])
    close(found.hidden, model.pooling(memory, mask)[0])
    close(found.logits, model(row[None])[0])
    close(found.encoder[0].input, model.input(row[None])[0])
    assert (found.target, found.decoder) == ((), ())
    assert found.source == tuple(str(n) for n in range(1, len(row) + 1))
    np.testing.assert_array_equal(found.input, row.numpy())
    # softmax(w · x), and beside the mean what is pooled with it.
    weights = found.pooling_weights
    assert weights is not None
    (query,) = model.pooling.poolings[1].parameters()
    scores = np.exp(found.memory @ query[0].detach().numpy())
    np.testing.assert_allclose(weights, scores / scores.sum(), atol=1e-12)
    np.testing.assert_allclose(found.hidden[8:], weights @ found.memory, atol=1e-12)


def test_a_classifier_without_attention_pooling_has_no_pooling_weights() -> None:
    model = build_classifier(labelled_run(small_config()), 6, 3)
    assert record_classification(model.eval(), [3, 4]).pooling_weights is None
    assert record_translation(random_model(small_config()), SOURCE, TARGET).pooling_weights is None


any_attention = st.sampled_from([explicit_attention, fused_attention, attention])


@pytest.mark.slow
@settings(max_examples=30)
@given(configs, any_attention, st.sampled_from(range(len(SENTENCES))))
def test_a_record_equals_the_fast_path_whatever_the_model_is_made_of(
    config: ModelConfig, attend: Attend, number: int
) -> None:
    recorded_as_computed(random_model(config, attend=attend).eval(), number)


@pytest.mark.slow
@settings(max_examples=30)
@given(configs, any_attention, st.booleans(), st.sampled_from(range(3)))
def test_a_classification_s_record_equals_its_row_of_a_padded_batch(
    config: ModelConfig, attend: Attend, features: bool, number: int
) -> None:
    head = ClassifierConfig(pooling=("mean", "first", "maximum", "attention"))
    model = random_classifier(features, attend=attend, head=head, **vars(config)).eval()
    if features:
        rows = [torch.randn(length, 6, dtype=torch.float64) for length in (2, 7, 4)]
        batch = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=math.nan)
    else:
        rows = [torch.tensor(row) for row in ([4], [1, 5, 2, 2, 3], [3, 5, 5])]
        batch = nn.utils.rnn.pad_sequence(rows, batch_first=True)
    memory, mask = model.encode(batch)
    found = record_classification(model, rows[number])
    close(found.memory, memory[number, : len(rows[number])])
    close(found.hidden, model.pooling(memory, mask)[number])
    close(found.logits, model(batch)[number])


def test_a_record_of_words_by_their_spelling_equals_the_fast_path() -> None:
    model = random_classifier(False, character_ngrams=(2, 3), ngram_vectors=9).eval()
    row = torch.tensor([[1, 2, 3], [5, 9, 0], [3, 0, 0]])
    found = record_classification(model, row.numpy())
    batch = nn.utils.rnn.pad_sequence([row, row.flip(0).repeat(2, 1)], batch_first=True)
    memory, _ = model.encode(batch)
    close(found.memory, memory[0, :3])
    close(found.logits, model(batch)[0])
    assert found.encoder_attentions.shape[-2:] == (3, 3)


@pytest.mark.slow
@pytest.mark.parametrize("length", [3, 4, 5])
def test_an_output_that_fills_all_trained_positions_is_recorded_up_to_them(length: int) -> None:
    model = random_model(small_config(positions=Learned(max_length=5))).eval()
    target = TARGET[:1] * length
    found = record_translation(model, SOURCE, target)
    assert found.target == tuple(map(str, [BOS, *target][:5]))
    expected = record_translation(model, SOURCE, target[:4])
    close(found.logits, torch.from_numpy(expected.logits[: len(found.logits)]))
    with pytest.raises(DataError):
        record_translation(model, SOURCE, TARGET[:1] * 6)


@ALL_FORMS
def test_the_record_s_logits_are_those_of_cached_decoding(norm: Literal["pre", "post"]) -> None:
    model = random_model(small_config(norm=norm)).eval()
    found = record_translation(model, SOURCE, TARGET)
    decoder = FastDecoder(model)
    state = decoder.start(torch.tensor([SOURCE]))
    for position, token in enumerate([BOS, *TARGET]):
        close(found.logits[position], decoder.step(torch.tensor([token]), state)[0])


@pytest.mark.slow
@settings(max_examples=10)
@given(
    source=st.lists(st.integers(1, 12), min_size=1, max_size=8),
    target=st.lists(st.integers(1, 10), max_size=6),
    layers=st.integers(1, 3),
    n_heads=st.integers(1, 3),
)
def test_the_weights_of_every_head_are_distributions_that_do_not_look_ahead(
    source: list[int], target: list[int], layers: int, n_heads: int
) -> None:
    config = small_config(
        encoder_layers=layers, decoder_layers=layers, n_heads=n_heads, d_model=4 * n_heads
    )
    found = record_translation(random_model(config), source, target)
    s, t = len(source), len(target) + 1
    attentions = (found.encoder_attentions, found.decoder_attentions, found.cross_attentions)
    for weights, shape in zip(attentions, ((s, s), (t, t), (t, s)), strict=True):
        assert weights.shape == (layers, n_heads, *shape)
        assert (weights >= 0).all()
        np.testing.assert_allclose(weights.sum(axis=-1), 1.0, atol=1e-12)
    ahead = np.triu(np.ones((t, t), dtype=bool), k=1)
    assert (found.decoder_attentions[..., ahead] == 0).all()


def softmax_of_scores(
    layer: MultiHeadAttention, queries: np.ndarray, keys: np.ndarray, head: int
) -> np.ndarray:
    """Equation 1 for one head, number by number."""
    weight, bias = (p.detach().numpy() for p in (layer.packed.weight, layer.packed.bias))
    d_k = layer.widths[0] // layer.n_heads
    of_queries = slice(head * d_k, (head + 1) * d_k)
    of_keys = slice(layer.widths[0] + head * d_k, layer.widths[0] + (head + 1) * d_k)
    rows = []
    for query in queries @ weight[of_queries].T + bias[of_queries]:
        scores = [
            math.exp(float(query @ key) / math.sqrt(d_k))
            for key in keys @ weight[of_keys].T + bias[of_keys]
        ]
        rows.append([score / sum(scores) for score in scores])
    return np.array(rows)


def test_the_weights_are_equation_1_written_out() -> None:
    model = random_model(small_config(norm="post"))
    found = record_translation(model, SOURCE, TARGET)
    for number, layer in enumerate(found.encoder):
        attends = model.encoder.get_submodule(f"layers.{number}.self_attention")
        assert isinstance(attends, MultiHeadAttention)
        for head in range(2):
            expected = softmax_of_scores(attends, layer.input, layer.input, head)
            np.testing.assert_allclose(layer.attention[head], expected, atol=1e-12)
    for number, layer in enumerate(found.decoder):
        attends = model.decoder.get_submodule(f"layers.{number}.cross_attention")
        assert isinstance(attends, MultiHeadAttention)
        for head in range(2):
            after = layer.after_self_attention
            expected = softmax_of_scores(attends, after, found.memory, head)
            np.testing.assert_allclose(layer.cross_attention[head], expected, atol=1e-12)


@ALL_FORMS
def test_each_layer_s_parts_lead_from_one_to_the_next(norm: Literal["pre", "post"]) -> None:
    """Each residual sum, recomputed from the recorded input and output of its sub-layer."""
    model = random_model(small_config(norm=norm)).eval()
    found = record_translation(model, SOURCE, TARGET)

    def check(layer: str, *steps: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
        for place, (x, sublayer, expected) in enumerate(steps):
            total = torch.from_numpy(x + sublayer)
            residual = model.get_submodule(f"{layer}.residuals.{place}")
            close(expected, total if norm == "pre" else residual.get_submodule("norm")(total))

    for number, layer in enumerate(found.encoder):
        check(
            f"encoder.layers.{number}",
            (layer.input, layer.attention_output, layer.after_attention),
            (layer.after_attention, layer.feed_forward_output, layer.output),
        )
    for number, layer in enumerate(found.decoder):
        after_target, after_source = layer.after_self_attention, layer.after_cross_attention
        check(
            f"decoder.layers.{number}",
            (layer.input, layer.self_attention_output, after_target),
            (after_target, layer.cross_attention_output, after_source),
            (after_source, layer.feed_forward_output, layer.output),
        )
    for layers in (found.encoder, found.decoder):
        for one, following in itertools.pairwise(layers):
            np.testing.assert_array_equal(one.output, following.input)
    close(found.memory, model.encoder.norm(torch.from_numpy(found.encoder[-1].output)))
    close(found.hidden, model.decoder.norm(torch.from_numpy(found.decoder[-1].output)))
    close(found.encoder[0].input, model.source_input(torch.tensor([SOURCE]))[0])


def inner_state(model: nn.Module) -> list[Any]:
    """Everything in a model that recording might change."""
    return [
        (
            name,
            module.training,
            dict(module._forward_hooks),
            dict(module._forward_pre_hooks),
            getattr(module, "attend", None),
            {key: (id(p), p._version) for key, p in module.named_parameters(recurse=False)},
            {key: (id(b), b._version) for key, b in module.named_buffers(recurse=False)},
        )
        for name, module in model.named_modules()
    ]


@ALL_FORMS
def test_the_model_is_left_as_it_was(norm: Literal["pre", "post"]) -> None:
    model = dropping_model(norm)
    before = inner_state(model)
    source, target = torch.tensor([SOURCE]), torch.tensor([[BOS, *TARGET]])
    torch.manual_seed(5)
    expected = model(source, target)
    torch.manual_seed(5)
    found = record_translation(model, SOURCE, TARGET)
    # No random number was drawn either, though the model drops out.
    assert torch.equal(model(source, target), expected)
    assert inner_state(model) == before
    assert all(parameter.grad is None for parameter in model.parameters())
    again = record_translation(model.eval(), SOURCE, TARGET)
    np.testing.assert_array_equal(found.logits, again.logits)


def test_a_record_does_not_change_with_the_model() -> None:
    model = random_model(small_config(positions=NoPositions(), scale_embeddings=False))
    found = record_translation(model, SOURCE, TARGET)
    kept = found.encoder[0].input.copy()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    np.testing.assert_array_equal(found.encoder[0].input, kept)


def test_a_translator_is_recorded_with_its_tokens_as_names() -> None:
    translator = Translator()
    found = record(translator, "b a unheard", "q s")
    assert found.source == ("b", "a", "<unk>")
    assert found.target == ("<sos>", "q", "s")
    model = translator.model
    logits = model(torch.tensor([[4, 3, 12]]), torch.tensor([[1, 4, 6]]))
    close(found.logits, logits[0])
    other = Hypothesis((4, 6), -1.0, (-0.5, -0.5), -1.0, True, "another text")
    by_tokens = record(translator, "b a unheard", other)
    assert by_tokens.target == found.target
    np.testing.assert_array_equal(by_tokens.logits, found.logits)
    empty = record(Translator(), "a", Hypothesis((), 0.0, (), 0.0, True))
    assert empty.target == ("<sos>",)
    assert empty.decoder_attentions.shape == (2, 2, 1, 1)


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a translator of pieces, in float32, with its CTranslate2 export."""
    both = pieces(["ab abc bcd abcd", "cd abcd da dab"] * 9)
    shape = small_config(output_bias=True, share_embeddings="all")
    folder = random_folder(
        *(tmp_path_factory.mktemp("exported"), shape), tokenizers=(both, both), ends=0.3
    )
    export_model(folder)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["torch", "ctranslate2"])
def test_what_an_engine_found_is_recorded_with_the_scores_that_it_reported(
    exported: Path, engine: str
) -> None:
    translator = clearhead.load(exported, engine=engine, device="cpu")
    assert isinstance(translator, clearhead.Translator)
    texts = ["ab abcd", "da bcd cd dab abc", "dab"]
    found = translator.translate(texts, method="beam", beam_size=4)
    outputs = [(text, best) for text, (best,) in zip(texts, found, strict=True)]
    tokenizer = translator.target_tokenizer
    for text, output in outputs:
        seen = record(translator, text, output)
        assert seen.input.tolist() == translator.source_tokenizer.encode(text)
        assert seen.target == tuple(tokenizer.pieces([BOS, *output.tokens]))
        ids = [*output.tokens, *([EOS] if output.finished else [])]
        scores = torch.from_numpy(seen.logits).log_softmax(dim=-1).numpy()
        recorded = scores[np.arange(len(ids)), ids]
        np.testing.assert_allclose(recorded, output.token_scores, rtol=0, atol=1e-5)
        explained = explain(translator, text, output)
        assert explained.outputs == tuple(tokenizer.pieces(ids))
        own = explained.log_probabilities[:, 0]
        np.testing.assert_allclose(own, output.token_scores, rtol=0, atol=1e-5)
    # Outputs that were cut, and outputs whose text has other ids, are among them.
    assert {output.finished for _, output in outputs} == {True, False}
    assert any(tokenizer.encode(output.text) != [*output.tokens] for _, output in outputs)


def test_a_classifier_is_recorded_with_its_tokens_as_names() -> None:
    classifier = Classifier()
    found = record(classifier, "y x")
    assert found.source == ("y", "x")
    close(found.logits, classifier.model.eval()(torch.tensor([[4, 3]]))[0])
    for name in ("decoder_attentions", "cross_attentions"):
        with pytest.raises(DataError):
            getattr(found, name)


@pytest.mark.parametrize(
    ("subject", "words", "error", "part"),
    [
        (Translator(), ("a",), ConfigError, "translation"),
        (Classifier(), ("x", "y"), ConfigError, "target"),
        (Translator(), ("a", "p", "q"), ConfigError, "'q'"),
        (Translator(), ("a", "p", ["query"]), ConfigError, "'query'"),
        (Translator(), ("", "p"), DataError, "source"),
        (Translator(), (" \t", "p"), DataError, "source"),
        (Classifier(), (" ",), DataError, "source"),
        (Translator(), ("a " * (LONGEST + 1), "p"), DataError, "source"),
        (Translator(), ("a", "p " * LONGEST), DataError, "target"),
    ],
)
def test_what_cannot_be_recorded_is_rejected(
    subject: Any, words: Any, error: type[ConfigError | DataError], part: str
) -> None:
    with pytest.raises(error) as caught:
        record(subject, *words)
    assert part in caught.value.what


ALL_DETAILS = frozenset(DETAILS)


def softmax(scores: np.ndarray) -> np.ndarray:
    raised = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return raised / raised.sum(axis=-1, keepdims=True)


@pytest.mark.slow
@settings(max_examples=20)
@given(configs)
def test_details_are_the_steps_between_the_values_of_a_record(config: ModelConfig) -> None:
    model = random_model(config).eval()
    found = record_translation(model, SOURCE, TARGET, ALL_DETAILS)
    of = found.details
    np.testing.assert_allclose(of["probabilities"], softmax(found.logits), atol=1e-12)
    assert ("source.convolutions" in of) == bool(config.input_convolution)
    if not config.embedding_norm:
        total = of["source.embeddings"] + of["source.positions"]
        total = total + of.get("source.convolutions", 0)
        np.testing.assert_allclose(total, found.encoder[0].input, atol=1e-12)
    for number, layer in enumerate(found.decoder, start=1):
        ahead = np.triu(np.ones((4, 4), dtype=bool), k=1)
        own = np.where(ahead, -np.inf, of[f"decoder.{number}.self.scores"])
        np.testing.assert_allclose(softmax(own), layer.self_attention, atol=1e-12)
        cross = of[f"decoder.{number}.cross.scores"]
        np.testing.assert_allclose(softmax(cross), layer.cross_attention, atol=1e-12)
        place = f"decoder.{number}.cross"
        context = layer.cross_attention @ of[f"{place}.values"]
        np.testing.assert_allclose(of[f"{place}.head_outputs"], context, atol=1e-12)
        bias = model.get_submodule(f"decoder.layers.{number - 1}.cross_attention.output").bias
        parts = of[f"{place}.head_parts"].sum(axis=0)
        parts = parts + (0 if bias is None else cast(Tensor, bias).detach().numpy())
        np.testing.assert_allclose(parts, layer.cross_attention_output, atol=1e-12)
        d_k = of[f"{place}.queries"].shape[-1]
        scores = of[f"{place}.queries"] @ of[f"{place}.keys"].swapaxes(1, 2) / math.sqrt(d_k)
        np.testing.assert_allclose(cross, scores, atol=1e-12)
        feed = f"decoder.{number}.feed_forward"
        sums = layer.after_cross_attention + layer.feed_forward_output
        np.testing.assert_allclose(of[f"{feed}.residuals"], sums, atol=1e-12)
        norm = layer.output if config.norm == "post" else of[f"{feed}.residuals"]
        np.testing.assert_allclose(layer.output, norm, atol=1e-12)
        output = model.get_submodule(f"decoder.layers.{number - 1}.feed_forward.output")
        hidden = torch.from_numpy(of[f"{feed}.hidden_units"])
        close(layer.feed_forward_output, output(hidden))


@pytest.mark.parametrize("features", [False, True])
def test_details_of_a_classifier(features: bool) -> None:
    model = random_classifier(features).eval()
    row = torch.randn(7, 6).numpy() if features else np.array([1, 5, 2, 2])
    found = record_classification(model, row, ALL_DETAILS)
    np.testing.assert_allclose(found.details["probabilities"], softmax(found.logits), atol=1e-12)
    total = found.details["source.embeddings"] + found.details["source.positions"]
    np.testing.assert_allclose(total, found.encoder[0].input, atol=1e-12)
    names = {name.rpartition(".")[2] for name in found.details}
    assert names == ALL_DETAILS - {"convolutions"}


def test_details_are_kept_only_when_asked_for(tmp_path: Path) -> None:
    assert record(Translator(), "a", "p").details == {}
    both = record(Translator(), "a", "p", "scores, residuals").details
    assert {name.split(".")[-1] for name in both} == {"scores", "residuals"}
    some = record(Translator(), "a", "p", ["queries", "probabilities"])
    assert set(some.details) == {
        "probabilities",
        *(f"encoder.{n}.self.queries" for n in (1, 2)),
        *(f"decoder.{n}.{kind}.queries" for n in (1, 2) for kind in ("self", "cross")),
    }
    some.save(tmp_path / "some.npz")
    again = Record.load(tmp_path / "some.npz")
    assert again.details.keys() == some.details.keys()
    for name, values in some.details.items():
        np.testing.assert_array_equal(again.details[name], values)


def assert_equal_records(one: Any, other: Any) -> None:
    assert type(one) is type(other)
    for field in dataclasses.fields(one):
        ours, theirs = getattr(one, field.name), getattr(other, field.name)
        if isinstance(ours, np.ndarray):
            assert ours.dtype == theirs.dtype
            np.testing.assert_array_equal(ours, theirs)
        elif field.name in ("encoder", "decoder"):
            assert len(ours) == len(theirs)
            for layer, same in zip(ours, theirs, strict=True):
                assert_equal_records(layer, same)
        else:
            assert ours == theirs


def test_a_record_comes_back_from_its_file(tmp_path: Path) -> None:
    # More than ten layers, for "10" comes before "2" in the order of names.
    model = random_model(small_config(encoder_layers=11))
    found = dataclasses.replace(
        record_translation(model, SOURCE, TARGET), source=("\0", "", "猫", "\ud800", "▁a")
    )
    found.save(tmp_path / "new" / "of-a-cat")
    assert_equal_records(Record.load(tmp_path / "new" / "of-a-cat"), found)
    classified = record_classification(random_classifier(features=True), np.zeros((2, 6)))
    classified.save(str(tmp_path / "features.npz"))
    assert_equal_records(Record.load(str(tmp_path / "features.npz")), classified)
    assert {path.name for path in tmp_path.rglob("*")} == {"new", "of-a-cat", "features.npz"}


def test_a_record_knows_whether_it_is_of_tokens_or_of_frames(tmp_path: Path) -> None:
    texts = record_classification(random_classifier(features=False), [3, 4])
    features = record_classification(random_classifier(features=True), np.zeros((2, 6)))
    assert (texts.unit, features.unit) == ("token", "frame")
    for number, found in enumerate((texts, features)):
        found.save(tmp_path / f"{number}.npz")
        assert Record.load(tmp_path / f"{number}.npz").unit == found.unit
    odd: Any = "inch"
    dataclasses.replace(texts, unit=odd).save(tmp_path / "odd.npz")
    with pytest.raises(DataError) as caught:
        Record.load(tmp_path / "odd.npz")
    assert "inch" in str(caught.value)


def test_a_file_that_is_no_record_is_rejected(tmp_path: Path) -> None:
    record_translation(random_model(small_config()), SOURCE, TARGET).save(tmp_path / "good.npz")
    whole = (tmp_path / "good.npz").read_bytes()
    (tmp_path / "cut.npz").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "text.npz").write_text("nothing of the kind")
    (tmp_path / "empty.npz").write_bytes(b"")
    np.save(tmp_path / "array.npy", np.zeros(3))
    np.savez(tmp_path / "other.npz", a=np.zeros(3))
    names = np.frombuffer(b'{"format": 99}', dtype=np.uint8)
    np.savez(tmp_path / "later.npz", names=names)
    for name in ("cut.npz", "text.npz", "empty.npz", "other.npz", "later.npz", "no", "array.npy"):
        with pytest.raises(DataError) as caught:
            Record.load(tmp_path / name)
        assert caught.value.where == str(tmp_path / name)


def test_a_record_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    found = record_translation(random_model(small_config()), SOURCE, TARGET)
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DataError) as raised:
        found.save(tmp_path / "file" / "record.npz")
    assert raised.value.where == str(tmp_path / "file")
    (tmp_path / "record.npz").mkdir()
    with pytest.raises(DataError):
        found.save(tmp_path / "record.npz")
    assert {path.name for path in tmp_path.iterdir()} == {"file", "record.npz"}


@pytest.mark.parametrize(
    "wrong", ["runs/my-model", None, torch.nn.Linear(1, 1), clearhead.TextClassifier()]
)
@pytest.mark.parametrize("target", [None, "b"])
def test_what_is_neither_a_translator_nor_a_classifier_is_named(wrong: Any, target: Any) -> None:
    uses = {
        "record": lambda: clearhead.record(wrong, "a", target),
        "explain": lambda: clearhead.explain(wrong, "a", target),
        "write_report": lambda: clearhead.write_report("report.html", {"x": wrong}, ["a"]),
    }
    for where, use in uses.items():
        with pytest.raises(ConfigError) as caught:
            use()
        assert caught.value.where == where
        assert type(wrong).__name__ in caught.value.what
        assert "clearhead.load" in str(caught.value.todo)


MARKUP = (
    *("<script>x</script>", "</th><b>", '"><img src=x>', "&lt;", "&amp", "<!-- x", "]]>", "<"),
    *("&", "' onload='x", '" onload="x', "javascript:x", "<svg/onload=x>", "</table></div>"),
)


class Page(HTMLParser):
    """The elements, their attributes, and the texts of headers and cells."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.texts: dict[str, list[str]] = {"th": [], "td": [], "caption": []}
        self.feed(content)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.open = tag
        if tag in self.texts:
            self.texts[tag].append("")

    def handle_data(self, data: str) -> None:
        self.texts[self.open][-1] += data


@pytest.mark.parametrize("target", [WORDS_WRITTEN, ()])
def test_a_notebook_shows_the_tokens_and_weights_of_a_record(target: tuple[str, ...]) -> None:
    record = made_record(target=target)
    texts = Page(record._repr_html_()).texts
    assert texts["th"] == [*WORDS_READ, *(record.rows or WORDS_READ)]
    assert ("reads → the one it predicts" in texts["caption"][0]) == bool(target)
    weights = record.cross_attentions if target else record.encoder_attentions
    shown = np.array([float(text) for text in texts["td"][1:]])
    np.testing.assert_allclose(shown, weights[-1].mean(axis=0).flatten(), atol=0.005)


def test_no_token_is_markup_in_a_notebook() -> None:
    tokens = (*MARKUP, *HOSTILE)[:60]
    page = Page(made_record(tokens, tokens, layers=1, heads=1)._repr_html_())
    rows = [f"{read} → {predicted}" for read, predicted in itertools.pairwise([*tokens, "…"])]
    assert page.texts["th"] == [*tokens, *rows]
    assert page.attributes == {"style"}
    assert page.tags == {"table", "caption", "tr", "th", "td"}


def test_small_numbers_have_no_strong_colour_in_a_notebook() -> None:
    for value, strength in ((0.002, 0.01), (0.1, 0.6), (-3.0, 0.6)):
        html = heat_table("x", np.array([[value]]), ["a"], ["b"])
        assert re.findall(r"rgba\(.*?, (\S+)\)", html) == [f"{strength:.2f}"]


def test_a_record_keeps_what_it_predicts(tmp_path: Path) -> None:
    made = dataclasses.replace(made_record(), predicted=("a", "b", "c", "</s>"))
    made.save(tmp_path / "r.npz")
    assert Record.load(tmp_path / "r.npz").rows == made.rows
    assert made.rows[-1] == "▁negro → </s>"


def test_a_notebook_shows_a_long_record_in_part() -> None:
    texts = Page(made_record(words(200), (), layers=1)._repr_html_()).texts
    assert (len(texts["th"]), len(texts["td"])) == (120, 3601)
    assert "200" in texts["caption"][0]
