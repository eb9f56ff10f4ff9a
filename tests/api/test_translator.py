"""Tests of translating texts: order, independence of other texts, prefixes, and the API."""

from __future__ import annotations

import dataclasses
import math
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch

import clearhead
from clearhead import api
from clearhead.api import Translator
from clearhead.data.parts import Parts, parts_of
from clearhead.data.preparation import learn_tokenizers, prepare_pairs
from clearhead.decoding import texts as texts_module
from clearhead.decoding import torch_engine
from clearhead.decoding.engine import batches_by_length
from clearhead.errors import ConfigError, SearchError
from clearhead.settings import DataConfig, Learned, ModelConfig, RunConfig, SearchConfig
from clearhead.tasks import translation
from small_runs import small_run

TEXTS = [
    "1 a b c",
    "22 h g f e d c b a",
    "",
    "3 a",
    "   ",
    "never seen ☃ words",
    *(f"{n} a b" for n in range(9)),
]


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    folder = tmp_path_factory.mktemp("translator")
    config = small_run(folder, max_steps=60, validate_every=60)
    api.train(config)
    return api.load_translator(config.folder, device="cpu")


def outputs(translator: Translator, texts: list[str], **choices: Any) -> list[list[str]]:
    found = translator.translate(texts, **choices)
    return [[hypothesis.text for hypothesis in hypotheses] for hypotheses in found]


@pytest.mark.parametrize("batch_size", [1, 2, 7, 64])
def test_a_sentence_gets_the_same_words_in_any_batch_and_order(
    translator: Translator, batch_size: int
) -> None:
    alone = [outputs(translator, [text])[0] for text in TEXTS]
    assert outputs(translator, TEXTS, batch_size=batch_size) == alone
    assert outputs(translator, TEXTS[::-1], batch_size=batch_size) == alone[::-1]


def test_an_empty_text_gives_one_empty_hypothesis(translator: Translator) -> None:
    for hypotheses in translator.translate(["", " \t"], n_best=2):
        (hypothesis,) = hypotheses
        assert hypothesis.text == ""
        assert hypothesis.score == 0.0


def test_the_best_come_first_and_scores_are_sums_of_token_scores(translator: Translator) -> None:
    for hypotheses in translator.translate(["1 a b c", "4 d e"], beam_size=4, n_best=4):
        ranks = [hypothesis.normalised_score for hypothesis in hypotheses]
        assert ranks == sorted(ranks, reverse=True)
        assert len({hypothesis.tokens for hypothesis in hypotheses}) == len(hypotheses)
        for hypothesis in hypotheses:
            assert math.isclose(hypothesis.score, sum(hypothesis.token_scores), abs_tol=1e-4)


def test_scores_are_those_of_the_model_under_teacher_forcing(translator: Translator) -> None:
    engine = translator.engine
    assert isinstance(engine, torch_engine.TorchEngine)
    source = translator.source_tokenizer.encode("5 a b c d")
    ((hypothesis,),) = engine.translate([source], SearchConfig(beam_size=3))
    forced = torch.tensor([[1, *hypothesis.tokens]])
    wanted = torch.tensor([[*hypothesis.tokens, 2]])
    with torch.inference_mode():
        hidden = engine.model(torch.tensor([source]), forced)
        log_p = engine.model.output(hidden).log_softmax(-1).gather(2, wanted[..., None])[0, :, 0]
    expected = log_p if hypothesis.finished else log_p[:-1]
    torch.testing.assert_close(torch.tensor(hypothesis.token_scores), expected)


def test_a_warning_names_a_prefix_that_cannot_begin_a_translation(translator: Translator) -> None:
    tokenizer = translator.target_tokenizer
    begins = tokenizer.decode(tokenizer.encode("a ж"))
    what = f"begins with {begins!r}, not with 'a ж'"
    with pytest.warns(UserWarning, match=r"prefix of line 6 .* vocabulary") as caught:
        ((_,), (second,)) = translator.translate(["1 a", "1 b"], prefixes=["a", "a ж"], offset=4)
    assert what in str(caught[0].message)
    assert second.text.startswith(begins)


def test_a_prefix_begins_the_translation(translator: Translator) -> None:
    for prefix in ("a b", "h"):
        ((hypothesis,),) = translator.translate(["1 a b c"], prefixes=[prefix])
        assert hypothesis.text.startswith(prefix)


