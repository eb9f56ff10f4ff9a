"""Clearhead's training step, and a model folder with random weights. Imports PyTorch."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any, Literal, cast

import torch

from clearhead import api
from clearhead.data.batches import Batch as OwnBatch
from clearhead.data.batches import collate
from clearhead.data.preparation import TranslationData
from clearhead.device import set_up_torch
from clearhead.folder.model_folder import WEIGHTS, open_folder, replace_files, write_folder
from clearhead.folder.tensors import parameters_of, save_tensors
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
from clearhead.tokenizer import JOINT, read_tokenizers
from clearhead.training.step import Updater
from clearhead.training.task import Loss

from .protocol import COMPILED, Job
from .workload import ADAM_BETAS, BOS, DECODED, EOS, LABEL_SMOOTHING, LEARNING_RATE, PAD, Batch

# The bias of the end symbol, so that every output has the maximum length. With a minimum length
# instead, the outputs of CTranslate2 would be scored again.
NEVER = -1e9


def run_config(job: Job) -> RunConfig:
    """A run with the job's shape and the training settings of all peers."""
    shape = job.shape
    precision = cast(Literal["float32", "bf16"], "bf16" if job.is_bf16 else "float32")
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
            compile=job.kind == COMPILED,
            device=cast(Literal["cpu", "cuda"], job.device),
            threads=job.threads,
            optimizer=OptimizerConfig(beta1=ADAM_BETAS[0], beta2=ADAM_BETAS[1]),
            schedule=ScheduleConfig(kind="constant", peak=LEARNING_RATE, warmup=0),
        ),
        search=SearchConfig(max_length=DECODED, max_length_offset=DECODED),
    )


def build(job: Job, config: RunConfig) -> EncoderDecoder:
    """A new model of the job's shape."""
    torch.manual_seed(config.seed)
    return build_model(config.model, job.vocabulary, job.vocabulary)


class Task(TranslationTask):
    """Translation; keeps the last mean loss with label smoothing, as the peers report it."""

    smoothed: torch.Tensor

    def loss(self, model: torch.nn.Module, batch: OwnBatch) -> Loss:
        """The loss of the task, which is also kept."""
        found = super().loss(model, batch)
        self.smoothed = found.total.detach() / found.units
        return found


class Trainer:
    """The steps of `clearhead train`."""

    def __init__(self, job: Job) -> None:
        config = run_config(job)
        device = set_up_torch(job.device, job.threads)
        # Only subword sampling and word dropout would need the data.
        nothing = cast(Any, None)
        data = TranslationData(nothing, nothing, nothing, (), ())
        model = build(job, config).to(device).train()
        self.task = Task(config, data)
        self.updater = Updater(self.task, model, config, config.training.max_steps)
        self.steps = 0

    def ready(self, batch: Batch) -> OwnBatch:
        sources = [row[row != PAD].tolist() for row in batch.source]
        targets = [[i for i in row.tolist() if i not in (PAD, BOS, EOS)] for row in batch.target]
        return collate(sources, targets)

    def step(self, ready: OwnBatch) -> torch.Tensor:
        self.steps += 1
        self.updater.meter.restart()
        self.updater.step(self.steps, [ready])
        # As a tensor, because a conversion would wait for the GPU after each step.
        return self.task.smoothed


def save(job: Job) -> None:
    """Write a model folder whose outputs never end, with an export if the engine needs one."""
    config = run_config(job)
    config = dataclasses.replace(config, model=dataclasses.replace(config.model, output_bias=True))
    model = build(job, config)
    with torch.no_grad():
        model.output.bias[EOS] = NEVER
    tokenizer, _ = read_tokenizers(open_folder(job.tokenizer.parent, trained=False))
    write_folder(job.folder, config, {JOINT: tokenizer})
    weights = partial(save_tensors, tensors=parameters_of(model), facts={})
    replace_files(job.folder, {WEIGHTS: weights})
    if job.kind.partition(" ")[0] != "torch":
        api.export_model(job.folder)
