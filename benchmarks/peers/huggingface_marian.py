"""Hugging Face's reimplementation of Marian, with steps like those of its Trainer and `generate`.

Marian itself, in C++, is in `marian.py`.
"""

# pyright: reportMissingImports=false

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers import MarianConfig, MarianMTModel
from transformers.trainer_pt_utils import LabelSmoother

from .protocol import COMPILED, Abilities, Job, serve
from .workload import (
    ADAM_BETAS,
    BOS,
    DECODED,
    EOS,
    LABEL_SMOOTHING,
    LEARNING_RATE,
    PAD,
    POSITIONS,
    Batch,
    padded,
)

IGNORED = -100
CLIPPED_NORM = 1.0  # the Trainer's default


def build(job: Job) -> Any:
    """A new Marian of the job's shape."""
    shape = job.shape
    config = MarianConfig(
        vocab_size=job.vocabulary,
        d_model=shape.d_model,
        encoder_layers=shape.layers,
        decoder_layers=shape.layers,
        encoder_attention_heads=shape.heads,
        decoder_attention_heads=shape.heads,
        encoder_ffn_dim=shape.d_ff,
        decoder_ffn_dim=shape.d_ff,
        dropout=shape.dropout,
        attention_dropout=shape.dropout,
        activation_dropout=shape.dropout,
        activation_function="relu",
        max_position_embeddings=POSITIONS,
        scale_embedding=True,
        tie_word_embeddings=True,
        share_encoder_decoder_embeddings=True,
        pad_token_id=PAD,
        bos_token_id=BOS,
        eos_token_id=EOS,
        decoder_start_token_id=BOS,
        forced_eos_token_id=None,
    )
    torch.manual_seed(1)
    return MarianMTModel(config)


class Trainer:
    """The model, the Trainer's label smoother, and its default optimizer: AdamW, fused."""

    def __init__(self, job: Job) -> None:
        self.device = job.device
        self.model = build(job).to(self.device).train()
        self.smoother = LabelSmoother(epsilon=LABEL_SMOOTHING)
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(),
            lr=LEARNING_RATE,
            betas=ADAM_BETAS,
            weight_decay=0.0,
            fused=True,
        )
        self.bf16 = job.is_bf16
        if job.kind == COMPILED:
            self.model.compile(dynamic=True)

    def ready(self, batch: Batch) -> dict[str, torch.Tensor]:
        labels = torch.from_numpy(batch.target_output)
        source = torch.from_numpy(batch.source)
        return {
            "input_ids": source,
            "attention_mask": (source != PAD).long(),
            "decoder_input_ids": torch.from_numpy(batch.target_input),
            "labels": labels.masked_fill(labels == PAD, IGNORED),
        }

    def step(self, ready: dict[str, torch.Tensor]) -> torch.Tensor:
        inputs = {name: part.to(self.device, non_blocking=True) for name, part in ready.items()}
        labels = inputs.pop("labels")
        with torch.autocast(self.device, torch.bfloat16, enabled=self.bf16):
            outputs = self.model(**inputs, use_cache=False)
            loss = self.smoother(outputs, labels)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), CLIPPED_NORM)
        self.optimizer.step()
        self.model.zero_grad()
        return loss.detach()


class Decoder:
    """`generate`, with its default cache."""

    def __init__(self, job: Job) -> None:
        self.device = job.device
        dtype = torch.bfloat16 if job.kind == "bf16" else torch.float32
        self.model = build(job).to(self.device, dtype).eval()

    @torch.inference_mode()
    def decode(self, sentences: Sequence[Sequence[int]], beam_size: int) -> list[int]:
        source = torch.from_numpy(padded(sentences)).to(self.device)
        found = self.model.generate(
            input_ids=source,
            attention_mask=(source != PAD).long(),
            num_beams=beam_size,
            do_sample=False,
            use_cache=True,
            min_new_tokens=DECODED,
            max_new_tokens=DECODED,
        )
        return [len(row) - 1 for row in found.tolist()]


if __name__ == "__main__":
    serve(Abilities(Trainer, Decoder))
