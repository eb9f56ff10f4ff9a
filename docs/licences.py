"""Write docs/licences.md: version, licence and purpose of every locked package.

    python docs/licences.py > docs/licences.md

The metadata are those of the packages that are installed beside this Python.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path

ROOT = Path(__file__).parents[1]
HEAD = """\
# Licences of the dependencies

`make lock` writes this page. It lists the tested version of every package that `make install`
installs: what clearhead needs, what its extras need, and the tools to develop it. The licences are
those that the packages state in their metadata. Builds of PyTorch for CUDA also bring libraries of
NVIDIA, which have licences of their own. clearhead itself is licensed under Apache 2.0.

| package | version | licence | needed by |
|---|---|---|---|
"""
LONGEST = 60  # characters of a licence's name; some packages have the whole text in its place
ITSELF = "clearhead"


def normal(name: str) -> str:
    """The name of a package as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def locked() -> list[str]:
    """The names of the locked packages, and of torch, which has no fixed hash."""
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    return sorted([*re.findall(r"^([a-z0-9-]+)==", text, re.MULTILINE), "torch"])


def licence(package: Distribution) -> str:
    """The licence that a package states: as an expression, a name, a classifier, or a file."""
    metadata = package.metadata
    stated = metadata.get_all("License-Expression") or metadata.get_all("License") or [""]
    named = str(stated[0])
    if 0 < len(named) <= LONGEST and "\n" not in named and named.lower() != "unknown":
        return named
    classified = [
        line.rpartition(" :: ")[2]
        for line in metadata.get_all("Classifier") or ()
        if line.startswith("License :: ") and not line.endswith("OSI Approved")
    ]
    files = metadata.get_all("License-File") or []
    text = named.strip() or next(
        (package.read_text(f"licenses/{name}") or "" for name in files), ""
    )
    # The first line of a licence's text is its title.
    return ", ".join(classified) or text.strip().partition("\n")[0].strip() or "not stated"


def needed(name: str) -> Iterator[tuple[str, str]]:
    """Each package that a package needs, and the extra of the package that needs it ("": none)."""
    for line in distribution(name).requires or ():
        found = re.match(r"[A-Za-z0-9._-]+", line)
        extra = re.search(r"extra == ['\"]([^'\"]+)", line)
        assert found, line
        yield normal(found[0]), extra[1] if extra else ""


def users(names: list[str]) -> dict[str, list[str]]:
    """For each package the extras of clearhead, or else the packages, that need it."""
    direct: dict[str, list[str]] = {}
    for package, extra in needed(ITSELF):
        direct.setdefault(package, []).append(f"extra `{extra}`" if extra else ITSELF)
    indirect: dict[str, list[str]] = {}
    for name in names:
        for package, extra in needed(name):
            # An extra of a package is rarely asked for: only where nothing else needs its packages.
            if not extra:
                indirect.setdefault(package, []).append(name)
    for name in names:
        for package, _ in needed(name):
            if package not in direct and package not in indirect:
                indirect[package] = [name]
    return {name: direct.get(name) or indirect[name] for name in names}


def page() -> str:
    """The whole page."""
    names = locked()
    by_package = users(names)
    rows = []
    for name in names:
        found = distribution(name)
        version = found.version.partition("+")[0]  # without the name of a build
        cells = name, version, licence(found), ", ".join(by_package[name])
        rows.append(f"| {' | '.join(cells)} |\n")
    return HEAD + "".join(rows)


if __name__ == "__main__":
    print(page(), end="")
