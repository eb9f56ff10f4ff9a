"""The rooms of the house: who may enter which, how large they are, and which do without torch."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import clearhead

HOUSE = Path(clearhead.__file__).parent
FILES = sorted(HOUSE.rglob("*.py"))

SETTINGS = {"errors", "config", "tokenizer"}
ROOMS = {
    *("errors", "config", "tokenizer", "losses", "checkpoint", "model", "data", "decoding"),
    *("engines", "tasks", "training", "inspect", "export", "commented_config", "proposal"),
    "labelled_proposal",
}
ROOF = {"cli", "serve"}

MAY_ENTER: dict[str, set[str]] = {
    # The ground floor.
    "errors": set(),
    "config": {"errors"},
    "tokenizer": {"errors", "config"},
    "losses": {"errors"},
    # What stands on it. (Of the model, only build enters config: tested below.)
    "checkpoint": SETTINGS,
    "model": {"errors", "config"},
    "data": SETTINGS,
    "decoding": SETTINGS,
    "engines": {*SETTINGS, "model", "decoding", "checkpoint"},
    "tasks": {*SETTINGS, "losses", "model", "data", "decoding", "engines"},
    "training": {"errors", "config", "checkpoint", "tasks.task"},
    "inspect": {*SETTINGS, "model", "checkpoint", "engines"},
    "export": {*SETTINGS, "model", "checkpoint", "engines"},
    "commented_config": {"errors", "config"},
    "proposal": {"errors", "config", "commented_config", "data"},
    "labelled_proposal": {"errors", "config", "commented_config", "data", "proposal"},
    # What composes them, the front door (`clearhead` itself), and the roof.
    "api": ROOMS,
    "__init__": {*ROOMS, "api"},
    "cli": {*ROOMS, "api", "__init__"},
    "serve": {*ROOMS, "api", "__init__"},
    "__main__": {"cli"},
}

NOT_A_ROOM = {"__version__"}


def module_name(path: Path) -> str:
    """`model/build.py` -> `model.build`, `data/__init__.py` -> `data`."""
    parts = path.relative_to(HOUSE).with_suffix("").parts
    return ".".join(parts[:-1] if len(parts) > 1 and parts[-1] == "__init__" else parts)


def is_module(name: str) -> bool:
    place = HOUSE.joinpath(*name.split("."))
    return place.is_dir() or place.with_suffix(".py").is_file()


def entered(path: Path) -> Iterator[tuple[int, str]]:
    """Line and module (without `clearhead.`) of all of our own that a file imports or names."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        dotted: list[str] = []
        if isinstance(node, ast.Import):
            dotted = [alias.name for alias in node.names if alias.name != "clearhead"]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: a relative import"
            dotted = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            # After `import clearhead`, what counts is what is then taken from it.
            dotted = [f"{node.value.id}.{node.attr}"]
        for name in dotted:
            first, _, rest = name.partition(".")
            if first == "clearhead" and rest not in NOT_A_ROOM:
                yield getattr(node, "lineno", 0), module_of(rest)


def module_of(dotted: str) -> str:
    """The longest part of a dotted name that is a module; a public name is the front door's."""
    parts = dotted.split(".")
    while parts and not is_module(".".join(parts)):
        parts.pop()
    return ".".join(parts) or "__init__"


def allowed(room: str, module: str) -> bool:
    target = module.split(".")[0]
    return target == room or bool({target, module} & MAY_ENTER[room])


def test_every_room_has_its_place() -> None:
    assert {module_name(path).split(".")[0] for path in FILES} <= set(MAY_ENTER)


def test_a_file_enters_only_the_rooms_that_are_open_to_its_own() -> None:
    wrong = [
        f"{path.relative_to(HOUSE)}:{line} enters {module}"
        for path in FILES
        for line, module in entered(path)
        if not allowed(module_name(path).split(".")[0], module)
    ]
    assert not wrong, "\n".join(wrong)


def test_in_the_model_only_build_reads_the_config() -> None:
    readers = {
        path.name
        for path in HOUSE.glob("model/*.py")
        if any(module.split(".")[0] == "config" for _, module in entered(path))
    }
    assert readers == {"build.py"}


def test_only_the_roof_and_the_front_door_enter_api_and_only_main_enters_the_roof() -> None:
    entering = {
        (module_name(path).split(".")[0], module.split(".")[0])
        for path in FILES
        for _, module in entered(path)
    }
    into_api = {room for room, target in entering if target == "api"} - {"api"}
    assert {"cli"} <= into_api <= {*ROOF, "__init__"}
    assert {room for room, target in entering if target in ROOF} - ROOF == {"__main__"}


def test_a_file_has_at_most_250_lines() -> None:
    lines = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in FILES}
    long = [f"{path.relative_to(HOUSE)}: {count}" for path, count in lines.items() if count > 250]
    assert not long, "\n".join(long)


def test_a_name_says_something() -> None:
    words = {word for path in FILES for word in re.split(r"[._]", module_name(path))}
    assert not words & set("util utils helper helpers manager managers common misc".split())


def test_a_function_does_its_work_in_at_most_40_lines() -> None:
    long = [
        f"{path.relative_to(HOUSE)}:{node.lineno} {node.name}: {body_lines(node)}"
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and body_lines(node) > 40
    ]
    assert not long, "\n".join(long)


def body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function without its signature and docstring, comments and blank ones included."""
    first = function.body[0]
    before = (first.end_lineno or 0) if ast.get_docstring(function) else first.lineno - 1
    return (function.end_lineno or 0) - before


def test_of_a_function_the_signature_and_the_docstring_are_not_counted() -> None:
    docstring = '    """What it does.\n\n    And why.\n    """\n'
    body = "    y = x\n\n    # why\n    return y\n"
    for described in ("", docstring):
        (function,) = ast.parse(f"def f(\n    x,\n):\n{described}{body}").body
        assert isinstance(function, ast.FunctionDef)
        assert body_lines(function) == 4


PACKAGES = sorted(
    f"clearhead.{module_name(path)}"
    for path in FILES
    if path.name == "__init__.py" and path.parent != HOUSE
)


@pytest.mark.parametrize(
    "module",
    [
        *("clearhead", "clearhead.api", "clearhead.checkpoint", "clearhead.errors"),
        *("clearhead.decoding.hypothesis", "clearhead.data.readers", "clearhead.engines.engine"),
        *PACKAGES,
    ],
)
def test_what_does_not_need_torch_does_not_load_it(module: str) -> None:
    program = f"import {module}, sys; sys.exit('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, f"importing {module} loads torch\n{done.stderr}"


def test_the_public_names_are_there_and_resolve() -> None:
    for name in clearhead.__all__:
        assert getattr(clearhead, name).__module__.startswith("clearhead.")
    assert set(clearhead.__all__) < set(dir(clearhead))
    with pytest.raises(AttributeError, match="nothing_such"):
        _ = clearhead.nothing_such
