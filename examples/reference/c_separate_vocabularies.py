"""Reference system C: two German-English pairs, two vocabularies, and the attention of the heads.

    .venv/bin/python examples/reference/c_separate_vocabularies.py

The script prints the loss of every step. Then it prints for each pair the source words, the words
predicted greedily (which must be the target), the shapes of the three lists of attention weights,
and, for each head of the last layer, the position that each position attends to most. Unlike in the
system, a search ends at the end symbol or the length limit, not at `.`, and the norms are trained.
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
from clearhead.inspect.record import Array, Record
from clearhead.settings import read_config
from clearhead.training.events import Event, Progress


class EveryStep:
    """Prints the loss of every step."""

    def observe(self, event: Event) -> None:
        if isinstance(event, Progress):
            print(f"step {event.step:2}: loss {event.loss:.6f}")

    def close(self) -> None:
        """There is nothing to close."""


def main(words: Sequence[str] | None = None) -> int:
    """Train, translate, print attention weights; return 1 if a translation is wrong."""
    parser = argparse.ArgumentParser(description="Reference system C, from the repository's root.")
    parser.add_argument("--set", action="append", default=[], metavar="PATH=VALUE")
    overrides = parser.parse_args(words).set
    config = read_config(Path(__file__).with_suffix(".toml"), overrides)
    if not clearhead.train(config, restart=True, observers=[EveryStep()]).finished:
        return 130  # interrupted
    translator = api.load_translator(config.folder, device=config.training.device)
    wrong = 0
    for pair in read_pairs(config.data.train):
        best = translator.translate([pair.source])[0][0]
        wrong += best.text != pair.target
        mark = "right" if best.text == pair.target else "WRONG"
        print(f"\n{pair.source.split()} -> {best.text.split()}  ({mark})")
        show_attentions(clearhead.record(translator, pair.source, best))
    return int(wrong > 0)


def show_attentions(seen: Record) -> None:
    """Print the three lists of attention weights of all layers."""
    show("encoder self-attention", seen.encoder_attentions, seen.source, seen.source)
    show("decoder self-attention", seen.decoder_attentions, seen.target, seen.target)
    show("decoder-encoder attention", seen.cross_attentions, seen.target, seen.source)


def show(name: str, weights: Array, queries: Sequence[str], keys: Sequence[str]) -> None:
    """Print one list: its shape, and what each query attends to most in the last layer."""
    print(f"{name}: {len(weights)} layers, each {weights[0].shape} (heads, queries, keys)")
    for number, head in enumerate(weights[-1], start=1):
        most = zip(queries, head.argmax(axis=-1), head.max(axis=-1), strict=True)
        print(f"  head {number}:", *(f"{query}→{keys[k]} {w:.2f} " for query, k, w in most))


if __name__ == "__main__":
    keep_freed_memory()
    sys.exit(main())
