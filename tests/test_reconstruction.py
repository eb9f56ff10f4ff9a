"""Reconstruction: what is hidden, what the loss counts, and that it can be learned."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from clearhead import api
from clearhead.api.preparation import prepare
from clearhead.settings import RunConfig, config_from
from clearhead.tasks.reconstruction import HiddenBatch, ReconstructionTask, hidden_spans
from test_classification import SMALL_MODEL


def write_sines(folder: Path, count: int = 60) -> Path:
    """Sequences of three features that follow the same sine, each in its own scale."""
    rng = np.random.default_rng(5)
    lengths = rng.integers(8, 25, count)
    waves = [
        np.sin(rng.uniform(0.2, 1.0) * np.arange(length) + rng.uniform(0, 6)) for length in lengths
    ]
    scales = np.array([1.0, -30.0, 0.2])
    path = folder / "sines.npz"
    np.savez(path, x=np.concatenate([np.outer(wave, scales) for wave in waves]), lengths=lengths)
    return path


def sine_run(folder: Path, **training: object) -> RunConfig:
    return config_from(
        {
            "task": "reconstruction",
            "input": "features",
            "folder": str(folder / "run"),
            "data": {"train": [str(write_sines(folder))]},
            "model": {**SMALL_MODEL, "dropout": 0.0},
            "training": {
                "batch_tokens": 300,
                "max_steps": 200,
                "validate_every": 100,
                "schedule": {"kind": "linear", "peak": 1e-2, "warmup": 10},
                **training,
            },
        }
    )


def sine_task(folder: Path, **training: object) -> ReconstructionTask:
    task = prepare(sine_run(folder, **training), None, folder, ()).task
    assert isinstance(task, ReconstructionTask)
    return task


class Constant(nn.Module):
    """Fills in the same number everywhere, and remembers what it was shown."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self.output = nn.Linear(1, 1)
        nn.init.constant_(self.output.bias, value)
        self.shown = torch.empty(0)

    def forward(self, x: Tensor) -> Tensor:
        self.shown = x
        return self.output.bias.expand(x.shape)


def test_the_encoder_learns_what_can_be_learned(tmp_path: Path) -> None:
    # The data are normalised: who always says the mean has a loss of 1.
    assert api.train(sine_run(tmp_path)).scores["loss"] < 0.3


def test_the_loss_is_the_squared_error_of_what_is_hidden_and_of_nothing_else(
    tmp_path: Path,
) -> None:
    nan = float("nan")
    features = torch.tensor([[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [nan, nan]]])
    hidden = torch.tensor([[[True, False], [False, True]], [[False, True], [False, False]]])
    model = Constant(0.5)
    loss = sine_task(tmp_path).loss(model, HiddenBatch(features, hidden))
    by_hand = (0.5 - 1) ** 2 + (0.5 - 4) ** 2 + (0.5 - 6) ** 2
    assert (float(loss.total.detach()), float(loss.plain), loss.units) == (by_hand, by_hand, 3)
    loss.total.backward()
    assert model.output.bias.grad is not None
    slope = 2 * ((0.5 - 1) + (0.5 - 4) + (0.5 - 6))
    assert float(model.output.bias.grad) == pytest.approx(slope)
    # What is hidden does not leak, what is not stays.
    expected = torch.tensor([[[0.0, 2.0], [3.0, 0.0]], [[5.0, 0.0], [nan, nan]]])
    torch.testing.assert_close(model.shown, expected, equal_nan=True)


def test_the_loss_asks_the_device_for_no_number(tmp_path: Path) -> None:
    task = sine_task(tmp_path)
    batch = next(task.batches(0, 0))
    # A tensor of the meta device has no numbers: whoever asks for one meets an error.
    loss = task.loss(task.build_model().to("meta"), batch)
    assert loss.total.device.type == "meta"
    assert loss.units == int(batch.hidden.sum())


def test_a_share_of_the_values_is_hidden_and_never_padding(tmp_path: Path) -> None:
    task = sine_task(tmp_path, batch_tokens=2000)
    hidden = real = 0
    for epoch in range(20):
        for batch in task.batches(epoch, 0):
            there = ~batch.features.isnan()
            assert not (batch.hidden & ~there).any()
            hidden, real = hidden + int(batch.hidden.sum()), real + int(there.sum())
    assert hidden / real == pytest.approx(task.config.reconstruction.share, abs=0.02)


def test_each_epoch_hides_other_values_and_the_same_ones_if_it_is_done_again(
    tmp_path: Path,
) -> None:
    task = sine_task(tmp_path)
    # One sequence, so that no order of sequences makes a difference.
    rows = task.data.rows[:1]
    task = ReconstructionTask(task.config, dataclasses.replace(task.data, rows=rows))
    first, second, again = (next(task.batches(epoch, 0)) for epoch in (0, 1, 0))
    torch.testing.assert_close(first.features, second.features)
    assert not torch.equal(first.hidden, second.hidden)
    assert torch.equal(first.hidden, again.hidden)


def test_the_same_values_are_hidden_at_every_validation(tmp_path: Path) -> None:
    config = sine_run(tmp_path)
    model = prepare(config, None, tmp_path, ()).build_model()
    # Two tasks, as before and after an interruption.
    scores = [sine_task(tmp_path).evaluate(model).scores["loss"] for _ in range(2)]
    assert scores[0] == scores[1]


def test_hidden_spans_have_the_share_and_the_length_that_were_asked_for() -> None:
    hidden = hidden_spans((200, 300, 4), 0.15, 3.0, np.random.default_rng(1))
    assert hidden.mean() == pytest.approx(0.15, abs=0.01)
    starts = (hidden[:, 1:] & ~hidden[:, :-1]).sum() + hidden[:, 0].sum()
    assert hidden.sum() / starts == pytest.approx(3.0, abs=0.1)
    # Each feature is hidden by itself.
    agree = (hidden[..., 0] == hidden[..., 1]).mean()
    assert agree == pytest.approx(0.15**2 + 0.85**2, abs=0.02)
