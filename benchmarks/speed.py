"""Clearhead beside its peers: training, decoding, and the start of a new process.

    export CLEARHEAD_DATA=/the/folder           # see examples/fetch_data.py
    .venv/bin/python benchmarks/speed.py
    .venv/bin/python benchmarks/speed.py training --sizes tiny --peers marian eole --rounds 3

Each peer is installed once into its own environment under `benchmarks/.environments`. All get the
same batches and sentences and work in turns: a short slice of each, then the next round. Prints a
table for each measurement, and the claims that it is about.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

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
from peers.options import add_contest_options, multiplies_bf16, possible_precisions
from peers.roster import OWN, PEERS, PRECISIONS, contenders
from peers.workload import Workload, prepare_workload
from results import CLAIMS, Results, line, measurement_table

from clearhead.settings import read_config

EXAMPLE = Path(__file__).parents[1] / "examples" / "multi30k-en-de.toml"
WORKS = ("training", "decoding", "cold")
STEPS = {"tiny": 5, "base": 2}


class Comparison(NamedTuple):
    """A row of clearhead beside one of a peer, and the figures that a claim is about."""

    claim: str
    own: Row
    peer: Row | None
    unit: str
    values: Sequence[float]


def main(words: list[str] | None = None) -> int:
    """Measure, print and record; also 0 without data."""
    parser = make_parser(__doc__)
    others = [name for name in PEERS if name != OWN]
    add_contest_options(parser, WORKS, "of the processor")
    parser.add_argument("--sizes", nargs="+", choices=STEPS, default=list(STEPS))
    parser.add_argument("--peers", nargs="+", choices=others, default=others)
    parser.add_argument("--steps", type=positive, help="of training in a slice (tiny 5, base 2)")
    parser.add_argument("--searches", nargs="+", choices=list(BEAMS), default=list(BEAMS))
    parser.add_argument("--sentences", type=positive, default=128, help="in a slice, at most (128)")
    parser.add_argument(
        "--keep-memory",
        action="store_true",
        help="let all processes keep freed memory, as clearhead does with PyTorch (glibc)",
    )
    options = parser.parse_args(words)
    if not has_data():
        return 0
    work = partial(compare, options, sys.argv[1:] if words is None else words)
    return exit_code_of(work, "interrupted; all peers are ended")


def compare(options: argparse.Namespace, words: list[str]) -> None:
    """Prepare, install, measure; records are written after each round."""
    bf16 = multiplies_bf16("cpu")
    precisions = possible_precisions(options.precision, "cpu", bf16)
    with TemporaryDirectory(prefix="clearhead-benchmark-") as folder:
        # Before minutes go into installing: data may be missing.
        log("learning the tokenizer, making the batches")
        workload = Workload.read(prepare_workload(read_config(str(EXAMPLE)), Path(folder)))
        pythons = find_pythons([OWN, *options.peers], dict(options.python), log)
        print(
            f"{len(workload.batches)} batches, {workload.padding_share:.1%} padding;"
            f" vocabulary {workload.vocabulary:,}; random weights; {options.rounds} rounds\n"
        )
        for work in options.works or WORKS:
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
                for measurement in measured(contest, options):
                    report(results, measurement)
    for name, note in pythons.notes.items():
        print(f"- {name}: {note}")


def measured(contest: Contest, options: argparse.Namespace) -> list[Measurement]:
    """The measurements of one work at one size."""
    if contest.work == "training":
        return measure(contest, training_slices(options.steps or STEPS[contest.size]))
    if contest.work == "decoding":
        return measure(contest, decoding_slices(options.sentences, options.searches))
    return cold_starts(contest)


def record(results: Results, kept: bool, measurements: Sequence[Measurement]) -> None:
    """Write the records of all rounds so far, in place of those of the rounds before."""
    results.records.clear()
    for measurement in measurements:
        name = ", freed memory kept" if kept else ""
        for row in measurement.rows:
            fields = measurement.fields(row)
            results.add(**{**fields, "measure": fields["measure"] + name})
        for comparison in comparisons(measurement, kept):
            results.add(
                measurement.fields(comparison.own)["measure"] + name,
                comparison.unit,
                comparison.values,
                subject=comparison.own.contender.label,
                peer=comparison.peer.contender.label if comparison.peer else None,
                range="rounds",
                claim=comparison.claim,
            )
    results.write()


def report(results: Results, measurement: Measurement) -> None:
    """Print the table of a measurement and its claims."""
    name = f"{measurement.work} {measurement.size}, {measurement.name}"
    found = [r for r in results.records if r["measure"].startswith(name)]
    print(f"### {found[0]['measure']}\n")
    print(measurement_table([r for r in found if r["claim"] is None]))
    print()
    for about in found:
        if about["claim"] is not None:
            print(line(about))
    print(flush=True)


def comparisons(measurement: Measurement, kept: bool) -> Iterator[Comparison]:
    """What a measurement says about the claims; speeds are compared within each round."""
    found = {
        "training": _training_comparisons,
        "decoding": _decoding_comparisons,
        "cold": _cold_comparisons,
    }[measurement.work](measurement, kept)
    for claim, own, peer in found:
        if claim not in CLAIMS or own is None:
            continue
        if claim.startswith("memory-"):
            if peer is not None and own.peak_mb and peer.peak_mb:
                yield Comparison(claim, own, peer, "times", [own.peak_mb / peer.peak_mb])
        elif claim == "help":
            yield Comparison(claim, own, None, "s", own.measured)
        elif peer is not None and measurement.unit == "s":
            yield Comparison(claim, own, peer, "s", [a - b for a, b in pairs(own, peer)])
        elif peer is not None and (ratios := paired_ratios(own, peer)):
            yield Comparison(claim, own, peer, "times", ratios)


Found = Iterator[tuple[str, Row | None, Row | None]]


def _training_comparisons(measurement: Measurement, kept: bool) -> Found:
    """Clearhead's fastest row beside the fastest peer of each precision; and memory."""
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
    """`auto` and the PyTorch engine beside CTranslate2, and beside the fastest Python peer."""
    name = f"decoding-{measurement.size}-{measurement.name}"
    own = {row.contender.kind: row for row in measurement.own}
    torch = measurement.fastest(row for kind, row in own.items() if kind.startswith("torch"))
    native = [row for row in measurement.peers if PEERS[row.contender.peer].native]
    python = [row for row in measurement.peers if row not in native]
    same_type = next((row for row in native if row.contender.kind == "float32"), None)
    yield f"{name}-auto", own.get("auto"), same_type
    yield f"{name}-native", torch, measurement.fastest(native)
    yield f"{name}-python", torch, measurement.fastest(python)


def _cold_comparisons(measurement: Measurement, kept: bool) -> Found:
    """`auto` beside CTranslate2's own script; and the help."""
    rows = {row.contender.label: row for row in [*measurement.own, *measurement.peers]}
    if measurement.name == "--help":
        yield "help", measurement.fastest(measurement.own), None
    else:
        yield f"cold-{measurement.size}", rows.get(f"{OWN} auto"), rows.get("ctranslate2 float32")


if __name__ == "__main__":
    sys.exit(main())
