"""Processes that torchrun starts on this machine."""

from __future__ import annotations

import sys
from pathlib import Path


def torchrun(processes: int, *words: str, restarts: int = 0) -> list[str]:
    """The command that starts so many processes of a Python program."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    return [*command, f"--max-restarts={restarts}", f"--nproc-per-node={processes}", *words]


def workers(launcher: int) -> dict[int, int]:
    """The ids of the processes that torchrun has started, by rank."""
    children = Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()
    found = {}
    for child in children:
        try:
            content = Path(f"/proc/{child}/environ").read_bytes()
        except (FileNotFoundError, ProcessLookupError):  # it has just ended
            continue
        ranks = [each[5:] for each in content.split(b"\0") if each.startswith(b"RANK=")]
        if ranks:
            found[int(ranks[0])] = int(child)
    return found


def is_running(process: int) -> bool:
    """Whether a process has not ended."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"
