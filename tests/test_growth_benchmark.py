"""The benchmark of growth: its fits, its turns, and that it times what clearhead itself does."""

from __future__ import annotations

import importlib
import json
import math
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clearhead.settings import ModelConfig, TrainingConfig
from clearhead.tokenizer import BOS, EOS, PAD
from clearhead.training import dry_run
from clearhead.training.checkpoints import Keeper
from clearhead.training.loop import Trainer
from scripts import ROOT

sys.path.append(str(ROOT / "benchmarks"))
growth = importlib.import_module("growth")
costs_curve = importlib.import_module("costs.curve")
costs_figure = importlib.import_module("costs.figure")
costs_work = importlib.import_module("costs.work")
curve_set = importlib.import_module("costs.curves")
fits = importlib.import_module("costs.fit")
report = importlib.import_module("costs.report")
turns = importlib.import_module("costs.turns")

CPU = torch.device("cpu")
MODEL = ModelConfig(encoder_layers=1, decoder_layers=1, d_model=16, d_ff=16, n_heads=2)

points = st.lists(st.integers(1, 2000), min_size=3, max_size=8, unique=True).map(sorted)
positive = st.floats(0.01, 1000)


@given(points, positive, st.floats(-1, 3))
def test_the_exponent_of_a_power_is_found(x: list[int], scale: float, exponent: float) -> None:
    found = fits.fit(x, [scale * n**exponent for n in x])
    assert found.exponent == pytest.approx(exponent, abs=1e-6)
    assert found.last_exponent == pytest.approx(exponent, abs=1e-6)


def test_the_exponent_of_the_last_two_points_leaves_the_fixed_cost_behind() -> None:
    found = fits.fit([1, 10, 1000, 100_000], [100 + n for n in (1, 10, 1000, 100_000)])
    assert found.exponent < 0.8
    assert found.last_exponent == pytest.approx(1, abs=0.03)


@given(points, positive, positive)
def test_a_straight_line_is_found_and_is_straight(x: list[int], fixed: float, slope: float) -> None:
    found = fits.fit(x, [fixed + slope * n for n in x])
    assert found.slope == pytest.approx(slope, rel=1e-4, abs=1e-6 * fixed)
    assert found.worst == pytest.approx(0, abs=1e-6)


@given(points, st.lists(positive, min_size=8, max_size=8))
def test_no_line_near_the_fitted_one_deviates_less(x: list[int], costs: list[float]) -> None:
    xs, cost = np.array(x, dtype=float), np.array(costs[: len(x)])

    def deviations(fixed: float, slope: float) -> np.ndarray:
        return (fixed + slope * xs) / cost - 1

    found = fits.fit(x, cost)
    best = (deviations(found.fixed, found.slope) ** 2).sum()
    for step in (-1e-2, 1e-2):
        for other in ((found.fixed + step, found.slope), (found.fixed, found.slope + step)):
            assert best <= (deviations(*other) ** 2).sum() * (1 + 1e-6) + 1e-9
    assert found.worst == pytest.approx(np.abs(deviations(found.fixed, found.slope)).max())


def curve_of(name: str = "some work", points: tuple[int, ...] = (1, 2, 4), **choices: Any) -> Any:
    """A curve whose work is nothing."""
    settings = dict(x_name="things", unit="thing", per_unit=True, theory="a + b·n") | choices
    nothing = costs_curve.Work(lambda: None, 1)
    return costs_curve.Curve(name=name, points=points, work=lambda n: nothing, **settings)


def test_each_round_visits_every_point_once_there_and_back() -> None:
    curves = [curve_of("one"), curve_of("two", (5, 6))]
    rounds: dict[int, list[tuple[str, int]]] = {}
    for visit in turns.visits(curves, rounds=3):
        rounds.setdefault(visit.round, []).append(visit.where)
    assert list(rounds) == [0, 1, 2, 3]
    assert rounds[0] == [("one", 1), ("one", 2), ("one", 4), ("two", 5), ("two", 6)]
    assert rounds[1] == rounds[3] == rounds[0][::-1]
    assert rounds[2] == rounds[0]


def test_what_the_warm_up_took_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "LEAST_SECONDS", 0)
    calls: Counter[int] = Counter()

    def work(n: int) -> Any:
        return costs_curve.Work(lambda: calls.update([n]), 10 * n)

    curve = costs_curve.Curve("work", "things", "thing", True, "a + b·n", (1, 2), work)
    turns.measure([curve], rounds=3)
    assert calls == {1: 4, 2: 4}
    assert {n: len(seconds) for n, seconds in curve.seconds.items()} == {1: 3, 2: 3}
    assert curve.units == {1: 10, 2: 20}


