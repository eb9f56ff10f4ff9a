"""How the cost of training and of decoding grows: with length, batch, beam and output.

    .venv/bin/python benchmarks/growth.py
    .venv/bin/python benchmarks/growth.py training --size base --rounds 3

Ids and weights are random, but a step is the trainer's own and a translation the engine's own.
Each round visits every point once, so that a slow moment of the machine affects all of them; the
median of the rounds counts. Two laws are fitted to each curve: cost = c · n^p and cost = a + b · n.
In theory the second holds: a batch has a fixed cost, and beyond that its cost is proportional. So
the exponent p between the last two points, where the fixed cost matters least, should be about 1.
The cost of a training token by the length of its sentence grows by attention alone: its exponent
is near 0 for short sentences and tends to 1.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from command import exit_code_of, log, make_parser, positive, whole
from results import Results, line

from clearhead.data.batches import Batch, collate
from clearhead.data.corpus import Corpus
from clearhead.data.preparation import TranslationData
from clearhead.decoding.device import set_up_torch
from clearhead.decoding.torch_engine import TorchEngine
from clearhead.model.build import build_model
from clearhead.model.transformer import EncoderDecoder
from clearhead.settings import ModelConfig, RunConfig, SearchConfig, TrainingConfig
from clearhead.tasks.translation import TranslationTask
from clearhead.tokenizer import EOS, WordTokenizer
from clearhead.training.step import Updater, choose_precision

VOCABULARY = 10_000
SOURCE_LENGTH = 32
"""Tokens of a source that is translated."""

TOKENS = 2048
"""Target tokens of a training batch, whatever the length of its sentences."""

TRAINING_LENGTH = 16
"""Tokens of a sentence where the batch grows."""

OUTPUT_LENGTH = 32
"""Tokens of an output where beam or batch grows."""

SENTENCES = 16
"""Sentences decoded together where beam or length grows."""

LENGTHS = (16, 32, 64, 128, 256, 512, 1024)
BEAMS = (1, 2, 4, 8, 16)
BATCHES = (1, 4, 16, 64, 256)
OUTPUT_LENGTHS = (8, 16, 32, 64, 128, 256)

LEAST_SECONDS = 0.2
"""A visit repeats what is shorter than this, since clocks and schedulers are coarse."""


class Work(NamedTuple):
    """One call to be timed, and the number of tokens or sentences that it works on."""

    call: Callable[[], object]
    units: int


@dataclass(frozen=True)
class Curve:
    """A cost as a function of one number.

    Attributes:
        key: of the claim, without the model's size.
        name: what is done.
        x_name: what the number is.
        unit: what a call works on many of, if theory is about the cost of one; "": of a call.
        points: the numbers.
        work: what is timed at each of them.
        units: for each number those of a call.
        seconds: for each number those of a call, one for each round.
    """

    key: str
    name: str
    x_name: str
    unit: str
    points: Sequence[int]
    work: Callable[[int], Work]
    units: dict[int, int] = field(default_factory=dict)
    seconds: dict[int, list[float]] = field(default_factory=dict)

    @property
    def cost_name(self) -> str:
        """The unit of the cost."""
        return f"ms a {self.unit or 'batch'}"

    def costs(self, point: int) -> list[float]:
        """The cost in each round, in milliseconds."""
        scale = 1000 / (self.units[point] if self.unit else 1)
        return [scale * seconds for seconds in self.seconds[point]]


class Fit(NamedTuple):
    """Two laws fitted to a curve: cost = c · x^exponent, and cost = fixed + slope · x.

    `last_exponent` is that between the last two points; `worst` the greatest deviation from the
    second law, as a share of the cost.
    """

    exponent: float
    last_exponent: float
    fixed: float
    slope: float
    worst: float


class Training:
    """A model that is trained on random ids with the trainer's own step."""

    def __init__(self, model: ModelConfig, precision: str, device: torch.device) -> None:
        training = TrainingConfig(
            max_steps=100_000, precision=cast(Any, choose_precision(precision, device))
        )
        words = WordTokenizer.learn(["word"])
        # The loss needs neither the corpus nor the validation data.
        data = TranslationData(words, words, cast(Corpus, None), (), ())
        self.device = device
        self.task = TranslationTask(RunConfig(model=model, training=training), data)
        self.model = random_model(model).to(device).train()
        self.updater = Updater(
            self.task, self.model, training, 1, model.d_model, training.max_steps
        )
        self.made = 0

    def step(self, batch: Batch) -> None:
        """One update; returns when the device has finished it."""
        self.made += 1
        self.updater.step(self.made, [batch])
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def work(self, sentences: int, length: int) -> Work:
        """A step on so many pairs of so many tokens a side, the end symbol included."""
        batch = random_batch(sentences, length)
        return Work(lambda: self.step(batch), batch.target_tokens)


