"""Reference system E: ten untrained models generate nine symbols each; then one learns to copy.

    .venv/bin/python examples/reference/e_copying.py

The untrained models read 1 2 … 10 and generate from the start symbol 0. The trained model is
narrower, which is enough, and is tested on a thousand unseen sequences.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import clearhead
from clearhead import api
from clearhead.data.reading.pairs import read_pairs
from clearhead.device import keep_freed_memory, short_waits
from clearhead.settings import ModelConfig, RunConfig, read_config
from clearhead.training.display import choose_display

with short_waits():
    import torch

CONFIG = Path(__file__).with_suffix(".toml")
NARROWER = ("model.d_model=64", "model.d_ff=256", "model.n_heads=4")


def main(words: Sequence[str] | None = None) -> int:
    """Run the untrained models and train one; return 1 if it makes a mistake."""
    parser = argparse.ArgumentParser(description="Reference system E, from the repository's root.")
    parser.add_argument("--set", action="append", default=[], metavar="PATH=VALUE")
    parser.add_argument("--pairs", type=int, default=20_000, help="training pairs")
    options = parser.parse_args(words)
    for number in range(10):
        model = read_config(CONFIG, options.set).model
        print(f"untrained model {number}:", *untrained(model, seed=number))
    right, of = learned(read_config(CONFIG, [*NARROWER, *options.set]), options.pairs)
    print(f"copying: {right} of {of} unseen sequences right")
    return int(right < of)


def untrained(config: ModelConfig, seed: int) -> list[int]:
    """The start symbol 0 and what a new model of 11 symbols adds greedily, for the input 1 … 10."""
    torch.manual_seed(seed)
    model = clearhead.build_model(config, 11, 11).eval()
    written = [0]
    with torch.inference_mode():
        memory, mask = model.encode(torch.arange(1, 11)[None])
        for _ in range(9):
            hidden = model.decode(torch.tensor([written]), memory, mask)
            written.append(int(model.output(hidden[0, -1]).argmax()))
    return written


def learned(config: RunConfig, pairs: int, answer: Callable[[str], str] = str) -> tuple[int, int]:
    """Train a model; return for how many of the unseen sequences it is right, and their number."""
    sequences = distinct_sequences(pairs + 1100)
    parts = sequences[:pairs], sequences[pairs : pairs + 100], sequences[pairs + 100 :]
    data = config.data
    for file, part in zip((data.train[0], data.validation[0], data.test[0]), parts, strict=True):
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        lines = (f"{sequence}\t{answer(sequence)}\n" for sequence in part)
        Path(file).write_text("".join(lines), encoding="utf-8")
    if not clearhead.train(config, restart=True, observers=[choose_display(sys.stderr)]).finished:
        sys.exit(130)  # interrupted
    test = list(read_pairs(data.test, "test"))
    translator = api.load_translator(config.folder, device=config.training.device)
    found = translator.translate([pair.source for pair in test])
    right = sum(best.text == pair.target for pair, (best, *_) in zip(test, found, strict=True))
    return right, len(test)


def distinct_sequences(count: int) -> list[str]:
    """Different random sequences of 4 to 12 symbols, always the same ones."""
    chance = random.Random(1)
    seen: dict[str, None] = {}
    while len(seen) < count:
        symbols = chance.choices(range(1, 11), k=chance.randint(4, 12))
        seen[" ".join(map(str, symbols))] = None
    sequences = list(seen)
    chance.shuffle(sequences)
    return sequences


if __name__ == "__main__":
    keep_freed_memory()
    sys.exit(main())
