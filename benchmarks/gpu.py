"""Clearhead on a GPU beside Hugging Face: tokens a second, and the share of the bf16 matrix rate.

    .venv/bin/python benchmarks/gpu.py
    .venv/bin/python benchmarks/gpu.py training --sizes big --length 64 --json gpu.json
    .venv/bin/python benchmarks/gpu.py --device cpu --rounds 1      # tries it out without a GPU

The ids and the weights are random, so that no data are needed; the steps, the searches and the
turns are those of `speed.py`, and Marian has the environment that it has there. The share is what a
token costs in theory (`peers/flops.py`), times tokens a second, by the rate of large bf16 products,
which is measured before and after each table.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import torch
from peers.contest import Contest
from peers.flops import decoding_flops, training_flops
from peers.machine import machine
from peers.matrix_rate import matrix_rates
from peers.random_work import write_random_workload
from peers.results import Measurement, Row
from peers.roster import OWN, Contender
from peers.shape import DECODED, SIZES
from peers.slices import BEAMS, Slice, decoding_slices, training_slices
from peers.table import Column, table
from peers.turns import measure
from speed import (
    exit_code_of,
    install,
    options_of,
    positive,
    possible_precisions,
    write_tree,
)

from clearhead.training.precision import multiplies_bf16

WORKS = ("training", "decoding")
PEERS = ("marian",)
WARM_STEPS = 3
"""Before each slice: in the first steps a GPU's memory is taken, and its kernels are chosen."""

LEAST_VOCABULARY = 16
"""Room for special symbols, and for what a beam chooses from."""

WANTED = 0.4
"""The share of the matrix rate in training `big`."""

DEFAULTS: dict[str, dict[str, Any]] = {
    "cuda": dict(
        sizes=["base", "big"],
        batch_tokens=32_768,
        vocabulary=32_000,
        steps=20,
        sentences=128,
        side=8192,
    ),
    "cpu": dict(sizes=["tiny"], batch_tokens=256, vocabulary=1000, steps=1, sentences=4, side=128),
}
"""By device; on a CPU so little that it takes a minute, and the figures mean nothing."""


def main(words: list[str] | None = None) -> int:
    """Measure what is asked for; 0, also where there is no GPU."""
    options = completed(parser(), words)
    if options.device == "cuda" and not torch.cuda.is_available():
        print("skipped: PyTorch finds no GPU here (--device cpu tries the benchmark out)")
        return 0
    return exit_code_of(compare, options)


def completed(found: argparse.ArgumentParser, words: list[str] | None) -> argparse.Namespace:
    """The options that are asked for; the device decides on those that are not."""
    options = options_of(found, words, WORKS)
    for name, value in DEFAULTS[options.device].items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    if options.vocabulary < LEAST_VOCABULARY:
        found.error(f"--vocabulary must be at least {LEAST_VOCABULARY}")
    return options


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    found = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    usual = DEFAULTS["cuda"]
    # No choices here: argparse would hold an empty list against them.
    found.add_argument("works", nargs="*", metavar="WORK", help=f"{', '.join(WORKS)} (both)")
    found.add_argument("--device", choices=list(DEFAULTS), default="cuda")
    found.add_argument("--sizes", nargs="+", choices=SIZES, help="(base big)")
    found.add_argument("--peers", nargs="*", choices=PEERS, default=list(PEERS))
    found.add_argument(
        "--precision", nargs="+", choices=("float32", "bf16"), default=["float32", "bf16"]
    )
    found.add_argument(
        "--length", type=positive, default=32, help="tokens of a source, and of a target (32)"
    )
    for name, said in (
        ("batch-tokens", "of a batch in training, on each side"),
        ("vocabulary", "tokens of it"),
        ("steps", "of training in a slice"),
        ("sentences", "decoded in a slice, at most"),
        ("side", "of the matrices by which the rate is measured"),
    ):
        value = usual[name.replace("-", "_")]
        found.add_argument(f"--{name}", type=positive, help=f"{said} ({value})")
    found.add_argument("--rounds", type=positive, default=5)
    found.add_argument("--threads", type=positive, default=2, help="of the CPU")
    found.add_argument("--limit", type=positive, default=600, help="seconds for one slice")
    found.add_argument("--json", metavar="FILE", help="write all values there too")
    return found


