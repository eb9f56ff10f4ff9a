"""Installs each peer into its own environment, with the PyTorch that clearhead uses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import torch

from .process import BENCHMARKS, last_line
from .roster import PEERS, Environment

ENVIRONMENTS = BENCHMARKS / ".environments"
TORCH = str(torch.__version__)
"""PyTorch's version with its build, for example `2.13.0+cu130`."""

PUBLIC_TORCH = TORCH.partition("+")[0]
INSTALL_LIMIT_S = 480.0
IMPORT_LIMIT_S = 120.0
"""Seconds that a step of the installation, and the import of a toolkit, may take."""


class InstallationError(Exception):
    """A peer cannot be run; the message is the reason in one line."""


@dataclass
class Pythons:
    """The Python of each peer that can be run.

    `failures` has the reason why another cannot, `versions` the packages of the peers, `notes` what
    is printed below the tables.
    """

    paths: dict[str, str] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)


def find_pythons(
    names: Sequence[str], given: Mapping[str, str], log: Callable[[str], None]
) -> Pythons:
    """The Python of each peer: a `given` one, or that of its environment, created if need be."""
    found = Pythons()
    for name in names:
        environment = PEERS[name].environment
        if environment is None:
            found.paths[name] = sys.executable
            continue
        found.notes[name] = environment.note
        try:
            if name in given:
                found.versions |= toolkit_of(name, environment, given[name])
                found.notes[name] = "run by the Python of --python"
                found.paths[name] = given[name]
            else:
                found.paths[name] = python_of(name, environment, log)
                found.versions |= environment.pinned
        except InstallationError as error:
            found.failures[name] = f"not installed: {error}"
            log(f"{name}: {found.failures[name]}; --python {name}=PATH uses an existing Python")
    return found


def python_of(name: str, environment: Environment, log: Callable[[str], None]) -> str:
    """The Python of a peer's environment, which is created if it does not exist yet.

    Raises:
        InstallationError: a package could not be installed in time, or PyTorch is another build.
    """
    home = ENVIRONMENTS / name
    python, mark = home / "bin" / "python", home / "installed.json"
    wanted = json.dumps([environment.torch and TORCH, environment.steps])
    if not (python.exists() and mark.exists() and mark.read_text(encoding="utf-8") == wanted):
        ENVIRONMENTS.mkdir(parents=True, exist_ok=True)
        log(f"{name}: installing into {home}")
        install(environment, home, partial(run_logged, ENVIRONMENTS / f"{name}.log"))
        mark.write_text(wanted, encoding="utf-8")
    return str(python)


def run_logged(log: Path, *command: str) -> None:
    """Run a command; its output replaces the log.

    Raises:
        InstallationError: it failed, or took too long.
    """
    with log.open("w", encoding="utf-8") as out:
        try:
            done = subprocess.run(
                command, stdout=out, stderr=subprocess.STDOUT, timeout=INSTALL_LIMIT_S, check=False
            )
        except subprocess.TimeoutExpired:
            raise InstallationError(f"not installed within {INSTALL_LIMIT_S:.0f} s") from None
    if done.returncode:
        output = log.read_text(encoding="utf-8")
        errors = [line.strip() for line in output.splitlines() if "error" in line.lower()]
        raise InstallationError(errors[0] if errors else last_line(output))


def install(environment: Environment, home: Path, run: Callable[..., None]) -> None:
    """Create a virtual environment and install a peer; `run` runs commands.

    Raises:
        InstallationError: a step failed, or PyTorch is another build.
    """
    # Cleared, because pip would accept an older build of the same PyTorch.
    run(sys.executable, "-m", "venv", "--clear", str(home))
    python = str(home / "bin" / "python")
    pip = (python, "-m", "pip", "install")
    constraint: list[str] = []
    if environment.torch:
        # First, because the requirements of a peer may choose another build of several gigabytes.
        try:
            run(*pip, f"torch=={TORCH}")
        except InstallationError:
            if TORCH == PUBLIC_TORCH:
                raise
            # An index may have the build under another name.
            run(*pip, f"torch=={PUBLIC_TORCH}")
        require_torch(python)
        constraints = home / "constraints.txt"
        constraints.write_text(f"torch=={PUBLIC_TORCH}\n", encoding="utf-8")
        constraint = ["--constraint", str(constraints)]
    for step in environment.steps:
        run(*pip, *constraint, *step)


def require_torch(python: str) -> None:
    """Check that a Python has the same build of PyTorch as clearhead.

    Raises:
        InstallationError: it has none, or another.
    """
    found = output_of(python, "import torch; print(torch.__version__)")
    if found != TORCH:
        raise InstallationError(f"PyTorch is {found}, that of clearhead is {TORCH} ({python})")


def toolkit_of(name: str, environment: Environment, python: str) -> dict[str, str]:
    """The versions of a peer's pinned packages in a Python.

    Raises:
        InstallationError: it cannot import the toolkit, or has another PyTorch.
    """
    require_torch(python)
    program = f"import peers.{PEERS[name].module}, json; from importlib.metadata import version\n"
    names = list(environment.pinned)
    program += f"print(json.dumps({{name: version(name) for name in {names}}}))"
    return json.loads(output_of(python, program))


def output_of(python: str, program: str) -> str:
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
