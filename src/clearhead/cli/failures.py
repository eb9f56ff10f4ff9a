"""Failures of a command: a message and an exit code; only a bug has a traceback."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator

from clearhead.errors import (
    DISK_ERRORS,
    REMARKS,
    ClearheadError,
    DataError,
    TextWarning,
    reason,
    what_helps,
)

INTERRUPTED = 130  # 128 + SIGINT, the exit code of a shell
BROKEN_PIPE = 141  # 128 + SIGPIPE
SHOWN_REMARKS = {"characters": 1, "long": 1}
"""Remarks of the same kind that are printed, if it is not 3; the others are counted."""

REFUSED = (
    *(errno.EACCES, errno.EPERM, errno.ENOENT, errno.ENOTDIR, errno.EISDIR),
    *(errno.EEXIST, errno.ENOTEMPTY, errno.ENAMETOOLONG, errno.ELOOP, errno.EINVAL),
)
"""Errors that another name or other permissions solve."""


@contextlib.contextmanager
def failures_reported() -> Iterator[None]:
    """Print an expected failure within as a message, and exit with its code.

    Expected are `ClearheadError`, Ctrl-C, a closed pipe, full memory, a disk that is full, fails
    or is read-only, and a named file that the system does not open.
    """
    try:
        try:
            yield
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except KeyboardInterrupt:
        print_message("interrupted")
        raise SystemExit(INTERRUPTED) from None
    except BrokenPipeError:
        _discard_output()
        raise SystemExit(BROKEN_PIPE) from None
    except Exception as error:
        expected = _expected(error)
        if expected is None:
            raise
        print_message(str(expected))
        raise SystemExit(expected.exit_code) from None


def _expected(error: Exception) -> ClearheadError | None:
    """The error for the user; None if this one is a bug."""
    if isinstance(error, ClearheadError):
        return error
    if isinstance(error, OSError):
        return _expected_of_system(error)
    torch = sys.modules.get("torch")
    # PyTorch has an exception of its own only for the memory of a GPU.
    on_gpu = torch is not None and isinstance(error, torch.OutOfMemoryError)
    on_cpu = isinstance(error, RuntimeError) and "DefaultCPUAllocator" in str(error)
    if not (on_gpu or on_cpu or isinstance(error, MemoryError)):
        return None
    return ClearheadError(
        f"the memory of {'the GPU' if on_gpu else 'this machine'} is full",
        why=next(iter(str(error).strip().splitlines()), None),
        todo="use a smaller model or batch" + (", or the device 'cpu'" if on_gpu else ""),
    )


def _expected_of_system(error: OSError) -> DataError | None:
    if error.errno in DISK_ERRORS:
        _discard_output()
        failed = error.errno == errno.EIO
        return DataError(
            "a file cannot be read or written" if failed else "the output cannot be written",
            where=error.filename,
            why=reason(error),
            todo=what_helps(error, ""),
        )
    if error.errno == errno.ENOENT and error.filename is None:  # of os.getcwd, or of tempfile
        return DataError(
            "the current folder or the folder of temporary files cannot be used",
            why=error.strerror,
            todo="change to another folder, or name one for temporary files in TMPDIR",
        )
    if isinstance(error.filename, str | os.PathLike) and error.errno in REFUSED:
        return DataError(
            "the file or folder cannot be read or written",
            # Where a file is renamed, the user named the second one.
            where=os.fsdecode(error.filename2 or error.filename),
            why=reason(error),
            todo="check the name and its permissions, or choose another name",
        )
    return None


def _discard_output() -> None:
    """Drop what is still buffered; otherwise Python fails when it flushes it at the end."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def print_message(text: str) -> None:
    """Print a message for the user on the standard error, unless it is closed."""
    with contextlib.suppress(OSError):
        if sys.stderr is not None:
            print(f"clearhead: {text}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def warnings_printed(before: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Print the warnings given within, and call `before` first.

    Of remarks on texts the first few of each kind are printed, and at the end how many others
    there are.
    """
    counts: Counter[str] = Counter()

    def show(warning: Warning | str, *_: object) -> None:
        before()
        if not isinstance(warning, TextWarning):
            print_message(f"warning: {warning}")
            return
        kind = warning.kind
        for line in warning.lines[: max(0, _shown(kind) - counts[kind])]:
            print_message(_level(kind) + line)
        counts[kind] += len(warning.lines)

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        yield
    for kind, count in counts.items():
        if (more := count - _shown(kind)) > 0:
            before()
            print_message(f"{_level(kind)}more {REMARKS[kind]}: {more:,}")


def _shown(kind: str) -> int:
    return SHOWN_REMARKS.get(kind, 3)


def _level(kind: str) -> str:
    return "" if kind == "error" else "warning: "
