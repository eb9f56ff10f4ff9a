"""Failures of a command: a message and an exit code; only a bug has a traceback."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import sys
import warnings
from collections import Counter
from collections.abc import Iterator

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

    Raises:
        SystemExit: there was one of these.
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
    if error.errno == errno.ENOENT and "temporary directory" in str(error.strerror):
        return DataError(
            "no temporary file can be written",
            why=error.strerror,
            todo="free some space on the disk, or name another folder in the variable TMPDIR",
        )
    if error.errno == errno.ENOENT and error.filename is None:  # of os.getcwd
        return DataError("the current folder no longer exists", todo="change to another: cd FOLDER")
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


class WarningPrinter:
    """Prints warnings; of remarks on texts the first few of each kind, and a count at the end."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def show(self, warning: Warning | str) -> None:
        """Print a warning."""
        if not isinstance(warning, TextWarning):
            print_message(f"warning: {warning}")
            return
        level = "" if warning.kind == "error" else "warning: "
        for line in warning.lines:
            self._counts[warning.kind] += 1
            if self._counts[warning.kind] <= SHOWN_REMARKS.get(warning.kind, 3):
                print_message(level + line)

    def end(self) -> None:
        """Print how many remarks were not printed."""
        for kind, count in self._counts.items():
            if (more := count - SHOWN_REMARKS.get(kind, 3)) > 0:
                level = "" if kind == "error" else "warning: "
                print_message(f"{level}more {REMARKS[kind]}: {more:,}")


@contextlib.contextmanager
def warnings_printed() -> Iterator[None]:
    """Print warnings given within; of those that differ only in numbers, the first and a count."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield
    kinds: dict[str, list[str]] = {}
    for warning in caught:
        message = str(warning.message)
        kinds.setdefault(re.sub(r"[\d,]+", "0", message), []).append(message)
    for first, *others in kinds.values():
        more = f" (and {len(others):,} more like it)" if others else ""
        print_message(f"warning: {first}{more}")
