"""Run the examples of documentation pages, and write their output into the pages.

    .venv/bin/python docs/examples.py PAGE...            run
    .venv/bin/python docs/examples.py --write PAGE...    run, and update

Blocks marked `sh` and `python` run in the order of the pages, in one new folder. Pages that write
the same files need a run each. The first block that fails ends the run. Lines that install
something or use make are skipped.

The next block marked `text` shows the output; `--write` replaces it. It holds the whole output if
only empty lines are between the two blocks. Otherwise it holds the part from its first to its last
line; numbers do not matter for finding these lines.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

EXAMPLE = re.compile(
    r"^```(?P<language>sh|python)\n(?P<code>.*?)^```\n"
    r"(?:(?P<between>(?:(?!```)[^\n]*\n)*?)```text\n(?P<shown>.*?)^```\n)?",
    re.MULTILINE | re.DOTALL,
)
SKIPPED = re.compile(r"^(pip|make|git|source|cd|python3 -m venv) .*\n?", re.MULTILINE)
NUMBER = re.compile(r"-?\d+(?:[.,]\d+)*(?:e[+-]\d+)?")


class Example(NamedTuple):
    """An example that ran: its code, the output that the page shows, and the real output."""

    code: str
    shown: str | None
    output: str


def run_page(
    page: Path, folder: Path, change: Callable[[str], str] = lambda code: code
) -> tuple[str, list[Example]]:
    """Run the examples of a page.

    Args:
        page: a Markdown file.
        folder: the working directory of the examples.
        change: is applied to the code of each example before it runs.

    Returns:
        The page with the output of each example that has a block for it, and the examples that ran.

    Raises:
        RuntimeError: an example failed.
    """
    examples = []

    def run(example: re.Match[str]) -> str:
        code = SKIPPED.sub("", example["code"])
        if not code.strip():
            return example[0]
        output = _run(change(code), example["language"], folder).rstrip() + "\n"
        if example["shown"] is not None and example["between"].strip():
            output = _part(output, example["shown"])
        examples.append(Example(code, example["shown"], output))
        if example["shown"] is None:
            return example[0]
        head = example[0][: example.start("shown") - example.start()]
        return f"{head}{output}```\n"

    return EXAMPLE.sub(run, page.read_text("utf-8")), examples


def masked(text: str) -> list[str]:
    """The lines of a text with each number as 0 and each run of spaces as one space."""
    return [" ".join(NUMBER.sub("0", line).split()) for line in text.splitlines()]


def _part(output: str, shown: str) -> str:
    """The output from the first to the last line that is shown, as far as these occur in it."""
    lines, found, wanted = output.splitlines(keepends=True), masked(output), masked(shown)
    places = {line: number for number, line in enumerate(found)}
    first, last = places.get(wanted[0], 0), places.get(wanted[-1], len(lines))
    return "".join(lines[first : last + 1])


def _run(code: str, language: str, folder: Path) -> str:
    """Its standard output and standard error, in the order in which they were written."""
    # `clearhead` and `python` are those of the environment that runs this script.
    binaries = folder / ".bin"
    binaries.mkdir(exist_ok=True)
    for name, words in {"python": "", "clearhead": "-m clearhead "}.items():
        (binaries / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {words}"$@"\n')
        (binaries / name).chmod(0o755)
    environment = os.environ | {
        "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}",
        "PYTHONUNBUFFERED": "1",
        "COLUMNS": "90",
    }
    command = {"sh": ["bash", "-e", "-o", "pipefail", "-c"], "python": [sys.executable, "-c"]}
    done = subprocess.run(
        [*command[language], code],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
    )
    if done.returncode:
        raise RuntimeError(f"exit status {done.returncode}\n{code}\n{done.stdout}")
    return done.stdout


def main() -> None:
    """Run the pages that the command line names."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("pages", nargs="+", type=Path)
    parser.add_argument("--write", action="store_true", help="write the output into the pages")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for page in arguments.pages:
            text, examples = run_page(page, Path(folder))
            print(f"{page}: {len(examples)} examples")
            if arguments.write:
                page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
