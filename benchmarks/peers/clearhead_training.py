"""Clearhead's own training step, and a model folder of random weights. Imports PyTorch."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, Literal, cast

import torch

from clearhead import api
from clearhead.checkpoint import WEIGHTS, parameters_of, write_model_folder, write_tensors
from clearhead.data.batches import Batch as OwnBatch
from clearhead.data.batches import collate
from clearhead.data.preparation import TranslationData
from clearhead.decoding.device import set_up_torch
from clearhead.model.build import build_model
from clearhead.model.transformer import EncoderDecoder
from clearhead.settings import (
    DropoutConfig,
    ModelConfig,
    OptimizerConfig,
    RunConfig,
    ScheduleConfig,
    SearchConfig,
    TrainingConfig,
)
from clearhead.tasks.translation import TranslationTask
from clearhead.tokenizer import load_tokenizer
from clearhead.training.checkpoints import Keeper
from clearhead.training.loop import Trainer as OwnTrainer
from clearhead.training.task import Loss

from .protocol import Job
from .workload import ADAM_BETAS, BOS, DECODED, EOS, LABEL_SMOOTHING, LEARNING_RATE, PAD, Batch

NEVER = -1e9
"""The bias of the end symbol, so that every output has the longest length. With a shortest length
instead, CTranslate2's outputs would be scored again."""

SEARCH = SearchConfig(max_length=DECODED, max_length_offset=DECODED)


def run_config(job: Job) -> RunConfig:
    """A run of the job's shape, trained as the peers are."""
    shape = job.shape
    precision = cast(Literal["float32", "bf16"], "bf16" if job.kind == "bf16" else "float32")
    return RunConfig(
        folder=str(job.folder),
        model=ModelConfig(
            encoder_layers=shape.layers,
            decoder_layers=shape.layers,
            d_model=shape.d_model,
            d_ff=shape.d_ff,
            n_heads=shape.heads,
            dropout=DropoutConfig.everywhere(shape.dropout),
        ),
        training=TrainingConfig(
            max_steps=1_000_000,
            label_smoothing=LABEL_SMOOTHING,
            precision=precision,
            device=cast(Literal["cpu", "cuda"], job.device),
            threads=job.threads,
            optimizer=OptimizerConfig(beta1=ADAM_BETAS[0], beta2=ADAM_BETAS[1]),
            schedule=ScheduleConfig(kind="constant", peak=LEARNING_RATE, warmup=0),
        ),
        search=SEARCH,
    )


def build(job: Job, config: RunConfig) -> EncoderDecoder:
    """A new model of the job's shape."""
    torch.manual_seed(config.seed)
    return build_model(config.model, job.vocabulary, job.vocabulary)


class Task(TranslationTask):
    """Translation with batches from outside; keeps the last mean loss with label smoothing.

    Peers report that loss; clearhead's own reports leave label smoothing out.
    """

    smoothed: torch.Tensor

    def loss(self, model: torch.nn.Module, batch: OwnBatch) -> Loss:
        """The task's loss, kept."""
        found = super().loss(model, batch)
        self.smoothed = found.total.detach() / found.units
        return found

    def batch_count(self, epoch: int) -> int:
        """Any number: the trainer is stepped from outside."""
        return 1

    def batches(self, epoch: int, first: int) -> Iterator[OwnBatch]:
        """None of its own."""
        return iter(())


class Trainer:
    """The trainer of `clearhead train`, one step at a time."""

    def __init__(self, job: Job) -> None:
        config = run_config(job)
        device = set_up_torch(job.device, job.threads)
        # Only sampling of subwords or hiding of words would need the data.
        nothing = cast(Any, None)
        data = TranslationData(nothing, nothing, nothing, (), ())
        model = build(job, config).to(device).train()
        keeper = Keeper(job.folder, 1, {})
        self.task = Task(config, data)
        width = config.model.d_model
        self.trainer = OwnTrainer(self.task, model, config.training, config.seed, width, keeper, ())

    def ready(self, batch: Batch) -> OwnBatch:
        sources = [row[row != PAD].tolist() for row in batch.source]
        targets = [[i for i in row.tolist() if i not in (PAD, BOS, EOS)] for row in batch.target]
        return collate(sources, targets)

    def step(self, ready: OwnBatch) -> torch.Tensor:
        self.trainer.meter.restart()
        # The whole step of `run`.
        self.trainer.step([ready])
        # A tensor still: converting it would wait for the GPU after each step.
        return self.task.smoothed


def save(job: Job) -> None:
    """Write a model folder whose outputs never end, exported if the engine needs that."""
    config = run_config(job)
    config = dataclasses.replace(config, model=dataclasses.replace(config.model, output_bias=True))
    model = build(job, config)
    with torch.no_grad():
        model.output.bias[EOS] = NEVER
    tokenizer = load_tokenizer(job.tokenizer.parent, job.tokenizer.name)
    write_model_folder(job.folder, config, {"tokenizer": tokenizer})
    write_tensors(job.folder / WEIGHTS, parameters_of(model), {})
    if job.kind.partition(" ")[0] != "torch":
        api.export_model(job.folder)
