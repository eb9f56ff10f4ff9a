"""Clearhead on a GPU beside Hugging Face: tokens a second, and the share of the bf16 matrix rate.

    .venv/bin/python benchmarks/gpu.py
    .venv/bin/python benchmarks/gpu.py training --sizes big --length 64 --json gpu.json
    .venv/bin/python benchmarks/gpu.py --device cpu --rounds 1      # tries it out without a GPU

The ids and the weights are random, so that no data are needed; the steps, the searches and the
turns are those of `speed.py`, and Marian has the environment that it has there. The share is what a
token costs in theory (`peers/flops.py`), times tokens a second, by the rate of large bf16 products,
which is measured before and after each work at each size.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import torch
from command import exit_code_of, say, whole
from peers.contest import Contest
from peers.flops import decoding_flops, training_flops
from peers.installation import find_pythons
from peers.machine import machine
from peers.matrix_rate import matrix_rates
from peers.options import add_contest_options
from peers.precision import multiplies_bf16, name_of, possible_precisions
from peers.random_work import write_random_workload
from peers.results import Measurement, Row, keeper
from peers.roster import OWN, Contender
from peers.shape import DECODED, POSITIONS, SIZES
from peers.slices import BEAMS, Slice, decoding_slices, training_slices
from peers.table import Column, table
from peers.turns import measure
from peers.workload import Workload

from clearhead.decoding.engine import PADDED_TOKENS

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
    options = options_of(words)
    if options.device == "cuda" and not torch.cuda.is_available():
        print("skipped: PyTorch finds no GPU here (--device cpu tries the benchmark out)")
        return 0
    return exit_code_of(partial(compare, options), "interrupted; all peers are ended")


def options_of(words: list[str] | None) -> argparse.Namespace:
    """The options that are asked for; the device decides on those that are not."""
    parser = make_parser()
    options = parser.parse_args(words)
    options.works = options.works or list(WORKS)
    for name, value in DEFAULTS[options.device].items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    if "decoding" in options.works:
        longest = min(map(longest_whole, slices_of("decoding", options)))
        if options.length > longest:
            parser.error(
                f"--length {options.length}: in decoding at most {longest}, for clearhead's engine"
                " would take a batch of longer sentences in parts; training alone takes more"
            )
    return options


def make_parser() -> argparse.ArgumentParser:
    """The options of the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    usual = DEFAULTS["cuda"]
    add_contest_options(parser, WORKS, "of the CPU")
    parser.add_argument("--device", choices=list(DEFAULTS), default="cuda")
    parser.add_argument("--sizes", nargs="+", choices=SIZES, help="(base big)")
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=list(PEERS))
    parser.add_argument(
        "--length",
        type=whole(1, POSITIONS),
        default=32,
        help=f"tokens of a source, and of a target (32; at most {POSITIONS})",
    )
    for name, least, said in (
        ("batch-tokens", 1, "of a batch in training, on each side"),
        ("vocabulary", LEAST_VOCABULARY, "tokens of it"),
        ("steps", 1, "of training in a slice"),
        ("sentences", 1, "decoded in a slice, at most"),
        ("side", 1, "of the matrices by which the rate is measured"),
    ):
        value = usual[name.replace("-", "_")]
        parser.add_argument(f"--{name}", type=whole(least), help=f"{said} ({value})")
    return parser


def longest_whole(slice_: Slice) -> int:
    """The longest sentences of which clearhead's engine takes a batch of the slice as it is."""
    rows = min(slice_.request["count"], slice_.request["batch_size"])
    return PADDED_TOKENS // slice_.request["beam_size"] // rows


def compare(options: argparse.Namespace) -> None:
    """Install, prepare, measure; print each table at its end, write the JSON each round."""
    pythons = find_pythons([OWN, *options.peers], dict(options.python), say)
    device = name_of(options.device)
    bf16 = multiplies_bf16(options.device)
    precisions = possible_precisions(options.precision, device, bf16)
    if not bf16:
        print(f"no share of the bf16 rate is told: {device} has no such rate")
    rows: list[dict[str, Any]] = []
    with TemporaryDirectory(prefix="clearhead-benchmark-") as folder:
        workload = write_random_workload(
            Path(folder), options.vocabulary, options.length, options.batch_tokens
        )
        keep = keeper(options.json, describe(options, workload), rows)
        for work in options.works:
            for size in options.sizes:
                contest = Contest(
                    work=work,
                    size=size,
                    contenders=contenders(work, options.peers, precisions),
                    pythons=pythons.paths,
                    failures=pythons.failures,
                    folder=Path(folder),
                    rounds=options.rounds,
                    threads=options.threads,
                    limit_s=options.limit,
                    device=options.device,
                    keep=keep,
                )
                rows += report(contest, options, bf16)
                keep([])
    for note in pythons.notes:
        print(note)


def describe(options: argparse.Namespace, workload: Workload) -> dict[str, Any]:
    """Print on what is measured; what of it belongs into the JSON."""
    name = machine(options.threads, name_of("cuda") if options.device == "cuda" else "")
    print(f"{name}; {options.rounds} rounds")
    print(
        f"{len(workload.batches[0].source)} pairs a batch of {options.length} tokens a side;"
        f" vocabulary {options.vocabulary:,}; random ids and weights\n"
    )
    return {"machine": name, "options": vars(options)}


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
    return decoding_slices(options.sentences, ("b64", "beam5"))


def report(contest: Contest, options: argparse.Namespace, bf16: bool) -> list[dict[str, Any]]:
    """Measure one work at one size and print it; the rows of its measurements for JSON."""
    work = (options.device, options.side, options.threads)
    rates = matrix_rates(*work) if bf16 else []
    measurements = measure(contest, slices_of(contest.work, options))
    rates += matrix_rates(*work) if bf16 else []
    rate = median(rates) if bf16 else None
    found = []
    for measurement in measurements:
        flops = flops_of_token(measurement, options)
        print("\n".join(table(measurement, share_columns(flops, rate))))
        said = [f"{flops / 1e9:.3g} GFLOP a target token"]
        if rate is not None:
            said[0] += (
                f"; bf16 products of {options.side:,} × {options.side:,}: {rate / 1e12:.3g}"
                f" TFLOP/s ({min(rates) / 1e12:.3g}–{max(rates) / 1e12:.3g})"
            )
            said += verdict(measurement, flops, rate)
        print("\n".join([*said, ""]), flush=True)
        for row in measurement.to_dicts():
            share = share_of(row["median"], flops, rate) if row["median"] and rate else None
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


def share_columns(flops: float, rate: float | None) -> list[Column]:
    """What the products of a row's tokens come to, and which share of the rate that is."""
    products: Column = ("TFLOP/s", lambda row: f"{row.median * flops / 1e12:.3g}")
    if rate is None:
        return [products]
    return [
        products,
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
