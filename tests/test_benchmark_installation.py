"""All peers are compared on the PyTorch that clearhead runs on, its build included."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from scripts import ROOT

sys.path.append(str(ROOT / "benchmarks"))
installation = importlib.import_module("peers.installation")
interpreter = importlib.import_module("peers.interpreter")
roster = importlib.import_module("peers.roster")

CPU, CUDA, BARE = "2.13.0+cpu", "2.13.0+cu130", "2.13.0"
TOOLKIT = roster.Environment((("toolkit==1.5", "other"),))


def python_that_has(path: Path, torch: str, toolkit: str = "") -> str:
    """A program that answers as a Python with this PyTorch would, and with a toolkit if any."""
    missing = 'echo "ModuleNotFoundError: no toolkit" >&2; exit 1'
    found = f"echo '{json.dumps({'toolkit': toolkit})}'" if toolkit else missing
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f'#!/bin/sh\ncase "$2" in *torch.__version__*) echo {torch};; *) {found};; esac\n',
        encoding="utf-8",
    )
    path.chmod(0o755)
    return str(path)


class Index:
    """Installs into a folder what it has, as pip would from an index; notes what it is asked for.

    `builds` has by requirement the build of PyTorch that comes.
    """

    def __init__(self, home: Path, **builds: str) -> None:
        self.home = home
        self.builds = {f"torch=={wanted}": build for wanted, build in builds.items()}
        self.asked: list[tuple[str, ...]] = []

    def run(self, *command: str) -> None:
        self.asked.append(command)
        wanted = command[-1]
        if not wanted.startswith("torch=="):
            return
        if wanted not in self.builds:
            raise installation.InstallationError(f"ERROR: no matching distribution for {wanted}")
        python_that_has(self.home / "bin" / "python", self.builds[wanted])

    @property
    def torch_asked(self) -> list[str]:
        return [command[-1] for command in self.asked if command[-1].startswith("torch==")]


@pytest.mark.parametrize(
    ("builds", "asked"),
    [
        ({CUDA: CUDA, BARE: CPU}, [CUDA]),
        ({BARE: CUDA}, [CUDA, BARE]),  # an index that names no builds
    ],
)
def test_the_build_that_clearhead_runs_on_is_installed(
    builds: dict[str, str], asked: list[str], tmp_path: Path
) -> None:
    index = Index(tmp_path, **builds)
    installation.install(TOOLKIT, tmp_path, CUDA, index)
    assert index.torch_asked == [f"torch=={version}" for version in asked]
    # Nothing of an older installation is left, and what follows may not take another version.
    assert index.asked[0] == (sys.executable, "-m", "venv", "--clear", str(tmp_path))
    pip, constraint = index.asked[-1][:4], index.asked[-1][4:6]
    assert pip == (str(tmp_path / "bin" / "python"), "-m", "pip", "install")
    assert constraint[0] == "--constraint"
    assert Path(constraint[1]).read_text(encoding="utf-8") == f"torch=={BARE}\n"
    assert index.asked[-1][6:] == TOOLKIT.steps[0]


def test_another_build_is_no_peer(tmp_path: Path) -> None:
    index = Index(tmp_path, **{BARE: CPU})
    with pytest.raises(installation.InstallationError) as refused:
        installation.install(TOOLKIT, tmp_path, CUDA, index)
    assert CPU in str(refused.value)
    assert CUDA in str(refused.value)
    assert index.asked[-1][-1] == f"torch=={BARE}"  # and no toolkit was installed


@pytest.mark.parametrize("torch", [CUDA, BARE])
def test_without_an_index_the_error_of_pip_is_told(torch: str, tmp_path: Path) -> None:
    with pytest.raises(installation.InstallationError, match="no matching distribution"):
        installation.install(TOOLKIT, tmp_path, torch, Index(tmp_path))


def test_a_peer_without_pytorch_asks_for_none(tmp_path: Path) -> None:
    index = Index(tmp_path)
    place = roster.Environment((("toolkit==1.5",),), torch=False)
    installation.install(place, tmp_path, CUDA, index)
    assert index.torch_asked == []


def test_after_another_build_the_environment_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def install(environment: Any, home: Path, torch: str, installer: Any) -> None:
        made.append(torch)
        python_that_has(home / "bin" / "python", torch)

    monkeypatch.setattr(installation, "install", install)
    for torch in (CPU, CPU, CUDA, CUDA, CPU):
        python = installation.python_of("marian", tmp_path, torch, print)
        assert interpreter.answer_of(python, "import torch; print(torch.__version__)") == torch
    assert made == [CPU, CUDA, CPU]


def test_a_toolkit_that_is_there_is_taken_where_the_pytorch_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(roster.PEERS, "marian", roster.Peer("marian", TOOLKIT))
    monkeypatch.setattr(installation, "running_torch", lambda: CUDA)
    monkeypatch.setattr(installation, "python_of", lambda *_: pytest.fail("it installs"))
    said: list[str] = []
    python = python_that_has(tmp_path / "good", CUDA, "1.4")
    found = installation.find_pythons(["marian"], {"marian": python}, said.append)
    assert (found.paths, found.failures, said) == ({"marian": python}, {}, [])
    assert found.notes == [
        "- marian: toolkit 1.4, found where --python says, not installed for this"
    ]
    for python, why in (
        (python_that_has(tmp_path / "other", CPU, "1.5"), CPU),
        (python_that_has(tmp_path / "bare", CUDA), "ModuleNotFoundError: no toolkit"),
    ):
        found = installation.find_pythons(["marian"], {"marian": python}, said.append)
        assert found.paths == {}
        assert why in found.failures["marian"]
        assert python in said[-2]


def test_who_cannot_be_installed_may_be_found_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> str:
        raise installation.InstallationError("ERROR: no network")

    monkeypatch.setattr(installation, "running_torch", lambda: CUDA)
    monkeypatch.setattr(installation, "python_of", fail)
    said: list[str] = []
    found = installation.find_pythons(["marian"], {}, said.append)
    assert found.failures == {"marian": "not installed: ERROR: no network"}
    assert "--python marian=PATH" in said[-1]


def test_what_is_asked_is_answered_by_the_python_that_is_named() -> None:
    program = "import peers.shape; print('noise'); print(peers.shape.POSITIONS)"
    assert interpreter.answer_of(sys.executable, program) == "512"
    with pytest.raises(interpreter.InstallationError, match=r"ModuleNotFoundError.*peers\.nobody"):
        interpreter.answer_of(sys.executable, "import peers.nobody")


def test_the_running_pytorch_is_named_with_its_build() -> None:
    program = "import torch; print(torch.__version__)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert interpreter.running_torch() == done.stdout.strip()


def test_no_peer_brings_a_pytorch_of_its_own() -> None:
    for name, peer in roster.PEERS.items():
        steps = peer.environment.steps if peer.environment else ()
        assert not any(word.startswith("torch=") or word == "torch" for s in steps for word in s)
        if peer.environment:
            assert [package for package in peer.environment.pinned if package], name


def test_the_first_line_of_an_error_is_told() -> None:
    said = "Collecting x\nERROR: Cannot install x\nERROR: more\n"
    assert installation.first_error(said) == "ERROR: Cannot install x"
