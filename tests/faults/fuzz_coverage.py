"""The same as `fuzz.py`, guided by the lines that an input reaches; needs the package atheris.

    python tests/faults/fuzz_coverage.py --minutes 10
    python tests/faults/fuzz_coverage.py toml -max_total_time=600 -rss_limit_mb=4000 -timeout=60

The first form runs all readers, each for an equal share of the time, and records the result. In the
second one the first word is the reader, the others are options of libFuzzer. An input is one byte,
the number of a file of the reader, and the content of that file. A finding ends its reader with an
error; libFuzzer then writes the input into the current folder.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import shutil
import subprocess
import sys
import warnings
import zlib
from importlib import import_module
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import NoReturn

atheris = import_module("atheris")  # not a dependency of the project

HERE = Path(__file__).parent
sys.path += [str(HERE), str(HERE.parent / "helpers")]

from fuzz import record  # noqa: E402
from mutations import mutated  # noqa: E402
from readers import READERS  # noqa: E402

LIMITS = ("-rss_limit_mb=4000", "-timeout=60")
"""Options of libFuzzer: memory of the process, and seconds for one input."""


def main() -> int:
    """Fuzz the reader that is named, or all."""
    if sys.argv[1:2] and sys.argv[1] in READERS:
        fuzz_with_coverage(*sys.argv[1:])
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10, help="for all readers together")
    parser.add_argument("--output", metavar="FILE.jsonl", help="file for the records")
    args = parser.parse_args()
    seconds = max(1, round(60 * args.minutes / len(READERS)))
    counts = {name: counts_of(name, seconds) for name in READERS}
    command = f"python tests/faults/fuzz_coverage.py --minutes {args.minutes:g}"
    return record("fuzz_coverage", counts, args, command)


def counts_of(name: str, seconds: int) -> tuple[int, int]:
    """Fuzz one reader in a process of its own; the number of inputs and of findings, 0 or 1."""
    command = [sys.executable, __file__, name, f"-max_total_time={seconds}", *LIMITS]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    inputs = max(map(int, re.findall(r"^#(\d+)", done.stderr, re.MULTILINE)), default=0)
    if done.returncode:
        print(done.stdout[-2000:] + done.stderr[-4000:])
    print(f"{name}: {inputs:,} inputs, exit code {done.returncode}", flush=True)
    return inputs, int(done.returncode != 0)


def fuzz_with_coverage(name: str, *options: str) -> NoReturn:
    """Fuzz one reader until libFuzzer ends the process."""
    reader, scratch = READERS[name], TemporaryDirectory()
    valid, work, seeds = (Path(scratch.name, each) for each in ("valid", "work", "seeds"))
    valid.mkdir()
    seeds.mkdir()
    with atheris.instrument_imports(include=["clearhead"]):
        from clearhead.errors import ClearheadError

        reader.write(valid)
        shutil.copytree(valid, work)
        for number in range(20):  # imports the modules of all formats
            with contextlib.suppress(ClearheadError):
                reader.read(work, Random(number))
    files = sorted(path.relative_to(valid) for path in valid.rglob("*") if path.is_file())
    for number, file in enumerate(files):
        (seeds / str(number)).write_bytes(bytes([number]) + (valid / file).read_bytes())

    def read(data: bytes) -> None:
        shutil.rmtree(work)
        shutil.copytree(valid, work)
        (work / files[(data or b"\0")[0] % len(files)]).write_bytes(data[1:])
        with contextlib.suppress(ClearheadError), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            reader.read(work, Random(zlib.crc32(data)))

    def mutate(data: bytes, most: int, seed: int) -> bytes:
        random = Random(seed)
        if len(data) < 2 or random.random() < 0.5:
            return atheris.Mutate(data, most)
        changed = Path(scratch.name, "changed").with_suffix(files[data[0] % len(files)].suffix)
        changed.write_bytes(data[1:])
        try:
            return (data[:1] + mutated(changed, random))[:most]
        except Exception:  # a file whose format earlier changes have spoilt
            return atheris.Mutate(data, most)

    words = [sys.argv[0], *options, str(seeds)]
    atheris.Setup(words, read, custom_mutator=mutate)
    atheris.Fuzz()
    sys.exit()


if __name__ == "__main__":
    sys.exit(main())
