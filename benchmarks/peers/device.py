"""The device that a peer works on: when it has finished, and the memory that it has held.

For a GPU PyTorch is imported, which a peer that works there has.
"""

from __future__ import annotations

import ctypes
import resource
import sys
from pathlib import Path


def wait_for(device: str) -> None:
    """Return when all that was asked of the device is done: a GPU works behind one's back."""
    if device == "cuda":
        import torch

        torch.cuda.synchronize()


def forget_peak(device: str) -> None:
    """Let the peak of a GPU begin anew with what is held now; that of a process stays."""
    if device == "cuda":
        import torch

        torch.cuda.reset_peak_memory_stats()


def peak_mb(device: str) -> float:
    """The most megabytes that tensors have held on a GPU; on a CPU, that this process has held."""
    if device == "cuda":
        import torch

        return torch.cuda.max_memory_allocated() / 1e6
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
    except OSError:
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6
    # Not ru_maxrss: on Linux that begins with the memory of the process that started this one.
    return 1024 * int(status.partition("VmHWM:")[2].split()[0]) / 1e6


def give_memory_back(device: str) -> None:
    """Let PyTorch's allocator and the C library return what was freed, where they can."""
    if device == "cuda":
        import torch

        torch.cuda.empty_cache()
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError, TypeError):
        return
