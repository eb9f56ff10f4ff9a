"""Gives each peer an environment of its own, once."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from .roster import PEERS, TORCH, Environment

LIMIT_S = 480.0
"""Seconds that the whole installation of a peer may take."""


class InstallationError(Exception):
    """A peer could not be installed; the message is the first line of the error."""


def python_of(name: str, folder: Path, say: Callable[[str], None]) -> str:
    """The Python that runs a peer; its environment is made where it is not there yet.

    Args:
        name: of the peer.
        folder: holds the environments.
        say: told what is being done.

    Raises:
        InstallationError: something could not be installed, or took too long.
    """
    environment = PEERS[name].environment
    if environment is None:
        return sys.executable
    home = folder / name
    python, mark = home / "bin" / "python", home / "installed.json"
    wanted = json.dumps([environment.torch and TORCH, environment.steps])
    if python.exists() and mark.exists() and mark.read_text(encoding="utf-8") == wanted:
        return str(python)
    folder.mkdir(parents=True, exist_ok=True)
    say(f"{name}: installing into {home}")
    install(environment, home, folder / f"{name}.log")
    mark.write_text(wanted, encoding="utf-8")
    return str(python)


def install(environment: Environment, home: Path, log: Path) -> None:
    """Make a virtual environment and install what belongs there; all output goes to the log.

    Raises:
        InstallationError: a step failed, or all took too long.
    """
    constraints = home.parent / "constraints.txt"
    constraints.write_text(f"{TORCH}\n", encoding="utf-8")
    pip = [str(home / "bin" / "python"), "-m", "pip", "install", "--constraint", str(constraints)]
    # PyTorch first: left to a peer's own wishes, pip may take another build of gigabytes.
    steps = [*([(TORCH,)] if environment.torch else []), *environment.steps]
    ends = time.monotonic() + LIMIT_S
    log.write_text("", encoding="utf-8")
    for command in ([sys.executable, "-m", "venv", str(home)], *([*pip, *step] for step in steps)):
        with log.open("a", encoding="utf-8") as stream:
            begins = stream.tell()
            left = max(1.0, ends - time.monotonic())
            try:
                done = subprocess.run(
                    command, stdout=stream, stderr=subprocess.STDOUT, timeout=left, check=False
                )
            except subprocess.TimeoutExpired:
                raise InstallationError(f"not installed within {LIMIT_S:.0f} s") from None
        if done.returncode:
            raise InstallationError(first_error(log.read_text(encoding="utf-8")[begins:]))


def first_error(output: str) -> str:
    """The first line of pip's output that names an error, or the last line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()] or ["no output"]
    return next((line for line in lines if "error" in line.lower()), lines[-1])
