"""Reference system B: an encoder classifies the remarks of a hotel guest.

    .venv/bin/python examples/reference/b_classifier.py

The script generates labelled sentences, trains on 2,000, validates on 200 and classifies 400 unseen
ones. No single word separates praise from complaint: "the soup was not bad" is praise, "the soup
was bad" a complaint.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import clearhead
from clearhead import api
from clearhead.device import keep_freed_memory
from clearhead.settings import read_config
from clearhead.training.display import choose_display

TRAINED, VALIDATION, HELD_OUT = 2000, 200, 400
THINGS = "soup bread fish rice tea coffee cake salad room bed view music".split()
GOOD, BAD = "good fresh lovely fine great".split(), "bad stale awful cold poor".split()
DEGREES = ("", "very ", "really ", "so ")


def main(words: Sequence[str] | None = None) -> int:
    """Train and classify the unseen sentences; return 1 if fewer than half are right."""
    parser = argparse.ArgumentParser(description="Reference system B, from the repository's root.")
    parser.add_argument("--set", action="append", default=[], metavar="PATH=VALUE")
    config = read_config(Path(__file__).with_suffix(".toml"), parser.parse_args(words).set)
    seen = TRAINED + VALIDATION
    chosen = random.Random(1).sample(sorted(set(sentences())), seen + HELD_OUT)
    parts = chosen[:TRAINED], chosen[TRAINED:seen], chosen[seen:]
    data = config.data
    for file, part in zip((data.train[0], data.validation[0], data.test[0]), parts, strict=True):
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        lines = (f"{label}\t{text}\n" for text, label in part)
        Path(file).write_text("".join(lines), encoding="utf-8")
    if not clearhead.train(config, restart=True, observers=[choose_display(sys.stderr)]).finished:
        return 130  # interrupted
    classifier = api.load_classifier(config.folder, device=config.training.device)
    held_out = parts[-1]
    found = classifier.classify([text for text, _ in held_out])
    right = sum(str(best) == label for (best, *_), (_, label) in zip(found, held_out, strict=True))
    for (text, label), (best, *_) in zip(held_out[:8], found, strict=False):
        print(f"{text:<44} {best.label:<10} {best.probability:.2f}  ({label})")
    print(f"accuracy: {right} of {len(held_out)} unseen sentences, {100 * right / HELD_OUT:.1f} %")
    return int(right < len(held_out) / 2)


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


if __name__ == "__main__":
    keep_freed_memory()
    sys.exit(main())
