"""Processes forked from one that has PyTorch and clearhead imported: they start at once.

A new Python needs 3 to 4 seconds of processor time until it trains.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable, Mapping
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    [
        *("clearhead.api.training", "clearhead.api.preparation", "clearhead.api.loading"),
        *("clearhead.training.loop", "clearhead.training.display", "clearhead.tasks.translation"),
        *("clearhead.tasks.classification", "clearhead.decoding.torch_engine", "sacrebleu"),
        *("sentencepiece", "torch._dynamo", "clearhead.evaluation.baseline"),
        "torch.distributed.fsdp",
    ]
)


def start(
    function: Callable[..., object],
    *arguments: Any,
    output: Path,
    environment: Mapping[str, str] | None = None,
) -> BaseProcess:
    """Call a function in a process of its own, which prints into a file."""
    process = CONTEXT.Process(
        target=_call, args=(function, arguments, output, {**os.environ, **(environment or {})})
    )
    process.start()
    return process


def _call(
    function: Callable[..., object],
    arguments: tuple[Any, ...],
    output: Path,
    environment: Mapping[str, str],
) -> None:
    os.environ.clear()
    os.environ.update(environment)
    with output.open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    try:
        function(*arguments)
    finally:
        sys.stdout.flush()