def compare(options: argparse.Namespace, folder: Path) -> None:
    """Install, prepare, measure; print each table, and write the JSON, when it is complete."""
    pythons, failures = install([OWN, *options.peers])
    bf16 = multiplies_bf16(torch.device(options.device))
    precisions = possible_precisions(options.precision, bf16)
    workload = write_random_workload(
        folder, options.vocabulary, options.length, options.batch_tokens
    )
    gpu = torch.cuda.get_device_name() if options.device == "cuda" else ""
    facts = {"machine": machine(options.threads, gpu), "options": vars(options)}
    print(f"{facts['machine']}; {options.rounds} rounds")
    print(
        f"{len(workload.batches[0].source)} pairs a batch of {options.length} tokens a side;"
        f" vocabulary {options.vocabulary:,}; random ids and weights\n"
    )
    rows: list[dict[str, Any]] = []
    for work in options.works or WORKS:
        for size in options.sizes:
            contest = Contest(
                work=work,
                size=size,
                contenders=contenders(work, options.peers, precisions),
                pythons=pythons,
                failures=failures,
                folder=folder,
                rounds=options.rounds,
                threads=options.threads,
                limit_s=options.limit,
                device=options.device,
            )
            rows += report(contest, options)
            if options.json:
                write_tree(Path(options.json), {**facts, "rows": rows})


def contenders(work: str, peers: Sequence[str], precisions: Sequence[str]) -> list[Contender]:
    """Clearhead and its peers, each in each precision."""
    own = {"float32": "torch", "bf16": "torch bfloat16"} if work == "decoding" else {}
    return [
        Contender(name, own.get(precision, precision) if name == OWN else precision)
        for name in (OWN, *peers)
        for precision in precisions
    ]


def slices_of(work: str, options: argparse.Namespace) -> list[Slice]:
    """Training steps; or what is decoded in batches."""
    if work == "training":
        return training_slices(options.steps, WARM_STEPS)
    return [slice_ for slice_ in decoding_slices(options.sentences) if slice_.name != "b1"]


def report(contest: Contest, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Measure one work at one size and print it; the rows of its measurements for JSON."""
    rates = matrix_rates(options.device, options.side)
    measurements = measure(contest, slices_of(contest.work, options))
    rates += matrix_rates(options.device, options.side)
    rate = median(rates)
    found = []
    for measurement in measurements:
        flops = flops_of_token(measurement, options)
        print("\n".join(table(measurement, share_columns(flops, rate))))
        print(
            f"{flops / 1e9:.3g} GFLOP a target token; bf16 products of {options.side:,} ×"
            f" {options.side:,}: {rate / 1e12:.3g} TFLOP/s"
            f" ({min(rates) / 1e12:.3g}–{max(rates) / 1e12:.3g})"
        )
        print("\n".join([*verdict(measurement, flops, rate), ""]), flush=True)
        for row in measurement.to_dicts():
            share = share_of(row["median"], flops, rate) if row["median"] else None
            found.append({**row, "flops": flops, "matrix_rates": rates, "share": share})
    return found


def flops_of_token(measurement: Measurement, options: argparse.Namespace) -> float:
    """What a target token of a measurement costs in theory, the work on its source included."""
    shape, vocabulary, length = SIZES[measurement.size], options.vocabulary, options.length
    if measurement.work == "training":
        return training_flops(shape, vocabulary, length, length) / length
    beam = BEAMS[measurement.name][2]
    return decoding_flops(shape, vocabulary, length, DECODED, beam) / DECODED


def share_of(tokens_per_second: float, flops: float, rate: float) -> float:
    """The share of the matrix rate that so many tokens a second need."""
    return tokens_per_second * flops / rate


def share_columns(flops: float, rate: float) -> list[Column]:
    """What the products of a row's tokens come to, and which share of the rate that is."""
    return [
        ("TFLOP/s", lambda row: f"{row.median * flops / 1e12:.3g}"),
        ("of the bf16 rate", lambda row: f"{share_of(row.median, flops, rate):.1%}"),
    ]


def verdict(measurement: Measurement, flops: float, rate: float) -> list[str]:
    """Whether clearhead's fastest row has the share that is wanted of it, where one is."""
    own: Row | None = measurement.fastest(measurement.own)
    if (measurement.work, measurement.size) != ("training", "big") or own is None:
        return []
    share = share_of(own.median, flops, rate)
    said = "reached" if share >= WANTED else "missed"
    return [f"wanted of clearhead: {WANTED:.0%} of the rate; {own.contender.label}: {said}"]


if __name__ == "__main__":
    sys.exit(main())
