"""What a Python can import, and which PyTorch it has."""

from __future__ import annotations

import json
import os
import subprocess

from .process import BENCHMARKS, last_line
from .roster import PEERS

LIMIT_S = 120.0
"""Seconds that a Python may take to import a toolkit."""


class InstallationError(Exception):
    """A peer cannot be run; the message is a line that says why."""


def running_torch() -> str:
    """The version of this process's PyTorch with its build, e.g. `2.13.0+cu130`."""
    import torch

    return str(torch.__version__)


def public_version(version: str) -> str:
    """A version without its build: `2.13.0` of `2.13.0+cu130`."""
    return version.partition("+")[0]


def require_torch(python: str, torch: str) -> None:
    """See to it that a Python has this version and build of PyTorch.

    Raises:
        InstallationError: it has none, or another.
    """
    found = answer_of(python, "import torch; print(torch.__version__)")
    if found != torch:
        raise InstallationError(f"it has PyTorch {found}, clearhead runs on {torch} ({python})")


def toolkit_of(name: str, python: str, torch: str) -> str:
    """The toolkit of a peer as a Python has it: `transformers 5.23.0`.

    Raises:
        InstallationError: it cannot import the toolkit, or has another PyTorch.
    """
    peer = PEERS[name]
    assert peer.environment is not None
    require_torch(python, torch)
    program = f"import peers.{peer.module}, json; from importlib.metadata import version\n"
    program += f"print(json.dumps({{name: version(name) for name in {peer.environment.pinned}}}))"
    versions = json.loads(answer_of(python, program))
    return ", ".join(f"{package} {version}" for package, version in versions.items())


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
            timeout=LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise InstallationError(f"not imported within {LIMIT_S:.0f} s ({python})") from None
    if done.returncode:
        raise InstallationError(f"{last_line(done.stderr)} ({python})")
    return last_line(done.stdout)
