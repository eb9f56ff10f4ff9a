"""Lesson D: an encoder classifies sequences of feature vectors; pictures show its attention.

    .venv/bin/python examples/reference/d_features.py

You see that a Transformer needs no words: a linear layer makes a vector of each frame of a
sequence. A generated sequence has five frames of eight random features. In one frame something
happens: the pattern of one of four events is added. The event is the label. The script trains on
1,000 sequences and classifies 200 unseen ones. Its pictures show for one of these how the model
finds the frame: its number is printed.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch.nn import functional as F

import clearhead
from clearhead import nn

# --- The data: noise, and in one frame the pattern of an event.

TRAINED, HELD_OUT = 1000, 200
FRAMES, FEATURES = 5, 8
EVENTS = ("rise", "fall", "jump", "rest")


def sequences(count: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Features (count, frames, features), the event of each sequence, and its frame, from 0."""
    chance = torch.Generator().manual_seed(1)
    patterns = 2.5 * torch.randn(len(EVENTS), FEATURES, generator=chance)
    x = torch.randn(count, FRAMES, FEATURES, generator=chance)
    events = torch.randint(len(EVENTS), (count,), generator=chance)
    frames = torch.randint(FRAMES, (count,), generator=chance)
    x[torch.arange(count), frames] += patterns[events]
    return x, events, frames


X, LABELS, PLACES = sequences(TRAINED + HELD_OUT)

# --- The model: no positions, so the order of the frames means nothing.


def make_model(layers: int = 2, d_model: int = 32) -> nn.TransformerClassifier:
    """An untrained model; d_ff is four times its width."""
    return nn.TransformerClassifier(
        FEATURES,
        EVENTS,
        features=True,
        layers=layers,
        d_model=d_model,
        heads=4,
        norm="post",
        positions={"kind": "none"},
        dropout={"layer_output": 0.1},
        head_dropout=0.1,
        pooling="mean",
        initialisation="pytorch",
    )


# --- The loop: each epoch reads the sequences in another order, 50 in a batch.


def train(model: nn.TransformerClassifier, epochs: int = 30, rate: float = 1e-3) -> None:
    """Train the model."""
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    for epoch in range(1, epochs + 1):
        total = 0.0
        for rows in torch.randperm(TRAINED).split(50):
            loss = F.cross_entropy(model(X[rows]), LABELS[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(rows)
        if epoch % 10 == 0:
            print(f"epoch {epoch:2}: loss {total / TRAINED:.4f}")


# --- The output: the events of unseen sequences, and pictures of the first of them.


def show(model: nn.TransformerClassifier, folder: str | Path = "runs/reference-d") -> int:
    """Print the accuracy and the files of the pictures; return the number of errors."""
    model.eval()  # without dropout
    with torch.no_grad():
        found = model(X[TRAINED:]).argmax(dim=-1)
    right = int((found == LABELS[TRAINED:]).sum())
    print(f"accuracy: {right} of {HELD_OUT} unseen sequences, {100 * right / HELD_OUT:.1f} %")
    event, frame = EVENTS[LABELS[TRAINED]], PLACES[TRAINED] + 1
    print(f"pictures of the first of them, in which the event '{event}' is in frame {frame}:")
    # All heads; the mean of the heads of a layer; the steps inside each layer, from its input on.
    names = ["encoder-heads"]
    for layer in range(1, len(model.encoder.layers) + 1):
        names += [f"encoder.{layer}.self", f"encoder.{layer}"]
    for path in clearhead.figures(
        model, X[TRAINED], folder=Path(folder) / "figures", only=names, formats=("png", "svg")
    ):
        print(path)
    return HELD_OUT - right


if __name__ == "__main__":
    torch.manual_seed(1)
    model = make_model()
    train(model)
    sys.exit(show(model) > HELD_OUT / 2)
