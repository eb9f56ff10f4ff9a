"""How much code exists for one task only, and how much all of them share.

    .venv/bin/python benchmarks/shared_code.py

Each task has its roots: the files that the commands and the API take for it. What a task uses is
what its roots import, and what that imports in turn. A file that one task alone uses counts for it;
all others are shared. The count is by file: a part of `model/` or `config/` that one task alone
uses, as the decoder or the head of a classifier, counts as shared, since all tasks import its file
or the one that builds from it. A line counts if it is neither empty nor a comment nor part of a
docstring.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections.abc import Collection, Iterator
from pathlib import Path

from command import exit_code_of

HOUSE = Path(__file__).parents[1] / "src" / "clearhead"

PICTURES = ("inspect.recording", "inspect.figures", "inspect.writing")
"""Of whatever model is looked into."""

LOADED = ("engines.device", "engines.trained")
"""What brings any model back from its folder."""

TRAINED = ("training.trainer",)
"""What trains any model."""

ROOTS = {
    "translation": (
        *("tasks.translation", "api.translator", "engines.choosing", "export.exporting"),
        *("cli.translate", "cli.report", "cli.export", "cli.phrasebook", "proposal"),
        *(*PICTURES, *LOADED, *TRAINED),
    ),
    "classification": (
        *("tasks.classification", "tasks.class_scores", "tasks.calibration"),
        *("api.classifier", "api.class_names", "api.encoder"),
        *("api.text_classifier", "api.text_errors", "api.text_run"),
        *("cli.classify", "cli.evaluate_classes", "labelled_proposal", "data.frame_times"),
        "data.folder_hash",
        *("engines.classifier_engine", *PICTURES, *LOADED, *TRAINED),
    ),
    "reconstruction": ("tasks.reconstruction", "data.folder_hash", *LOADED, *TRAINED),
}
SENTENCE_PAIRS = "data.phrasebook"
"""Built-in data of translation, though all readers could name them."""

BOTH = "classification and reconstruction"
SHARED = "shared"

COMPOSING = ("api", "cli", "__init__", "__main__")
"""Rooms that put all others together: what they import says nothing about a task."""


def main() -> int:
    """Print the counts."""
    return exit_code_of(show)


def show() -> None:
    """Print the counts, then the files of each task alone."""
    lines = {module(path): code_lines(path) for path in HOUSE.rglob("*.py")}
    files = division(lines)
    total = sum(lines.values())
    for part, names in files.items():
        own = sum(lines[name] for name in names)
        print(f"{part}: {own:,} of {total:,} lines ({own / total:.0%}) in {len(names)} files")
    for part, names in files.items():
        print(f"\n{part}:" if part == SHARED else f"\n{part} alone:")
        for name in names:
            print(f"  {lines[name]:>5}  {name}")


def division(modules: Collection[str]) -> dict[str, list[str]]:
    """Which of the modules serve which task alone, which two of them, and which are shared."""
    used = {task: closure(roots) for task, roots in ROOTS.items()}
    for task, own in used.items():
        built_in = {name for name in modules if name.startswith(SENTENCE_PAIRS)}
        used[task] = own | built_in if task == "translation" else own - built_in
    found: dict[str, list[str]] = {part: [] for part in (*ROOTS, BOTH, SHARED)}
    for name in sorted(modules):
        users = [task for task in ROOTS if name in used[task]]
        if len(users) == 1:
            part = users[0]
        else:
            # Both read features, which translation never does.
            part = BOTH if users == ["classification", "reconstruction"] else SHARED
        found[part].append(name)
    return found


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
