"""The trainer: exact sums, exact resuming, its files, and when it stops."""

from __future__ import annotations

import dataclasses
import json
import math
import signal
import threading
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clearhead import api, device
from clearhead.api.exporting import export_model
from clearhead.data.judging.report import DataReport
from clearhead.decoding.torch_engine import TorchEngine
from clearhead.errors import DataError, ExportError, ModelFolderError, TrainingError
from clearhead.folder.tensors import read_tensors
from clearhead.settings import (
    DropoutConfig,
    EvaluationConfig,
    ModelConfig,
    OptimizerConfig,
    ScheduleConfig,
)
from clearhead.tasks.translation import TranslationTask
from clearhead.training import run_folder as continuation
from clearhead.training.checkpoints import Keeper, State
from clearhead.training.display import PlainLines
from clearhead.training.events import Event, Note, Progress, RunEnded, RunStarted, Validated
from clearhead.training.loop import STOPPING
from clearhead.training.step import Updater
from clearhead.training.task import Evaluation
from small_runs import Watcher, assert_same, final_state, small_run

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("accumulate", [1, 3])
def test_an_interrupted_run_ends_with_the_same_bits_as_an_uninterrupted_one(
    tmp_path: Path, accumulate: int
) -> None:
    through = small_run(tmp_path, "through", accumulate=accumulate, r_drop=1.0, word_dropout=0.1)
    api.train(through)
    pieces = dataclasses.replace(through, folder=str(tmp_path / "pieces"))
    for step in (4, 8):
        ended = api.train(pieces, observers=[Watcher(interrupt_at=step)])
        assert not ended.finished
        assert ended.step == step
    assert api.train(pieces).finished
    assert_same(final_state(through), final_state(pieces))
    best = [read_tensors(Path(run.folder) / "weights.safetensors")[0] for run in (through, pieces)]
    assert_same(*best)


