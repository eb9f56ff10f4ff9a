"""A model in the loops of others: DistributedDataParallel, and the Trainer of transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from clearhead import nn
from several_processes import group_of_one

STEPS = 20


def made(**choices: Any) -> nn.Transformer:
    torch.manual_seed(1)
    return nn.Transformer(10, 10, d_model=32, heads=4, layers=1, dropout=0.0, **choices)


def batch(rows: int) -> dict[str, Tensor]:
    """Sources (rows, 5), and their copies between start and end."""
    source = torch.randint(3, 10, (rows, 5))
    return {"source": source, "target": F.pad(F.pad(source, (1, 0), value=1), (0, 1), value=2)}


def loss_of(model: Any, inputs: dict[str, Tensor]) -> Tensor:
    logits = model(**inputs)[:, :-1]
    return F.cross_entropy(logits.transpose(1, 2), inputs["target"][:, 1:])


def trained(model: Any) -> list[float]:
    """The loss of each step."""
    torch.manual_seed(2)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    losses = []
    for _ in range(STEPS):
        loss = loss_of(model, batch(32))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.slow
def test_a_model_trains_under_distributed_data_parallel() -> None:
    model, alone = made(), made()
    with group_of_one("gloo"):
        losses = trained(DistributedDataParallel(model))
    assert losses[-1] < losses[0] - 0.2
    assert losses == pytest.approx(trained(alone), rel=1e-5)
    source = batch(3)["source"]
    assert model.generate(source) == alone.generate(source)


@pytest.mark.slow
def test_a_model_trains_in_the_trainer_of_transformers(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate", reason="the Trainer of transformers needs accelerate")

    class CopyTrainer(transformers.Trainer):
        def compute_loss(self, model: Any, inputs: dict[str, Tensor], **_: Any) -> Tensor:
            return loss_of(model, inputs)

    # It does not save a matrix that is shared.
    model = made(share_embeddings="none")
    everything = batch(32 * STEPS)
    examples = [
        {"source": source, "target": target}
        for source, target in zip(everything["source"], everything["target"], strict=True)
    ]
    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path),
        max_steps=STEPS,
        per_device_train_batch_size=32,
        learning_rate=3e-3,
        lr_scheduler_type="constant",
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
    )
    trainer = CopyTrainer(model, arguments, train_dataset=examples)
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert len(losses) == STEPS
    assert losses[-1] < losses[0] - 0.2
    trainer.save_model(str(tmp_path / "saved"))
    (saved,) = (tmp_path / "saved").glob("*.safetensors")
    again = made(share_embeddings="none")
    again.load_state_dict(load_file(saved))
    source = batch(3)["source"]
    assert again.generate(source) == model.generate(source)


def test_no_attribute_is_taken_for_one_of_transformers() -> None:
    """Its Trainer writes into `model.config`, and its loggers read it."""
    assert not hasattr(made(), "config")
    assert not hasattr(nn.TransformerClassifier(10, 2, d_model=16, heads=2, layers=1), "config")