class Decoding:
    """A model that translates random ids to outputs of a given length."""

    def __init__(self, model: ModelConfig, device: torch.device) -> None:
        self.engine = TorchEngine(random_model(model).to(device))

    def work(self, sentences: int, length: int, beam_size: int) -> Work:
        """The translation of so many sentences to so many tokens, in one batch."""
        sources = random_rows(sentences, SOURCE_LENGTH)
        search = SearchConfig(
            beam_size=beam_size, min_length=length, max_length=length, max_length_offset=length
        )
        # The outputs come back to the CPU, so that there is nothing to wait for.
        return Work(lambda: self.engine.translate(sources, search, batch_size=sentences), sentences)


def random_model(config: ModelConfig) -> EncoderDecoder:
    """A freshly initialised translator, always the same one."""
    torch.manual_seed(1)
    return build_model(config, VOCABULARY, VOCABULARY)


def random_rows(rows: int, length: int) -> list[list[int]]:
    """Rows of ids without special symbols, always the same ones."""
    chance = np.random.default_rng((rows, length))
    return chance.integers(EOS + 1, VOCABULARY, (rows, length)).tolist()


def random_batch(sentences: int, length: int) -> Batch:
    """A batch without padding, with so many tokens on each side; the target ends with EOS."""
    return collate(random_rows(sentences, length), random_rows(sentences, length - 1))


def main(words: list[str] | None = None) -> int:
    """Measure, print and record."""
    parser = make_parser(__doc__)
    choices = ("training", "beam", "batch", "length", "all")
    parser.add_argument("what", nargs="?", choices=choices, default="all", help="curves (all)")
    parser.add_argument("--size", choices=("tiny", "base"), default="tiny", help="(tiny)")
    parser.add_argument("--rounds", type=positive, default=5, help="visits to each point (5)")
    parser.add_argument("--precision", choices=("float32", "bf16", "auto"), default="float32")
    parser.add_argument("--device", default="cpu", help="cpu, cuda or auto (cpu)")
    parser.add_argument("--threads", type=whole(0), default=0, help="of the CPU (PyTorch's own)")
    options = parser.parse_args(words)
    return exit_code_of(partial(grow, options, sys.argv[1:] if words is None else words))


def grow(options: argparse.Namespace, words: list[str]) -> None:
    """Measure the curves, print and record them."""
    device = set_up_torch(options.device, options.threads)
    model = ModelConfig.of_size(options.size)
    curves = chosen_curves(options.what, model, options.precision, device)
    measure(curves, options.rounds)
    gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else ""
    results = Results("growth", words, options.output, gpu=gpu)
    # The claims are about float32 on a CPU.
    is_claimed = not gpu and choose_precision(options.precision, device) == "float32"
    for curve in curves:
        record(curve, options.size, is_claimed, results)
    results.write()


def record(curve: Curve, size: str, is_claimed: bool, results: Results) -> None:
    """Record and print the points of a curve, and its fit."""
    name = f"{size}: {curve.name}, n = {curve.x_name}"
    print(f"\n{name}")
    for point in curve.points:
        costs = curve.costs(point)
        found = results.add(name, curve.cost_name, costs, subject=f"{point:,}", range="rounds")
        print(f"{point:>8,} {found['median']:>10.4g} {curve.cost_name}")
    law = fit(curve.points, [median(curve.costs(point)) for point in curve.points])
    more = {"exponent of all points": law.exponent, "off the line by at most, %": 100 * law.worst}
    found = results.add(
        name,
        "exponent",
        [law.last_exponent],
        claim=f"growth-{size}-{curve.key}" if is_claimed else None,
        more={key: round(value, 2) for key, value in more.items()},
        note=f"a + b·n: {law.fixed:.3g} + {law.slope:.3g}·n {curve.cost_name}",
    )
    print(f"{found['note']}, {found['more']}, exponent at the end {law.last_exponent:.2f}")
    if found["claim"]:
        print(line(found))