def test_a_run_is_displayed_unless_other_observers_are_given(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    config = small_run(tmp_path, max_steps=4)
    for observers in ((), [Watcher()]):
        api.train(config, restart=True, observers=observers)
        assert capsys.readouterr() == ("", "")
    api.train(config, restart=True)
    out, err = capsys.readouterr()
    assert out == ""
    for part in (f"{config.folder} starts", "validation: bleu ", "finished at step 4"):
        assert part in err


@pytest.mark.parametrize("restart", [False, True])
def test_an_interrupted_run_reports_how_to_resume_and_resumes(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture,
    restart: bool,
) -> None:
    class Impatient(PlainLines):
        def observe(self, event: Event) -> None:
            super().observe(event)
            if isinstance(event, Validated) and event.step == 4:
                signal.raise_signal(signal.SIGINT)

    config = small_run(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("clearhead.training.display.choose_display", Impatient)
        assert not api.train(config, restart=restart).finished
    lines = capsys.readouterr().err.splitlines()
    assert any(line.startswith("stopped at step 4") for line in lines)
    assert "resume" in lines[-1]
    assert ("without restart=True" in lines[-1]) == restart
    assert api.train(config).finished
    assert "resumes at step 4" in capsys.readouterr().err


def test_a_killed_run_resumes_from_its_last_state(tmp_path: Path) -> None:
    class Killed(BaseException):
        """Raised in place of a killed process: nothing may be written after it."""

    class Killer(Watcher):
        def observe(self, event: Event) -> None:
            if isinstance(event, Validated) and event.step == 8:
                raise Killed

    through = small_run(tmp_path, "through")
    api.train(through)
    killed = dataclasses.replace(through, folder=str(tmp_path / "killed"))
    with pytest.raises(Killed):
        api.train(killed, observers=[Killer()])
    assert api.train(killed).step == 12
    assert_same(final_state(through), final_state(killed))


def test_a_finished_run_with_a_higher_limit_resumes(tmp_path: Path) -> None:
    constant = ScheduleConfig(kind="constant", peak=1e-3, warmup=2)
    long = small_run(tmp_path, "long", schedule=constant)
    api.train(long)
    short = small_run(tmp_path, "grown", schedule=constant, max_steps=8)
    assert api.train(short).step == 8
    assert api.train(short).step == 8
    assert api.train(small_run(tmp_path, "grown", schedule=constant)).step == 12
    assert_same(final_state(long), final_state(short))


def test_other_settings_are_rejected_by_name_and_restart_begins_again(tmp_path: Path) -> None:
    config = small_run(tmp_path, max_steps=4)
    api.train(config)
    other = dataclasses.replace(config, seed=2)
    with pytest.raises(TrainingError, match="seed was 1, now 2"):
        api.train(other)
    assert api.train(other, restart=True).finished
    fresh = dataclasses.replace(other, folder=str(tmp_path / "fresh"))
    api.train(fresh)
    assert_same(final_state(other), final_state(fresh))


def test_restart_keeps_the_old_model_while_the_new_data_are_bad(tmp_path: Path) -> None:
    config = small_run(tmp_path, max_steps=4)
    api.train(config)
    before = sorted(path.name for path in Path(config.folder).iterdir())
    missing = dataclasses.replace(config.data, train=(str(tmp_path / "nothing.tsv"),))
    with pytest.raises(DataError, match="nothing"):
        api.train(dataclasses.replace(config, data=missing), restart=True)
    assert sorted(path.name for path in Path(config.folder).iterdir()) == before
    assert api.load_translator(config.folder).translate(["1 a"])


def test_accumulated_batches_make_the_step_of_one_large_batch(tmp_path: Path) -> None:
    # One step over the whole epoch, in one batch or in several unequal ones.
    exact = {
        "max_steps": 1,
        "validate_every": 1,
        "clip_norm": 0.5,
        "optimizer": OptimizerConfig(kind="sgd", momentum=0.0),
        "schedule": ScheduleConfig(kind="constant", peak=0.5, warmup=0),
    }
    runs = []
    for name, batch_tokens, accumulate in (("one", 10_000, 1), ("many", 150, 1000)):
        config = small_run(
            tmp_path, name, batch_tokens=batch_tokens, accumulate=accumulate, **exact
        )
        config = dataclasses.replace(
            config,
            model=dataclasses.replace(config.model, dropout=DropoutConfig()),
            tokenizer=dataclasses.replace(config.tokenizer, sampling=0.0),
        )
        api.train(config)
        runs.append(final_state(config))
    for name, tensor in runs[0].items():
        torch.testing.assert_close(tensor, runs[1][name], rtol=1e-4, atol=1e-6)


def test_the_folder_keeps_the_best_scores_and_a_log(tmp_path: Path) -> None:
    config = small_run(tmp_path)
    watcher = Watcher()
    ended = api.train(config, observers=[watcher])
    folder = Path(config.folder)
    validations = [event for event in watcher.events if isinstance(event, Validated)]
    assert [v.weights for v in validations] == ["current"] * 3 + ["average"]
    scores = json.loads((folder / "scores.json").read_text())
    assert scores["scores"]["bleu"] == max(v.scores["bleu"] for v in validations)
    assert scores["scores"] == ended.scores
    assert "version" in scores["signatures"]["bleu"]
    facts = json.loads((folder / "provenance.json").read_text())
    assert set(facts["data"]) == {"train", "validation", "test", "replay"}
    (started,) = (event for event in watcher.events if isinstance(event, RunStarted))
    assert (facts["device"], facts["precision"]) == (started.device, started.precision)
    log = (folder / "training" / "log.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in log]
    seen = [type(event).__name__ for event in watcher.events if not isinstance(event, Note)]
    assert [record["event"] for record in records if record["event"] != "Note"] == seen
    logged = [record["text"] for record in records if record["event"] == "Note"]
    reports = [DataReport.from_dict(report).lines() for report in facts["reports"]]
    assert logged == [line for lines in reports for line in lines]


def test_the_average_is_the_mean_of_the_last_checkpoints(tmp_path: Path) -> None:
    from clearhead.model.build import build_model

    config = ModelConfig(encoder_layers=1, decoder_layers=1, d_model=8, d_ff=8, n_heads=2)
    keeper = Keeper(tmp_path, 3, {})
    models = [build_model(config, 7, 7) for _ in range(5)]
    for step, model in enumerate(models):
        keeper.keep_recent(model, step)
    mean = build_model(config, 7, 7)
    assert keeper.average_recent(mean, step=4, least=3, note=pytest.fail)
    for name, parameter in mean.named_parameters():
        expected = torch.stack([dict(m.named_parameters())[name] for m in models[2:]]).mean(0)
        torch.testing.assert_close(parameter.detach(), expected.detach())


def test_a_checkpoint_is_a_model_that_can_be_named(tmp_path: Path) -> None:
    config = small_run(tmp_path, average_last=2)
    api.train(config)
    folder = Path(config.folder)
    checkpoints = folder / "training" / "checkpoints"
    names = ["average", "best"]
    assert sorted(path.stem for path in checkpoints.iterdir()) == names
    models = {
        path.stem: {
            name: parameter.detach()
            for name, parameter in torch_model(api.load_translator(path)).named_parameters()
        }
        for path in checkpoints.iterdir()
    }
    kept = dict(torch_model(api.load_translator(folder)).named_parameters())
    weights = json.loads((folder / "scores.json").read_text())["weights"]
    for name, parameter in models["average" if weights == "average" else "best"].items():
        torch.testing.assert_close(parameter, kept[name].detach())
    with pytest.raises(ModelFolderError, match="no such checkpoint") as caught:
        api.load_translator(checkpoints / "worst.safetensors")
    assert all(f"{name}.safetensors" in str(caught.value.todo) for name in names)


def test_a_checkpoint_has_no_export_and_restart_leaves_foreign_files_alone(tmp_path: Path) -> None:
    config = small_run(tmp_path)
    api.train(config)
    checkpoints = Path(config.folder) / "training" / "checkpoints"
    with pytest.raises(ExportError, match="a checkpoint has no export"):
        api.load_translator(checkpoints / "best.safetensors", engine="ctranslate2")
    with pytest.raises(ExportError, match="the weights of a checkpoint"):
        export_model(checkpoints / "best.safetensors")
    (checkpoints / "mine.safetensors").write_bytes(b"x")
    (checkpoints / "average.safetensors").write_bytes(b"old")
    api.train(dataclasses.replace(config, seed=2), restart=True)
    assert (checkpoints / "mine.safetensors").read_bytes() == b"x"
    assert (checkpoints / "average.safetensors").read_bytes() != b"old"


def torch_model(translator: api.Translator) -> torch.nn.Module:
    return cast(TorchEngine, translator.engine).model


def test_the_recent_checkpoints_are_there_until_the_end_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = small_run(tmp_path)
    checkpoints = Path(config.folder) / "training" / "checkpoints"
    forget = Keeper.forget_recent

    def killed(keeper: Keeper) -> None:
        names = sorted(path.stem for path in checkpoints.glob("step*"))
        assert names == ["step-00000008", "step-00000012"]
        raise KeyboardInterrupt

    monkeypatch.setattr(Keeper, "forget_recent", killed)
    api.train(config)
    before = final_state(config)
    monkeypatch.setattr(Keeper, "forget_recent", forget)
    assert api.train(config).finished
    assert_same(final_state(config), before)
    assert not list(checkpoints.glob("step*"))


def test_equal_checkpoints_share_their_space(tmp_path: Path) -> None:
    for keep in ("best", "average"):
        config = small_run(tmp_path, keep, keep=keep)
        api.train(config)
        folder = Path(config.folder)
        weights = json.loads((folder / "scores.json").read_text())["weights"]
        same = {"current": "best", "average": "average"}
        for each, name in same.items():
            checkpoint = folder / "training" / "checkpoints" / f"{name}.safetensors"
            shared = checkpoint.samefile(folder / "weights.safetensors")
            assert shared == (each == weights)
            equal = read_tensors(checkpoint)[0], read_tensors(folder / "weights.safetensors")[0]
            if shared:
                assert_same(*equal)


@pytest.mark.parametrize("patience", [0, 2])
def test_a_run_that_is_not_resumable_ends_as_any_other_and_writes_less(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, patience: int
) -> None:
    # With patience, the run ends after three validations.
    monkeypatch.setattr(State, "is_best", lambda state, *_: state.best_score is None)
    settings = {"max_steps": 20, "validate_every": 2, "average_last": 2, "keep": "average"}
    written = []
    for resumable in (True, False):
        config = small_run(tmp_path, str(resumable), **settings, patience=patience)
        ended = api.train(config, resumable=resumable)
        assert ended.step == (6 if patience else 20)
        folder = Path(config.folder)
        written.append(read_tensors(folder / "weights.safetensors")[0])
        assert (folder / "training" / "state.safetensors").exists() == resumable
    assert_same(*written)


def test_the_average_is_kept_whatever_it_scores_where_that_is_requested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Keeper, "forget_recent", lambda keeper: None)
    kept = {}
    for keep in ("best", "average"):
        # The first of three checkpoints has learned little, and spoils their average.
        config = small_run(tmp_path, keep, average_last=3, keep=keep)
        api.train(dataclasses.replace(config, evaluation=EvaluationConfig(measure="loss")))
        folder = Path(config.folder)
        weights, _ = read_tensors(folder / "weights.safetensors")
        checkpoints = [
            read_tensors(path)[0]
            for path in (folder / "training" / "checkpoints").glob("step-*.safetensors")
        ]
        mean = {n: torch.stack([c[n] for c in checkpoints]).mean(0) for n in weights}
        kept[keep] = all(torch.allclose(weights[n], mean[n], atol=1e-6) for n in weights)
        found = json.loads((folder / "scores.json").read_text())["weights"]
        assert found == ("current" if keep == "best" else "average")
    assert kept == {"best": False, "average": True}


@pytest.mark.parametrize("average_last", [1, 3])
def test_the_average_of_one_checkpoint_is_the_last_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, average_last: int
) -> None:
    # The first validation is the best, and the last one counts.
    every = 2 if average_last == 1 else 4
    settings = {"validate_every": every, "average_last": average_last, "keep": "average"}
    config = small_run(tmp_path, max_steps=4, **settings)
    monkeypatch.setattr(State, "is_best", lambda state, *_: state.best_score is None)
    api.train(config, observers=())
    folder = Path(config.folder)
    state, _ = read_tensors(folder / "training" / "state.safetensors")
    last = {name[6:]: tensor for name, tensor in state.items() if name.startswith("model.")}
    assert_same(read_tensors(folder / "weights.safetensors")[0], last)
    scores = json.loads((folder / "scores.json").read_text())
    assert (scores["step"], scores["weights"]) == (4, "average")


@pytest.mark.parametrize("keep", ["best", "average"])
def test_a_finished_run_that_is_continued_keeps_no_average_of_its_first_end(
    tmp_path: Path, keep: str
) -> None:
    config = small_run(tmp_path, max_steps=12, average_last=2, keep=keep)
    folder = Path(config.folder)
    average = folder / "training" / "checkpoints" / "average.safetensors"

    def trained_to(steps: int) -> tuple[list[str], dict[str, Any]]:
        watcher, longer = Watcher(), dataclasses.replace(config.training, max_steps=steps)
        api.train(dataclasses.replace(config, training=longer), observers=[watcher])
        notes = [e.text for e in watcher.events if isinstance(e, Note) and "average" in e.text]
        return notes, json.loads((folder / "scores.json").read_text())

    notes, _ = trained_to(12)
    assert notes == []
    assert read_tensors(average)[1]["step"] == 12
    # One validation more: only one checkpoint, whose average is kept where that is requested.
    (continued,), scores = trained_to(16)
    assert "step 12" in continued
    assert average.exists() == (keep == "average")
    if keep == "average":
        assert (scores["step"], scores["weights"]) == (16, "average")
    notes, _ = trained_to(24)
    assert len(notes) == 1
    assert read_tensors(average)[1]["step"] == 24


@pytest.mark.parametrize("every", [1, 5])
def test_the_loss_is_reported_at_the_steps_requested(tmp_path: Path, every: int) -> None:
    watcher = Watcher()
    config = small_run(tmp_path, max_steps=12, validate_every=12, report_every=every)
    api.train(config, observers=[watcher])
    steps = [event.step for event in watcher.events if isinstance(event, Progress)]
    assert steps == [*range(every, 12, every), 12]  # the last one comes before the validation


@pytest.mark.parametrize(
    ("limits", "step", "reason"),
    [
        ({"patience": 2, "validate_every": 2}, 6, "no better"),
        ({"max_epochs": 2}, None, "2 epochs"),
    ],
)
def test_patience_and_epochs_bound_a_run(
    tmp_path: Path, limits: dict[str, Any], step: int | None, reason: str
) -> None:
    still = ScheduleConfig(kind="constant", peak=1e-12, warmup=0)
    watcher = Watcher()
    config = small_run(tmp_path, schedule=still, max_steps=0, **limits)
    ended = api.train(config, observers=[watcher])
    assert isinstance(watcher.events[-1], RunEnded)
    assert step in (None, ended.step)
    assert reason in ended.reason


def test_bf16_follows_the_loss_of_float32(tmp_path: Path) -> None:
    losses = []
    for precision in ("float32", "bf16"):
        watcher = Watcher()
        api.train(small_run(tmp_path, precision, precision=precision), observers=[watcher])
        losses.append([e.scores["loss"] for e in watcher.events if isinstance(e, Validated)])
    assert losses[0][-1] < losses[0][0]
    assert losses[1] == pytest.approx(losses[0], rel=0.02)


def test_a_dry_run_writes_nothing_and_counts_the_parameters(tmp_path: Path) -> None:
    config = small_run(tmp_path)
    found = api.dry_run(config)
    assert not Path(config.folder).exists()
    (tmp_path / "x.toml").write_text(
        'data = { train = "train.tsv", validation = "validation.tsv" }\nmodel = { size = "tiny" }\n'
        'tokenizer = { kind = "words", max_vocabulary = 0 }\ntraining = { max_steps = 2 }\n'
    )
    assert api.dry_run(tmp_path / "x.toml").steps == 2
    assert any("120 pairs" in line for line in found.data)
    assert found.steps == 12
    api.train(config)
    kept = read_tensors(Path(config.folder) / "weights.safetensors")[0]
    assert found.parameters == sum(tensor.numel() for tensor in kept.values())


def test_more_threads_than_processors_are_a_warning_before_anything_is_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device, "processors", lambda: 2)
    monkeypatch.setattr(torch, "set_num_threads", lambda count: None)
    for threads, warned in ((0, False), (2, False), (999, True)):
        watcher = Watcher()
        api.dry_run(small_run(tmp_path, threads=threads), observers=[watcher])
        first = watcher.events[0]
        assert isinstance(first, Note)
        assert ("training.threads = 999" in first.text) == warned


