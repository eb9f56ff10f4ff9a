"""Lesson C: two German-English pairs, a vocabulary for each side, and the attention of the heads.

    .venv/bin/python examples/reference/c_separate_vocabularies.py

You see what each head attends to while it translates. The script prints the loss of every step.
Then it prints for each pair the source words, the words predicted greedily (which must be the
target), the shapes of the three lists of attention weights, and, for each head of the last layer,
the word that each position attends to most. Many weights are near an equal share: two sentences can
be learned by heart without an alignment of their words.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np
import torch
from torch.nn import functional as F

import clearhead
from clearhead import nn

# --- The data: two pairs, and a vocabulary for each language.

PAIRS = {
    "ich mochte ein bier": "i want a beer .",
    "ich mochte ein cola": "i want a coke .",
}
START, END = 1, 2


class Words:
    """The words of one language; `P` is padding, `S` starts and `E` ends a sentence."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.names = ["P", "S", "E", *sorted(set(" ".join(texts).split()))]

    def encode(self, text: str) -> list[int]:
        """The ids of the words of a text."""
        return [self.names.index(word) for word in text.split()]

    def decode(self, ids: Sequence[int]) -> str:
        """The words of ids."""
        return " ".join(self.names[number] for number in ids)


GERMAN, ENGLISH = Words([*PAIRS]), Words([*PAIRS.values()])
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"

# --- The model: no biases; three separate matrices; heads whose width is chosen freely.


def make_model(layers: int = 6, d_model: int = 512) -> nn.Transformer:
    """An untrained model; d_ff is four times its width."""
    return nn.Transformer(
        len(GERMAN.names),
        len(ENGLISH.names),
        layers=layers,
        d_model=d_model,
        heads=8,
        d_k=64,
        d_v=64,
        norm="post",
        attention_bias=False,
        feed_forward_bias=False,
        share_embeddings="none",
        scale_embeddings=False,
        dropout={"embeddings": 0.1},
        initialisation="pytorch",
    ).to(DEVICE)


# --- The loop: both pairs are one batch, in random order.


def train(model: nn.Transformer, epochs: int = 30, rate: float = 1e-3) -> None:
    """Train the model on the two pairs."""
    source = torch.tensor([GERMAN.encode(text) for text in PAIRS], device=DEVICE)
    rows = [[START, *ENGLISH.encode(text), END] for text in PAIRS.values()]
    target = torch.tensor(rows, device=DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.99)
    for step in range(1, epochs + 1):
        order = torch.randperm(len(PAIRS))
        logits = model(source[order], target[order, :-1])  # (pairs, length, words)
        loss = F.cross_entropy(logits.transpose(1, 2), target[order, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step:2}: loss {loss.item():.6f}")


# --- The output: the translations, and where each head looks.


def show(model: nn.Transformer) -> int:
    """Print translations and attention weights; return how many translations are wrong."""
    wrong = 0
    for text, expected in PAIRS.items():
        (ids,) = model.generate([GERMAN.encode(text)])
        found = ENGLISH.decode(ids)
        wrong += found != expected
        mark = "right" if found == expected else "WRONG"
        print(f"\n{text.split()} -> {found.split()}  ({mark})")
        seen = clearhead.record(model, text, found, tokenizer=(GERMAN, ENGLISH))
        # A row of the decoder is named by the word that it reads and the one that it predicts.
        look("encoder self-attention", seen.encoder_attentions, seen.source, seen.source)
        look("decoder self-attention", seen.decoder_attentions, seen.rows, seen.target)
        look("decoder-encoder attention", seen.cross_attentions, seen.rows, seen.source)
    return wrong


def look(name: str, weights: np.ndarray, rows: Sequence[str], keys: Sequence[str]) -> None:
    """Print the shape of one list, and what each row attends to most in the last layer."""
    print(f"{name}: {len(weights)} layers, each {weights[0].shape} (heads, queries, keys)")
    for number, head in enumerate(weights[-1], start=1):
        most = zip(rows, head.argmax(axis=-1), head.max(axis=-1), strict=True)
        print(f"  head {number}:", ", ".join(f"{row}: {keys[k]} {w:.2f}" for row, k, w in most))


if __name__ == "__main__":
    torch.manual_seed(1)
    model = make_model()
    train(model)
    sys.exit(show(model) > 0)
