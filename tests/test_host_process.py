"""What clearhead changes in the process that imports it: with the import nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from small_runs import small_run

LOOK = """
import atexit, asyncio, decimal, faulthandler, gc, json, locale, logging, multiprocessing, os
import random, resource, signal, socket, sys, threading, warnings

def mode():
    found = {
        "environment": dict(os.environ),
        "signals": {str(n): repr(signal.getsignal(n)) for n in signal.valid_signals()},
        "warnings": repr(warnings.filters),
        "showwarning": repr(warnings.showwarning),
        "locale": locale.setlocale(locale.LC_ALL),
        "hooks": repr((sys.excepthook, sys.unraisablehook, sys.displayhook,
                       threading.excepthook, sys.breakpointhook)),
        "tracing": repr((sys.gettrace(), sys.getprofile())),
        "streams": repr((sys.stdin, sys.stdout, sys.stderr)),
        "path": (sys.path, repr(sys.meta_path), repr(sys.path_hooks)),
        "limits": (sys.getrecursionlimit(), sys.getswitchinterval(),
                   sys.get_int_max_str_digits(), os.getcwd()),
        "umask": (lambda old: (os.umask(old), old))(os.umask(0)),
        "resources": [resource.getrlimit(n) for n in range(16)],
        "nice": os.nice(0),
        "processors": sorted(os.sched_getaffinity(0)),
        "at exit": atexit._ncallbacks(),
        "garbage": (gc.isenabled(), gc.get_threshold(), len(gc.callbacks)),
        "threads": (threading.active_count(), len(os.listdir("/proc/self/task"))),
        "files": sorted(os.listdir("/proc/self/fd")),
        "random": repr(random.getstate()),
        "numbers": (5e-324 * 1.0, repr(decimal.getcontext())),
        "socket": socket.getdefaulttimeout(),
        "processes": multiprocessing.get_start_method(allow_none=True),
        "faults": faulthandler.is_enabled(),
        "root logger": repr((logging.root, logging.root.handlers, logging.root.filters)),
        "logging": (logging.raiseExceptions, logging.root.manager.disable),
        "loggers": sorted(logging.root.manager.loggerDict),
    }
    if "torch" in sys.modules:
        import numpy, torch
        found["torch"] = repr((
            torch.get_num_threads(), torch.get_num_interop_threads(), torch.get_default_dtype(),
            torch.get_default_device(), torch.are_deterministic_algorithms_enabled(),
            torch.is_grad_enabled(), torch.get_rng_state().sum(), torch.initial_seed(),
            torch.get_float32_matmul_precision(), torch._C._get_mkldnn_enabled(),
            (torch.full((64,), 1e-39) * 0.5).count_nonzero(),
            torch.backends.cudnn.benchmark, torch._tensor_str.PRINT_OPTS,
        ))
        found["numpy"] = repr((numpy.geterr(), numpy.random.get_state()[1].sum()))
    return json.loads(json.dumps(found))

def keeps_freed_memory():
    # A large block, which glibc by default maps and unmaps alone.
    import ctypes
    c = ctypes.CDLL(None)
    c.malloc.restype, c.malloc.argtypes, c.free.argtypes = (
        ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p])
    size = 100 << 20
    block = c.malloc(size)
    ctypes.memset(block, 1, size)
    def resident():
        return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
    full = resident()
    c.free(block)
    return full - resident() < size // 2
"""

ONLY_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
pytestmark = [ONLY_LINUX, pytest.mark.slow]


def in_process(program: str, **more: str) -> Any:
    """What a new interpreter prints last, as JSON."""
    plain = {k: v for k, v in os.environ.items() if not k.startswith("MALLOC_")}
    done = subprocess.run(
        [sys.executable, "-c", f"{LOOK}\n{program}"],
        env={**plain, **more},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def changed(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    return {key: (before[key], after[key]) for key in before if before[key] != after[key]}


@pytest.mark.parametrize("host", ["", "import torch, numpy"])
@pytest.mark.parametrize("module", ["clearhead", "clearhead.cli"])
def test_the_import_changes_nothing_in_its_process(host: str, module: str) -> None:
    before, after, new = in_process(
        f"{host}\nmode(); before, known = mode(), set(sys.modules)\nimport {module}\n"
        "print(json.dumps([before, mode(), sorted(set(sys.modules) - known)]))"
    )
    assert not changed(before, after)
    foreign = {name.partition(".")[0] for name in new} - set(sys.stdlib_module_names)
    assert {name for name in foreign if not name.startswith("__editable__")} == {"clearhead"}


def test_training_and_loading_leave_the_memory_allocator_alone(tmp_path: Path) -> None:
    config = small_run(tmp_path, max_steps=2, validate_every=2)
    kept, threads, denormals = in_process(
        "import clearhead, torch\n"
        f"from clearhead.settings import config_from\nconfig = config_from({asdict(config)!r})\n"
        "clearhead.train(config, observers=())\n"
        f"clearhead.load({config.folder!r}, threads=1).translate(['1 a b'])\n"
        "kept = keeps_freed_memory()\n"
        "found = [kept, torch.get_num_threads(), bool(torch.full((9,), 1e-39).mul(0.5).any())]\n"
        "print(json.dumps(found))"
    )
    assert not kept
    assert (threads, denormals) == (1, False)


@pytest.mark.parametrize("first", ["", "import torch"])
def test_the_command_keeps_freed_memory(first: str, tmp_path: Path) -> None:
    words = ["phrasebook", "en-es", str(tmp_path / "new")]
    assert in_process(
        f"{first}\nassert not keeps_freed_memory()\nfrom clearhead.cli import main\n"
        f"main({words!r})\nprint(json.dumps(keeps_freed_memory()))"
    )


def test_the_documented_variables_keep_freed_memory() -> None:
    assert in_process(
        "print(json.dumps(keeps_freed_memory()))", MALLOC_MMAP_MAX_="0", MALLOC_TRIM_THRESHOLD_="-1"
    )