def test_an_interruption_in_the_middle_of_a_step_waits_for_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    through = small_run(tmp_path, "through")
    api.train(through)
    update = Updater.update

    def interrupted_update(self: Updater, step: int, units: int) -> tuple[float, float]:
        if step == 6:
            signal.raise_signal(signal.SIGINT)
        return update(self, step, units)

    pieces = dataclasses.replace(through, folder=str(tmp_path / "pieces"))
    with monkeypatch.context() as patch:
        patch.setattr(Updater, "update", interrupted_update)
        assert api.train(pieces).step == 6
    assert api.train(pieces).finished
    assert_same(final_state(through), final_state(pieces))


def test_an_interruption_is_answered_before_the_validation_under_way_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted = threading.Event()
    answered: list[bool] = []
    evaluate = TranslationTask.evaluate

    class Listener(Watcher):
        def observe(self, event: Event) -> None:
            super().observe(event)
            if isinstance(event, Note) and event.text == STOPPING:
                noted.set()

    def interrupted(self: TranslationTask, model: torch.nn.Module) -> Evaluation:
        signal.raise_signal(signal.SIGINT)
        answered.append(noted.wait(30))
        return evaluate(self, model)

    monkeypatch.setattr(TranslationTask, "evaluate", interrupted)
    watcher = Listener()
    assert not api.train(small_run(tmp_path), observers=[watcher]).finished
    assert answered == [True]
    assert isinstance(watcher.events[-1], RunEnded)


