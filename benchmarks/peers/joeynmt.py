"""JoeyNMT: its model, loss, optimizer and search, with the steps of its training manager."""

# pyright: reportMissingImports=false

from __future__ import annotations

import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from joeynmt.batch import Batch as JoeyBatch
from joeynmt.builders import build_optimizer
from joeynmt.model import build_model
from joeynmt.search import search
from joeynmt.vocabulary import Vocabulary

from .protocol import Abilities, Job, serve
from .shape import ADAM_BETAS, DECODED, LABEL_SMOOTHING, LEARNING_RATE
from .workload import Batch, padded

UNK, PAD, BOS, EOS = range(4)
OWN_IDS = np.array([PAD, BOS, EOS, UNK])
"""JoeyNMT's ids of what are our ids 0 to 3; from 4 on they agree."""


def own(ids: np.ndarray) -> torch.Tensor:
    """Ids as JoeyNMT counts them."""
    special = ids < len(OWN_IDS)
    return torch.from_numpy(np.where(special, OWN_IDS[np.where(special, ids, 0)], ids))


def build(job: Job) -> Any:
    """A new model of the job's shape, by JoeyNMT's configuration."""
    special = SimpleNamespace(
        **{"unk_token": "<unk>", "pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>"},
        **{"unk_id": UNK, "pad_id": PAD, "bos_id": BOS, "eos_id": EOS},
        **{"sep_token": None, "sep_id": None, "lang_tags": []},
    )
    vocabulary = Vocabulary([f"piece{i}" for i in range(4, job.vocabulary)], special)
    shape = job.shape
    stack = {
        "type": "transformer",
        "num_layers": shape.layers,
        "num_heads": shape.heads,
        "embeddings": {
            "embedding_dim": shape.d_model,
            "scale": True,
            "dropout": shape.dropout,
        },
        "hidden_size": shape.d_model,
        "ff_size": shape.d_ff,
        "dropout": shape.dropout,
        "layer_norm": "pre",
    }
    config = {
        "tied_embeddings": True,
        "tied_softmax": True,
        "encoder": dict(stack),
        "decoder": dict(stack),
    }
    torch.manual_seed(1)
    model = build_model(config, vocabulary, vocabulary)
    model.loss_function = ("crossentropy", LABEL_SMOOTHING)
    return model


def joey_batch(source: np.ndarray, target: np.ndarray | None) -> Any:
    """A batch as JoeyNMT's data loader gives it."""
    return JoeyBatch(
        src=own(source),
        src_length=torch.from_numpy((source != 0).sum(axis=1)),
        src_prompt_mask=None,
        trg=None if target is None else own(target),
        trg_prompt_mask=None,
        indices=torch.arange(len(source)),
        device=torch.device("cpu"),
        pad_index=PAD,
        eos_index=EOS,
        is_train=target is not None,
    )


def entropy(vocabulary: int) -> float:
    """That of the smoothed targets: all but the token itself and padding share the smoothing."""
    kept, each = 1 - LABEL_SMOOTHING, LABEL_SMOOTHING / (vocabulary - 2)
    return -kept * math.log(kept) - LABEL_SMOOTHING * math.log(each)


class Trainer:
    """The model and JoeyNMT's Adam; the loss is a mean over the target tokens."""

    def __init__(self, job: Job) -> None:
        self.model = build(job)
        config = {"optimizer": "adam", "learning_rate": LEARNING_RATE, "adam_betas": ADAM_BETAS}
        self.optimizer = build_optimizer(config, parameters=self.model.parameters())
        self.bf16 = job.kind == "bf16"
        self.entropy = entropy(job.vocabulary)

    def ready(self, batch: Batch) -> Any:
        return joey_batch(batch.source, batch.target)

    def step(self, ready: Any) -> float:
        self.model.train()
        ready.sort_by_src_length()
        with torch.autocast("cpu", torch.bfloat16, enabled=self.bf16):
            total, _, _, _ = self.model(return_type="loss", **vars(ready))
        loss = ready.normalize(total, normalization="tokens")
        loss.backward()
        self.optimizer.step()
        self.model.zero_grad()
        # It is a divergence from the targets: with their entropy it is the cross-entropy.
        return loss.item() + self.entropy


class Decoder:
    """JoeyNMT's `search`, which has no cache: each step reads the whole prefix again."""

    def __init__(self, job: Job) -> None:
        self.model = build(job).eval()

    def decode(self, sentences: Sequence[Sequence[int]], beam_size: int) -> list[int]:
        output, _, _ = search(
            model=self.model,
            batch=joey_batch(padded(sentences), None),
            max_output_length=DECODED,
            min_output_length=DECODED,
            beam_size=beam_size,
            beam_alpha=1.0,
            n_best=1,
            return_prob="none",
            return_attention=False,
        )
        return [int((row != PAD).sum()) for row in np.asarray(output)]


if __name__ == "__main__":
    serve(Abilities(Trainer, Decoder))