def test_spaces_around_a_prefix_force_nothing(translator: Translator) -> None:
    assert translator.target_tokenizer.encode(" ")  # a piece, which would be forced
    bare = translator.translate(["1 a", "1 b"], prefixes=["", "a b"])
    assert translator.translate(["1 a", "1 b"], prefixes=[" ", " a b  "]) == bare


def test_samples_depend_on_the_seed_and_not_on_the_batch(translator: Translator) -> None:
    draw = dict(method="sampling", n_best=3, max_length=8)
    first = outputs(translator, TEXTS, seed=1, **draw)
    assert outputs(translator, TEXTS, seed=1, batch_size=1, **draw) == first
    assert outputs(translator, TEXTS, seed=2, **draw) != first
    blocks = [outputs(translator, TEXTS[i : i + 4], offset=i, **draw) for i in (0, 4, 8, 12)]
    joined = [sampled for block in blocks for sampled in block]
    assert joined == outputs(translator, TEXTS, **draw)


def test_an_overlong_text_is_cut_with_a_warning(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(texts_module, "LONGEST_SOURCE", 6)
    with pytest.warns(UserWarning, match="line 12 has .* cut to 6"):
        outputs(translator, ["1 a", "1 a b c d e f g h"], offset=10)


def test_batches_keep_to_their_tokens_and_cover_everything() -> None:
    lengths = [1, 900, 3, 3, 400, 2, 16_000, 20_000]
    batches = list(batches_by_length(lengths, 4, torch_engine.PADDED_TOKENS))
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) <= 4
        padded = len(batch) * max(lengths[index] for index in batch)
        assert len(batch) == 1 or padded <= torch_engine.PADDED_TOKENS


def test_progress_counts_every_sentence(translator: Translator) -> None:
    done: list[int] = []
    translator.translate(TEXTS, batch_size=4, progress=done.append)
    assert done == sorted(done)
    assert done[-1] == sum(bool(text.strip()) for text in TEXTS)


def test_mistakes_are_named(translator: Translator) -> None:
    with pytest.raises(TypeError, match="single string: give a list"):
        translator.translate("a single string")
    with pytest.raises(SearchError, match="beam_sise"):
        translator.translate(["a"], beam_sise=3)
    with pytest.raises(SearchError, match="n_best = 9"):
        translator.translate(["a"], n_best=9)


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"beam_size": 2.5}, "beam_size must be a whole number"),
        ({"beam_size": "5"}, "beam_size must be a whole number"),
        ({"method": "greedy"}, "one of beam, sampling"),
        ({"beamsize": 1}, "(?s)beamsize.*did you mean search.beam_size"),
        ({"threads": 4}, "(?s)threads.*method"),
        ({"search": {"beam_size": 2}}, "SearchConfig"),
        ({"top_k": 10}, "(?s)top_k .*'beam'.*method='sampling'"),
        ({"temperature": 0.5, "beam_size": 4}, "temperature .*'beam'"),
        ({"top_p": 0.5, "method": "beam"}, "top_p .*'beam'"),
        ({"seed": 7}, "seed .*'beam'"),
        ({"method": "sampling", "beam_size": 4}, "(?s)beam_size .*method='beam'"),
        ({"batch_size": 0}, "batch_size = 0"),
        ({"batch_size": 2.0}, "batch_size = 2.0"),
        ({"prefixes": ["a"]}, "1 prefixes were given for 2 texts"),
        ({"prefixes": ["a", "b", "c"]}, "3 prefixes were given for 2 texts"),
        ({"prefixes": "ab"}, "not a list of strings"),
        ({"prefixes": [None, "a"]}, "not a list of strings"),
    ],
)
def test_a_wrong_argument_is_named(
    translator: Translator, choices: dict[str, Any], message: str
) -> None:
    with pytest.raises(SearchError, match=message):
        translator.translate(["1 a", "2 b"], **choices)