def test_a_second_interruption_acts_at_once_and_harms_no_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    through = small_run(tmp_path, "through")
    api.train(through)
    evaluate = TranslationTask.evaluate
    calls = []

    def impatient(self: TranslationTask, model: torch.nn.Module) -> Evaluation:
        calls.append(1)
        if len(calls) == 4:  # of the average of the last checkpoints
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
        return evaluate(self, model)

    pieces = dataclasses.replace(through, folder=str(tmp_path / "pieces"))
    with monkeypatch.context() as patch:
        patch.setattr(TranslationTask, "evaluate", impatient)
        ended = api.train(pieces)
    assert not ended.finished
    assert "step 12 is saved" in ended.reason
    assert_same(final_state(through), final_state(pieces))
    assert api.train(pieces).finished
    assert_same(final_state(through), final_state(pieces))


def test_data_may_move_but_not_change_under_a_run(tmp_path: Path) -> None:
    config = small_run(tmp_path, max_steps=4)
    api.train(config)
    moved = tmp_path / "moved.tsv"
    Path(config.data.train[0]).rename(moved)
    data = dataclasses.replace(config.data, train=(str(moved),))
    longer = dataclasses.replace(config.training, max_steps=6)
    config = dataclasses.replace(config, data=data, training=longer)
    assert api.train(config).step == 6
    moved.write_text(moved.read_text() + "one more\tpair\n")
    with pytest.raises(TrainingError, match="train data") as caught:
        api.train(config)
    assert caught.value.where == config.folder


