"""Device, threads, memory and processors. Imports torch only in the functions that need it."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from types import MethodType, ModuleType
from typing import TYPE_CHECKING
from weakref import WeakMethod

from clearhead.errors import ClearheadError, ConfigError, warn
from clearhead.ranks import local_count, local_number

if TYPE_CHECKING:
    import torch

DEVICES = ("cpu", "cuda", "auto")

# Files in which Linux describes the processors.
PROCESSORS = Path("/sys/devices/system/cpu")
INFORMATION = Path("/proc/cpuinfo")

# Where Linux limits the memory of the processes of a container, and lists the groups of this one.
CGROUPS = Path("/sys/fs/cgroup")
GROUPS = Path("/proc/self/cgroup")

SPIN_COUNT = 1000
"""Times that an OpenMP thread polls a barrier before it sleeps. By default libgomp polls for a few
milliseconds, and training slows down many times over beside any other busy process. Smaller values
are better beside other processes and slower alone (docs/experiments.md)."""

WAITING = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
"""Variables that set how OpenMP threads wait. libgomp reads them once, when it is loaded."""

KERNELS = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "DNNL_PRIMITIVE_CACHE_CAPACITY")
"""Variables that set how many kernels oneDNN keeps. It reads them at the first product."""

MOST_KERNELS = 128

LIBRARIES = ("torch", "ctranslate2")
"""Libraries that load libgomp, each its own."""

_imported: dict[str, int] = {}
"""The process in which `short_waits` saw the import of each library."""

_threads = 0
"""The number of threads that `set_up_torch` has set; 0 before its first call."""

_thread = threading.local()
"""`threads`: the value of `_threads` that this thread was set up with."""


@contextmanager
def short_waits() -> Iterator[None]:
    """Limit the busy waiting of OpenMP in the libraries that are imported in this block."""
    # A choice of the user is kept. After the block the environment is as before.
    known = {name for name in LIBRARIES if name in sys.modules}
    is_chosen = not os.environ.keys().isdisjoint(WAITING)
    if not is_chosen:
        os.environ[WAITING[0]] = str(SPIN_COUNT)
    try:
        yield
    finally:
        if not is_chosen:
            os.environ.pop(WAITING[0], None)
        new = {name for name in LIBRARIES if name in sys.modules} - known
        _imported.update(dict.fromkeys(new, os.getpid()))


def imported(library: str) -> ModuleType:
    """The library `torch` or `ctranslate2`, imported with `short_waits` if it is not loaded."""
    with short_waits():
        return import_module(library)


@cache
def warn_of_long_waits(library: str) -> None:
    """Warn once if the library was loaded without `short_waits` and without the user's choice."""
    is_chosen = not os.environ.keys().isdisjoint(WAITING)
    if sys.platform.startswith("linux") and library not in _imported and not is_chosen:
        warn(
            f"{library} was imported before clearhead could limit how long its threads wait for "
            "each other: beside other busy programs it can be many times slower. Set "
            f"GOMP_SPINCOUNT={SPIN_COUNT} in the environment before {library} is imported, or use "
            "one thread"
        )


def limit_kernels() -> None:
    """Make oneDNN keep few of the kernels that it compiles, unless the user has chosen how many.

    It compiles a kernel for each shape of a product. Batches of long texts all differ in shape, and
    the process takes gigabytes more with the 1,024 kernels that are kept by default
    (docs/decisions/0011).
    """
    if os.environ.keys().isdisjoint(KERNELS):
        os.environ[KERNELS[0]] = str(MOST_KERNELS)


def check_device(name: str) -> None:
    """Check the name of a device."""
    if name not in DEVICES:
        raise ConfigError(
            f"{name!r} is not the name of a device",
            todo=f"choose one of {', '.join(DEVICES)}",
        )


def set_up_torch(device: str, threads: int) -> torch.device:
    """Set PyTorch up for the whole process and return the device.

    This sets the threads, treats denormal numbers as zero, and on a GPU computes convolutions as
    exactly as products. Several processes on one machine share its cores, and each has its own GPU.
    A process that was forked after PyTorch was imported has one thread. `auto` is a GPU if there is
    one, and 0 threads are PyTorch's default, or a share of the cores.

    Raises:
        ConfigError: the name is unknown, or there is no such device.

    Warns:
        UserWarning: several threads are used, and the program has imported PyTorch in a way that
            makes them slow beside other programs.
    """
    check_device(device)
    imported("torch")
    import torch

    process = _imported.get("torch", sys.modules["clearhead"].PROCESS)
    _set_threads(threads or threads_of_process() if process == os.getpid() else 1)
    _protect_forks()
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise ConfigError(
            "the device is 'cuda', but PyTorch finds no GPU", todo="use the device 'cpu' or 'auto'"
        )
    if device == "cuda":
        if local_count() > 1:
            if local_count() > (gpus := torch.cuda.device_count()):
                raise ConfigError(
                    f"{local_count()} processes cannot share the GPUs of this machine: {gpus}",
                    todo="start one process per GPU: torchrun --nproc-per-node gpu",
                )
            torch.cuda.set_device(local_number())
        convolve_as_exactly_as_multiply()
        # PyTorch prefers cuDNN's attention, which takes twice the time of its own on sentences.
        torch.backends.cuda.enable_cudnn_sdp(False)
    elif _threads > 1:
        warn_of_long_waits("torch")
    return torch.device(device)


