"""Gives each peer a Python with what it needs: in an environment of its own, made once."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .interpreter import (
    InstallationError,
    public_version,
    require_torch,
    running_torch,
    toolkit_of,
)
from .process import BENCHMARKS
from .roster import PEERS, Environment

ENVIRONMENTS = BENCHMARKS / ".environments"

LIMIT_S = 480.0
"""Seconds that the whole installation of a peer may take."""


@dataclass
class Pythons:
    """The Python of each peer that can be run.

    `failures` has why the others cannot, `notes` what is to be said below the tables.
    """

    paths: dict[str, str] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def find_pythons(
    names: Sequence[str], given: Mapping[str, str], say: Callable[[str], None]
) -> Pythons:
    """The Python of each peer; environments are made where they are not there yet.

    Args:
        names: of the peers.
        given: Pythons that run a peer in place of an environment of its own.
        say: told what is being done.
    """
    torch = running_torch()
    found = Pythons()
    for name in names:
        environment = PEERS[name].environment
        note = environment.note if environment else ""
        try:
            if name in given:
                toolkit = toolkit_of(name, given[name], torch)
                note = f"{toolkit}, found where --python says, not installed for this"
                found.paths[name] = given[name]
            else:
                found.paths[name] = python_of(name, ENVIRONMENTS, torch, say)
        except InstallationError as error:
            found.failures[name] = f"not installed: {error}"
            say(f"{name}: {found.failures[name]}")
            say(f"{name}: --python {name}=PATH runs it by a Python that has what it needs")
        if note:
            found.notes.append(f"- {name}: {note}")
    return found


def python_of(name: str, folder: Path, torch: str, say: Callable[[str], None]) -> str:
    """The Python that runs a peer; its environment is made where it is not there yet.

    Args:
        name: of the peer.
        folder: holds the environments.
        torch: the version of PyTorch, with its build, on which all are compared.
        say: told what is being done.

    Raises:
        InstallationError: something could not be installed, or took too long.
    """
    environment = PEERS[name].environment
    if environment is None:
        return sys.executable
    home = folder / name
    python, mark = home / "bin" / "python", home / "installed.json"
    wanted = json.dumps([environment.torch and torch, environment.steps])
    if python.exists() and mark.exists() and mark.read_text(encoding="utf-8") == wanted:
        return str(python)
    folder.mkdir(parents=True, exist_ok=True)
    say(f"{name}: installing into {home}")
    install(environment, home, torch, Installer(folder / f"{name}.log"))
    mark.write_text(wanted, encoding="utf-8")
    return str(python)


class Installer:
    """Runs commands within a limit of time that they share; all output goes to the log."""

    def __init__(self, log: Path) -> None:
        self.log = log
        self.ends = time.monotonic() + LIMIT_S
        log.write_text("", encoding="utf-8")

    def run(self, *command: str) -> None:
        """Run a command.

        Raises:
            InstallationError: it failed, or all took too long.
        """
        with self.log.open("a", encoding="utf-8") as stream:
            begins = stream.tell()
            left = max(1.0, self.ends - time.monotonic())
            try:
                done = subprocess.run(
                    command, stdout=stream, stderr=subprocess.STDOUT, timeout=left, check=False
                )
            except subprocess.TimeoutExpired:
                raise InstallationError(f"not installed within {LIMIT_S:.0f} s") from None
        if done.returncode:
            raise InstallationError(first_error(self.log.read_text(encoding="utf-8")[begins:]))


def install(environment: Environment, home: Path, torch: str, installer: Installer) -> None:
    """Make a virtual environment and install what belongs there.

    Raises:
        InstallationError: a step failed, all took too long, or another build of PyTorch came.
    """
    # Cleared: another build of the same PyTorch, from an earlier time, would satisfy pip.
    installer.run(sys.executable, "-m", "venv", "--clear", str(home))
    python = str(home / "bin" / "python")
    constraint: list[str] = []
    if environment.torch:
        # First: left to a peer's own wishes, pip may take another build of gigabytes.
        install_torch(python, torch, installer)
        constraints = home / "constraints.txt"
        constraints.write_text(f"torch=={public_version(torch)}\n", encoding="utf-8")
        constraint = ["--constraint", str(constraints)]
    for step in environment.steps:
        installer.run(python, "-m", "pip", "install", *constraint, *step)


def install_torch(python: str, torch: str, installer: Installer) -> None:
    """Install PyTorch in this version and build.

    Raises:
        InstallationError: it is not to be had.
    """
    pip = (python, "-m", "pip", "install")
    try:
        installer.run(*pip, f"torch=={torch}")
    except InstallationError:
        if torch == public_version(torch):
            raise
        # An index may have the build without naming it: only what came can tell.
        installer.run(*pip, f"torch=={public_version(torch)}")
    require_torch(python, torch)


def first_error(output: str) -> str:
    """The first line of pip's output that names an error, or the last line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()] or ["no output"]
    return next((line for line in lines if "error" in line.lower()), lines[-1])