def test_a_folder_takes_one_run_at_a_time(tmp_path: Path) -> None:
    config = small_run(tmp_path, max_steps=4)
    folder = continuation.run_folder(config, restart=False)
    with continuation.only_run_in(folder), pytest.raises(TrainingError, match="another run"):
        api.train(config)
    assert api.train(config).finished


@pytest.mark.parametrize("interrupt_at", [4, 8])
def test_a_resumed_run_reports_its_best_score(tmp_path: Path, interrupt_at: int) -> None:
    config = small_run(tmp_path)
    first, second = Watcher(interrupt_at=interrupt_at), Watcher()
    api.train(config, observers=[first])
    api.train(config, observers=[second])
    begun, went_on = (
        next(event for event in watcher.events if isinstance(event, RunStarted))
        for watcher in (first, second)
    )
    assert (begun.step, begun.best_score, begun.best_step) == (0, None, 0)
    validated = [event for event in first.events if isinstance(event, Validated)]
    best = max(validated, key=lambda event: (event.scores["bleu"], -event.step))
    assert went_on.step == interrupt_at
    assert (went_on.best_score, went_on.best_step) == (best.scores["bleu"], best.step)


def test_the_end_of_a_run_has_the_signatures_of_the_kept_scores(tmp_path: Path) -> None:
    config = small_run(tmp_path, max_steps=4)
    for is_new in (True, False):
        ended = api.train(config)
        kept = json.loads((Path(config.folder) / "scores.json").read_text())
        assert ended.signatures == kept["signatures"]
        assert "version:" in ended.signatures["bleu"]
        assert ended.reason.startswith("already finished") != is_new