def chosen_curves(
    what: str, model: ModelConfig, precision: str, device: torch.device
) -> list[Curve]:
    """The chosen curves; a model is built only if one of them needs it."""
    curves: list[Curve] = []
    if what in ("training", "all"):
        curves += training_curves(Training(model, precision, device))
    if what != "training":
        found = decoding_curves(Decoding(model, device))
        curves += [curve for curve in found if what in ("all", curve.key)]
    return curves


def training_curves(training: Training) -> list[Curve]:
    """The cost of a step by the length of sentences, and by their number."""
    return [
        Curve(
            "training-length",
            f"training, {TOKENS:,} target tokens a batch",
            "tokens a sentence",
            "target token",
            LENGTHS,
            lambda n: training.work(TOKENS // n, n),
        ),
        Curve(
            "training-batch",
            f"training, sentences of {TRAINING_LENGTH} tokens",
            "sentences a batch",
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
            f"decoding {OUTPUT_LENGTH} tokens, {SENTENCES} sentences a batch",
            "hypotheses in a beam",
            "sentence",
            BEAMS,
            lambda n: decoding.work(SENTENCES, OUTPUT_LENGTH, beam_size=n),
        ),
        Curve(
            "batch",
            f"decoding {OUTPUT_LENGTH} tokens, greedily",
            "sentences a batch",
            "",
            BATCHES,
            lambda n: decoding.work(n, OUTPUT_LENGTH, beam_size=1),
        ),
        Curve(
            "length",
            f"decoding greedily, {SENTENCES} sentences a batch",
            "tokens of the output",
            "sentence",
            OUTPUT_LENGTHS,
            lambda n: decoding.work(SENTENCES, n, beam_size=1),
        ),
    ]


def visits(curves: Sequence[Curve], rounds: int) -> Iterator[tuple[int, Curve, int]]:
    """Round, curve and point: every point once a round, there and back; round 0 warms up."""
    turns = [(curve, point) for curve in curves for point in curve.points]
    for number in range(rounds + 1):
        for curve, point in turns[:: -1 if number % 2 else 1]:
            yield number, curve, point


def measure(curves: Sequence[Curve], rounds: int) -> None:
    """Visit every point in every round; the times are added to the curves."""
    latest = -1
    for number, curve, point in visits(curves, rounds):
        if number > latest:
            latest = number
            log(f"round {number} of {rounds}" if number else "warming up")
        work = curve.work(point)
        seconds = seconds_of(work.call, warm=number > 0)
        if number > 0:
            curve.units[point] = work.units
            curve.seconds.setdefault(point, []).append(seconds)


def seconds_of(call: Callable[[], object], warm: bool = True) -> float:
    """The mean seconds of a call, repeated for `LEAST_SECONDS`; of one call while cold."""
    began, calls = time.perf_counter(), 0
    while True:
        call()
        calls += 1
        seconds = time.perf_counter() - began
        if not warm or seconds >= LEAST_SECONDS:
            return seconds / calls


def fit(x: Sequence[float], cost: Sequence[float]) -> Fit:
    """Least squares of log cost on log x, and of the relative deviations from fixed + slope · x."""
    xs, costs = np.asarray(x, dtype=float), np.asarray(cost, dtype=float)
    logs = np.column_stack((np.ones_like(xs), np.log(xs)))
    exponent = np.linalg.lstsq(logs, np.log(costs))[0][1]
    last = np.log(costs[-1] / costs[-2]) / np.log(xs[-1] / xs[-2])
    # Divided by the costs, so that small points count as much as large ones.
    relative = np.column_stack((1 / costs, xs / costs))
    fixed, slope = np.linalg.lstsq(relative, np.ones_like(xs))[0]
    worst = np.abs((fixed + slope * xs) / costs - 1).max()
    return Fit(*map(float, (exponent, last, fixed, slope, worst)))


if __name__ == "__main__":
    sys.exit(main())
