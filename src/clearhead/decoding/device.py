"""Where tensors live and how many threads work on them."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from clearhead.decoding.engine import check_device
from clearhead.errors import ClearheadError, ConfigError


def set_up_torch(device: str, threads: int) -> torch.device:
    """The device by name; what holds for the whole process is set up once, here.

    That is the threads, denormal numbers, what becomes of freed memory, and a GPU's float32.

    Args:
        device: `cpu`, `cuda`, or `auto` for the GPU where there is one.
        threads: of the CPU (0: as PyTorch chooses).

    Raises:
        ConfigError: the name is none of these, or the device is not there.
    """
    check_device(device)
    if threads > 0:
        torch.set_num_threads(threads)
    # Denormal numbers make a CPU many times slower and mean nothing here.
    torch.set_flush_denormal(True)
    keep_freed_memory()
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise ConfigError(
            "device = 'cuda', but PyTorch finds no GPU here", todo="use device = 'cpu' or 'auto'"
        )
    if device == "cuda":
        convolve_as_exactly_as_multiply()
    return torch.device(device)


def convolve_as_exactly_as_multiply() -> None:
    """Let a GPU's convolutions in float32 be as exact as its matrix products are set to be.

    PyTorch makes products of all 24 bits, unless it is told otherwise, but convolutions in TF32, of
    11 bits: what is called float32 here would be so only in part.
    """
    products = torch.backends.cuda.matmul.fp32_precision
    torch.backends.cudnn.conv.fp32_precision = products  # pyright: ignore[reportAttributeAccessIssue]


@contextmanager
def full_memory_said(todo: str, where: str | None = None) -> Iterator[None]:
    """What needs more memory than the GPU has is said as an error that a user can mend.

    Args:
        todo: how to compute it in less memory.
        where: what is computed.

    Raises:
        ClearheadError: the memory is full.
    """
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise ClearheadError(
            "the memory of the GPU is full", where=where, why=str(error), todo=todo
        ) from None


def keep_freed_memory() -> None:
    """Let the C library keep what is freed, where it is glibc; elsewhere nothing happens.

    By default it gives large blocks back to the system at once, which clears each page anew when
    the next step asks for the same: a fifth of the time of a beam search on a CPU.
    """
    if not sys.platform.startswith("linux"):
        return
    tune = getattr(ctypes.CDLL(None), "mallopt", None)
    if tune is not None:
        tune(_MMAP_MAX, 0)
        tune(_TRIM_THRESHOLD, _NEVER)


# The numbers of mallopt's parameters, as malloc.h has them, and a threshold that none reaches.
_TRIM_THRESHOLD, _MMAP_MAX, _NEVER = -1, -4, -1
