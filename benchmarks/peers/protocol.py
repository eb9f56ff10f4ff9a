"""The peers' side of the protocol: one JSON object per line, on stdin and stdout.

A peer's process waits for a request, does the work, and answers with the time that it took. So
several peers can be ready while one works. The timing is here, the same for all.

    {"do": "train", "first": 0, "count": 5, "warm": 1}  -> {"tokens": …, "seconds": …, "peak_mb": …}
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import math
import multiprocessing
import operator
import os
import sys
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from .workload import DECODED, SIZES, Batch, Shape, Workload

COMPILED = "bf16 compiled"
"""The kind of a training whose layers PyTorch compiles."""


@dataclass(frozen=True)
class Job:
    """The model that a peer works with.

    `kind` is the precision or the engine: `float32`, `bf16`, `auto`, `torch int8` … The peer may
    write into `folder`. `tokenizer` is the path of the tokenizer's files without their suffix.
    """

    shape: Shape
    vocabulary: int
    kind: str
    threads: int
    folder: Path
    tokenizer: Path
    device: str = "cpu"

    @property
    def is_bf16(self) -> bool:
        """Whether products are in bf16."""
        return self.kind in ("bf16", COMPILED)


class Trainer(Protocol):
    """A model, its loss and its optimizer, as the peer itself would use them."""

    def ready(self, batch: Batch) -> Any:
        """A batch in the form of the peer's own data loading; not timed."""
        ...

    def step(self, ready: Any) -> Any:
        """Make one update; return the mean loss per target token, as a number or a tensor."""
        ...


class Program(ABC):
    """A training program that cannot be called step by step, and times itself."""

    @abstractmethod
    def train(self, batches: Sequence[Batch]) -> tuple[list[float], list[float]]:
        """Make an update on each batch; return their seconds and mean losses per target token."""

    @abstractmethod
    def peak_mb(self) -> float:
        """Peak memory of the program in MB."""


class Decoder(Protocol):
    """A model and its search."""

    def decode(self, sentences: Sequence[Sequence[int]], beam_size: int) -> Sequence[int]:
        """Decode the sentences as one batch; return the number of steps of each."""
        ...


@dataclass(frozen=True)
class Abilities:
    """What a peer can do; `save` writes a model folder and returns the command that uses it."""

    trainer: Callable[[Job], Trainer | Program] | None = None
    decoder: Callable[[Job], Decoder] | None = None
    save: Callable[[Job], Sequence[str]] | None = None


def serve(abilities: Abilities) -> None:
    """Answer the requests of stdin until it ends."""
    # Libraries may print to stdout, which must only contain replies: redirect it to stderr.
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    server = Server(abilities)
    for line in sys.stdin:
        try:
            reply = server.answer(json.loads(line))
        except Exception as error:
            traceback.print_exc()
            lines = str(error).strip().splitlines() or [""]
            reply = {"error": f"{type(error).__name__}: {lines[0]}"}
        replies.write(json.dumps(reply) + "\n")
        replies.flush()