@given(st.lists(st.floats()), st.booleans())
def test_the_best_score_is_the_best_of_the_finite_ones(
    scores: list[float], higher_is_better: bool
) -> None:
    state = State()
    for score in scores:
        if state.is_best(score, 1.0, higher_is_better):
            state.best_score = score
    finite = [score for score in scores if math.isfinite(score)]
    best = max if higher_is_better else min
    assert state.best_score == best(finite, default=None)


@pytest.mark.parametrize("kept", [math.nan, math.inf, -math.inf])
def test_a_best_score_that_is_not_finite_gives_way(kept: float) -> None:
    for higher_is_better in (True, False):
        assert State(best_score=kept).is_best(1.0, 1.0, higher_is_better)


def test_a_run_whose_first_validation_has_no_score_keeps_a_later_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluate, validations = TranslationTask.evaluate, []

    def first_without(self: TranslationTask, model: torch.nn.Module) -> Evaluation:
        found = evaluate(self, model)
        validations.append(found)
        if len(validations) > 1:
            return found
        return dataclasses.replace(found, scores={**found.scores, "bleu": math.nan})

    monkeypatch.setattr(TranslationTask, "evaluate", first_without)
    config = small_run(tmp_path, max_steps=8)
    watcher = Watcher()
    ended = api.train(config, observers=[watcher])
    found = [event for event in watcher.events if isinstance(event, Validated)]
    assert [event.is_best for event in found[:2]] == [False, True]
    later = [validation.scores["bleu"] for validation in validations[1:]]
    assert ended.scores["bleu"] == max(later)
    kept = json.loads((Path(config.folder) / "scores.json").read_text())
    assert kept["scores"]["bleu"] == max(later)


