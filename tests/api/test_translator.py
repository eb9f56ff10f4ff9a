"""The Translator: order, independence of other texts, scores, and errors."""

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
from clearhead.data.preparation import learn_tokenizers, prepare_pairs
from clearhead.data.reading.parts import Parts, parts_of
from clearhead.decoding import torch_engine
from clearhead.decoding.engine import numbered
from clearhead.errors import ConfigError, DataError, SearchError, TextWarning
from clearhead.settings import DataConfig, Learned, ModelConfig, RunConfig, SearchConfig
from clearhead.tasks import translation
from small_runs import small_run
from translated import TEXTS, outputs


@pytest.mark.parametrize("batch_size", [1, 2, 7, 64])
def test_a_sentence_gets_the_same_words_in_any_batch_and_order(
    translator: Translator, batch_size: int
) -> None:
    alone = [outputs(translator, [text])[0] for text in TEXTS]
    assert outputs(translator, TEXTS, batch_size=batch_size) == alone
    assert outputs(translator, TEXTS[::-1], batch_size=batch_size) == alone[::-1]


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
    ((hypothesis,),) = engine.translate(numbered([source]), SearchConfig(beam_size=3))
    forced = torch.tensor([[1, *hypothesis.tokens]])
    wanted = torch.tensor([[*hypothesis.tokens, 2]])
    with torch.inference_mode():
        logits = engine.model(torch.tensor([source]), forced)
        log_p = logits.log_softmax(-1).gather(2, wanted[..., None])[0, :, 0]
    expected = log_p if hypothesis.finished else log_p[:-1]
    torch.testing.assert_close(torch.tensor(hypothesis.token_scores), expected)


def test_progress_counts_every_sentence(translator: Translator) -> None:
    done: list[int] = []
    translator.translate(TEXTS, batch_size=4, progress=done.append)
    assert done == sorted(done)
    assert done[-1] == sum(bool(text.strip()) for text in TEXTS)


@pytest.mark.parametrize(
    ("choices", "what", "todo"),
    [
        ({"beam_size": 2.5}, "beam_size", ""),
        ({"beam_size": "5"}, "beam_size", ""),
        ({"n_best": 9}, "n_best = 9", ""),
        ({"method": "greedy"}, "method", ""),
        ({"beamsize": 1}, "beamsize", "beam_size"),
        ({"threads": 4}, "threads", "method"),
        ({"search": {"beam_size": 2}}, "SearchConfig", ""),
        ({"top_k": 10}, "top_k", "method='sampling'"),
        ({"temperature": 0.5, "beam_size": 4}, "temperature", ""),
        ({"top_p": 0.5, "method": "beam"}, "top_p", ""),
        ({"seed": 7}, "seed", ""),
        ({"method": "sampling", "beam_size": 4}, "beam_size", "method='beam'"),
        ({"batch_size": 0}, "batch_size = 0", ""),
        ({"batch_size": 2.0}, "batch_size = 2.0", ""),
        ({"prefixes": ["a"]}, "1 prefixes", ""),
        ({"prefixes": ["a", "b", "c"]}, "3 prefixes", ""),
        ({"prefixes": "ab"}, "prefixes", ""),
        ({"prefixes": [None, "a"]}, "prefixes", ""),
        ({"on_error": "ignore"}, "on_error", ""),
    ],
)
def test_a_wrong_argument_is_named(
    translator: Translator, choices: dict[str, Any], what: str, todo: str
) -> None:
    with pytest.raises(SearchError) as caught:
        translator.translate(["1 a", "2 b"], **choices)
    assert what in caught.value.what
    assert todo in str(caught.value.todo)
    with pytest.raises(TypeError):
        translator.translate("a single string")


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
        with nullcontext() if fits else pytest.raises(ConfigError, match=r"needs 21 positions"):
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
            logits = model.eval()(source, torch.tensor([[1, *target]]))
            log_p = logits[0].log_softmax(-1)
        total -= float(log_p.gather(1, torch.tensor([[*target, 2]]).T).sum())
        units += len(target) + 1
    expected = pytest.approx(total / units, rel=1e-5)
    assert task._validation_loss(model) == expected
    monkeypatch.setattr(type(tokenizers[0]), "encode_batch", None)
    assert task._validation_loss(model) == expected


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_ids_are_refused_where_a_text_is_read(translator: Translator) -> None:
    for look in (clearhead.record, clearhead.explain, clearhead.align, clearhead.lens):
        for source, target in (([5, 8], "a b"), ("a b", [5, 8])):
            with pytest.raises(DataError):
                look(translator, source, target)


def test_a_missing_gpu_is_named(translator: Translator) -> None:
    with pytest.raises(ConfigError, match="no GPU"):
        api.load_translator(translator.folder.path, device="cuda")


def test_an_unknown_public_name_is_an_error() -> None:
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        _ = clearhead.nothing_of_the_kind  # pyright: ignore[reportAttributeAccessIssue]
    assert Path(clearhead.__file__).name == "__init__.py"


def test_an_evaluation_scores_the_best_translations(translator: Translator) -> None:
    sources = [text for text in TEXTS if text.strip()]
    references = [best for best, *_ in outputs(translator, sources, beam_size=2)]
    report = translator.evaluate(sources, references, beam_size=2, n_best=2, batch_size=3)
    assert report.size == len(sources)
    assert report.scores["exact"] == 100
    assert report.systems[str(translator.folder.path)].exact == 100
    assert "BLEU" in str(report)
    worse = translator.evaluate(sources, references[::-1], tokenize="none", lowercase=True)
    assert worse.settings["tokenize"] == "none"
    assert worse.scores["chrf"] < 100
    with pytest.raises(DataError):
        translator.evaluate(sources, references[1:])


# Scores of given pairs


def test_a_pair_has_the_scores_that_its_translation_has(translator: Translator) -> None:
    texts = ["1 a b c", "4 d e", "", "2 f"]
    found = [best for best, *_ in translator.translate(texts, beam_size=3)]
    for batch_size in (1, 3):
        targets = [each.text for each in found]
        scored = translator.score(texts, targets, batch_size=batch_size)
        for ours, theirs, text in zip(scored, found, texts, strict=True):
            assert ours.text == theirs.text
            assert ours.score == pytest.approx(sum(ours.token_scores), abs=1e-4)
            assert len(ours.token_scores) == len(ours.tokens) + 1
            if text and theirs.finished:
                assert ours.tokens == theirs.tokens
                assert ours.token_scores == pytest.approx(theirs.token_scores, abs=1e-4)


def test_pairs_that_do_not_belong_together_or_are_too_long(translator: Translator) -> None:
    with pytest.raises(DataError):
        translator.score(["a"], [])
    with pytest.raises(SearchError):
        translator.score(["a"], ["b"], batch_size=0)
    long = "a " * 3000
    with pytest.warns(TextWarning):
        (scored,) = translator.score([long], [long])
    assert len(scored.tokens) < translator.engine.longest_source
    assert "cut" in [remark.kind for remark in scored.warnings]
    assert translator.score([], []) == []
