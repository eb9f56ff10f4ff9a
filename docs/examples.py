"""Run the examples of documentation pages, and write their output into the pages.

    .venv/bin/python docs/examples.py README.md docs/tutorials/*.md            run
    .venv/bin/python docs/examples.py --write README.md docs/tutorials/*.md    run, and update

Blocks marked `sh` and `python` run in the order of the pages, in one new folder. The first one that
fails ends the run. A block marked `text` right after such a block holds its output; `--write`
replaces it. Lines that install something or use make are skipped.
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

EXAMPLE = re.compile(
    r"^```(?P<language>sh|python)\n(?P<code>.*?)^```\n(?P<between>\n*)(?P<shown>^```text\n.*?^```\n)?",
    re.MULTILINE | re.DOTALL,
)
SKIPPED = re.compile(r"^(pip|make|git|source|cd|python3 -m venv) .*\n?", re.MULTILINE)


def run_page(
    page: Path, folder: Path, change: Callable[[str], str] = lambda code: code
) -> tuple[str, int]:
    """Run the examples of a page.

    Args:
        page: a Markdown file.
        folder: the working directory of the examples.
        change: is applied to the code of each example before it runs.

    Returns:
        The page with the output of each example, and the number of examples that ran.

    Raises:
        RuntimeError: an example failed.
    """
    count = 0

    def run(example: re.Match[str]) -> str:
        nonlocal count
        code = SKIPPED.sub("", example["code"])
        if not code.strip():
            return example[0]
        count += 1
        output = _run(change(code), example["language"], folder)
        if example["shown"] is None:
            return example[0]
        shown = f"```text\n{output.rstrip()}\n```\n"
        return f"```{example['language']}\n{example['code']}```\n{example['between']}{shown}"

    return EXAMPLE.sub(run, page.read_text("utf-8")), count


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
            text, count = run_page(page, Path(folder))
            print(f"{page}: {count} examples")
            if arguments.write:
                page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