def test_settings_go_with_the_method_that_the_search_has_or_that_they_ask_for(
    translator: Translator,
) -> None:
    sampling = SearchConfig(method="sampling", top_k=3, n_best=2, max_length=8)
    drawn = outputs(translator, TEXTS, search=sampling, seed=3)
    named = dict(method="sampling", top_k=3, n_best=2, max_length=8, seed=3)
    assert drawn == outputs(translator, TEXTS, **named)
    assert drawn != outputs(translator, TEXTS, search=sampling, seed=4)
    # Who names a beam wants one.
    beam = outputs(translator, TEXTS, search=sampling, beam_size=3)
    assert beam == outputs(translator, TEXTS, beam_size=3, n_best=2, max_length=8)


def test_an_unknown_device_is_an_error_that_lists_the_devices(translator: Translator) -> None:
    with pytest.raises(ConfigError, match=r"(?s)'gpu'.*cpu, cuda, auto"):
        api.load_translator(translator.folder.path, device="gpu")


@pytest.fixture(scope="module")
def short_sighted(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    """A translator with 20 learned positions, trained and validated."""
    config = small_run(tmp_path_factory.mktemp("learned"), max_steps=4, validate_every=4)
    config = dataclasses.replace(
        config,
        data=dataclasses.replace(config.data, max_length=19),
        model=dataclasses.replace(config.model, positions=Learned(max_length=20)),
        search=SearchConfig(beam_size=2),
    )
    # The longest output of its search has 20 tokens more than twice the source.
    assert api.train(config).finished
    return api.load_translator(config.folder, device="cpu")


def test_learned_positions_bound_sources_and_outputs(short_sighted: Translator) -> None:
    assert short_sighted.engine.longest_source == 20
    longest = " ".join("abcdefghij"[i % 8] for i in range(30))
    with pytest.warns(UserWarning, match="line 2 has .* cut to 20"):
        found = short_sighted.translate(["1 a", longest], min_length=30)
    assert [len(hypothesis.tokens) for (hypothesis,) in found] == [20, 20]


def test_a_prefix_beyond_learned_positions_is_named_by_its_line(short_sighted: Translator) -> None:
    with pytest.raises(SearchError, match=r"the prefix of sentence 6 has .* 20 positions"):
        short_sighted.translate(["1 a", "2 b c"], prefixes=["a", "a b " * 20], offset=4)


def test_data_longer_than_learned_positions_is_an_error() -> None:
    for most, fits in ((19, True), (20, False)):
        model = ModelConfig(positions=Learned(max_length=20))
        with nullcontext() if fits else pytest.raises(ValueError, match=r"needs 21 positions"):
            RunConfig(model=model, data=DataConfig(max_length=most))


def test_the_validation_loss_is_the_mean_over_tokens_and_encodes_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(translation, "VALIDATION_PAIRS", 5)
    config = small_run(tmp_path)
    parts = Parts(*(part.read(config) for part in parts_of(config)))
    tokenizers = learn_tokenizers(config, parts)
    data = prepare_pairs(config, parts, tokenizers, tmp_path / "corpus")
    task = translation.TranslationTask(config, data)
    model = task.build_model()
    total, units = 0.0, 0
    for pair in data.validation:
        source = torch.tensor([tokenizers[0].encode(pair.source)])
        target = tokenizers[1].encode(pair.target)
        with torch.inference_mode():
            hidden = model.eval()(source, torch.tensor([[1, *target]]))
            log_p = model.output(hidden)[0].log_softmax(-1)
        total -= float(log_p.gather(1, torch.tensor([[*target, 2]]).T).sum())
        units += len(target) + 1
    expected = pytest.approx(total / units, rel=1e-5)
    assert task._validation_loss(model) == expected
    monkeypatch.setattr(type(tokenizers[0]), "encode_batch", None)
    assert task._validation_loss(model) == expected


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_missing_gpu_is_named(translator: Translator) -> None:
    with pytest.raises(ConfigError, match="no GPU"):
        api.load_translator(translator.folder.path, device="cuda")


def test_the_public_names_are_these() -> None:
    assert set(clearhead.__all__) == {
        *("Classifier", "Hypothesis", "ModelConfig", "RunConfig", "SearchConfig"),
        *("Record", "TextClassifier", "Tokenizer", "Translator", "record"),
        *("build_model", "export_model", "load", "train"),
    }
    for name in clearhead.__all__:
        assert getattr(clearhead, name).__name__ == name
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        _ = clearhead.nothing_of_the_kind  # pyright: ignore[reportAttributeAccessIssue]
    assert Path(clearhead.__file__).name == "__init__.py"
