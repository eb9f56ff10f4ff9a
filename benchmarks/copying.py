"""System E's smoke test, and its natural next step: learn to copy, learn to reverse.

    .venv/bin/python benchmarks/copying.py

Ten untrained models read 1 2 … 10 and add nine symbols each, whatever they be. Then one model is
trained on copying and one on reversing random sequences, and each is tried on a thousand
sequences that it has not seen.
"""

from __future__ import annotations

import argparse
import random
import time
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from clearhead import api
from clearhead.config import (
    DataConfig,
    DropoutConfig,
    ModelConfig,
    RunConfig,
    ScheduleConfig,
    SearchConfig,
    TokenizerConfig,
    TrainingConfig,
)
from clearhead.model.build import build_model

SYSTEM_E = ModelConfig(
    encoder_layers=2,
    decoder_layers=2,
    norm="pre",
    norm_form="std_plus_epsilon",
    norm_epsilon=1e-6,
    output_bias=True,
    share_embeddings="none",
    initialisation="xavier",
)
SYMBOLS = [str(number) for number in range(1, 11)]
TASKS = {"copying": lambda words: words, "reversing": lambda words: words[::-1]}


def main() -> None:
    """Print what untrained models say, then how many unseen sequences trained ones get right."""
    parser = argparse.ArgumentParser(description="Untrained models talk; trained ones copy.")
    parser.add_argument("--pairs", type=int, default=20_000, help="training pairs a task")
    parser.add_argument("--steps", type=int, default=1500, help="training steps a task")
    options = parser.parse_args()
    for number in range(10):
        print(f"untrained model {number}:", *untrained(seed=number))
    for name in TASKS:
        began = time.monotonic()
        right, of = trained(name, options.pairs, options.steps)
        print(f"{name}: {right} of {of} unseen sequences right, {time.monotonic() - began:.0f} s")


def untrained(seed: int) -> list[int]:
    """What a new model of 11 symbols adds, greedily, to the start symbol 0 after reading 1 … 10."""
    torch.manual_seed(seed)
    model = build_model(SYSTEM_E, 11, 11).eval()
    written = [0]
    with torch.inference_mode():
        cache = model.start(torch.arange(1, 11)[None])
        for _ in range(9):
            hidden = model.step(torch.tensor(written[-1:]), cache)
            written.append(int(model.output(hidden).argmax()))
    return written


def trained(task: str, pairs: int, steps: int) -> tuple[int, int]:
    """How many of a thousand unseen sequences a newly trained model gets right."""
    sequences = distinct_sequences(pairs + 1100)
    parts = {
        "train": sequences[:pairs],
        "validation": sequences[pairs : pairs + 100],
        "test": sequences[pairs + 100 :],
    }
    with TemporaryDirectory() as name:
        folder = Path(name)
        for part, words in parts.items():
            lines = (f"{' '.join(w)}\t{' '.join(TASKS[task](w))}\n" for w in words)
            (folder / f"{part}.tsv").write_text("".join(lines), encoding="utf-8")
        api.train(run_config(folder, steps))
        translator = api.load(folder / "model")
        found = translator.translate([" ".join(words) for words in parts["test"]])
    expected = [" ".join(TASKS[task](words)) for words in parts["test"]]
    return sum(h[0].text == e for h, e in zip(found, expected, strict=True)), len(expected)


def distinct_sequences(count: int) -> list[list[str]]:
    """Different random sequences of 4 to 12 symbols, always the same ones."""
    chance = random.Random(1)
    seen: dict[tuple[str, ...], None] = {}
    while len(seen) < count:
        seen[tuple(chance.choices(SYMBOLS, k=chance.randint(4, 12)))] = None
    sequences = [list(words) for words in seen]
    chance.shuffle(sequences)
    return sequences


def run_config(folder: Path, steps: int) -> RunConfig:
    """A small system E on the pairs in a folder."""
    return RunConfig(
        folder=str(folder / "model"),
        data=DataConfig(
            train=(str(folder / "train.tsv"),), validation=(str(folder / "validation.tsv"),)
        ),
        tokenizer=TokenizerConfig(kind="words", max_vocabulary=0),
        model=replace(
            SYSTEM_E, d_model=64, d_ff=256, n_heads=4, dropout=DropoutConfig.everywhere(0.1)
        ),
        training=TrainingConfig(
            batch_tokens=2048,
            max_steps=steps,
            validate_every=steps,
            label_smoothing=0.0,
            schedule=ScheduleConfig(kind="linear", peak=2e-3, warmup=200),
        ),
        search=SearchConfig(beam_size=1),
    )


if __name__ == "__main__":
    main()