@pytest.mark.parametrize(
    ("losses", "best"), [([3.0, 2.0, 2.5], 8), ([3.0, 2.0, 1.0], 12), ([1.0, 1.0, 1.0], 4)]
)
def test_the_loss_decides_between_equal_scores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, losses: list[float], best: int
) -> None:
    evaluate, left = TranslationTask.evaluate, iter([*losses, 9.0])

    def same_bleu(self: TranslationTask, model: torch.nn.Module) -> Evaluation:
        scores = {"bleu": 0.0, "chrf": 1.0, "loss": next(left)}
        return dataclasses.replace(evaluate(self, model), scores=scores)

    monkeypatch.setattr(TranslationTask, "evaluate", same_bleu)
    watcher = Watcher()
    api.train(small_run(tmp_path, max_steps=12), observers=[watcher])
    validated = [event for event in watcher.events if isinstance(event, Validated)]
    assert validated[-1].best_step == best
    notes = [event.text for event in watcher.events if isinstance(event, Note)]
    assert sum("bleu is 0" in note for note in notes) == 1


def test_a_run_that_diverges_ends_with_what_to_do_about_it(tmp_path: Path) -> None:
    schedule = ScheduleConfig(kind="constant", peak=1e25, warmup=0)
    watcher = Watcher()
    with pytest.raises(TrainingError, match="diverged") as raised:
        api.train(
            small_run(tmp_path, max_steps=3, validate_every=1, schedule=schedule),
            observers=[watcher],
        )
    assert "lower training.schedule.peak" in str(raised.value)
    assert "training.schedule.warmup instead" in str(raised.value)  # the paper's has no peak
    assert "start_from" not in str(raised.value)  # there is no model
    assert not any(isinstance(event, Validated) for event in watcher.events)


def test_a_run_that_diverges_late_keeps_the_best_model_it_had(tmp_path: Path) -> None:
    class Breaker(Watcher):
        """Sets the weights to 1e30 after the second validation."""

        def observe(self, event: Event) -> None:
            if isinstance(event, Validated) and event.step == 8:
                with torch.no_grad():
                    for parameter in models[0].parameters():
                        parameter.fill_(1e30)

    models: list[torch.nn.Module] = []
    config = small_run(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        load = Keeper.read_state

        def noted(self: Keeper, model: torch.nn.Module, *others: Any) -> Any:
            models.append(model)
            return load(self, model, *others)

        patch.setattr(Keeper, "read_state", noted)
        with pytest.raises(TrainingError, match="diverged") as raised:
            api.train(config, observers=[Breaker()])
    assert "start_from" in str(raised.value)
    kept = json.loads((Path(config.folder) / "scores.json").read_text())
    assert kept["step"] <= 8
    assert math.isfinite(kept["scores"]["loss"])
    assert api.load_translator(config.folder).translate(["a b"])


def test_a_run_without_any_finite_score_ends_with_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluate = TranslationTask.evaluate

    def without(self: TranslationTask, model: torch.nn.Module) -> Evaluation:
        found = evaluate(self, model)
        return dataclasses.replace(found, scores={**found.scores, "bleu": math.nan})

    monkeypatch.setattr(TranslationTask, "evaluate", without)
    config = small_run(tmp_path, max_steps=4, keep="average", validate_every=4)
    watcher = Watcher()
    with pytest.raises(TrainingError, match="no validation had a finite bleu"):
        api.train(config, observers=[watcher])
    assert not (Path(config.folder) / "weights.safetensors").exists()
