"""Make a set of labelled texts from the lists of a Debian machine: one-line summaries, sections.

    python benchmarks/debian_summaries.py FOLDER    # train.tsv and test.tsv

Every package has a summary, such as "Small, fast text editor", and a section, such as editors. The
sections with fewer than 60 distinct summaries are left out. 10,000 summaries are for training, and
2,000 others for the test. Other releases give other sets.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
from command import exit_code_of, make_parser

from clearhead.errors import DataError
from clearhead.folder.files import write_bytes

FEWEST, TRAIN, TEST = 60, 10_000, 2_000


def main(words: list[str] | None = None) -> int:
    """Read the lists, and write both files."""
    parser = make_parser(__doc__)
    parser.add_argument("folder", metavar="FOLDER", type=Path)
    options = parser.parse_args(words)
    return exit_code_of(partial(write, options.folder))


def write(folder: Path) -> None:
    """Choose at random, always the same of the same lists."""
    listed = subprocess.run(
        ["apt-cache", "dumpavail"], capture_output=True, text=True, check=True
    ).stdout
    found = sorted(dict(summaries(listed)).items())
    counts = Counter(section for _, section in found)
    found = [each for each in found if counts[each[1]] >= FEWEST]
    if len(found) < TRAIN + TEST:
        raise DataError(
            f"the lists of packages have {len(found):,} summaries, not {TRAIN + TEST:,}",
            where="apt-cache dumpavail",
            todo="run `apt-get update` first",
        )
    chosen = np.random.default_rng(1).permutation(len(found))[: TRAIN + TEST]
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in (("train.tsv", chosen[:TRAIN]), ("test.tsv", chosen[TRAIN:])):
        lines = (f"{found[row][0]}\t{found[row][1]}\n" for row in rows)
        write_bytes(folder / name, "".join(("text\tlabel\n", *lines)).encode())
    sections = len({section for _, section in found})
    print(f"{folder}: {TRAIN:,} and {TEST:,} summaries in {sections} sections")


def summaries(listed: str) -> Iterator[tuple[str, str]]:
    """The summary and the section of each package, without the area (`contrib/`)."""
    for package in listed.split("\n\n"):
        lines = (line.partition(": ") for line in package.splitlines() if line[:1].isalpha())
        fields = {name: value.strip() for name, _, value in lines}
        summary, section = fields.get("Description"), fields.get("Section")
        if summary and section and "\t" not in summary:
            yield summary, section.rpartition("/")[2]


if __name__ == "__main__":
    sys.exit(main())
