"""How the cost of training and of decoding grows: with length, batch and beam.

    .venv/bin/python benchmarks/growth.py
    .venv/bin/python benchmarks/growth.py training --size base --json growth.json
    .venv/bin/python benchmarks/growth.py all --figure growth.png

The ids and the weights are random, but a step is the trainer's and a translation the engine's
own. Each round visits every point once, so that a slow moment of the machine hits all of them,
and what counts is the median of the rounds. Printed are the points of each curve, then two fits:
the exponent p of cost = c · n^p, and the a and b of cost = a + b · n. The second is what theory
has: each batch costs something whatever it holds, and beyond that it costs in proportion.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from peers.machine import machine

from clearhead.config import ModelConfig, RunConfig, SearchConfig, TrainingConfig
from clearhead.data.batches import Batch, collate
from clearhead.data.corpus import Corpus
from clearhead.engines.device import set_up_torch
from clearhead.engines.torch_engine import TorchEngine
from clearhead.errors import ClearheadError
from clearhead.model.build import build_model
from clearhead.model.transformer import EncoderDecoder
from clearhead.tasks.translation import TranslationData, TranslationTask
from clearhead.tokenizer import EOS, WordTokenizer
from clearhead.training.precision import choose_precision, in_precision
from clearhead.training.seeds import step_seed
from clearhead.training.updater import Updater
from clearhead.training.wording import duration

VOCABULARY = 10_000
TOKENS = 2048
"""Target tokens of a training batch, whatever the length of its sentences."""

TRAINING_LENGTH = 16
"""Tokens of a sentence where the batch grows."""

OUTPUT_LENGTH = 32
"""Tokens of an output, and of its source, where beam or batch grows."""

SENTENCES = 16
"""Sentences decoded together where beam or length grows."""

LENGTHS = (16, 32, 64, 128, 256, 512, 1024)
BEAMS = (1, 2, 4, 8, 16)
BATCHES = (1, 4, 16, 64, 256)
OUTPUT_LENGTHS = (8, 16, 32, 64, 128, 256)

MOST_TICKS = 7
LINEAR = "a + b·n: 1 beyond the fixed cost"

INTERRUPTED = 130
LEAST_SECONDS = 0.2
"""A visit repeats what is shorter than this, since clocks and schedulers are coarse."""


class Work(NamedTuple):
    """One call to be timed, and how many tokens or sentences it works on."""

    call: Callable[[], object]
    units: int


@dataclass(frozen=True)
class Curve:
    """A cost as a function of one number.

    Attributes:
        name: what is done.
        x_name: what the number is.
        unit: what a call works on many of.
        per_unit: whether theory is about the cost of a unit, or about that of a whole call.
        theory: how that cost grows.
        points: the numbers.
        work: what is to be timed at each of them.
        units: for each number those of a call.
        seconds: for each number those of a call, one for each round.
    """

    name: str
    x_name: str
    unit: str
    per_unit: bool
    theory: str
    points: Sequence[int]
    work: Callable[[int], Work]
    units: dict[int, int] = field(default_factory=dict)
    seconds: dict[int, list[float]] = field(default_factory=dict)

    @property
    def cost_name(self) -> str:
        """The cost that theory is about."""
        return f"ms a {self.unit}" if self.per_unit else "ms a batch"

    def costs(self, point: int) -> list[float]:
        """The cost that theory is about in each round, in milliseconds."""
        scale = 1000 / (self.units[point] if self.per_unit else 1)
        return [scale * seconds for seconds in self.seconds[point]]

    def cost(self, point: int) -> float:
        """The median of these."""
        return median(self.costs(point))


class Fit(NamedTuple):
    """Two laws fitted to a curve: cost = c · x^exponent, and cost = fixed + slope · x.

    `last_exponent` is that of the last two points alone, where a fixed cost weighs least, and
    `worst` the greatest deviation from the second law, as a share of the cost.
    """

    exponent: float
    last_exponent: float
    fixed: float
    slope: float
    worst: float


def fit(x: Sequence[float], cost: Sequence[float]) -> Fit:
    """Least squares of log cost on log x, and of the relative deviations from fixed + slope · x."""
    xs, costs = np.asarray(x, dtype=float), np.asarray(cost, dtype=float)
    logs = np.column_stack((np.ones_like(xs), np.log(xs)))
    exponent = np.linalg.lstsq(logs, np.log(costs))[0][1]
    last = np.log(costs[-1] / costs[-2]) / np.log(xs[-1] / xs[-2])
    # Divided by the costs, so that the small points count as much as the large ones.
    relative = np.column_stack((1 / costs, xs / costs))
    fixed, slope = np.linalg.lstsq(relative, np.ones_like(xs))[0]
    worst = np.abs((fixed + slope * xs) / costs - 1).max()
    return Fit(*map(float, (exponent, last, fixed, slope, worst)))


def fit_of(curve: Curve) -> Fit:
    """The fit of a curve's medians."""
    return fit(curve.points, [curve.cost(point) for point in curve.points])


