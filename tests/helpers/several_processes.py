"""Processes that torchrun starts on this machine, and a process that is connected with itself."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from torch import distributed

from clearhead.ranks import Ranks


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


class Exchanging(Ranks):
    """One process that exchanges with itself what it would exchange with others."""


@contextmanager
def group_of_one(backend: str) -> Iterator[None]:
    """This process connected with itself, as the engines for several processes need it."""
    store = distributed.HashStore()  # pyright: ignore[reportPrivateImportUsage]
    distributed.init_process_group(backend, store=store, rank=0, world_size=1)
    try:
        yield
    finally:
        distributed.destroy_process_group()
