"""Training in bf16: the loss stays close to that in float32, since only products are rounded."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch
from torch import Tensor

from clearhead import api
from clearhead.settings import (
    DataConfig,
    DropoutConfig,
    ModelConfig,
    RunConfig,
    ScheduleConfig,
    SearchConfig,
    TokenizerConfig,
    TrainingConfig,
)
from clearhead.training.events import Progress
from clearhead.training.step import Updater
from small_runs import Watcher, final_state

pytestmark = pytest.mark.slow

STEPS = 60
RATE = 5e-4
"""Adam moves a weight by about as much a step: half of the last digit that bf16 has for numbers
between 1/8 and 1/4, so that many larger weights would not change if they were kept in bf16."""


def copying_run(folder: Path, precision: str, **training: object) -> RunConfig:
    """A small model that learns to copy; only its initial weights and the order are random."""
    chance = random.Random(3)
    path = folder / "pairs.tsv"
    texts = [" ".join(chance.choices("abcdefgh", k=chance.randint(3, 8))) for _ in range(400)]
    path.write_text("".join(f"{text}\t{text}\n" for text in texts), encoding="utf-8")
    held_out = folder / "validation.tsv"
    held_out.write_text("a b c\ta b c\n", encoding="utf-8")
    settings = {
        "precision": precision,
        "device": "cpu",
        "batch_tokens": 200,
        "label_smoothing": 0.0,
        "max_steps": STEPS,
        "validate_every": STEPS,
        "report_every": 1,
        "average_last": 1,
        "schedule": ScheduleConfig(kind="constant", peak=RATE, warmup=10),
        **training,
    }
    return RunConfig(
        folder=str(folder / precision),
        data=DataConfig(
            mismatch="warn",  # the model learns to copy
            train=(str(path),),
            validation=(str(held_out),),
            drop_duplicates=False,
            drop_held_out=False,
        ),
        tokenizer=TokenizerConfig(kind="words", max_vocabulary=0),
        model=ModelConfig(
            encoder_layers=2,
            decoder_layers=2,
            d_model=32,
            d_ff=64,
            n_heads=2,
            dropout=DropoutConfig(),
        ),
        training=TrainingConfig(**settings),  # pyright: ignore[reportArgumentType]
        search=SearchConfig(beam_size=1, max_length=10),
    )


def losses_of(config: RunConfig) -> list[float]:
    watcher = Watcher()
    api.train(config, observers=[watcher])
    return [event.loss for event in watcher.events if isinstance(event, Progress)]


def share_beyond_bf16(tensors: list[Tensor]) -> float:
    """The share of numbers that need more digits than bf16 has."""
    numbers = torch.cat([tensor.flatten() for tensor in tensors])
    return float((numbers != numbers.bfloat16().float()).float().mean())


def test_the_loss_in_bf16_stays_beside_that_in_float32(tmp_path: Path) -> None:
    exact, rounded = (losses_of(copying_run(tmp_path, name)) for name in ("float32", "bf16"))
    assert len(exact) == len(rounded) == STEPS
    assert exact != rounded
    fall = exact[0] - min(exact)
    assert fall > 0.5
    # bf16 keeps 8 bits, so a number is rounded by at most 2⁻⁹ of its size. A few dozen roundings
    # lie between a token and its logits; they are of either sign and add up as a random walk does,
    # to about 2⁻⁶ of a logit's size. The mean over a batch has far less of it, so the same bound
    # is left for what the errors of one step add to the next.
    assert max(abs(a - b) for a, b in zip(exact, rounded, strict=True)) < 2**-6 * fall


@pytest.mark.parametrize("has", [False, True])
@pytest.mark.parametrize("precision", ["float32", "bf16", "auto"])
def test_a_warning_comes_first_if_the_device_is_slow_in_the_precision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has: bool, precision: str
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": has})
    config = copying_run(tmp_path, precision, max_steps=1, validate_every=1)
    for run in (api.dry_run, api.train):
        watcher = Watcher()
        run(config, observers=[watcher])
        slow = precision == "bf16" and not has
        notes = watcher.notes
        warned = [note for note in notes if note.startswith("warning: this device")]
        assert warned == (notes[:1] if slow else [])
        assert all("training.precision to auto" in note for note in warned)


def test_weights_and_moments_keep_the_digits_of_float32(tmp_path: Path) -> None:
    config = copying_run(tmp_path, "bf16", max_steps=4, validate_every=4)
    losses_of(config)
    state = final_state(config)
    matrices = {name: tensor for name, tensor in state.items() if tensor.dim() == 2}
    assert {tensor.dtype for tensor in matrices.values()} == {torch.float32}
    for begin, end in (("model", ""), ("optimizer", "exp_avg"), ("optimizer", "exp_avg_sq")):
        found = [
            tensor
            for name, tensor in matrices.items()
            if name.startswith(begin) and name.endswith(end)
        ]
        # Of numbers with 24 bits one in 2¹⁶ looks as if it had 8; a unit that is never active
        # has moments of 0.
        assert share_beyond_bf16(found) > 0.9, (begin, end)


def test_gradients_of_several_batches_are_summed_in_float32(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sums: list[Tensor] = []
    update = Updater.update

    def noting(self: Updater, step: int, units: int) -> tuple[float, float]:
        sums.extend(p.grad.clone() for p in self.model.parameters() if p.grad is not None)
        return update(self, step, units)

    monkeypatch.setattr(Updater, "update", noting)
    losses_of(copying_run(tmp_path, "bf16", accumulate=4, max_steps=1, validate_every=1))
    matrices = [gradient for gradient in sums if gradient.dim() == 2]
    assert matrices
    assert {gradient.dtype for gradient in matrices} == {torch.float32}
    # Each batch's gradient is a bf16 product; the sum of four needs more digits.
    assert share_beyond_bf16(matrices) > 0.5