class Training:
    """A model that is trained on random ids, each step as the trainer makes it."""

    def __init__(self, model: ModelConfig, precision: str, device: torch.device) -> None:
        training = TrainingConfig(max_steps=100_000, precision=cast(Any, precision))
        words = WordTokenizer.learn(["word"])
        # The loss asks neither for the corpus nor for what belongs to validation.
        data = TranslationData(words, words, cast(Corpus, None), (), ())
        self.device = device
        self.precision = choose_precision(precision, device)
        self.task = TranslationTask(RunConfig(model=model, training=training), data)
        self.model = random_model(model).to(device).train()
        self.updater = Updater(self.model, training, model.d_model, training.max_steps)
        self.steps = 0

    def step(self, batch: Batch) -> None:
        """One update; returns when the device has made it."""
        self.steps += 1
        torch.manual_seed(step_seed(1, self.steps))
        with in_precision(self.precision, self.device):
            loss = self.task.loss(self.model, batch)
        loss.total.backward()
        self.updater.update(self.steps, loss.units)
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def work(self, sentences: int, length: int) -> Work:
        """A step on so many pairs whose sides have so many tokens, the end symbol among them."""
        batch = random_batch(sentences, length)
        return Work(lambda: self.step(batch), batch.target_tokens)


class Decoding:
    """A model that translates random ids to outputs whose length is given."""

    def __init__(self, model: ModelConfig, device: torch.device) -> None:
        self.engine = TorchEngine(random_model(model).to(device))

    def work(self, sentences: int, length: int, beam_size: int) -> Work:
        """The translation of so many sentences to so many tokens, in one batch.

        The outputs come back to the processor, so that nothing is left to wait for.
        """
        sources = random_rows(sentences, OUTPUT_LENGTH)
        search = search_of_length(length, beam_size)
        return Work(lambda: self.engine.translate(sources, search, batch_size=sentences), sentences)


def search_of_length(length: int, beam_size: int) -> SearchConfig:
    """A search whose outputs all have this length: none may end before, none goes on after."""
    return SearchConfig(
        beam_size=beam_size, min_length=length, max_length=length, max_length_offset=length
    )


def random_model(config: ModelConfig) -> EncoderDecoder:
    """A freshly initialised translator, always the same one."""
    torch.manual_seed(1)
    return build_model(config, VOCABULARY, VOCABULARY)


def random_rows(rows: int, length: int) -> list[list[int]]:
    """Rows of ids, always the same ones; no special symbol is among them."""
    chance = np.random.default_rng((rows, length))
    return chance.integers(EOS + 1, VOCABULARY, (rows, length)).tolist()


def random_batch(sentences: int, length: int) -> Batch:
    """A batch without padding, so many tokens on each side; the target's last is EOS."""
    return collate(random_rows(sentences, length), random_rows(sentences, length - 1))


