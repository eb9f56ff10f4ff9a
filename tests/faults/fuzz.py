"""Reads hostile files with every reader: each may succeed or raise a ClearheadError, no more.

    python tests/faults/fuzz.py --minutes 60

Every reader gets an equal share of the time, in a process with a limit of memory. A crash, another
exception, more memory or more than 60 seconds for one input is a finding: its reader, seed and
number are printed, and `--reader NAME --seed SEED --input NUMBER` reads it again. The exit code is
1 if there are findings. `fuzz_coverage.py` is guided by the lines that are reached.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import os
import resource
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

HERE = Path(__file__).parent
sys.path += [str(HERE), str(HERE.parent / "helpers")]

from readers import READERS, attack  # noqa: E402

MEMORY = 3 * 2**30
"""Bytes that reading may take, besides those of the libraries."""

SECONDS = 60
"""For one input."""

MOST_FINDINGS = 20
"""After so many a reader is left."""


def main() -> int:
    """Run the readers, each in processes of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60, help="for all readers together")
    parser.add_argument("--reader", action="append", choices=READERS, help="these readers only")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", metavar="FILE.jsonl", help="file for the records")
    parser.add_argument("--input", type=int, help="read this input only, in this process")
    parser.add_argument("--from", type=int, default=0, dest="first", help=argparse.SUPPRESS)
    parser.add_argument("--until", type=float, help=argparse.SUPPRESS)
    args = parser.parse_args()
    names = args.reader or list(READERS)
    if args.input is not None or args.until is not None:
        last = None if args.input is None else args.input + 1
        first = args.first if args.input is None else args.input
        return attacks(names[0], args.seed, first, last, args.until or float("inf"))
    counts = [fuzz(name, args.seed, 60 * args.minutes / len(names)) for name in names]
    return record("fuzz", dict(zip(names, counts, strict=True)), args, "make faults")


def record(
    script: str, counts: dict[str, tuple[int, int]], args: argparse.Namespace, command: str
) -> int:
    """Write the number of findings, and in `more` the inputs of each reader; 1 if there are any.

    Args:
        script: its name.
        counts: inputs and findings of each reader.
        args: `minutes` and `output`.
        command: what repeats this.
    """
    from run_processes import helper

    results = helper("results")
    collected = results.Results(script, None, args.output)
    findings = sum(found for _, found in counts.values())
    collected.add(
        "hostile files",
        "findings",
        [findings],
        subject=f"{args.minutes:g} minutes",
        more={name: inputs for name, (inputs, _) in counts.items()},
        claim="hostile-files",
        command=command,
    )
    collected.write()
    print(results.line(collected.records[-1]))
    return 1 if findings else 0


def fuzz(name: str, seed: int, seconds: float) -> tuple[int, int]:
    """Run one reader for some seconds; the number of inputs and of findings."""
    began, first, found = time.time(), 0, 0
    while time.time() < began + seconds and found < MOST_FINDINGS:
        words = ["--reader", name, "--seed", str(seed), "--from", str(first)]
        words += ["--until", str(began + seconds)]
        process = subprocess.Popen(
            [sys.executable, __file__, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            if line.startswith("input "):
                first = int(line.split()[1]) + 1
            else:
                lines.append(line)
                found += line.startswith("finding ")
        code = process.wait()
        print("".join(lines), end="", flush=True)
        if code:
            found += 1
            print(f"finding in {name}: input {first - 1} of seed {seed} ended with {code}")
    print(f"{name}: {first:,} inputs, {found:,} findings", flush=True)
    return first, found


def attacks(name: str, seed: int, first: int, last: int | None, until: float) -> int:
    """Read inputs from `first` on; 0, unless only one is read and it is a finding."""
    reader, number, found = READERS[name], first, 0
    with TemporaryDirectory() as scratch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        valid, work = Path(scratch, "valid"), Path(scratch, "work")
        valid.mkdir()
        reader.write(valid)
        with contextlib.suppress(Exception):  # imports what it needs before memory is limited
            attack(reader, valid, work, Random(0))
        limit_memory()
        while time.time() < until and (last is None or number < last):
            print("input", number, flush=True)
            faulthandler.dump_traceback_later(SECONDS, exit=True)
            found += is_finding(partial(attack, reader, valid, work, Random(f"{seed} {number}")))
            faulthandler.cancel_dump_traceback_later()
            if found and last is None:
                print(f"finding in {name}: input {number} of seed {seed}", flush=True)
                found = 0
            number += 1
    return found


def is_finding(read: Callable[[], object]) -> bool:
    """Whether reading raised something else than a ClearheadError, which is printed."""
    from clearhead.errors import ClearheadError

    try:
        read()
    except ClearheadError as error:
        str(error).encode("utf-8", "surrogateescape")
    except BaseException:
        print("".join(traceback.format_exc(limit=-8)), flush=True)
        return True
    return False


def limit_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * os.sysconf("SC_PAGE_SIZE") + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


if __name__ == "__main__":
    sys.exit(main())
