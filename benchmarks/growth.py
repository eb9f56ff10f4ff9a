"""How the cost of training and decoding grows with length, batch, beam and output.

    .venv/bin/python benchmarks/growth.py
    .venv/bin/python benchmarks/growth.py training --size base --rounds 3

Ids and weights are random; the steps and translations are those of the trainer and the engine. Each
round visits every point once, so that a slow moment of the machine affects all of them, and the
median of the rounds counts. A batch has a fixed cost, and beyond that its cost should be
proportional. So the exponent of the cost between the last two points, where the fixed cost matters
least, should be about 1. The exponent of the cost of a training token by sentence length is that of
attention alone: near 0 for short sentences, and 1 for very long ones.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from command import add_threads, exit_code_of, log, make_parser, positive
from results import Results, line

from clearhead.data.batches import Batch, collate
from clearhead.data.corpus import Corpus
from clearhead.data.preparation import TranslationData
from clearhead.decoding.engine import numbered
from clearhead.decoding.torch_engine import TorchEngine
from clearhead.device import set_up_torch
from clearhead.model.build import build_model
from clearhead.model.transformer import EncoderDecoder
from clearhead.ranks import ALONE, Ranks
from clearhead.settings import ModelConfig, RunConfig, SearchConfig, TrainingConfig
from clearhead.tasks.translation import TranslationTask
from clearhead.tokenizer import EOS, WordTokenizer
from clearhead.training.step import Updater, choose_precision

VOCABULARY = 10_000
SOURCE_LENGTH = 32  # tokens of a source that is translated
TOKENS = 2048  # target tokens of a training batch, for all lengths of sentences
TRAINING_LENGTH = 16  # tokens of a sentence in the curve of the training batch
OUTPUT_LENGTH = 32  # tokens of an output in the curves of beam and batch
SENTENCES = 16  # sentences that are decoded together in the curves of beam and output length
LENGTHS = (16, 32, 64, 128, 256, 512, 1024)
BEAMS = (1, 2, 4, 8, 16)
BATCHES = (1, 4, 16, 64, 256)
OUTPUT_LENGTHS = (8, 16, 32, 64, 128, 256)

LEAST_SECONDS = 0.2  # shorter work is repeated, because clocks and schedulers are coarse


class Work(NamedTuple):
    """A call to time, and the number of tokens or sentences that it processes."""

    call: Callable[[], object]
    units: int


@dataclass(frozen=True)
class Curve:
    """A cost as a function of one number.

    Attributes:
        key: of the claim, without the model's size.
        name: what is measured, and what the number n is.
        unit: the cost is per unit, e.g. "sentence"; "": per call.
        points: the values of n.
        work: the call to time for each n.
        milliseconds: for each n the cost in each round.
    """

    key: str
    name: str
    unit: str
    points: Sequence[int]
    work: Callable[[int], Work]
    milliseconds: dict[int, list[float]] = field(default_factory=dict)


class Training:
    """A model that is trained on random ids with the steps of the trainer."""

    def __init__(
        self,
        model: ModelConfig,
        precision: str,
        device: torch.device,
        ranks: Ranks = ALONE,
        parallel: str = "ddp",
    ) -> None:
        training = TrainingConfig(
            max_steps=100_000,
            precision=cast(Any, choose_precision(precision, device)),
            parallel=cast(Any, parallel),
        )
        words = WordTokenizer.learn(["word"])
        # The loss needs neither the corpus nor the validation data.
        data = TranslationData(words, words, cast(Corpus, None), (), ())
        self.device = device
        run = RunConfig(seed=1, model=model, training=training)
        self.task = TranslationTask(run, data)
        self.model = random_model(model).to(device).train()
        self.updater = Updater(self.task, self.model, run, training.max_steps, ranks)
        self.updater.connect()
        self.made = 0

    def step(self, *batches: Batch) -> None:
        """Make one update and wait for the device."""
        self.made += 1
        self.updater.step(self.made, batches)
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def work(self, sentences: int, length: int) -> Work:
        """A step on so many pairs with so many tokens per side, the end symbol included."""
        batch = random_batch(sentences, length)
        return Work(lambda: self.step(batch), batch.target_tokens)


class Decoding:
    """A model that translates random ids to outputs of a given length."""

    def __init__(self, model: ModelConfig, device: torch.device) -> None:
        self.engine = TorchEngine(random_model(model).to(device))

    def work(self, sentences: int, length: int, beam_size: int) -> Work:
        """The translation of so many sentences to so many tokens, in one batch."""
        sources = numbered(random_rows(sentences, SOURCE_LENGTH))
        search = SearchConfig(
            beam_size=beam_size, min_length=length, max_length=length, max_length_offset=length
        )
        # The outputs are on the CPU, so there is no need to wait for the device.
        return Work(lambda: self.engine.translate(sources, search, batch_size=sentences), sentences)


def random_model(config: ModelConfig) -> EncoderDecoder:
    """A newly initialised translator, always the same one."""
    torch.manual_seed(1)
    return build_model(config, VOCABULARY, VOCABULARY)


def random_rows(rows: int, length: int) -> list[list[int]]:
    """Rows of ids without special symbols, always the same ones."""
    chance = np.random.default_rng((rows, length))
    return chance.integers(EOS + 1, VOCABULARY, (rows, length)).tolist()


def random_batch(sentences: int, length: int) -> Batch:
    """A batch without padding with so many tokens per side; the target ends with EOS."""
    return collate(random_rows(sentences, length), random_rows(sentences, length - 1))


def main(words: list[str] | None = None) -> int:
    """Measure, print and record."""
    parser = make_parser(__doc__)
    choices = ("training", "beam", "batch", "length", "all")
    parser.add_argument("what", nargs="?", choices=choices, default="all", help="default: all")
    parser.add_argument("--size", choices=("tiny", "base"), default="tiny", help="default: tiny")
    parser.add_argument("--rounds", type=positive, default=5, help="visits of a point (default: 5)")
    parser.add_argument("--precision", choices=("float32", "bf16", "auto"), default="float32")
    parser.add_argument("--device", default="cpu", help="cpu, cuda or auto (default: cpu)")
    add_threads(parser)
    options = parser.parse_args(words)
    return exit_code_of(partial(grow, options, words))


def grow(options: argparse.Namespace, words: list[str] | None) -> None:
    """Measure the curves, print and record them."""
    device = set_up_torch(options.device, options.threads)
    curves = chosen_curves(options, ModelConfig.of_size(options.size), device)
    measure(curves, options.rounds)
    gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else ""
    results = Results("growth", words, options.output, gpu=gpu)
    # The claims are about float32 on a CPU.
    is_claimed = not gpu and choose_precision(options.precision, device) == "float32"
    for curve in curves:
        name = f"{options.size}: {curve.name}"
        unit = f"ms a {curve.unit or 'batch'}"
        print(f"\n{name}")
        costs = []
        for point, values in sorted(curve.milliseconds.items()):
            found = results.add(name, unit, values, subject=f"{point:,}", range="rounds")
            costs.append(found["median"])
            print(f"{point:>8,} {costs[-1]:>10.4g} {unit}")
        last = exponent(curve.points[-2:], costs[-2:])
        claim = f"growth-{options.size}-{curve.key}" if is_claimed else None
        found = results.add(name, "exponent", [last], claim=claim)
        print(line(found) if claim else f"exponent at the end: {last:.2f}")
    results.write()


def chosen_curves(
    options: argparse.Namespace, model: ModelConfig, device: torch.device
) -> list[Curve]:
    """The chosen curves; a model is only built if a curve needs it."""
    curves: list[Curve] = []
    if options.what in ("training", "all"):
        curves += training_curves(Training(model, options.precision, device))
    if options.what != "training":
        found = decoding_curves(Decoding(model, device))
        curves += [curve for curve in found if options.what in ("all", curve.key)]
    return curves


def training_curves(training: Training) -> list[Curve]:
    """The cost of a step by the length of sentences, and by their number."""
    return [
        Curve(
            "training-length",
            f"training, {TOKENS:,} target tokens a batch, n = tokens a sentence",
            "target token",
            LENGTHS,
            lambda n: training.work(TOKENS // n, n),
        ),
        Curve(
            "training-batch",
            f"training, sentences of {TRAINING_LENGTH} tokens, n = sentences a batch",
            "",
            BATCHES,
            lambda n: training.work(n, TRAINING_LENGTH),
        ),
    ]


def decoding_curves(decoding: Decoding) -> list[Curve]:
    """The cost of a translation by beam, batch and length of the output."""
    return [
        Curve(
            "beam",
            f"decoding {OUTPUT_LENGTH} tokens, {SENTENCES} sentences a batch,"
            " n = hypotheses in a beam",
            "sentence",
            BEAMS,
            lambda n: decoding.work(SENTENCES, OUTPUT_LENGTH, beam_size=n),
        ),
        Curve(
            "batch",
            f"decoding {OUTPUT_LENGTH} tokens, greedily, n = sentences a batch",
            "",
            BATCHES,
            lambda n: decoding.work(n, OUTPUT_LENGTH, beam_size=1),
        ),
        Curve(
            "length",
            f"decoding greedily, {SENTENCES} sentences a batch, n = tokens of the output",
            "sentence",
            OUTPUT_LENGTHS,
            lambda n: decoding.work(SENTENCES, n, beam_size=1),
        ),
    ]


def visits(curves: Sequence[Curve], rounds: int) -> Iterator[tuple[int, Curve, int]]:
    """Round, curve and point; every second round is in reverse order, and round 0 warms up."""
    points = [(curve, point) for curve in curves for point in curve.points]
    for number in range(rounds + 1):
        log(f"round {number} of {rounds}" if number else "warming up")
        for curve, point in points[:: -1 if number % 2 else 1]:
            yield number, curve, point


def measure(curves: Sequence[Curve], rounds: int) -> None:
    """Time every point in every round."""
    for number, curve, point in visits(curves, rounds):
        work = curve.work(point)
        seconds = seconds_of(work.call, LEAST_SECONDS if number else 0)
        if number:
            units = work.units if curve.unit else 1
            curve.milliseconds.setdefault(point, []).append(1000 * seconds / units)


def seconds_of(call: Callable[[], object], least: float) -> float:
    """The mean seconds of a call, which is repeated until `least` seconds have passed."""
    began, calls, seconds = time.perf_counter(), 0, 0.0
    while not calls or seconds < least:
        call()
        calls += 1
        seconds = time.perf_counter() - began
    return seconds / calls


def exponent(x: Sequence[float], costs: Sequence[float]) -> float:
    """The p of cost = c · x^p through two points."""
    return math.log(costs[1] / costs[0]) / math.log(x[1] / x[0])


if __name__ == "__main__":
    sys.exit(main())
