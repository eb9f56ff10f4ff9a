"""How much code exists for one task only, and how much all of them share.

    .venv/bin/python benchmarks/shared_code.py

Each task has its roots: the files that nothing else needs. What a task uses is what its roots
import, and what that imports in turn. A file that one task alone uses counts for it; all others
are shared. A line counts if it is neither empty nor a comment nor part of a docstring.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

HOUSE = Path(__file__).parents[1] / "src" / "clearhead"

ROOTS = {
    "translation": (
        *("tasks.translation", "api.translator", "engines.torch_engine"),
        *("cli.translate", "cli.report", "proposal"),
    ),
    "classification": (
        *("tasks.classification", "tasks.class_scores", "tasks.calibration"),
        *("api.classifier", "api.encoder", "api.text_classifier", "engines.classifier_engine"),
        *("cli.classify", "cli.evaluate_classes", "labelled_proposal"),
    ),
    "reconstruction": ("tasks.reconstruction",),
}
SENTENCE_PAIRS = "data.phrasebook"
"""Built-in data of translation, though all readers could name them."""

COMPOSING = ("api", "cli", "__init__")
"""Rooms that put all others together: what they import says nothing about a task."""


def main() -> int:
    """Print the counts, then the files of each task alone."""
    lines = {module(path): code_lines(path) for path in sorted(HOUSE.rglob("*.py"))}
    used = {task: closure(roots) for task, roots in ROOTS.items()}
    for task, own in used.items():
        built_in = {name for name in lines if name.startswith(SENTENCE_PAIRS)}
        used[task] = own | built_in if task == "translation" else own - built_in
    alone = {
        task: sorted(own - set().union(*(used[other] for other in used if other != task)))
        for task, own in used.items()
    }
    for task in ("classification", "reconstruction"):
        # Both read features; what they share is of neither alone, nor of translation.
        alone[task] = [name for name in alone[task] if name not in used["translation"]]
    both = sorted((used["classification"] & used["reconstruction"]) - used["translation"])
    total = sum(lines.values())
    for task, names in [*alone.items(), ("classification and reconstruction", both)]:
        own = sum(lines[name] for name in names)
        print(f"{task}: {own:,} lines ({100 * own / total:.0f} %) in {len(names)} files")
    special = sum(lines[name] for names in [*alone.values(), both] for name in names)
    print(f"shared: {total - special:,} of {total:,} lines ({100 * (1 - special / total):.0f} %)")
    for task, names in [*alone.items(), ("classification and reconstruction", both)]:
        print(f"\n{task} alone:")
        for name in names:
            print(f"  {lines[name]:>5}  {name}")
    return 0


def module(path: Path) -> str:
    """`model/build.py` -> `model.build`."""
    parts = path.relative_to(HOUSE).with_suffix("").parts
    return ".".join(parts[:-1] if len(parts) > 1 and parts[-1] == "__init__" else parts)


def file_of(name: str) -> Path | None:
    """The file of a module, if there is one."""
    place = HOUSE.joinpath(*name.split("."))
    for path in (place.with_suffix(".py"), place / "__init__.py"):
        if path.is_file():
            return path
    return None


def closure(roots: tuple[str, ...]) -> set[str]:
    """The modules that the roots use, themselves included."""
    found: set[str] = set()
    waiting = [name for name in roots if file_of(name)]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        path = file_of(name)
        if path is not None:
            waiting += [other for other in imported(path) if other.split(".")[0] not in COMPOSING]
    return found


def imported(path: Path) -> Iterator[str]:
    """The modules of the package that a file imports, those for its types alone left out."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for_types = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or id(node) in for_types:
            continue
        base = (node.module or "").partition("clearhead.")[2]
        for alias in node.names:
            # Of `from clearhead import api` there is no base.
            for name in (f"{base}.{alias.name}".lstrip("."), base):
                if name and file_of(name):
                    yield name
                    break


def code_lines(path: Path) -> int:
    """Lines that hold code."""
    text = path.read_text(encoding="utf-8")
    strings = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    skipped = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    skipped |= {tokenize.ENDMARKER, tokenize.ENCODING}
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in skipped:
            code.update(range(token.start[0], token.end[0] + 1))
    return len(code - strings)


if __name__ == "__main__":
    sys.exit(main())
