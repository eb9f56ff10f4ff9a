"""Lesson D: an encoder classifies sequences of feature vectors; pictures show its attention.

    .venv/bin/python examples/reference/d_features.py

You see that a Transformer needs no words: each frame of a sequence is projected to a vector. Each
generated sequence has five frames of eight random features. To one frame the pattern of one of four
events is added; the event is the label. The script trains on 1,000 sequences and classifies 200
unseen ones. Then it draws the attention of the model for one of these.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional as F

import clearhead
from clearhead import nn

# The data: noise, and in one frame the pattern of an event.

TRAINED, HELD_OUT = 1000, 200
FRAMES, FEATURES = 5, 8
EVENTS = ("rise", "fall", "jump", "rest")
PICTURES = ("encoder.2.self", "encoder-heads", "encoder.2")


def sequences(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Features (count, frames, features) and the number of the event of each sequence."""
    chance = torch.Generator().manual_seed(1)
    shapes = 2.5 * torch.randn(len(EVENTS), FEATURES, generator=chance)
    labels = torch.randint(len(EVENTS), (count,), generator=chance)
    x = torch.randn(count, FRAMES, FEATURES, generator=chance)
    x[torch.arange(count), torch.randint(FRAMES, (count,), generator=chance)] += shapes[labels]
    return x, labels


def make_model(**others: Any) -> nn.TransformerClassifier:
    """The model of the lesson: no positions, post-norm, dropout at the end of each layer."""
    return nn.TransformerClassifier(
        FEATURES,
        len(EVENTS),
        **{
            "features": True,
            "d_model": 32,
            "heads": 4,
            "layers": 2,
            "norm": "post",
            "positions": {"kind": "none"},
            "pooling": "mean",
            "dropout": {"layer_output": 0.1},
            "head_dropout": 0.1,
            "initialisation": "pytorch",
            **others,
        },
    )


def main(folder: str | Path = "runs/reference-d", epochs: int = 30, **others: Any) -> int:
    """Train, classify the unseen sequences, draw; return 1 if fewer than half are right."""
    torch.manual_seed(1)
    model = make_model(**others)
    x, labels = sequences(TRAINED + HELD_OUT)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(1, epochs + 1):
        for rows in torch.randperm(TRAINED).split(50):
            loss = F.cross_entropy(model(x[rows]), labels[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if epoch % 10 == 0:
            print(f"epoch {epoch:2}: loss {loss.item():.4f}")

    # The output: the events of unseen sequences, and what the model attends to in one of them.
    model.eval()
    with torch.no_grad():
        found = model(x[TRAINED:]).argmax(dim=-1)
    right = int((found == labels[TRAINED:]).sum())
    print(f"accuracy: {right} of {HELD_OUT} unseen sequences, {100 * right / HELD_OUT:.1f} %")
    for path in clearhead.figures(
        model, x[TRAINED], folder=Path(folder) / "figures", only=PICTURES
    ):
        print(path)
    return int(right < HELD_OUT / 2)


if __name__ == "__main__":
    sys.exit(main())