def training_curves(training: Training) -> list[Curve]:
    """A step's cost against the length of sentences, and against their number."""
    return [
        Curve(
            name=f"Training, {TOKENS:,} target tokens a batch",
            x_name="tokens a sentence",
            unit="target token",
            per_unit=True,
            theory="a + b·n: 0 while attention is cheap, then 1",
            points=LENGTHS,
            work=lambda n: training.work(TOKENS // n, n),
        ),
        Curve(
            name=f"Training, sentences of {TRAINING_LENGTH} tokens",
            x_name="sentences a batch",
            unit="target token",
            per_unit=False,
            theory=LINEAR,
            points=BATCHES,
            work=lambda n: training.work(n, TRAINING_LENGTH),
        ),
    ]


def decoding_curves(decoding: Decoding) -> dict[str, Curve]:
    """A translation's cost against beam, batch and length of the output, greedily but for beams."""
    return {
        "beam": Curve(
            name=f"Decoding {OUTPUT_LENGTH} tokens, {SENTENCES} sentences a batch",
            x_name="hypotheses in a beam",
            unit="sentence",
            per_unit=True,
            theory=LINEAR,
            points=BEAMS,
            work=lambda n: decoding.work(SENTENCES, OUTPUT_LENGTH, beam_size=n),
        ),
        "batch": Curve(
            name=f"Decoding {OUTPUT_LENGTH} tokens, greedily",
            x_name="sentences a batch",
            unit="sentence",
            per_unit=False,
            theory=LINEAR,
            points=BATCHES,
            work=lambda n: decoding.work(n, OUTPUT_LENGTH, beam_size=1),
        ),
        "length": Curve(
            name=f"Decoding greedily, {SENTENCES} sentences a batch",
            x_name="tokens of the output",
            unit="sentence",
            per_unit=True,
            theory="a + b·n: about 1; attention to what was said adds a little n²",
            points=OUTPUT_LENGTHS,
            work=lambda n: decoding.work(SENTENCES, n, beam_size=1),
        ),
    }


def chosen_curves(
    what: str, model: ModelConfig, precision: str, device: torch.device
) -> list[Curve]:
    """The curves that are asked for; a model is made only where one of them needs it."""
    curves: list[Curve] = []
    if what in ("training", "all"):
        curves += training_curves(Training(model, precision, device))
    if what != "training":
        found = decoding_curves(Decoding(model, device))
        curves += found.values() if what == "all" else [found[what]]
    return curves


class Visit(NamedTuple):
    """One turn of a point; those of round 0 only warm up."""

    round: int
    curve: Curve
    point: int

    @property
    def where(self) -> tuple[str, int]:
        """The curve and the point, whatever the round."""
        return self.curve.name, self.point


def visits(curves: Sequence[Curve], rounds: int) -> Iterator[Visit]:
    """Every point once a round, forwards and backwards by turns; a round 0 comes first."""
    turns = [(curve, point) for curve in curves for point in curve.points]
    for number in range(rounds + 1):
        for curve, point in turns[:: -1 if number % 2 else 1]:
            yield Visit(number, curve, point)


def measure(curves: Sequence[Curve], rounds: int) -> None:
    """Visit every point in every round; what they took is added to the curves."""
    plan = list(visits(curves, rounds))
    took: dict[tuple[str, int], float] = {}
    on_terminal = sys.stderr.isatty()
    for number, visit in enumerate(plan, start=1):
        began = time.perf_counter()
        work = visit.curve.work(visit.point)
        seconds = seconds_of(work.call, warm=visit.round > 0)
        took[visit.where] = max(LEAST_SECONDS, time.perf_counter() - began)
        if visit.round > 0:
            visit.curve.units[visit.point] = work.units
            visit.curve.seconds.setdefault(visit.point, []).append(seconds)
        left = plan[number:]
        if on_terminal or not left or left[0].round > visit.round:
            line = f"round {visit.round} of {rounds}" if visit.round else "warming up"
            line += (
                f", {number} of {len(plan)} visits{time_left([took.get(v.where) for v in left])}"
            )
            begin, end = ("\r\x1b[K", "" if left else "\n") if on_terminal else ("", "\n")
            print(f"{begin}{line}", end=end, file=sys.stderr, flush=True)


def time_left(last_took: Sequence[float | None]) -> str:
    """In words, from what each visit that is left took the last time; "" before all are known."""
    known = [seconds for seconds in last_took if seconds is not None]
    return f", {duration(sum(known))} left" if len(known) == len(last_took) else ""


def seconds_of(call: Callable[[], object], warm: bool = True) -> float:
    """The mean seconds of a call, made as often as `LEAST_SECONDS` need; once while cold."""
    began, calls = time.perf_counter(), 0
    while True:
        call()
        calls += 1
        seconds = time.perf_counter() - began
        if not warm or seconds >= LEAST_SECONDS:
            return seconds / calls


def report(curves: Sequence[Curve]) -> str:
    """The points of each curve, then the fits of all of them, as Markdown."""
    blocks = [points_table(curve) for curve in curves]
    return "\n\n".join([*blocks, fits_table(curves)])


def points_table(curve: Curve) -> str:
    """A curve's points: the median cost of a batch and of a unit, the range over the rounds."""
    lines = [
        f"**{curve.name}**",
        "",
        f"| {curve.x_name} | ms a batch | lowest | highest | ms a {curve.unit} |",
        "|---:|---:|---:|---:|---:|",
    ]
    for point in curve.points:
        batch = [1000 * seconds for seconds in curve.seconds[point]]
        unit = median(batch) / curve.units[point]
        shown = (median(batch), min(batch), max(batch), unit)
        lines.append(f"| {point:,} | {' | '.join(map(figure_of, shown))} |")
    return "\n".join(lines)


def fits_table(curves: Sequence[Curve]) -> str:
    """The exponents seen, of all points and of the last two; theory's; how straight the line is."""
    lines = [
        "| curve | cost | exponent | at the end | theory | a + b·n | off by at most |",
        "|---|---|---:|---:|---|---|---:|",
    ]
    for curve in curves:
        seen = fit_of(curve)
        sign = "+" if seen.slope >= 0 else "−"
        straight = f"{figure_of(seen.fixed)} {sign} {figure_of(abs(seen.slope))}·n"
        lines.append(
            f"| {curve.name}; n = {curve.x_name} | {curve.cost_name} | {seen.exponent:.2f} |"
            f" {seen.last_exponent:.2f} | {curve.theory} | {straight} | {100 * seen.worst:.0f} % |"
        )
    return "\n".join(lines)


def figure_of(value: float) -> str:
    """A number with three digits that mean something: `0.0123`, `4.56`, `1,234`."""
    if value == 0:
        return "0"
    decimals = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{decimals}f}".replace("-", "−")


