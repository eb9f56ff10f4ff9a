"""Speed of clearhead and other toolkits: training, decoding, and the start of a new process.

    export CLEARHEAD_DATA=/the/folder           # see examples/fetch_data.py
    .venv/bin/python benchmarks/speed.py
    .venv/bin/python benchmarks/speed.py training --sizes tiny --peers marian eole --rounds 3

Each peer is installed once into its own environment under `benchmarks/.environments`. All peers
get the same batches and sentences and take turns: a short slice of each, then the next round. The
script prints a table for each measurement, and the claims that it belongs to.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import torch
from command import exit_code_of, has_data, log, make_parser, positive
from peers.contest import (
    BEAMS,
    Contest,
    cold_starts,
    decoding_slices,
    measure,
    training_slices,
)
from peers.installation import find_pythons
from peers.measurements import Measurement, Row, leanest, paired_ratios, pairs
from peers.options import add_contest_options, possible_precisions
from peers.roster import OWN, PEERS, PRECISIONS, contenders
from peers.workload import prepare_workload
from results import CLAIMS, Results, print_results

from clearhead.device import multiplies_bf16
from clearhead.settings import read_config

EXAMPLE = Path(__file__).parents[1] / "examples" / "multi30k-en-de.toml"
WORKS = ("training", "decoding", "cold")
STEPS = {"tiny": 5, "base": 2}


class Comparison(NamedTuple):
    """A row of clearhead, one of a peer, and the figures of the claim about the two."""

    claim: str
    own: Row
    peer: Row | None
    unit: str
    values: Sequence[float]


def main(words: list[str] | None = None) -> int:
    """Measure, print and record."""
    parser = make_parser(__doc__)
    others = [name for name in PEERS if name != OWN]
    add_contest_options(parser, WORKS)
    parser.add_argument("--sizes", nargs="+", choices=STEPS, default=list(STEPS))
    parser.add_argument("--peers", nargs="+", choices=others, default=others)
    parser.add_argument(
        "--steps", type=positive, help="training steps per slice (default: tiny 5, base 2)"
    )
    parser.add_argument("--searches", nargs="+", choices=list(BEAMS), default=list(BEAMS))
    parser.add_argument(
        "--sentences", type=positive, default=128, help="most sentences per slice (default: 128)"
    )
    parser.add_argument(
        "--keep-memory",
        action="store_true",
        help="all processes keep freed memory, as the command clearhead does (glibc)",
    )
    options = parser.parse_args(words)
    return exit_code_of(partial(compare, options, words)) if has_data() else 0


def compare(options: argparse.Namespace, words: list[str] | None) -> None:
    """Prepare, install, measure; records are written after each round."""
    bf16 = multiplies_bf16(torch.device("cpu"))
    precisions = possible_precisions(options.precision, "cpu", bf16)
    with TemporaryDirectory(prefix="clearhead-benchmark-") as folder:
        # Before the installation, which takes minutes, because data may be missing.
        log("learning the tokenizer, making the batches")
        workload = prepare_workload(read_config(str(EXAMPLE)), Path(folder))
        pythons = find_pythons([OWN, *options.peers], dict(options.python), log)
        print(
            f"{len(workload.batches)} batches, vocabulary {workload.vocabulary:,}, random weights,"
            f" {options.rounds} rounds\n"
        )
        for work in [options.work] if options.work else WORKS:
            for size in options.sizes:
                results = Results("speed", words, options.output, pythons.versions)
                contest = Contest(
                    work=work,
                    size=size,
                    contenders=contenders(work, options.peers, precisions, bf16),
                    pythons=pythons.paths,
                    failures=pythons.failures,
                    folder=Path(folder),
                    rounds=options.rounds,
                    threads=options.threads,
                    limit_s=options.limit,
                    keep_memory=options.keep_memory,
                    keep=partial(record, results, options.keep_memory),
                )
                if work == "training":
                    measure(contest, training_slices(options.steps or STEPS[size]))
                elif work == "decoding":
                    measure(contest, decoding_slices(options.sentences, options.searches))
                else:
                    cold_starts(contest)
                print_results(results.records)
    for name, note in pythons.notes.items():
        print(f"- {name}: {note}")


def record(results: Results, kept: bool, measurements: Sequence[Measurement]) -> None:
    """Write the records of all rounds so far; they replace those of earlier rounds."""
    results.records.clear()
    for measurement in measurements:
        name = measurement.title + (", freed memory kept" if kept else "")
        for row in measurement.rows:
            results.add(name, **measurement.fields(row))
        for comparison in comparisons(measurement, kept):
            results.add(
                name,
                comparison.unit,
                comparison.values,
                subject=comparison.own.contender.label,
                peer=comparison.peer.contender.label if comparison.peer else None,
                range="rounds",
                claim=comparison.claim,
            )
    results.write()


def comparisons(measurement: Measurement, kept: bool) -> Iterator[Comparison]:
    """The figures of all claims about a measurement; speeds are compared within each round."""
    found = {
        "training": _training_comparisons,
        "decoding": _decoding_comparisons,
        "cold": _cold_comparisons,
    }[measurement.work](measurement, kept)
    for claim, own, peer in found:
        if claim not in CLAIMS or own is None:
            continue
        if claim == "help":
            yield Comparison(claim, own, None, "s", own.measured)
        elif peer is None:
            continue
        elif claim.startswith("memory-"):
            if own.peak_mb and peer.peak_mb:
                yield Comparison(claim, own, peer, "times", [own.peak_mb / peer.peak_mb])
        elif measurement.unit == "s":
            yield Comparison(claim, own, peer, "s", [a - b for a, b in pairs(own, peer)])
        elif ratios := paired_ratios(own, peer):
            yield Comparison(claim, own, peer, "times", ratios)


Found = Iterator[tuple[str, Row | None, Row | None]]


def _training_comparisons(measurement: Measurement, kept: bool) -> Found:
    """Clearhead's fastest row and the fastest peer of each precision; and memory."""
    size, own = measurement.size, measurement.fastest(measurement.own)
    for precision in PRECISIONS:
        peers = [row for row in measurement.peers if row.contender.kind == precision]
        name = f"training-{size}-{precision}" + ("-kept" if kept else "")
        yield name, own, measurement.fastest(peers)
    if kept:
        return
    by_kind = {row.contender.kind: row for row in measurement.own}
    marian = next((r for r in measurement.peers if r.contender.peer == "marian"), None)
    yield f"training-{size}-marian", by_kind.get("float32"), marian
    in_float32 = [row for row in measurement.peers if row.contender.kind == "float32"]
    for precision, row in by_kind.items():
        yield f"memory-{size}-{precision}-float32", row, leanest(in_float32)
        yield f"memory-{size}-{precision}-any", row, leanest(measurement.peers)


