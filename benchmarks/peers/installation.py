"""Installs each peer into an environment of its own, once, with the PyTorch that clearhead has."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .process import BENCHMARKS, last_line
from .roster import PEERS, Environment

ENVIRONMENTS = BENCHMARKS / ".environments"

INSTALL_LIMIT_S = 480.0
IMPORT_LIMIT_S = 120.0
"""Seconds that the whole installation of a peer, and the import of a toolkit may take."""


class InstallationError(Exception):
    """A peer cannot be run; the message is a line with the reason."""


@dataclass
class Pythons:
    """The Python of each peer that can be run.

    `failures` has the reason why the others cannot, `versions` the toolkit of each peer, `notes`
    what is printed below the tables.
    """

    paths: dict[str, str] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)


def find_pythons(
    names: Sequence[str], given: Mapping[str, str], log: Callable[[str], None]
) -> Pythons:
    """The Python of each peer; makes the environments that do not exist yet.

    Args:
        names: of the peers.
        given: Pythons that run a peer in place of its own environment.
        log: called with each line of progress.
    """
    torch = running_torch()
    found = Pythons()
    for name in names:
        environment = PEERS[name].environment
        note = environment.note if environment else ""
        versions = environment.pinned if environment else {}
        try:
            if name in given:
                versions = toolkit_of(name, given[name], torch)
                note = "run by the Python that --python names"
                found.paths[name] = given[name]
            else:
                found.paths[name] = python_of(name, ENVIRONMENTS, torch, log)
            found.versions |= versions
        except InstallationError as error:
            found.failures[name] = f"not installed: {error}"
            log(f"{name}: {found.failures[name]}")
            log(f"{name}: --python {name}=PATH runs it by a Python that has what it needs")
        if note:
            found.notes[name] = note
    return found


def python_of(name: str, folder: Path, torch: str, log: Callable[[str], None]) -> str:
    """The Python that runs a peer; makes its environment if it does not exist yet.

    Args:
        name: of the peer.
        folder: holds the environments.
        torch: the version of PyTorch, with its build, on which all are compared.
        log: called with each line of progress.

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
    log(f"{name}: installing into {home}")
    install(environment, home, torch, Installer(folder / f"{name}.log"))
    mark.write_text(wanted, encoding="utf-8")
    return str(python)


class Installer:
    """Runs commands within a time limit that they share; their output goes to the log."""

    def __init__(self, log: Path) -> None:
        self.log = log
        self.ends = time.monotonic() + INSTALL_LIMIT_S
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
                raise InstallationError(f"not installed within {INSTALL_LIMIT_S:.0f} s") from None
        if done.returncode:
            raise InstallationError(first_error(self.log.read_text(encoding="utf-8")[begins:]))


def install(environment: Environment, home: Path, torch: str, installer: Installer) -> None:
    """Make a virtual environment and install a peer.

    Raises:
        InstallationError: a step failed, all took too long, or another build of PyTorch came.
    """
    # Cleared, since an older build of the same PyTorch would satisfy pip.
    installer.run(sys.executable, "-m", "venv", "--clear", str(home))
    python = str(home / "bin" / "python")
    constraint: list[str] = []
    if environment.torch:
        # First, since a peer's requirements may make pip choose another build of gigabytes.
        install_torch(python, torch, installer)
        constraints = home / "constraints.txt"
        constraints.write_text(f"torch=={public_version(torch)}\n", encoding="utf-8")
        constraint = ["--constraint", str(constraints)]
    for step in environment.steps:
        installer.run(python, "-m", "pip", "install", *constraint, *step)


def install_torch(python: str, torch: str, installer: Installer) -> None:
    """Install PyTorch in this version and build.

    Raises:
        InstallationError: it is not available.
    """
    pip = (python, "-m", "pip", "install")
    try:
        installer.run(*pip, f"torch=={torch}")
    except InstallationError:
        if torch == public_version(torch):
            raise
        # An index may have the build under another name; `require_torch` checks what came.
        installer.run(*pip, f"torch=={public_version(torch)}")
    require_torch(python, torch)


def first_error(output: str) -> str:
    """The first line of pip's output that names an error, or the last line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()] or ["no output"]
    return next((line for line in lines if "error" in line.lower()), lines[-1])


def running_torch() -> str:
    """The version of this process's PyTorch with its build, for example `2.13.0+cu130`."""
    import torch

    return str(torch.__version__)


def public_version(version: str) -> str:
    """A version without its build: `2.13.0` of `2.13.0+cu130`."""
    return version.partition("+")[0]


def require_torch(python: str, torch: str) -> None:
    """Check that a Python has this version and build of PyTorch.

    Raises:
        InstallationError: it has none, or another.
    """
    found = answer_of(python, "import torch; print(torch.__version__)")
    if found != torch:
        raise InstallationError(f"it has PyTorch {found}, clearhead runs on {torch} ({python})")


def toolkit_of(name: str, python: str, torch: str) -> dict[str, str]:
    """The versions of a peer's pinned packages in a Python.

    Raises:
        InstallationError: it cannot import the toolkit, or has another PyTorch.
    """
    peer = PEERS[name]
    assert peer.environment is not None
    require_torch(python, torch)
    program = f"import peers.{peer.module}, json; from importlib.metadata import version\n"
    names = list(peer.environment.pinned)
    program += f"print(json.dumps({{name: version(name) for name in {names}}}))"
    return json.loads(answer_of(python, program))


def answer_of(python: str, program: str) -> str:
    """The last line that a program prints.

    Raises:
        InstallationError: it failed, or took too long.
    """
    try:
        done = subprocess.run(
            [python, "-c", program],
            cwd=BENCHMARKS,
            env={**os.environ, "HF_HUB_OFFLINE": "1"},
            capture_output=True,
            encoding="utf-8",
            timeout=IMPORT_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise InstallationError(f"not imported within {IMPORT_LIMIT_S:.0f} s ({python})") from None
    if done.returncode:
        raise InstallationError(f"{last_line(done.stderr)} ({python})")
    return last_line(done.stdout)
