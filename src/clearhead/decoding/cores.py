"""The processors and cores of this machine."""

from __future__ import annotations

import os
from pathlib import Path

PROCESSORS = Path("/sys/devices/system/cpu")
INFORMATION = Path("/proc/cpuinfo")


def processors() -> int:
    """The processors that this process may run on."""
    if not hasattr(os, "sched_getaffinity"):
        return os.cpu_count() or 1
    return len(os.sched_getaffinity(0))


def intel() -> bool:
    """Whether the processor is one of Intel's, as Linux tells it; elsewhere not."""
    try:
        return "GenuineIntel" in INFORMATION.read_text()
    except OSError:
        return False


def real_cores() -> int:
    """The cores that this process may run on: of the threads that share one, only one counts.

    As Linux tells it, and inside a virtual machine its host; elsewhere every processor counts. A
    container's limit of processor time is not regarded.
    """
    if not hasattr(os, "sched_getaffinity"):
        return os.cpu_count() or 1
    return len({_sharing(processor) for processor in os.sched_getaffinity(0)})


def _sharing(processor: int) -> str:
    """The processors that share a core with this one, itself included."""
    siblings = PROCESSORS / f"cpu{processor}" / "topology" / "thread_siblings_list"
    try:
        return siblings.read_text().strip()
    except OSError:
        return str(processor)
