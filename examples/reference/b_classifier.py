"""Lesson B: an encoder classifies the remarks of a hotel guest.

    .venv/bin/python examples/reference/b_classifier.py

You see how an encoder becomes a classifier: the mean of its vectors is projected to labels. No
single word separates praise from complaint: "the soup was not bad" is praise, "the soup was bad" a
complaint. The script trains on 2,000 generated sentences and classifies 400 unseen ones.
"""

from __future__ import annotations

import itertools
import random
import sys
from collections.abc import Iterator

import torch
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from clearhead import nn

# --- The data: labelled sentences from a small grammar, and a vocabulary.

TRAINED, HELD_OUT = 2000, 400
THINGS = "soup bread fish rice tea coffee cake salad room bed view music".split()
GOOD, BAD = "good fresh lovely fine great".split(), "bad stale awful cold poor".split()
DEGREES = ("", "very ", "really ", "so ")
LABELS = ("complaint", "order", "praise", "question")


def sentences() -> Iterator[tuple[str, str]]:
    """All sentences with their labels."""
    for thing, degree, (qualities, praises) in itertools.product(
        THINGS, DEGREES, ((GOOD, True), (BAD, False))
    ):
        for quality, verb in itertools.product(qualities, ("is", "was")):
            phrase = f"{degree}{quality}"
            yield f"the {thing} {verb} {phrase}", "praise" if praises else "complaint"
            yield f"the {thing} {verb} not {phrase}", "complaint" if praises else "praise"
            yield f"{verb} the {thing} {phrase} ?", "question"
            yield f"bring me a {thing} that {verb} {phrase}", "order"


CHOSEN = random.Random(1).sample(sorted(sentences()), TRAINED + HELD_OUT)
TRAINING, TEST = CHOSEN[:TRAINED], CHOSEN[TRAINED:]
WORDS = ["<pad>", *sorted({word for text, _ in TRAINING for word in text.split()}), "<unk>"]
IDS = {word: number for number, word in enumerate(WORDS)}


def encode(texts: list[str]) -> torch.Tensor:
    """The ids of texts (texts, longest), with padding at their ends."""
    rows = [[IDS.get(word, IDS["<unk>"]) for word in text.split()] for text in texts]
    return pad_sequence([torch.tensor(row) for row in rows], batch_first=True)


# --- The model: dropout on the embeddings and on the output of each sub-layer.


def make_model(layers: int = 2, d_model: int = 64, d_ff: int = 128) -> nn.TransformerClassifier:
    """An untrained model."""
    return nn.TransformerClassifier(
        len(WORDS),
        LABELS,
        layers=layers,
        d_model=d_model,
        d_ff=d_ff,
        heads=4,
        norm="post",
        norm_epsilon=1e-6,
        dropout={"embeddings": 0.1, "residual": 0.1},
        head_dropout=0.1,
        pooling="mean",
    )


# --- The loop: each epoch reads the sentences in another order, 50 in a batch.


def train(model: nn.TransformerClassifier, epochs: int = 10, rate: float = 2e-3) -> None:
    """Train the model; the learning rate rises to its peak and falls again."""
    ids = encode([text for text, _ in TRAINING])
    labels = torch.tensor([LABELS.index(label) for _, label in TRAINING])
    steps = epochs * TRAINED // 50
    optimizer = torch.optim.Adam(model.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=rate, total_steps=steps)
    for epoch in range(1, epochs + 1):
        total = 0.0
        for rows in torch.randperm(TRAINED).split(50):
            loss = F.cross_entropy(model(ids[rows]), labels[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item() * len(rows)
        print(f"epoch {epoch:2}: loss {total / TRAINED:.4f}")


# --- The output: the most probable label of sentences that the model has not seen.


def show(model: nn.TransformerClassifier) -> int:
    """Print eight sentences with their labels, and the accuracy; return the number of errors."""
    model.eval()  # without dropout
    with torch.no_grad():
        probabilities = model(encode([text for text, _ in TEST])).softmax(dim=-1)
    found = [LABELS[number] for number in probabilities.argmax(dim=-1).tolist()]
    for (text, label), best, row in list(zip(TEST, found, probabilities, strict=True))[:8]:
        print(f"{text:<44} {best:<10} {row.max():.2f}  ({label})")
    right = sum(best == label for best, (_, label) in zip(found, TEST, strict=True))
    print(f"accuracy: {right} of {HELD_OUT} unseen sentences, {100 * right / HELD_OUT:.1f} %")
    return HELD_OUT - right


if __name__ == "__main__":
    torch.manual_seed(1)
    model = make_model()
    train(model)
    sys.exit(show(model) > HELD_OUT / 2)
