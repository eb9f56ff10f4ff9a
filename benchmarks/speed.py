"""Clearhead beside its peers: training, decoding, and the start of a new process.

    export CLEARHEAD_DATA=/the/folder           # see examples/fetch_data.py
    .venv/bin/python benchmarks/speed.py
    .venv/bin/python benchmarks/speed.py training --sizes base --peers marian torch --rounds 3

Each peer is installed into an environment of its own under `benchmarks/.environments`, once. All
are given the same batches and sentences, and work by turns: a short slice of each, then the next
round. Prints Markdown tables with medians and ratios, and below each the gist of it; what is being
done is said on stderr.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from command import exit_code_of, has_data, positive, say
from peers.cold_starts import cold_starts
from peers.contest import Contest
from peers.installation import find_pythons
from peers.machine import machine
from peers.options import add_contest_options
from peers.precision import multiplies_bf16, name_of, possible_precisions
from peers.preparation import prepare_workload
from peers.results import Measurement, keeper
from peers.roster import OWN, PEERS, contenders
from peers.slices import BEAMS, decoding_slices, training_slices
from peers.table import table
from peers.turns import measure
from peers.workload import Workload

from clearhead.settings import read_config

EXAMPLE = Path(__file__).parents[1] / "examples" / "multi30k-en-de.toml"
WORKS = ("training", "decoding", "cold")
STEPS = {"tiny": 5, "base": 2}


def main(words: list[str] | None = None) -> int:
    """Measure what is asked for; 0, also where there are no data."""
    options = make_parser().parse_args(words)
    if not has_data():
        return 0
    return exit_code_of(partial(compare, options), "interrupted; all peers are ended")


def make_parser() -> argparse.ArgumentParser:
    """The options of the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    others = [name for name in PEERS if name != OWN]
    add_contest_options(parser, WORKS, "of the processor")
    parser.add_argument("--sizes", nargs="+", choices=STEPS, default=list(STEPS))
    parser.add_argument("--peers", nargs="+", choices=others, default=others)
    parser.add_argument("--steps", type=positive, help="of training in a slice (tiny 5, base 2)")
    searches = list(BEAMS)
    parser.add_argument(
        "--searches", nargs="+", choices=searches, default=searches, help="of decoding"
    )
    parser.add_argument("--sentences", type=positive, default=128, help="in a slice, at most")
    parser.add_argument(
        "--keep-memory",
        action="store_true",
        help="let all processes keep freed memory, as clearhead does with PyTorch (glibc)",
    )
    return parser


def compare(options: argparse.Namespace) -> None:
    """Prepare, install, measure; print each table at its end, write the JSON each round."""
    bf16 = multiplies_bf16("cpu")
    precisions = possible_precisions(options.precision, name_of("cpu"), bf16)
    rows: list[dict[str, Any]] = []
    with TemporaryDirectory(prefix="clearhead-benchmark-") as folder:
        # Before minutes go into installing: data may be missing.
        say("the tokenizer is learned, the batches are made")
        workload = Workload.read(prepare_workload(read_config(str(EXAMPLE)), Path(folder)))
        pythons = find_pythons([OWN, *options.peers], dict(options.python), say)
        keep = keeper(options.json, describe(options, workload), rows)
        for work in options.works or WORKS:
            for size in options.sizes:
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
                    keep=keep,
                )
                for measurement in measured(contest, options):
                    print("\n".join(table(measurement)), flush=True)
                    rows += measurement.to_dicts()
                keep([])
    for note in pythons.notes:
        print(note)


def describe(options: argparse.Namespace, workload: Workload) -> dict[str, Any]:
    """Print on what is measured; what of it belongs into the JSON."""
    name = machine(options.threads)
    kept = "; all keep freed memory (--keep-memory)" if options.keep_memory else ""
    print(f"{name}; {options.rounds} rounds{kept}")
    print(
        f"{len(workload.batches)} batches, {workload.padding_share:.1%} padding;"
        f" vocabulary {workload.vocabulary:,}; random weights\n"
    )
    return {
        "machine": name,
        "options": vars(options),
        "commit": commit(),
        "began": datetime.now(UTC).isoformat(timespec="seconds"),
        "batches": len(workload.batches),
        "padding": workload.padding_share,
        "vocabulary": workload.vocabulary,
    }


def commit() -> str | None:
    """What of clearhead is measured, as git knows it; None where it does not."""
    words = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    try:
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def measured(contest: Contest, options: argparse.Namespace) -> list[Measurement]:
    """The measurements of one work at one size."""
    if contest.work == "training":
        return measure(contest, training_slices(options.steps or STEPS[contest.size]))
    if contest.work == "decoding":
        return measure(contest, decoding_slices(options.sentences, options.searches))
    return cold_starts(contest)


if __name__ == "__main__":
    sys.exit(main())
