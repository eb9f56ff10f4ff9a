"""PyTorch: `torch.nn.Transformer` in a training loop as in its tutorials."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from .protocol import Abilities, Job, serve
from .workload import ADAM_BETAS, LABEL_SMOOTHING, LEARNING_RATE, PAD, POSITIONS, Batch, sinusoids


class Model(nn.Module):
    """Embedding, sinusoids, `nn.Transformer` and projection, with one shared matrix."""

    def __init__(self, job: Job) -> None:
        super().__init__()
        shape = job.shape
        self.width = shape.d_model
        self.embedding = nn.Embedding(job.vocabulary, shape.d_model, padding_idx=PAD)
        nn.init.normal_(self.embedding.weight, std=shape.d_model**-0.5)
        self.register_buffer("positions", torch.from_numpy(sinusoids(POSITIONS, shape.d_model)))
        self.dropout = nn.Dropout(shape.dropout)
        self.transformer = nn.Transformer(
            d_model=shape.d_model,
            nhead=shape.heads,
            num_encoder_layers=shape.layers,
            num_decoder_layers=shape.layers,
            dim_feedforward=shape.d_ff,
            dropout=shape.dropout,
            batch_first=True,
        )
        self.output = nn.Linear(shape.d_model, job.vocabulary, bias=False)
        self.output.weight = self.embedding.weight

    def embed(self, ids: Tensor) -> Tensor:
        scaled = self.embedding(ids) * math.sqrt(self.width)
        return self.dropout(scaled + self.get_buffer("positions")[: ids.shape[1]])

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        length = target.shape[1]
        future = torch.ones(length, length, dtype=torch.bool).triu(diagonal=1)
        hidden = self.transformer(
            self.embed(source),
            self.embed(target),
            tgt_mask=future,
            src_key_padding_mask=source == PAD,
            tgt_key_padding_mask=target == PAD,
            memory_key_padding_mask=source == PAD,
            tgt_is_causal=True,
        )
        return self.output(hidden)


class Trainer:
    """The model, `nn.CrossEntropyLoss` and `torch.optim.Adam`."""

    def __init__(self, job: Job) -> None:
        self.model = Model(job).train()
        self.loss = nn.CrossEntropyLoss(ignore_index=PAD, label_smoothing=LABEL_SMOOTHING)
        parameters = self.model.parameters()
        self.optimizer = torch.optim.Adam(parameters, lr=LEARNING_RATE, betas=ADAM_BETAS)
        self.bf16 = job.kind == "bf16"

    def ready(self, batch: Batch) -> tuple[Tensor, Tensor]:
        return torch.from_numpy(batch.source), torch.from_numpy(batch.target)

    def step(self, ready: tuple[Tensor, Tensor]) -> Tensor:
        source, target = ready
        self.optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=self.bf16):
            logits = self.model(source, target[:, :-1])
            loss = self.loss(logits.flatten(0, 1), target[:, 1:].flatten())
        loss.backward()
        self.optimizer.step()
        return loss.detach()


if __name__ == "__main__":
    serve(Abilities(trainer=Trainer))
