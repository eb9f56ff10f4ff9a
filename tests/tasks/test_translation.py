"""The translation task: its loss with and without R-Drop, hidden words, and validation."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from clearhead import api
from clearhead.data.batches import Batch, collate
from clearhead.data.corpus import Corpus
from clearhead.data.preparation import TranslationData
from clearhead.data.reading.pairs import Pair
from clearhead.decoding import confidence
from clearhead.decoding.confidence import KEY, Confidence
from clearhead.decoding.engine import Hypothesis
from clearhead.decoding.texts import score_texts
from clearhead.decoding.torch_engine import TorchEngine
from clearhead.device import set_up_torch
from clearhead.evaluation.scores import sentence_chrf
from clearhead.folder.model_folder import open_folder
from clearhead.model.build import build_model
from clearhead.model.transformer import EncoderDecoder
from clearhead.settings import (
    DropoutConfig,
    EvaluationConfig,
    RunConfig,
    TokenizerConfig,
    TrainingConfig,
)
from clearhead.tasks.translation import TranslationTask
from clearhead.text.spans import protection_of
from clearhead.tokenizer import BOS, EOS, PAD, WordTokenizer
from clearhead.training.step import Updater
from small_models import small_config
from small_runs import Watcher, final_state, prepared, small_run

SOURCE, TARGET = WordTokenizer("a b c d e f g".split()), WordTokenizer("A B C".split())
EXACT: dict[str, Any] = {"rtol": 1e-11, "atol": 1e-11}


def some_task(**training: Any) -> TranslationTask:
    """A task without data, for its loss."""
    config = RunConfig(training=TrainingConfig(max_steps=1, **training))
    nothing = cast(Corpus, None)
    return TranslationTask(config, TranslationData(SOURCE, TARGET, nothing, (), ()))


def some_model(seed: int, dropout: float = 0.0) -> EncoderDecoder:
    """A model in float64 of the two vocabularies, in training."""
    torch.manual_seed(seed)
    config = small_config(dropout=DropoutConfig.everywhere(dropout))
    model = build_model(config, len(SOURCE), len(TARGET)).double()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.4)
    return model.train()


def some_batch(rows: int = 4) -> Batch:
    """Pairs of different lengths, so that both sides are padded; no word is unknown."""
    torch.manual_seed(3)
    sources = [torch.randint(3, SOURCE.unk_id, (2 + row,)).tolist() for row in range(rows)]
    targets = [torch.randint(3, TARGET.unk_id, (1 + 2 * row,)).tolist() for row in range(rows)]
    batch = collate(sources, targets)
    assert (batch.source == PAD).any()
    assert (batch.target_output == PAD).any()
    return batch


class OnePassEach(nn.Module):
    """In place of dropout: half of the rows pass one model, the other half another one."""

    def __init__(self, first: EncoderDecoder, second: EncoderDecoder) -> None:
        super().__init__()
        second.output = first.output
        self.first, self.second, self.output = first, second, first.output

    def forward(self, source: Tensor, target: Tensor, hidden: bool) -> Tensor:
        half = len(source) // 2
        passes = (
            self.first(source[:half], target[:half], hidden=hidden),
            self.second(source[half:], target[half:], hidden=hidden),
        )
        return torch.cat(passes)


def two_passes(
    hidden: tuple[Tensor, Tensor], output: nn.Linear, batch: Batch, smoothing: float, weight: float
) -> tuple[Tensor, Tensor]:
    """Half of what Liang et al. 2021 minimise (equation 4), and half of the plain losses."""
    real = batch.target_output != PAD
    truth = batch.target_output[real]
    first, second = (output(each)[real] for each in hidden)
    smooth, plain = (
        sum(
            F.cross_entropy(logits, truth, label_smoothing=share, reduction="sum")
            for logits in (first, second)
        )
        for share in (smoothing, 0.0)
    )
    log_p, log_q = first.log_softmax(-1), second.log_softmax(-1)
    both = F.kl_div(log_q, log_p, log_target=True, reduction="sum") + F.kl_div(
        log_p, log_q, log_target=True, reduction="sum"
    )
    assert both > 0.1
    return (smooth + weight * both / 2) / 2, torch.as_tensor(plain) / 2


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("weight", [0.5, 4.0])
def test_r_drop_adds_the_divergence_of_two_passes_to_their_mean_loss(
    weight: float, smoothing: float
) -> None:
    model, batch = OnePassEach(some_model(1), some_model(2)), some_batch()
    found = some_task(r_drop=weight, label_smoothing=smoothing).loss(model, batch)
    inputs = batch.source, batch.target_input
    hidden = model.first(*inputs, hidden=True), model.second(*inputs, hidden=True)
    total, plain = two_passes(hidden, model.output, batch, smoothing, weight)
    torch.testing.assert_close(found.total, total, **EXACT)
    torch.testing.assert_close(found.plain, plain, **EXACT)
    assert found.units == int((batch.target_output != PAD).sum())
    parameters = list(model.parameters())
    ours = torch.autograd.grad(found.total, parameters)
    theirs = torch.autograd.grad(total, parameters)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, **EXACT)


def test_the_passes_of_r_drop_differ_in_their_dropout() -> None:
    model, batch = some_model(1, dropout=0.3), some_batch()
    torch.manual_seed(7)
    found = some_task(r_drop=2.0).loss(model, batch)
    torch.manual_seed(7)
    twice = batch.source.repeat(2, 1), batch.target_input.repeat(2, 1)
    first, second = model(*twice, hidden=True).chunk(2)
    total, plain = two_passes((first, second), model.output, batch, 0.1, 2.0)
    torch.testing.assert_close(found.total, total, **EXACT)
    torch.testing.assert_close(found.plain, plain, **EXACT)


def test_without_dropout_r_drop_changes_nothing() -> None:
    model, batch = some_model(1), some_batch()
    found, plain = (some_task(r_drop=weight).loss(model, batch) for weight in (5.0, 0.0))
    torch.testing.assert_close(found, plain, **EXACT)


class Recorder(nn.Module):
    """A model that remembers its inputs."""

    def __init__(self, model: EncoderDecoder) -> None:
        super().__init__()
        self.model, self.output = model, model.output

    def forward(self, source: Tensor, target: Tensor, hidden: bool) -> Tensor:
        self.given = source, target
        return self.model(source, target, hidden=hidden)


@pytest.mark.parametrize("r_drop", [0.0, 1.0])
def test_word_dropout_hides_words_of_both_sides_and_nothing_else(r_drop: float) -> None:
    model, batch = Recorder(some_model(1)), some_batch(rows=12)
    torch.manual_seed(5)
    hiding = some_task(word_dropout=0.5, r_drop=r_drop).loss(model, batch)
    plain = some_task().loss(some_model(1), batch)
    assert abs(float(hiding.plain - plain.plain)) > 1e-3
    assert hiding.units == plain.units
    for given, whole, unk in (
        (model.given[0], batch.source, SOURCE.unk_id),
        (model.given[1], batch.target_input, TARGET.unk_id),
    ):
        passes = given.split(len(whole))
        assert len(passes) == (2 if r_drop else 1)
        for each in passes:
            hidden = each == unk
            words = (whole != PAD) & (whole != BOS)
            assert 0 < int(hidden.sum()) < int(words.sum())
            assert not (hidden & ~words).any()
            assert torch.equal(each[~hidden], whole[~hidden])
        if r_drop:
            assert not torch.equal(*passes)
        # The model predicts the end symbol; it does not read it.
        assert not (whole == EOS).any()


def test_nothing_is_hidden_smoothed_or_doubled_where_the_model_does_not_learn() -> None:
    model, batch = Recorder(some_model(1, dropout=0.3)), some_batch()
    model.eval()
    found = some_task(word_dropout=0.5, r_drop=1.0, label_smoothing=0.3).loss(model, batch)
    assert torch.equal(model.given[0], batch.source)
    assert torch.equal(model.given[1], batch.target_input)
    logits = model.model(batch.source, batch.target_input).transpose(1, 2)
    expected = F.cross_entropy(logits, batch.target_output, ignore_index=PAD, reduction="sum")
    torch.testing.assert_close(found.total, expected, **EXACT)
    torch.testing.assert_close(found.plain, expected, **EXACT)


def test_validation_is_bounded_to_so_many_sentences(tmp_path: Path) -> None:
    config = small_run(tmp_path)
    task = prepared(config, tmp_path / "corpus").task
    assert isinstance(task, TranslationTask)
    model, data = task.build_model(), task.data

    def evaluated(most: int, pairs: int) -> Any:
        bounded = dataclasses.replace(config, evaluation=EvaluationConfig(max_sentences=most))
        fewer = dataclasses.replace(data, validation=data.validation[:pairs])
        return TranslationTask(bounded, fewer).evaluate(model)

    every = len(data.validation)
    assert evaluated(5, every) == evaluated(0, 5)
    assert evaluated(5, every).scores != evaluated(0, every).scores
    assert evaluated(2 * every, every) == evaluated(0, every)
    assert len(evaluated(2, every).samples) == 2


@pytest.mark.parametrize(
    ("lower", "lowercase", "perfect"),
    [(True, "auto", True), (False, "auto", False), (True, False, False), (False, True, True)],
)
def test_validation_ignores_case_if_the_model_lower_cases_unless_a_setting_says_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lower: bool, lowercase: Any, perfect: bool
) -> None:
    config = small_run(tmp_path)
    task = prepared(config, tmp_path / "corpus").task
    assert isinstance(task, TranslationTask)
    pairs = tuple(pair._replace(target=pair.target.upper()) for pair in task.data.validation)
    config = dataclasses.replace(
        config,
        tokenizer=TokenizerConfig(lower=lower),
        evaluation=EvaluationConfig(lowercase=lowercase),
    )
    right = [[Hypothesis((), 0.0, (), 0.0, True, pair.target.lower())] for pair in pairs]
    monkeypatch.setattr("clearhead.tasks.translation.translate_texts", lambda *_: right)
    data = dataclasses.replace(task.data, validation=pairs)
    found = TranslationTask(config, data).evaluate(task.build_model())
    for score in ("bleu", "chrf", "exact match"):
        assert (found.scores[score] > 99.999) == perfect
    for signature in found.signatures.values():
        assert ("case:lc" in signature) == perfect


@pytest.mark.parametrize("protect", [(), ("software",)])
def test_the_scores_of_pairs_sum_to_the_validation_loss(protect: tuple[str, ...]) -> None:
    pairs = [
        ("a b %s", "A %s B"),
        ("c", "C C A B"),
        ("d %s {x}", "{x} A %s"),
        ("a {y}", "B"),
        ("", "A"),
    ]
    config = RunConfig(tokenizer=TokenizerConfig(protect=protect))
    validation = tuple(Pair(*pair, line) for line, pair in enumerate(pairs, start=1))
    data = TranslationData(SOURCE, TARGET, cast(Corpus, None), validation, ())
    model = some_model(2)
    loss = TranslationTask(config, data)._validation_loss(model)
    scored = score_texts(
        TorchEngine(model), (SOURCE, TARGET), pairs, config.search, protection_of(config.tokenizer)
    )
    tokens = sum(len(each.token_scores) for each in scored)
    assert -sum(each.score for each in scored) / tokens == pytest.approx(loss, abs=1e-9)


@pytest.mark.parametrize(("narrow", "in_validation"), [(128, 1), (1, 2)])
def test_a_narrow_model_is_validated_with_one_thread(
    narrow: int, in_validation: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: dict[str, set[int]] = {"training": set(), "validation": set()}

    def noting(part: str, call: Any) -> Any:
        def noted(*arguments: Any, **options: Any) -> Any:
            found[part].add(torch.get_num_threads())
            return call(*arguments, **options)

        return noted

    monkeypatch.setattr("clearhead.tasks.translation.ONE_THREAD", narrow)
    monkeypatch.setattr(Updater, "step", noting("training", Updater.step))
    evaluated = noting("validation", TranslationTask._evaluated)
    monkeypatch.setattr(TranslationTask, "_evaluated", evaluated)
    try:
        api.train(small_run(tmp_path, max_steps=2, validate_every=1, threads=2), observers=())
    finally:
        set_up_torch("cpu", 1)
    assert found == {"training": {2}, "validation": {in_validation}}


def fitting(patch: pytest.MonkeyPatch, fewest: int) -> None:
    patch.setattr(confidence, "FEWEST", fewest)


@pytest.mark.parametrize("beam_size", [1, 2])
def test_the_confidence_is_fitted_to_the_translations_of_the_weights_that_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, beam_size: int
) -> None:
    fitting(monkeypatch, 12)
    config = small_run(tmp_path)
    search = dataclasses.replace(config.search, beam_size=beam_size)
    config = dataclasses.replace(config, search=search)
    api.train(config, observers=())
    kept = json.loads((Path(config.folder) / "scores.json").read_text())
    assert set(kept[KEY]) == {"full_length", "bias", "weights"}
    pairs = [line.split("\t") for line in (tmp_path / "validation.tsv").read_text().splitlines()]
    sources, references = ([pair[side] for pair in pairs] for side in (0, 1))
    model = api.load_translator(config.folder, device="cpu")
    found = [best for best, *_ in model.translate(sources)]
    qualities = [score / 100 for score in sentence_chrf(list(map(str, found)), references)]
    fitted = Confidence.fit(sources, found, qualities)
    assert fitted is not None
    stored = Confidence.of(open_folder(config.folder))
    assert stored is not None
    assert dataclasses.astuple(stored)[:2] == pytest.approx(dataclasses.astuple(fitted)[:2], 1e-3)
    assert stored.weights == pytest.approx(fitted.weights, rel=1e-3)
    assert [each.confidence for each in found] == list(map(stored, sources, found))


def test_the_fit_changes_nothing_else_and_an_interruption_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("without", "through", "pieces")
    without, through, pieces = (small_run(tmp_path, name) for name in names)
    api.train(without, observers=())
    fitting(monkeypatch, 12)
    api.train(through, observers=())
    assert not api.train(pieces, observers=[Watcher(interrupt_at=4)]).finished
    assert api.train(pieces, observers=()).finished
    files = [(Path(run.folder) / "scores.json").read_text() for run in (through, pieces)]
    assert files[0] == files[1]
    scores = json.loads(files[0])
    assert scores.pop(KEY)
    assert scores == json.loads((Path(without.folder) / "scores.json").read_text())
    for run in (through, pieces):
        for name, tensor in final_state(without).items():
            assert torch.equal(tensor, final_state(run)[name])