def test_what_is_short_is_repeated_and_the_mean_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0

    def call() -> None:
        nonlocal now
        now += 0.03

    monkeypatch.setattr(turns, "time", SimpleNamespace(perf_counter=lambda: now))
    assert turns.seconds_of(call) == pytest.approx(0.03)
    assert now == pytest.approx(math.ceil(turns.LEAST_SECONDS / 0.03) * 0.03)
    before = now
    turns.seconds_of(call, warm=False)
    assert now - before == pytest.approx(0.03)


def test_the_time_left_is_that_of_the_visits_left_once_all_are_known() -> None:
    assert turns.time_left([60.0, 20.0, 0.4]) == ", 1 min 20 s left"
    assert turns.time_left([60.0, None]) == ""


def test_costs_are_those_of_a_unit_or_of_a_batch() -> None:
    for per_unit, expected in ((True, 250.0), (False, 2000.0)):
        curve = curve_of(per_unit=per_unit)
        curve.units[2] = 8
        curve.seconds[2] = [1.0, 2.0, 7.0]
        assert curve.cost(2) == pytest.approx(expected)


@pytest.mark.parametrize("length", curve_set.LENGTHS)
def test_a_training_batch_has_the_same_tokens_whatever_its_length(length: int) -> None:
    batch = costs_work.random_batch(curve_set.TOKENS // length, length)
    assert batch.source_tokens == batch.source.numel() == curve_set.TOKENS
    assert batch.target_tokens == batch.target_output.numel() == curve_set.TOKENS
    assert batch.source.shape[1] == length
    inner = batch.target_output[:, :-1]
    for ids in (batch.source, inner):
        assert not torch.isin(ids, torch.tensor([PAD, BOS, EOS])).any()
        assert ids.max() < costs_work.VOCABULARY
    again = costs_work.random_batch(curve_set.TOKENS // length, length)
    assert torch.equal(batch.source, again.source)


def trainer_of(same: Any, monkeypatch: pytest.MonkeyPatch, **choices: Any) -> Trainer:
    """The trainer of `clearhead train` for the model and the task of a benchmark."""
    monkeypatch.setattr(same.task, "batch_count", lambda epoch: 100)
    return Trainer(
        same.task,
        same.model,
        TrainingConfig(max_steps=100_000, **choices),
        seed=1,
        d_model=MODEL.d_model,
        keeper=cast(Keeper, None),  # which no step asks for
        observers=[],
    )


def test_a_step_is_the_trainers_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs_work, "VOCABULARY", 40)
    training = costs_work.Training(MODEL, "float32", CPU)
    same = costs_work.Training(MODEL, "float32", CPU)
    trainer = trainer_of(same, monkeypatch)
    before = [parameter.clone() for parameter in training.model.parameters()]
    batch = costs_work.random_batch(3, 7)
    for _ in range(3):
        training.step(batch)
        trainer.step([batch])
    after = list(training.model.parameters())
    assert not any(map(torch.equal, before, after))
    assert all(map(torch.equal, after, same.model.parameters()))
    # What the trainer counts in a step is timed too.
    told, expected = (
        meter.report(3, 0, 1.0, None) for meter in (training.updater.meter, trainer.meter)
    )
    assert list(told.rates) == list(expected.rates)
    for name in ("loss", "gradient_norm", "learning_rate", "shares"):
        assert getattr(told, name) == getattr(expected, name)


@pytest.mark.parametrize("accumulate", [1, 2])
def test_the_steps_of_a_dry_run_are_the_trainers_own(
    accumulate: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(costs_work, "VOCABULARY", 40)
    tried, same = (costs_work.Training(MODEL, "float32", CPU) for _ in range(2))
    trainer = trainer_of(same, monkeypatch, accumulate=accumulate)
    batches = [costs_work.random_batch(2, n) for n in range(2, 2 + dry_run.STEPS * accumulate)]
    monkeypatch.setattr(tried.task, "batch_count", lambda epoch: 100)
    monkeypatch.setattr(tried.task, "batches", lambda epoch, first: iter(batches))
    monkeypatch.setattr(tried.task, "largest_batch", lambda: batches[-1])
    dry_run.try_steps(tried.task, tried.model, trainer.config, MODEL.d_model, ())
    for first in range(0, len(batches), accumulate):
        trainer.step(batches[first : first + accumulate])
    trainer.step(batches[-1:])
    assert all(map(torch.equal, tried.model.parameters(), same.model.parameters()))


@pytest.mark.parametrize("beam_size", [1, 3])
def test_outputs_have_the_length_that_is_asked_for(
    beam_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(costs_work, "VOCABULARY", 12)
    decoding = costs_work.Decoding(MODEL, CPU)
    for length in (1, 9, 100):
        work = decoding.work(5, length, beam_size)
        found = cast(list, work.call())
        assert work.units == len(found) == 5
        assert [len(hypotheses[0].tokens) for hypotheses in found] == [length] * 5


@given(st.floats(1e-6, 1e9))
def test_figures_have_three_digits(value: float) -> None:
    text = report.figure_of(value)
    assert float(text.replace(",", "")) == pytest.approx(value, rel=5e-3)
    assert len(text.replace(",", "").replace(".", "").strip("0")) <= 3 or value >= 1000
    assert report.figure_of(-value) == f"−{text}"


@given(st.floats(1e-4, 1e4), st.floats(2.25, 1e5))
def test_ticks_are_round_and_within_the_axis(low: float, ratio: float) -> None:
    ticks = costs_figure.round_numbers(low, low * ratio)
    assert 1 <= len(ticks) <= 10
    assert ticks == sorted(ticks)
    assert all(low <= tick <= low * ratio for tick in ticks)
    assert all(len(f"{tick:e}".partition("e")[0].rstrip("0.")) == 1 for tick in ticks)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything so small that a run takes a moment."""
    monkeypatch.setattr(growth, "ModelConfig", SimpleNamespace(of_size=lambda size: MODEL))
    monkeypatch.setattr(costs_work, "VOCABULARY", 40)
    monkeypatch.setattr(costs_work, "SOURCE_LENGTH", 4)
    monkeypatch.setattr(turns, "LEAST_SECONDS", 0)
    settings = dict(
        TOKENS=32,
        TRAINING_LENGTH=4,
        OUTPUT_LENGTH=4,
        SENTENCES=2,
        LENGTHS=(4, 8, 16),
        BEAMS=(1, 2, 4),
        BATCHES=(1, 2, 4),
        OUTPUT_LENGTHS=(2, 4, 8),
    )
    for name, value in settings.items():
        monkeypatch.setattr(curve_set, name, value)


@pytest.mark.usefixtures("small")
def test_all_curves_are_measured_printed_and_drawn(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    figure, written = tmp_path / "growth.png", tmp_path / "growth.json"
    assert growth.main(["--rounds", "2", "--json", str(written), "--figure", str(figure)]) == 0
    out, err = capsys.readouterr()
    assert "round 2 of 2" in err.splitlines()[-1]
    found = json.loads(written.read_text(encoding="utf-8"))
    assert len(found["curves"]) == 5
    for curve in found["curves"]:
        assert f"**{curve['name']}**" in out
        assert f"| {curve['name']}; n = {curve['x']} |" in out
        assert all(len(point["seconds"]) == found["rounds"] == 2 for point in curve["points"])
        costs = [point["cost"] for point in curve["points"]]
        again = fits.fit([point["x"] for point in curve["points"]], costs)
        assert curve["fit"] == pytest.approx(again._asdict())
    cells = {line.count("|") for line in out.splitlines() if line.startswith("|")}
    assert cells == {6, 8}
    assert figure.read_bytes().startswith(b"\x89PNG")


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(("what", "curves"), [("training", 2), ("beam", 1), ("length", 1)])
def test_only_what_is_asked_for_is_measured(
    what: str, curves: int, capsys: pytest.CaptureFixture
) -> None:
    assert growth.main([what, "--rounds", "1"]) == 0
    assert sum(line.startswith("**") for line in capsys.readouterr().out.splitlines()) == curves


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--rounds", "0"], "--rounds"),
        (["--json", "no/such/folder/x.json"], "no/such/folder"),
        (["--figure", "growth.xyz"], "growth.xyz"),
        (["--size", "huge"], "huge"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_measured(
    words: list[str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr(growth, "measure", lambda *_: pytest.fail("it measures"))
    with pytest.raises(SystemExit) as stopped:
        growth.main(words)
    assert stopped.value.code == 2
    assert said in capsys.readouterr().err


@pytest.mark.usefixtures("small")
def test_a_device_that_is_not_there_is_one_message(capsys: pytest.CaptureFixture) -> None:
    assert growth.main(["--device", "abacus"]) == 2
    assert "abacus" in capsys.readouterr().err