class Server:
    """Answers requests."""

    def __init__(self, abilities: Abilities) -> None:
        self.abilities = abilities
        self.workload: Workload | None = None
        self.trainer: Trainer | Program | None = None
        self.decoder: Decoder | None = None
        self.device = "cpu"

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """The reply to a request; afterwards freed memory is returned to the system."""
        actions = (self.start, self.train, self.decode, self.save)
        arguments = dict(request)
        action = {each.__name__: each for each in actions}[arguments.pop("do")]
        try:
            forget_peak(self.device)
            reply = action(**arguments)
            return {"peak_mb": peak_mb(self.device), **reply}
        finally:
            # Other peers work while this process waits.
            gc.collect()
            give_memory_back(self.device)

    def start(self, work: str, workload: str, **job: Any) -> dict[str, Any]:
        """Load the workload and prepare a model for `training` or `decoding`."""
        settings, self.workload = read_job(workload, job)
        self.device = settings.device
        if work == "training" and self.abilities.trainer is not None:
            self.trainer = self.abilities.trainer(settings)
        elif work == "decoding" and self.abilities.decoder is not None:
            self.decoder = self.abilities.decoder(settings)
        else:
            raise ValueError(f"this peer cannot do {work}")
        return {}

    def train(self, first: int, count: int, warm: int) -> dict[str, Any]:
        """Train on `warm` batches without timing, then on `count` batches, from index `first` on.

        `loss` is the mean loss per target token of the timed batches, as the peer reports it.
        """
        if self.workload is None or self.trainer is None:
            raise ValueError("training was not started")
        batches = self.workload.slice_of_batches(first, warm + count)
        peak = {}
        if isinstance(self.trainer, Program):
            taken, losses = self.trainer.train(batches[warm:])
            seconds, peak = sum(taken), {"peak_mb": self.trainer.peak_mb()}
        else:
            seconds, losses = self.timed(self.trainer, batches, warm)
        tokens = [batch.target_tokens for batch in batches[warm:]]
        loss = sum(map(operator.mul, losses, tokens)) / sum(tokens)
        if not math.isfinite(loss):
            raise ValueError(f"the loss is {loss}")
        return {"tokens": sum(tokens), "seconds": seconds, "loss": loss, **peak}

    def timed(
        self, trainer: Trainer, batches: Sequence[Batch], warm: int
    ) -> tuple[float, list[float]]:
        """The seconds and the losses of all steps after the first `warm`."""
        ready = [trainer.ready(batch) for batch in batches]
        for batch in ready[:warm]:
            trainer.step(batch)
        wait_for(self.device)
        began = time.perf_counter()
        steps = [trainer.step(batch) for batch in ready[warm:]]
        wait_for(self.device)
        losses = [float(loss) for loss in steps]
        return time.perf_counter() - began, losses

    def decode(self, first: int, count: int, batch_size: int, beam_size: int) -> dict[str, Any]:
        """Decode `count` sentences from index `first` on, after one batch without timing."""
        if self.workload is None or self.decoder is None:
            raise ValueError("decoding was not started")
        sentences = self.workload.slice_of_sentences(first, count)
        batches = [sentences[i : i + batch_size] for i in range(0, count, batch_size)]
        self.decoder.decode(batches[0], beam_size)
        steps: list[int] = []
        wait_for(self.device)
        began = time.perf_counter()
        for batch in batches:
            steps += self.decoder.decode(batch, beam_size)
        wait_for(self.device)
        seconds = time.perf_counter() - began
        if steps != [DECODED] * count:
            raise ValueError(f"the steps are {sorted(set(steps))}, not {DECODED}")
        return {"tokens": DECODED * count, "seconds": seconds}

    def save(self, workload: str, **job: Any) -> dict[str, Any]:
        """Write a model and return the command that translates a sentence of stdin with it."""
        if self.abilities.save is None:
            raise ValueError("this peer has no command")
        settings, _ = read_job(workload, job)
        return {"command": list(self.abilities.save(settings))}


def read_job(path: str, job: dict[str, Any]) -> tuple[Job, Workload]:
    """The job of a request, and its workload."""
    workload = Workload.read(Path(path))
    settings = Job(
        shape=SIZES[job["size"]],
        vocabulary=workload.vocabulary,
        kind=job["kind"],
        threads=int(job["threads"]),
        folder=Path(job["folder"]),
        tokenizer=Path(path).with_name("tokenizer"),
        device=job.get("device", "cpu"),
    )
    return settings, workload


def apart(work: Callable[[Job], object], job: Job) -> None:
    """Do preparatory work in a new process, whose memory is not measured.

    Raises:
        RuntimeError: it failed.
    """
    process = multiprocessing.get_context("spawn").Process(target=work, args=(job,))
    process.start()
    process.join()
    if process.exitcode:
        raise RuntimeError(f"{work.__name__} failed with exit code {process.exitcode}")


def wait_for(device: str) -> None:
    """Wait until a GPU, which works asynchronously, has finished."""
    if device == "cuda":
        import torch

        torch.cuda.synchronize()


def forget_peak(device: str) -> None:
    """Reset the peak memory of a GPU; a process has no such reset."""
    if device == "cuda":
        import torch

        torch.cuda.reset_peak_memory_stats()


def peak_mb(device: str) -> float:
    """Peak memory in MB: of the tensors on a GPU, of this process on a CPU."""
    if device == "cuda":
        import torch

        return torch.cuda.max_memory_allocated() / 1e6
    # Not ru_maxrss, which on Linux starts at the memory of the parent process.
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return 1024 * int(status.partition("VmHWM:")[2].split()[0]) / 1e6


def give_memory_back(device: str) -> None:
    """Return freed memory of PyTorch's allocator and of the C library to the system."""
    if device == "cuda":
        import torch

        torch.cuda.empty_cache()
    with contextlib.suppress(AttributeError):  # a C library other than glibc
        ctypes.CDLL(None).malloc_trim(0)
