"""The locked packages: complete, with hashes, equal to the constraints, with their licences."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
LOCKED = re.split(r"^(?=[a-z])", (ROOT / "requirements.lock").read_text(), flags=re.MULTILINE)[1:]
"""One block a package: `name==version ; marker`, and its hashes."""


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def versions(text: str) -> dict[str, str]:
    return dict(re.findall(r"^([a-z0-9-]+)==([^\s;]+)", text, re.MULTILINE))


def test_every_locked_package_has_one_version_and_hashes() -> None:
    for block in LOCKED:
        first, *hashes = block.splitlines()
        assert re.fullmatch(r"[a-z0-9-]+==\S+( ; [^\\]+)? \\", first), first
        assert hashes, first
        for line in hashes:
            assert re.fullmatch(r"    --hash=sha256:[0-9a-f]{64}( \\)?", line), line


def test_the_locked_versions_are_those_of_the_constraints() -> None:
    constraints = versions((ROOT / "constraints.txt").read_text())
    del constraints["torch"]
    assert versions("".join(LOCKED)) == constraints


def test_every_dependency_is_locked_but_torch() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lists = [project["dependencies"], *project["optional-dependencies"].values()]
    names = [re.match(r"[A-Za-z0-9._-]+", line) for lines in lists for line in lines]
    needed = {normal(name[0]) for name in names if name}
    assert needed - versions("".join(LOCKED)).keys() == {"torch"}


def test_the_licence_of_every_locked_package_is_listed() -> None:
    page = (ROOT / "docs" / "licences.md").read_text()
    rows = re.findall(r"^\| ([a-z0-9-]+) \| (\d\S*) \| ([^|]+) \| [^|]+ \|$", page, re.MULTILINE)
    assert {name: version for name, version, _ in rows} == versions(
        (ROOT / "constraints.txt").read_text()
    )
    for name, _, licence in rows:
        assert licence != "not stated", name