def _decoding_comparisons(measurement: Measurement, kept: bool) -> Found:
    """`auto` and the PyTorch engine, compared with CTranslate2 and the fastest Python peer."""
    name = f"decoding-{measurement.size}-{measurement.name}"
    own = {row.contender.kind: row for row in measurement.own}
    own_torch = measurement.fastest(row for kind, row in own.items() if kind.startswith("torch"))
    native = [row for row in measurement.peers if PEERS[row.contender.peer].native]
    python = [row for row in measurement.peers if row not in native]
    same_type = next((row for row in native if row.contender.kind == "float32"), None)
    yield f"{name}-auto", own.get("auto"), same_type
    yield f"{name}-native", own_torch, measurement.fastest(native)
    yield f"{name}-python", own_torch, measurement.fastest(python)


def _cold_comparisons(measurement: Measurement, kept: bool) -> Found:
    """`auto` and CTranslate2's own script; and the help."""
    rows = {row.contender.label: row for row in [*measurement.own, *measurement.peers]}
    if measurement.name == "--help":
        yield "help", measurement.fastest(measurement.own), None
    else:
        yield f"cold-{measurement.size}", rows.get(f"{OWN} auto"), rows.get("ctranslate2 float32")


if __name__ == "__main__":
    sys.exit(main())
