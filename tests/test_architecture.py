"""The structure of the source: which package imports which, and what works without torch."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import clearhead

SOURCE = Path(clearhead.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))

ORDER = (
    *("version", "terminal", "errors", "ranks", "sharding", "device", "settings", "folder"),
    *(
        "tokenizer",
        "text",
        "data",
        "model",
        "losses",
        "training",
        "decoding",
        "nn",
        "evaluation",
        "tasks",
    ),
    *("inspect", "formats", "api", "__init__", "serve", "cli", "__main__"),
)
"""Each package or module may import those before it. `__init__` is `clearhead` itself."""

FAST_DECODER = {"fast_decoder", "cache", "changes", "torch_engine"}
"""The modules of `decoding` that know a model; the searches do not."""


def module_name(path: Path) -> str:
    """`model/build.py` -> `model.build`, `data/__init__.py` -> `data`."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if len(parts) > 1 and parts[-1] == "__init__" else parts)


def package(module: str) -> str:
    return module.split(".")[0]


def is_module(name: str) -> bool:
    place = SOURCE.joinpath(*name.split("."))
    return place.is_dir() or place.with_suffix(".py").is_file()


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Line and module (without `clearhead.`) of every import of ours, type hints included."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: a relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            first, _, rest = name.partition(".")
            if first == "clearhead":
                yield getattr(node, "lineno", 0), longest_module(rest)


def longest_module(dotted: str) -> str:
    """The longest prefix of a dotted name that is a module; a public name is in `__init__`."""
    parts = dotted.split(".")
    while parts and not is_module(".".join(parts)):
        parts.pop()
    return ".".join(parts) or "__init__"


def test_the_order_lists_every_package_and_no_other() -> None:
    assert {package(module_name(path)) for path in FILES} == set(ORDER)


def test_a_package_imports_only_packages_before_it() -> None:
    wrong = [
        f"{path.relative_to(SOURCE)}:{line} imports {module}"
        for path in FILES
        for line, module in imports(path)
        if ORDER.index(package(module)) > ORDER.index(package(module_name(path)))
    ]
    assert not wrong, "\n".join(wrong)


def importers(wanted: str, inside: str = "") -> set[str]:
    """The modules (below `inside`) that import a package which is not their own."""
    found = {(module_name(path), package(module)) for path in FILES for _, module in imports(path)}
    return {
        name
        for name, imported in found
        if imported == wanted and package(name) != wanted and name.startswith(inside)
    }


@pytest.mark.slow
def test_in_the_model_only_build_reads_settings() -> None:
    assert importers("settings", "model.") == {"model.build"}


@pytest.mark.slow
def test_only_the_fast_decoder_knows_a_model() -> None:
    assert importers("model", "decoding.") <= {f"decoding.{name}" for name in FAST_DECODER}


@pytest.mark.slow
def test_only_api_imports_the_tasks() -> None:
    assert {package(name) for name in importers("tasks")} == {"api"}


@pytest.mark.slow
def test_training_knows_no_data_and_no_model() -> None:
    for unknown in ("data", "model", "losses", "tokenizer"):
        assert not importers(unknown, "training.")


def test_no_module_has_a_name_without_meaning() -> None:
    words = {word for path in FILES for word in re.split(r"[._]", module_name(path))}
    assert not words & set("util utils helper helpers manager managers common misc".split())


PACKAGES = sorted(
    f"clearhead.{module_name(path)}"
    for path in FILES
    if path.name == "__init__.py" and path.parent not in (SOURCE, SOURCE / "nn")
)
"""All packages but `nn`, which are modules of torch."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "module",
    [
        *(
            "clearhead",
            "clearhead.errors",
            "clearhead.folder.files",
            "clearhead.data.reading.pairs",
        ),
        *("clearhead.data.reading.labelled", "clearhead.data.reading.feature_sequences"),
        *("clearhead.decoding.engine", "clearhead.decoding.ctranslate2_engine"),
        *PACKAGES,
    ],
)
def test_importing_what_needs_no_torch_does_not_load_it(module: str) -> None:
    program = f"import {module}, sys; sys.exit('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, f"importing {module} loads torch\n{done.stderr}"


def test_the_public_names_exist() -> None:
    for name in clearhead.__all__:
        found = getattr(clearhead, name)
        assert found is clearhead.nn or found.__module__.startswith("clearhead.")
        assert found.__name__.endswith(name)
    assert set(clearhead.__all__) < set(dir(clearhead))
    with pytest.raises(AttributeError, match="nothing_such"):
        _ = clearhead.nothing_such
