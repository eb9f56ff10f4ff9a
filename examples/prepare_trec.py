"""Convert the TREC questions (Li and Roth 2002) to files that clearhead reads.

    export CLEARHEAD_DATA=/the/folder           # contains trec/train.txt and trec/test.txt
    .venv/bin/python examples/prepare_trec.py   # writes runs/trec-data/train.tsv and test.tsv

The publisher's files are Latin-1 with lines `COARSE:fine question`. The new files are UTF-8 with
lines `label<TAB>text`. The labels are the six coarse ones, or with `--fine` the fifty fine ones.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from clearhead.errors import ClearheadError, DataError

PARTS = ("train", "test")
OUTPUT = Path(__file__).parents[1] / "runs" / "trec-data"  # where trec.toml expects the files


def main(words: list[str] | None = None) -> int:
    """Write the training and the test questions; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        *("--output", "-o"),
        default=OUTPUT,
        help="output folder (default: runs/trec-data in the repository)",
    )
    parser.add_argument("--fine", action="store_true", help="use the fifty fine labels")
    options = parser.parse_args(words)
    try:
        # Read everything before writing anything.
        questions = {part: read(source(part)) for part in PARTS}
    except ClearheadError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    for part, lines in questions.items():
        target = Path(options.output) / f"{part}.tsv"
        write(target, "".join(f"{labelled(line, options.fine)}\n" for line in lines))
        print(f"{target}: {len(lines):,} questions")
    return 0


def source(part: str) -> Path:
    """The publisher's file.

    Raises:
        DataError: `CLEARHEAD_DATA` is not set, or the file is missing.
    """
    data = os.environ.get("CLEARHEAD_DATA")
    if not data:
        raise DataError(
            "CLEARHEAD_DATA is not set",
            todo="run examples/fetch_data.py FOLDER, then export CLEARHEAD_DATA=FOLDER",
        )
    path = Path(data) / "trec" / f"{part}.txt"
    if not path.is_file():
        raise DataError(
            "the file does not exist",
            where=path,
            todo=f"run examples/fetch_data.py {data} to download it",
        )
    return path


def read(path: Path) -> list[str]:
    """The lines; only a line feed ends a line, because questions contain other separators."""
    lines = path.read_bytes().decode("latin-1").split("\n")
    return [line.rstrip("\r") for line in lines if line.strip()]


def write(path: Path, text: str) -> None:
    """Write a file completely or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    try:
        part.write_text(text, encoding="utf-8", newline="\n")
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def labelled(line: str, fine: bool) -> str:
    """`DESC:manner How did it begin ?` -> `DESC`, tab, the question."""
    label, _, question = line.strip(" ").partition(" ")
    return f"{label if fine else label.partition(':')[0]}\t{question}"


if __name__ == "__main__":
    sys.exit(main())
