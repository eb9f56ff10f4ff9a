"""Turn the publisher's TREC questions (Li and Roth 2002) into files that clearhead reads.

    export CLEARHEAD_DATA=/the/folder           # it holds trec/train.txt and trec/test.txt
    .venv/bin/python examples/prepare_trec.py   # writes runs/trec-data/train.tsv and test.tsv

The publisher's lines are Latin-1, `COARSE:fine question`; ours are UTF-8, `label<TAB>text`, with
the six coarse labels, or with all fifty fine ones (`--fine`).
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from clearhead.errors import ClearheadError, DataError

PARTS = ("train", "test")


def main(words: list[str] | None = None) -> int:
    """Write the training and the test questions; 0 if that could be done."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--output", "-o", default="runs/trec-data", help="the folder to write to")
    parser.add_argument("--fine", action="store_true", help="the fifty fine labels")
    options = parser.parse_args(words)
    try:
        # All is read before anything is written.
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
        DataError: it is not known where it should be, or it is not there.
    """
    data = os.environ.get("CLEARHEAD_DATA")
    if not data:
        raise DataError(
            "CLEARHEAD_DATA names no folder with the data",
            todo="examples/fetch_data.py FOLDER fetches them; then export CLEARHEAD_DATA=FOLDER",
        )
    path = Path(data) / "trec" / f"{part}.txt"
    if not path.is_file():
        raise DataError(
            "there is no such file",
            where=path,
            todo=f"examples/fetch_data.py {data} fetches it from its publisher",
        )
    return path


def read(path: Path) -> list[str]:
    """The lines, which end at a line feed alone: a question may hold any other sign."""
    lines = path.read_bytes().decode("latin-1").split("\n")
    return [line.rstrip("\r") for line in lines if line.strip()]


def write(path: Path, text: str) -> None:
    """Write a file that is there whole or not at all."""
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
