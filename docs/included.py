"""Write source code and command help into the pages: `python docs/included.py [--check]`.

The fenced block below one of these comments is generated, so that a page reads well where nobody
renders it. `--check` exits with 1 if a block is out of date.

- `<!-- source: NAME -->`: the code of a function, class or method of `src/clearhead`, e.g.
  `PostNorm.forward`. `NAME > TARGET` takes only the statements in it that assign to a target, e.g.
  `TokenEmbedding.__init__ > self.scale`.
- `<!-- help: clearhead COMMAND -->`: the output of `clearhead COMMAND --help`.

A name that does not exist, or exists twice, is an error.
"""

from __future__ import annotations

import ast
import functools
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "clearhead"
INCLUDED = re.compile(
    r"^(<!-- (source|help): ([^\n]+) -->\n)(?:\n```.*?^```\n)?", re.DOTALL | re.MULTILINE
)
Definition = ast.FunctionDef | ast.ClassDef


def main(words: Sequence[str]) -> int:
    """Update all pages; with `--check` return 1 if one is out of date."""
    outdated = 0
    for page in sorted((ROOT / "docs").rglob("*.md")):
        old = page.read_text("utf-8")
        if (new := updated(old)) == old:
            continue
        if "--check" in words:
            print(f"{page} is out of date: run docs/included.py", file=sys.stderr)
            outdated = 1
        else:
            page.write_text(new, "utf-8")
    return outdated


def updated(page: str, kinds: Sequence[str] = ("source", "help")) -> str:
    """The page with new blocks of these kinds."""

    def block(found: re.Match[str]) -> str:
        comment, kind, name = found.groups()
        if kind not in kinds:
            return found[0]
        if kind == "help":
            return f"{comment}\n```text\n{command_help(name)}\n```\n"
        path, code = source(name)
        return f'{comment}\n```python title="{path}: {name}"\n{code}\n```\n'

    return INCLUDED.sub(block, page)


def source(name: str) -> tuple[str, str]:
    """The file, relative to the repository, and the code of a name.

    Raises:
        LookupError: there is not exactly one such definition, or no such assignment in it.
    """
    name, _, target = name.partition(" > ")
    found = [
        (path, node)
        for path, module in _modules().items()
        for node in _definitions(module, name.split("."))
    ]
    if len(found) != 1:
        raise LookupError(f"src/clearhead has {len(found)} definitions of {name}, not one")
    path, node = found[0]
    lines = path.read_text("utf-8").splitlines()
    nodes: Sequence[ast.stmt] = _assignments(node, target) if target else [node]
    if not nodes:
        raise LookupError(f"{name} in {path} does not assign to {target}")
    pieces = ["\n".join(lines[_first(n) - 1 : n.end_lineno]) for n in nodes]
    return str(path.relative_to(ROOT)), "\n".join(textwrap.dedent(piece) for piece in pieces)


def command_help(command: str) -> str:
    """The help of `clearhead` or of `clearhead COMMAND`.

    Raises:
        subprocess.CalledProcessError: there is no such command.
    """
    names = command.removeprefix("clearhead").split()
    environment = os.environ | {"COLUMNS": "90", "NO_COLOR": "1", "PYTHONPATH": str(SOURCE.parent)}
    words = [sys.executable, "-m", "clearhead", *names, "--help"]
    done = subprocess.run(words, env=environment, capture_output=True, encoding="utf-8", check=True)
    return done.stdout.rstrip()


@functools.cache
def _modules() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text("utf-8")) for path in sorted(SOURCE.rglob("*.py"))}


def _definitions(module: ast.Module, names: list[str]) -> list[Definition]:
    """The definitions in a module with these names, one within the other."""
    nodes: list[ast.Module | Definition] = [module]
    for name in names:
        nodes = [
            child
            for node in nodes
            for child in node.body
            if isinstance(child, Definition) and child.name == name
        ]
    return [node for node in nodes if isinstance(node, Definition)]


def _assignments(node: Definition, target: str) -> list[ast.stmt]:
    return [
        child
        for child in ast.walk(node)
        if isinstance(child, ast.Assign | ast.AugAssign | ast.AnnAssign)
        for to in (child.targets if isinstance(child, ast.Assign) else [child.target])
        if any(ast.unparse(t) == target for t in (to.elts if isinstance(to, ast.Tuple) else [to]))
    ]


def _first(node: ast.stmt) -> int:
    decorators = node.decorator_list if isinstance(node, Definition) else []
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
