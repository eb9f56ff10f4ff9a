"""What a run notices: a sudden rise of the loss, and slow steps; and what it does not report."""

from __future__ import annotations

import dataclasses
import math
import os
import random
import subprocess
import sys
import time

import pytest
import torch

from clearhead.training import watch
from clearhead.training.watch import AFTER, BEFORE, LossWatch, PaceWatch, Times, times
from run_events import PROGRESS


def warnings_of(losses: list[float]) -> list[int]:
    """The reports at which a warning comes."""
    seen = LossWatch()
    reports = (dataclasses.replace(PROGRESS, step=n, loss=x) for n, x in enumerate(losses))
    return [report.step for report in reports if seen.take(report)]


def falling(count: int, seed: int = 1, noise: float = 0.05) -> list[float]:
    """A loss that falls as in training, with noise."""
    chance = random.Random(seed)
    return [1 + 8 * math.exp(-n / 20) + chance.gauss(0, noise) for n in range(count)]


@pytest.mark.parametrize("at", [15, 40, 150])
@pytest.mark.parametrize("height", [6.0, 100.0])
def test_a_sudden_rise_of_the_loss_is_one_warning_soon_after_it(at: int, height: float) -> None:
    height += falling(at)[-BEFORE] - falling(at)[-1]  # at the start the loss falls by much
    losses = [*falling(at), *(loss + height for loss in falling(60)[-40:])]
    assert warnings_of(losses) == [at + AFTER - 1]


@pytest.mark.parametrize("noise", [0.0, 0.02, 0.3])
def test_noise_and_the_beginning_of_a_run_are_no_warning(noise: float) -> None:
    for seed in range(30):
        assert warnings_of(falling(400, seed, noise)) == []


def test_single_high_losses_and_slow_rises_and_nan_are_no_warning() -> None:
    spikes = [loss + 10 * (n % 9 == 8) for n, loss in enumerate(falling(200))]
    assert warnings_of(spikes) == []
    overfitting = [2 + n / 100 for n in range(300)]
    assert warnings_of(overfitting) == []
    assert warnings_of([*falling(50), *[math.nan] * 20]) == []
    # Losses rise within an epoch and fall at its end, if the data are few.
    epochs = [1 + 0.5 * (n % 12) / 12 - n / 1000 for n in range(300)]
    assert warnings_of(epochs) == []


class Machine:
    """A simulated process: in each report of two seconds so many tokens, CPU time and waiting."""

    def __init__(self) -> None:
        self.now = self.cpu = self.waited = 0.0
        self.pace = PaceWatch(lambda: self.now, lambda: Times(self.cpu, self.waited))

    def run(self, seconds: float, tokens: float, cores: float = 2.0, waiting: float = 0.0) -> list:
        """The warnings in so many seconds, with tokens a second."""
        found = []
        for _ in range(int(seconds / 2)):
            self.now += 2
            self.cpu += 2 * cores
            self.waited += 2 * waiting
            found.append(self.pace.take(dataclasses.replace(PROGRESS, rates={"tokens": tokens})))
        return [text for text in found if text]


@pytest.fixture(autouse=True)
def _two_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)


def test_steady_steps_are_no_warning() -> None:
    assert Machine().run(4000, 1000) == []
    machine = Machine()
    for tokens in [1000, 700, 1300, 900] * 50:  # batches differ
        assert machine.run(10, tokens) == []
    # A short pause, such as a slow save, is none either.
    assert machine.run(20, 10) == []
    assert machine.run(100, 1000) == []
    # Nor is the time of a validation.
    for _ in range(20):
        assert machine.run(30, 1000) == []
        machine.now += 300
        machine.pace.restart()


def test_steps_that_become_slow_are_one_warning_with_the_cause() -> None:
    for waiting, cause in ((0.7, "training.threads=1"), (0.0, "disk")):
        machine = Machine()
        assert machine.run(100, 1000) == []
        (text,) = machine.run(1000, 100, waiting=waiting)
        assert "10 times" in text
        assert cause in text


def test_threads_that_wait_from_the_beginning_are_a_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (text,) = Machine().run(600, 100, waiting=0.7)
    assert "training.threads=1" in text
    assert Machine().run(600, 100, waiting=0.1) == []
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    assert Machine().run(600, 100, waiting=0.7) == []


def test_a_process_without_a_core_waits_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    if times().waited is None or not hasattr(os, "sched_setaffinity"):
        pytest.skip("this system does not report how long a thread waits for a core")
    cores = os.sched_getaffinity(0)
    program = "while True: pass"
    os.sched_setaffinity(0, {min(cores)})  # for the other process too
    try:
        with subprocess.Popen([sys.executable, "-c", program]) as other:
            try:
                before, end = times(), time.monotonic() + 1.0
                while time.monotonic() < end:
                    pass
                after = times()
            finally:
                other.kill()
    finally:
        os.sched_setaffinity(0, cores)
    assert after.waited is not None
    assert before.waited is not None
    assert after.waited - before.waited > 0.2
    monkeypatch.setattr(watch, "TASKS", watch.TASKS / "nowhere")
    assert times().waited is None
