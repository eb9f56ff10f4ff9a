"""Reference system A: six English-Spanish pairs, learned by heart and translated by beam search.

    .venv/bin/python examples/reference/a_shared_embeddings.py

The script prints the loss of every tenth epoch, then eight translations with their
log-probabilities: of the six training sentences, which must be exact, and of two unseen ones.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import clearhead
from clearhead import api
from clearhead.data.reading.pairs import read_pairs
from clearhead.device import keep_freed_memory
from clearhead.settings import read_config
from clearhead.training.events import Event, Progress

UNSEEN = ("i love cat", "this is a cat")


class EveryTenthEpoch:
    """Prints the loss of epochs 10, 20, …; an epoch is one step here."""

    def observe(self, event: Event) -> None:
        if isinstance(event, Progress) and event.step % 10 == 0:
            print(f"epoch {event.step:3}: loss {event.loss:.6f}")

    def close(self) -> None:
        """There is nothing to close."""


def main(words: Sequence[str] | None = None) -> int:
    """Train and translate; return 1 if a training sentence is translated wrongly."""
    parser = argparse.ArgumentParser(description="Reference system A, from the repository's root.")
    parser.add_argument("--set", action="append", default=[], metavar="PATH=VALUE")
    overrides = parser.parse_args(words).set
    config = read_config(Path(__file__).with_suffix(".toml"), overrides)
    if not clearhead.train(config, restart=True, observers=[EveryTenthEpoch()]).finished:
        return 130  # interrupted
    translator = api.load_translator(config.folder, device=config.training.device)
    known = {pair.source: pair.target for pair in read_pairs(config.data.train)}
    wrong = 0
    sentences = [*known, *UNSEEN]
    for sentence, (best, *_) in zip(sentences, translator.translate(sentences), strict=True):
        expected = known.get(sentence, best.text)
        mark = "unseen" if sentence in UNSEEN else "right" if best.text == expected else "WRONG"
        wrong += best.text != expected
        print(f"{sentence:<18} = {best.text:<18} {best.score:9.4f}  ({mark})")
    return int(wrong > 0)


if __name__ == "__main__":
    keep_freed_memory()
    sys.exit(main())
