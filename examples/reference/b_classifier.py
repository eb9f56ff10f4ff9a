"""Lesson B: an encoder classifies the remarks of a hotel guest.

    .venv/bin/python examples/reference/b_classifier.py

You see how an encoder becomes a classifier: its vectors are averaged and projected to labels. The
script generates labelled sentences, trains on 2,000 and classifies 400 unseen ones. No single word
separates praise from complaint: "the soup was not bad" is praise, "the soup was bad" a complaint.
"""

from __future__ import annotations

import itertools
import random
import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from clearhead import nn

# The data: sentences from a small grammar.

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


CHOSEN = random.Random(1).sample(sorted(set(sentences())), TRAINED + HELD_OUT)
TRAINING, TEST = CHOSEN[:TRAINED], CHOSEN[TRAINED:]
WORDS = ["<pad>", *sorted({word for text, _ in CHOSEN for word in text.split()})]
IDS = {word: number for number, word in enumerate(WORDS)}


def padded(texts: list[str]) -> torch.Tensor:
    """The ids of texts (texts, longest), with padding at their ends."""
    rows = [torch.tensor([IDS[word] for word in text.split()]) for text in texts]
    return pad_sequence(rows, batch_first=True)


def make_model(**others: Any) -> nn.TransformerClassifier:
    """The model of the lesson: post-norm, dropout on the embeddings and in each residual."""
    return nn.TransformerClassifier(
        len(WORDS),
        len(LABELS),
        **{
            "d_model": 64,
            "heads": 4,
            "layers": 2,
            "d_ff": 128,
            "norm": "post",
            "norm_epsilon": 1e-6,
            "pooling": "mean",
            "dropout": {"embeddings": 0.1, "residual": 0.1},
            "head_dropout": 0.1,
            **others,
        },
    )


def main(epochs: int = 10, rate: float = 2e-3, **others: Any) -> int:
    """Train and classify the unseen sentences; return 1 if fewer than half are right."""
    torch.manual_seed(1)
    model, chance = make_model(**others), random.Random(1)
    steps = epochs * (TRAINED // 50)
    optimizer = torch.optim.Adam(model.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=rate, total_steps=steps)
    for epoch in range(1, epochs + 1):
        total = 0.0
        examples = chance.sample(TRAINING, TRAINED)
        for first in range(0, TRAINED, 50):
            texts, labels = zip(*examples[first : first + 50], strict=True)
            wanted = torch.tensor([LABELS.index(label) for label in labels])
            loss = F.cross_entropy(model(padded([*texts])), wanted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item()
        print(f"epoch {epoch:2}: loss {total / (TRAINED // 50):.4f}")

    # The output: what the model gives for sentences that it has not seen.
    model.eval()
    with torch.no_grad():
        probabilities = model(padded([text for text, _ in TEST])).softmax(dim=-1)
    best = [LABELS[number] for number in probabilities.argmax(dim=-1).tolist()]
    right = sum(found == label for found, (_, label) in zip(best, TEST, strict=True))
    for (text, label), found, row in list(zip(TEST, best, probabilities, strict=True))[:8]:
        print(f"{text:<44} {found:<10} {row.max():.2f}  ({label})")
    share = 100 * right / len(TEST)
    print(f"accuracy: {right} of {len(TEST)} unseen sentences, {share:.1f} %")
    return int(right < len(TEST) / 2)


if __name__ == "__main__":
    sys.exit(main())
