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
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from peers.cold_starts import cold_starts
from peers.contest import Contest
from peers.installation import InstallationError, python_of
from peers.machine import machine
from peers.preparation import prepare_workload
from peers.results import Measurement
from peers.roster import OWN, PEERS, contenders
from peers.slices import decoding_slices, training_slices
from peers.table import notes, table
from peers.turns import measure
from peers.workload import Workload

from clearhead.config import read_config
from clearhead.errors import ClearheadError

EXAMPLE = Path(__file__).parents[1] / "examples" / "multi30k-en-de.toml"
ENVIRONMENTS = Path(__file__).parent / ".environments"
WORKS = ("training", "decoding", "cold")
STEPS = {"tiny": 5, "base": 2}
INTERRUPTED = 130


def main(words: list[str] | None = None) -> int:
    """Measure what is asked for; 0, also where there are no data."""
    options = options_of(parser(), words, WORKS)
    if not os.environ.get("CLEARHEAD_DATA"):
        print("skipped: CLEARHEAD_DATA names no folder with the data (examples/fetch_data.py)")
        return 0
    return exit_code_of(compare, options)


def exit_code_of(
    compare: Callable[[argparse.Namespace, Path], None], options: argparse.Namespace
) -> int:
    """Compare in a folder of its own; what goes wrong is said."""
    try:
        with TemporaryDirectory(prefix="clearhead-benchmark-") as folder:
            compare(options, Path(folder))
    except ClearheadError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("interrupted; all peers are ended", file=sys.stderr)
        return INTERRUPTED
    return 0


def options_of(
    found: argparse.ArgumentParser, words: list[str] | None, works: Sequence[str]
) -> argparse.Namespace:
    """The options that are asked for; what cannot work is refused before minutes go into it."""
    options = found.parse_args(words)
    for work in options.works:
        if work not in works:
            found.error(f"{work!r} is none of {', '.join(works)}")
    if options.json and not Path(options.json).resolve().parent.is_dir():
        found.error(f"there is no folder for {options.json}")
    return options


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    found = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    others = [name for name in PEERS if name != OWN]
    # No choices here: argparse would hold an empty list against them.
    found.add_argument("works", nargs="*", metavar="WORK", help=f"{', '.join(WORKS)} (all)")
    found.add_argument("--sizes", nargs="+", choices=STEPS, default=list(STEPS))
    found.add_argument("--peers", nargs="+", choices=others, default=others)
    found.add_argument(
        "--precision",
        nargs="+",
        choices=("float32", "bf16"),
        default=["float32", "bf16"],
        help="of training; bf16 only where the processor has instructions for it",
    )
    found.add_argument("--rounds", type=positive, default=5)
    found.add_argument("--threads", type=positive, default=2)
    found.add_argument("--steps", type=positive, help="of training in a slice (tiny 5, base 2)")
    found.add_argument("--sentences", type=positive, default=128, help="in a slice, at most")
    found.add_argument("--limit", type=positive, default=600, help="seconds for one slice")
    found.add_argument(
        "--keep-memory",
        action="store_true",
        help="let all processes keep freed memory, as clearhead does with PyTorch (glibc)",
    )
    found.add_argument("--json", metavar="FILE", help="write all values there too")
    return found


def positive(text: str) -> int:
    """A whole number above 0."""
    if int(text) < 1:
        raise ValueError
    return int(text)


def compare(options: argparse.Namespace, folder: Path) -> None:
    """Install, prepare, measure; print each table, and write the JSON, when it is complete."""
    pythons, failures = install([OWN, *options.peers])
    bf16 = has_bf16()
    precisions = possible_precisions(options.precision, bf16)
    say("the tokenizer is learned, the batches are made")
    workload = Workload.read(prepare_workload(read_config(str(EXAMPLE)), folder))
    kept = "; all keep freed memory (--keep-memory)" if options.keep_memory else ""
    print(f"{machine(options.threads)}; {options.rounds} rounds{kept}")
    print(
        f"{len(workload.batches)} batches, {workload.padding_share:.1%} padding;"
        f" vocabulary {workload.vocabulary:,}; random weights\n"
    )
    measurements: list[Measurement] = []
    for work in options.works or WORKS:
        for size in options.sizes:
            contest = Contest(
                work=work,
                size=size,
                contenders=contenders(work, options.peers, precisions, bf16),
                pythons=pythons,
                failures=failures,
                folder=folder,
                rounds=options.rounds,
                threads=options.threads,
                limit_s=options.limit,
                keep_memory=options.keep_memory,
            )
            found = measured(contest, options)
            for measurement in found:
                print("\n".join(table(measurement)), flush=True)
            measurements += found
            if options.json:
                write_json(Path(options.json), options, measurements)
    print("\n".join(notes(options.peers)))


def write_json(
    path: Path, options: argparse.Namespace, measurements: Sequence[Measurement]
) -> None:
    """Write all that was measured so far."""
    rows = [row for measurement in measurements for row in measurement.to_dicts()]
    write_tree(path, {"machine": machine(options.threads), "options": vars(options), "rows": rows})


def write_tree(path: Path, tree: dict[str, Any]) -> None:
    """Write JSON; a file that is there already is replaced as a whole."""
    unfinished = path.with_name(f".{path.name}.unfinished")
    unfinished.write_text(json.dumps(tree, indent=1) + "\n", encoding="utf-8")
    unfinished.replace(path)


def measured(contest: Contest, options: argparse.Namespace) -> list[Measurement]:
    """The measurements of one work at one size."""
    if contest.work == "training":
        return measure(contest, training_slices(options.steps or STEPS[contest.size]))
    if contest.work == "decoding":
        return measure(contest, decoding_slices(options.sentences))
    return cold_starts(contest)


def install(names: Sequence[str]) -> tuple[dict[str, str], dict[str, str]]:
    """The Python of each peer, and why others have none."""
    pythons: dict[str, str] = {}
    failures: dict[str, str] = {}
    for name in names:
        try:
            pythons[name] = python_of(name, ENVIRONMENTS, say)
        except InstallationError as error:
            failures[name] = f"not installed: {error}"
            say(f"{name}: {failures[name]}")
    return pythons, failures


def has_bf16() -> bool:
    """Whether the processor has instructions for bf16."""
    import torch

    from clearhead.training.precision import multiplies_bf16

    return multiplies_bf16(torch.device("cpu"))


def possible_precisions(wanted: Sequence[str], bf16: bool) -> list[str]:
    """Those that are wanted and that the processor multiplies at full speed."""
    if "bf16" not in wanted or bf16:
        return list(wanted)
    print("bf16 is left out: the processor has no instructions for it")
    return [precision for precision in wanted if precision != "bf16"] or ["float32"]


def say(text: str) -> None:
    """Tell what is being done."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
