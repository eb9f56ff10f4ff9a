"""The processes that do one job together, as `torchrun` starts them.

Each process is a rank, counted from 0. Rank 0 reads and writes what they share and decides; the
others follow. Every method that communicates must be called by all ranks, in the same order.
Imports no torch before it is needed.
"""

from __future__ import annotations

import itertools
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

from clearhead.errors import ConfigError, TrainingError

if TYPE_CHECKING:
    from torch import nn

_T = TypeVar("_T")

BACKEND_WITH_GPU = "cpu:gloo,cuda:nccl"
"""What exchanges tensors on a CPU, and those on a GPU."""

LONGEST_WAIT = timedelta(days=7)
"""For rank 0, which may prepare a large corpus.

gloo notices at once that a process has ended. NCCL may not, e.g. between two machines; torchrun
then ends the processes of its machine.
"""


@dataclass(frozen=True)
class Ranks:
    """This process and the others.

    Attributes:
        number: of this process, from 0.
        count: the number of processes.
    """

    number: int = 0
    count: int = 1

    @property
    def is_first(self) -> bool:
        """Whether this is rank 0."""
        return self.number == 0

    def part(self, items: Sequence[_T]) -> Sequence[_T]:
        """The items of this rank: neighbours, as many as for every other rank or one more."""
        return items[self.first_of(items) : len(items) * (self.number + 1) // self.count]

    def first_of(self, items: Sequence[_T]) -> int:
        """The index of the first item of this rank."""
        return len(items) * self.number // self.count

    def gathered(self, part: Sequence[_T]) -> list[_T]:
        """The parts of all ranks in their order, on every rank."""
        if self.count == 1:
            return list(part)
        from torch import distributed

        parts: list[Any] = [None] * self.count
        distributed.all_gather_object(parts, list(part))
        return list(chain.from_iterable(parts))

    def of_first(self, value: _T) -> _T:
        """The value of rank 0, on every rank."""
        if self.count == 1:
            return value
        import torch
        from torch import distributed

        values = [value]
        distributed.broadcast_object_list(values, src=0, device=torch.device("cpu"))
        return values[0]

    def total(self, values: Sequence[float]) -> list[float]:
        """The sum of each value over all ranks, in float64."""
        if self.count == 1:
            return list(values)
        import torch
        from torch import distributed

        sums = torch.tensor(values, dtype=torch.float64)
        distributed.all_reduce(sums)
        return sums.tolist()

    def copy_weights(self, model: nn.Module) -> None:
        """Give the model the weights of rank 0."""
        if self.count == 1:
            return
        import torch
        from torch import distributed

        with torch.no_grad():
            for tensor in chain(model.parameters(), model.buffers()):
                distributed.broadcast(tensor, src=0)

    def first_alone(self, work: Callable[[], _T]) -> _T:
        """What `work` gives. The others do it when rank 0 is done, and rank 0 waits for them."""
        if not self.is_first:
            self.wait()
        found = work()
        if self.is_first:
            self.wait()
        self.wait()
        return found

    def wait(self) -> None:
        """Wait until all ranks call this."""
        self.total([0.0])


ALONE = Ranks()
"""One process."""

_JOINED = itertools.count()
"""Connections of this process so far."""


@contextmanager
def joined_ranks() -> Iterator[Ranks]:
    """The processes that `torchrun` has started with this one; `ALONE` without it."""
    # Tensors on a CPU are exchanged by gloo, those on a GPU by NCCL.
    size = started()
    if size == 1 or "RANK" not in os.environ:
        yield ALONE
        return
    import torch
    from torch import distributed
    from torch.distributed.distributed_c10d import PrefixStore
    from torch.distributed.rendezvous import rendezvous

    ranks = Ranks(int(os.environ["RANK"]), size)
    backend = BACKEND_WITH_GPU if torch.cuda.is_available() else "gloo"
    try:
        store, _, _ = next(rendezvous("env://", timeout=LONGEST_WAIT))
        distributed.init_process_group(
            backend,
            store=PrefixStore(_attempt(), store),
            rank=ranks.number,
            world_size=size,
            timeout=LONGEST_WAIT,
        )
        try:
            yield ranks
        finally:
            distributed.destroy_process_group()
            # Threads of gloo still drop their last tensors, for which they need Python's lock. One
            # that asks for it when Python is already ending aborts the process. They cannot be
            # joined: PyTorch's caches hold the connection.
            # If a process dies, torchrun sends SIGTERM to the others, which must not hide their own
            # error: it has the reason.
            with suppress(KeyboardInterrupt):
                time.sleep(0.2)
    except RuntimeError as error:
        if not _is_of_connection(error):
            raise
        raise TrainingError(
            "the connection to another process is lost",
            where=f"rank {ranks.number} of {size}",
            why=_plain(str(error)),
            todo="see the message of the process that ended first, and run the command again; "
            "training resumes",
        ) from None


def check_share(accumulate: int, batch_tokens: int, ranks: Ranks) -> None:
    """Check that the batches of a step can be shared out evenly."""
    if accumulate % ranks.count == 0:
        return
    new = -(-accumulate // ranks.count) * ranks.count
    raise ConfigError(
        f"{ranks.count} processes cannot share the batches of a step evenly",
        where=f"training.accumulate = {accumulate}",
        why="a step takes `accumulate` batches over all processes, whatever their number",
        todo=f"start a number of processes that divides {accumulate}; or, for a new run, set "
        f"training.accumulate = {new}: a step then has {new / accumulate:g} times as many tokens; "
        f"training.batch_tokens = {max(1, batch_tokens * accumulate // new)} with it keeps the "
        "step as it is",
    )


def is_first() -> bool:
    """Whether this is rank 0, or the only process."""
    return int(os.environ.get("RANK", "0")) == 0


def started() -> int:
    """The number of processes that `torchrun` has started with this one; 1 without it."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def restarts() -> int:
    """How often `torchrun` repeats the command if a process ends with an error."""
    return int(os.environ.get("TORCHELASTIC_MAX_RESTARTS", "0"))


def local_number() -> int:
    """The number of this process among those on this machine, from 0."""
    return int(os.environ.get("LOCAL_RANK", "0"))


def local_count() -> int:
    """The number of processes on this machine."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


def _attempt() -> str:
    """A name for this connection of the processes, the same on each."""
    # By default torchrun's store survives a restart, with the addresses of processes that are gone.
    # On several machines the counts may differ, and the rendezvous c10d makes a new store.
    restarts = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    alone = os.environ.get("GROUP_WORLD_SIZE") == "1"
    return f"{restarts if alone else 0}-{next(_JOINED)}"


def _plain(message: str) -> str:
    """A message of gloo or NCCL without its place in their source, and without advice."""
    first = message.strip().partition("\n")[0].partition(". This is")[0]
    return re.sub(r"^\[\S+:\d+\] ", "", first)


def _is_of_connection(error: RuntimeError) -> bool:
    from torch.distributed import DistError

    return isinstance(error, DistError) or any(
        name in str(error) for name in ("gloo", "NCCL", "Connection")
    )
