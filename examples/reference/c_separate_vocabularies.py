"""Lesson C: two German-English pairs, a vocabulary for each side, and the attention of the heads.

    .venv/bin/python examples/reference/c_separate_vocabularies.py

You see what each head attends to while it translates. The script prints the loss of every step.
Then it prints for each pair the source words, the words predicted greedily (which must be the
target), the shapes of the three lists of attention weights, and, for each head of the last layer,
the position that each position attends to most. A search ends at the end symbol or at the length
limit, and the norms are trained.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

import clearhead
from clearhead import nn

# The data: two pairs, and a vocabulary for each language.

PAIRS = {
    "ich mochte ein bier": "i want a beer .",
    "ich mochte ein cola": "i want a coke .",
}


class Words:
    """The words of one language, with ids; `P` is padding, `S` starts and `E` ends a sentence."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.names = ["P", "S", "E", *sorted(set(" ".join(texts).split()))]

    def encode(self, text: str) -> list[int]:
        """The ids of the words of a text."""
        return [self.names.index(word) for word in text.split()]

    def decode(self, ids: Sequence[int]) -> str:
        """The words of ids."""
        return " ".join(self.names[number] for number in ids)


SOURCE, TARGET = Words([*PAIRS]), Words([*PAIRS.values()])


def make_model(**others: Any) -> nn.Transformer:
    """The model of the lesson: post-norm, no biases, separate embeddings that are not scaled."""
    return nn.Transformer(
        len(SOURCE.names),
        len(TARGET.names),
        **{
            "size": "base",  # 6 + 6 layers, d_model 512, d_ff 2048, 8 heads
            "d_k": 64,  # the width of a head, independent of d_model
            "d_v": 64,
            "norm": "post",
            "attention_bias": False,
            "feed_forward_bias": False,
            "share_embeddings": "none",
            "scale_embeddings": False,
            "dropout": {"embeddings": 0.1},
            "initialisation": "pytorch",
            **others,
        },
    )


def main(epochs: int = 30, rate: float = 1e-3, **others: Any) -> int:
    """Train, translate, print attention weights; return 1 if a translation is wrong."""
    torch.manual_seed(1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = make_model(**others).to(device)
    source = torch.tensor([SOURCE.encode(text) for text in PAIRS], device=device)
    target = torch.tensor([[1, *TARGET.encode(text), 2] for text in PAIRS.values()], device=device)

    # The loop: both pairs in each step, in random order.
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.99)
    for step in range(1, epochs + 1):
        order = torch.randperm(len(source), device=device)
        logits = model(source[order], target[order, :-1])  # (pairs, target, words)
        loss = F.cross_entropy(logits.transpose(1, 2), target[order, 1:], ignore_index=0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step:2}: loss {loss.item():.6f}")

    # The output: the translations, and where each head looked.
    model.eval()
    wrong = 0
    for text, expected in PAIRS.items():
        (ids,) = model.generate([SOURCE.encode(text)])
        found = TARGET.decode(ids)
        wrong += found != expected
        mark = "right" if found == expected else "WRONG"
        print(f"\n{text.split()} -> {found.split()}  ({mark})")
        seen = clearhead.record(model, text, ids, tokenizer=(SOURCE, TARGET))
        show("encoder self-attention", seen.encoder_attentions, seen.source, seen.source)
        show("decoder self-attention", seen.decoder_attentions, seen.rows, seen.target)
        show("decoder-encoder attention", seen.cross_attentions, seen.rows, seen.source)
    return int(wrong > 0)


def show(name: str, weights: np.ndarray, rows: Sequence[str], keys: Sequence[str]) -> None:
    """Print one list: its shape, and what each row attends to most in the last layer."""
    print(f"{name}: {len(weights)} layers, each {weights[0].shape} (heads, queries, keys)")
    for number, head in enumerate(weights[-1], start=1):
        most = zip(rows, head.argmax(axis=-1), head.max(axis=-1), strict=True)
        print(f"  head {number}:", *(f"[{row}] {keys[k]} {w:.2f} " for row, k, w in most))


if __name__ == "__main__":
    sys.exit(main())