def draw(curves: Sequence[Curve], path: str, title: str) -> None:
    """A panel for each curve, on logarithmic axes: medians, range, and the line a + b·n."""
    from matplotlib.figure import Figure

    columns = min(3, len(curves))
    rows = -(-len(curves) // columns)
    figure = Figure(figsize=(5.2 * columns, 4.3 * rows + 0.5), layout="constrained")
    figure.suptitle(title, fontsize="medium")
    panels = figure.subplots(rows, columns, squeeze=False).ravel().tolist()
    for panel, curve in zip(panels, curves, strict=False):
        draw_curve(panel, curve)
    for panel in panels[len(curves) :]:
        panel.remove()
    figure.savefig(path, dpi=120)


def draw_curve(panel: Any, curve: Curve) -> None:
    """One curve in its panel."""
    costs = np.array([curve.cost(point) for point in curve.points])
    lowest = np.array([min(curve.costs(point)) for point in curve.points])
    highest = np.array([max(curve.costs(point)) for point in curve.points])
    seen = fit_of(curve)
    x = np.geomspace(curve.points[0], curve.points[-1], 100)
    straight = seen.fixed + seen.slope * x
    line = f"a + b·n, off by at most {100 * seen.worst:.0f} %"
    # A fitted line may fall below zero, where logarithmic axes end.
    panel.plot(x[straight > 0], straight[straight > 0], color="tab:orange", label=line)
    panel.errorbar(
        *(curve.points, costs, (costs - lowest, highest - costs)),
        **dict(fmt="o", color="tab:blue", capsize=3, label="median and range"),
    )
    panel.set(xscale="log", yscale="log", xlabel=f"n: {curve.x_name}", ylabel=curve.cost_name)
    panel.set_title(
        f"{curve.name}\nexponent {seen.exponent:.2f}, at the end {seen.last_exponent:.2f}",
        fontsize="medium",
    )
    panel.set_xticks(curve.points, [f"{point:,}" for point in curve.points])
    low, high = float(lowest.min()) / 1.5, float(highest.max()) * 1.5
    ticks = round_numbers(low, high)
    panel.set_ylim(low, high)
    panel.set_yticks(ticks, [f"{tick:,g}" for tick in ticks])
    panel.minorticks_off()
    panel.grid(alpha=0.3)
    panel.legend(fontsize="small", loc="upper left")


def round_numbers(low: float, high: float) -> list[float]:
    """Numbers of one digit and zeros between two bounds, of fewer digits where they are many."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks: list[float] = []
    for digits in (range(1, 10), (1, 2, 3, 5), (1, 2, 5), (1, 3), (1,)):
        # As text: powers of ten below one are no exact floats.
        ticks = [float(f"{digit}e{decade}") for decade in decades for digit in digits]
        ticks = [tick for tick in ticks if low <= tick <= high]
        if len(ticks) <= MOST_TICKS:
            break
    return ticks


def as_json(curves: Sequence[Curve], facts: dict[str, Any]) -> dict[str, Any]:
    """All that was measured, and on what."""
    return {
        **facts,
        "curves": [
            {
                "name": curve.name,
                "x": curve.x_name,
                "unit": curve.unit,
                "cost": curve.cost_name,
                "theory": curve.theory,
                "points": [
                    {
                        "x": point,
                        "units": curve.units[point],
                        "seconds": curve.seconds[point],
                        "cost": curve.cost(point),
                    }
                    for point in curve.points
                ],
                "fit": fit_of(curve)._asdict(),
            }
            for curve in curves
        ],
    }


def options_of(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    choices = ("training", "beam", "batch", "length", "all")
    parser.add_argument("what", nargs="?", choices=choices, default="all", help="which curves")
    parser.add_argument("--size", choices=("tiny", "base"), default="tiny", help="of the model")
    parser.add_argument("--rounds", type=int, default=5, help="visits to each point")
    parser.add_argument("--precision", choices=("float32", "bf16", "auto"), default="float32")
    parser.add_argument("--device", default="cpu", help="cpu, cuda or auto")
    parser.add_argument("--threads", type=int, default=0, help="of the CPU")
    parser.add_argument("--json", metavar="FILE", help="write all that was measured")
    parser.add_argument("--figure", metavar="FILE.png", help="draw the curves")
    options = parser.parse_args(words)
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")
    for path in (options.json, options.figure):
        # Before minutes go into what could then not be written.
        if path and not Path(path).resolve().parent.is_dir():
            parser.error(f"there is no folder for {path}")
    if options.figure and Path(options.figure).suffix not in (".png", ".svg", ".pdf"):
        parser.error(f"a figure ends in .png, .svg or .pdf: {options.figure}")
    return options


def main(words: list[str] | None = None) -> int:
    """Measure, print, and write what is asked for."""
    options = options_of(words)
    try:
        device = set_up_torch(options.device, options.threads)
        model = ModelConfig.of_size(options.size)
        curves = chosen_curves(options.what, model, options.precision, device)
        measure(curves, options.rounds)
    except ClearheadError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        # On a terminal the line of progress has no end yet.
        print("\n" * sys.stderr.isatty() + "interrupted", file=sys.stderr)
        return INTERRUPTED
    precision = choose_precision(options.precision, device)
    gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else ""
    facts = {
        **{"size": options.size, "rounds": options.rounds, "vocabulary": VOCABULARY},
        **{"training_precision": precision, "machine": machine(torch.get_num_threads(), gpu)},
    }
    print(
        f"{options.size}, {VOCABULARY:,} tokens in the vocabulary, training in {precision}, "
        f"decoding in float32; {options.rounds} rounds; {facts['machine']}\n"
    )
    print(report(curves))
    if options.json:
        text = json.dumps(as_json(curves, facts), indent=2, ensure_ascii=False)
        Path(options.json).write_text(text + "\n", encoding="utf-8")
    if options.figure:
        draw(curves, options.figure, f"How cost grows: {options.size}\n{facts['machine']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