def _set_threads(count: int) -> None:
    """Set the threads of PyTorch for the process and the calling thread (0: as they are)."""
    global _threads
    import torch

    if count:
        torch.set_num_threads(count)
    # Denormal numbers make a CPU many times slower and do not matter here.
    torch.set_flush_denormal(True)
    _threads = _thread.threads = torch.get_num_threads()


def set_up_thread() -> None:
    """Set the calling thread up as `set_up_torch` has set up the process."""
    # The number of threads and the treatment of denormal numbers belong to each thread: the threads
    # of a pool do not have what the main thread has set.
    if getattr(_thread, "threads", 0) != _threads:
        _set_threads(_threads)


@cache
def _protect_forks() -> None:
    """Let PyTorch compute with one thread in processes that are forked from this one.

    They lack the other threads of OpenMP, and would wait for these for ever.
    """
    after_fork(partial(_set_threads, 1))


def after_fork(function: Callable[[], None]) -> None:
    """Call a function in processes that are forked from this one; a method if its object lives."""
    found = WeakMethod(function) if isinstance(function, MethodType) else lambda: function

    def call() -> None:
        if (live := found()) is not None:
            live()

    os.register_at_fork(after_in_child=call)


def convolve_as_exactly_as_multiply() -> None:
    """Give float32 convolutions on a GPU the same precision as matrix products."""
    # By default PyTorch computes products with 24 bits but convolutions in TF32 with 11 bits, so
    # only a part of the model would be float32.
    import torch

    products = torch.backends.cuda.matmul.fp32_precision
    torch.backends.cudnn.conv.fp32_precision = products  # pyright: ignore[reportAttributeAccessIssue]


def keep_freed_memory() -> None:
    """Make glibc keep freed memory; with another C library nothing happens."""
    # By default glibc returns large blocks to the system, which clears all pages again when the
    # next step allocates them. On a CPU that takes a fifth of the time of a beam search. The
    # setting holds for the whole process, so only a program that owns its process calls this.
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    tune = getattr(ctypes.CDLL(None), "mallopt", None)
    if tune is not None:
        tune(-4, 0)  # M_MMAP_MAX in malloc.h: no separate mappings
        tune(-1, -1)  # M_TRIM_THRESHOLD: never return memory
        tune(-8, 6)  # M_ARENA_MAX: threads share what is kept


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Compute with so many threads on the CPU, and then with as many as before; 0: no change."""
    import torch

    before = torch.get_num_threads()
    if count in (0, before):
        yield
        return
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def processor_has(*instructions: str) -> bool:
    """Whether the CPU has any of these instruction sets, as PyTorch names them."""
    import torch

    found = torch.cpu.get_capabilities()
    return any(found.get(name, False) for name in instructions)


def multiplies_bf16(device: torch.device) -> bool:
    """Whether the device has instructions for bf16; without them it is many times slower."""
    import torch

    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return processor_has("avx512_bf16", "amx_bf16")


@contextmanager
def explain_full_memory(todo: str, where: str | None = None) -> Iterator[None]:
    """Turn PyTorch's error of a full GPU memory into a `ClearheadError` with this advice."""
    import torch

    try:
        yield
    except torch.OutOfMemoryError as error:
        raise ClearheadError(
            "the memory of the GPU is full", where=where, why=str(error), todo=todo
        ) from None


def memory_of_process() -> int:
    """The bytes of memory that this process may use: of the machine, or less in a container."""
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    with suppress(OSError):
        for line in GROUPS.read_text().splitlines():
            _, controllers, group = line.split(":", 2)
            if controllers and "memory" not in controllers.split(","):
                continue
            root = CGROUPS / "memory" if controllers else CGROUPS
            name = "memory.limit_in_bytes" if controllers else "memory.max"
            # The limits of the groups above hold too. In a container the path may start elsewhere.
            for above in (Path(group), *Path(group).parents):
                with suppress(OSError, ValueError):  # there is no such group, or no limit: "max"
                    limits.append(int((root / above.relative_to("/") / name).read_text()))
    return min(limits)


def processors() -> int:
    """The number of processors that this process may use."""
    if not hasattr(os, "sched_getaffinity"):
        return os.cpu_count() or 1
    return len(os.sched_getaffinity(0))


def real_cores() -> int:
    """The number of cores that this process may use; processors that share a core count once."""
    # Only Linux reports which processors share a core; elsewhere every processor counts. A
    # container's limit on processor time is ignored.
    if not hasattr(os, "sched_getaffinity"):
        return processors()
    cores = set()
    for processor in os.sched_getaffinity(0):
        siblings = PROCESSORS / f"cpu{processor}" / "topology" / "thread_siblings_list"
        try:
            cores.add(siblings.read_text().strip())
        except OSError:
            cores.add(str(processor))
    return len(cores)


def threads_of_process() -> int:
    """The share of this process in the cores of the machine; 0 if it shares them with none."""
    return max(1, real_cores() // local_count()) if local_count() > 1 else 0


def intel() -> bool:
    """Whether Linux reports an Intel processor; False on other systems."""
    try:
        return "GenuineIntel" in INFORMATION.read_text()
    except OSError:
        return False
