"""What a benchmark ran on. PyTorch is imported only when its version is asked for."""

from __future__ import annotations

import os
import platform
from pathlib import Path


def machine(threads: int, gpu: str = "") -> str:
    """The processor, the GPU if one is named, cores, threads and PyTorch, in a line."""
    import torch

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    names = f"{processor()}, {gpu}" if gpu else processor()
    return f"{names}, {cores} cores, {threads} threads, torch {torch.__version__}"


def processor() -> str:
    """The name of the processor; where the system does not tell it, its architecture."""
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name" and value.strip():
                return value.strip()
    return platform.processor() or platform.machine()
