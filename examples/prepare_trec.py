"""Turn the publisher's TREC questions (Li and Roth 2002) into files that clearhead reads.

    export CLEARHEAD_DATA=/the/folder           # it holds trec/train.txt and trec/test.txt
    python examples/prepare_trec.py             # writes runs/trec-data/train.tsv and test.tsv

The publisher's lines are Latin-1, `COARSE:fine question`; ours are UTF-8, `label<TAB>text`, with
the six coarse labels, or with all fifty fine ones (`--fine`).
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path


def main(words: list[str] | None = None) -> int:
    """Write the training and the test questions; 0 if that could be done."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--output", "-o", default="runs/trec-data", help="the folder to write to")
    parser.add_argument("--fine", action="store_true", help="the fifty fine labels")
    options = parser.parse_args(words)
    data = os.environ.get("CLEARHEAD_DATA")
    if not data:
        print("CLEARHEAD_DATA names no folder with the data", file=sys.stderr)
        return 1
    folder = Path(options.output)
    folder.mkdir(parents=True, exist_ok=True)
    for part in ("train", "test"):
        source = Path(data) / "trec" / f"{part}.txt"
        if not source.is_file():
            print(f"{source}: there is no such file", file=sys.stderr)
            return 1
        lines = source.read_text(encoding="latin-1").splitlines()
        target = folder / f"{part}.tsv"
        text = "".join(f"{labelled(line, options.fine)}\n" for line in lines)
        target.write_text(text, encoding="utf-8")
        print(f"{target}: {len(lines):,} questions")
    return 0


def labelled(line: str, fine: bool) -> str:
    """`DESC:manner How did it begin ?` -> `DESC`, tab, the question."""
    label, _, question = line.strip().partition(" ")
    return f"{label if fine else label.partition(':')[0]}\t{question}"


if __name__ == "__main__":
    sys.exit(main())
