"""Failures of a command: a message and an exit code; only a bug has a traceback."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import sys
import warnings
from collections.abc import Iterator

from clearhead.errors import ClearheadError, DataError

INTERRUPTED = 130  # 128 + SIGINT, the exit code of a shell
BROKEN_PIPE = 141  # 128 + SIGPIPE
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
REFUSED = (
    *(errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENOTDIR, errno.EISDIR),
    *(errno.EEXIST, errno.ENOTEMPTY, errno.ENAMETOOLONG, errno.ELOOP, errno.EINVAL),
)
"""What another name or other permissions solve."""


@contextlib.contextmanager
def failures_reported() -> Iterator[None]:
    """Print an expected failure within as a message, and exit with its code.

    Expected are `ClearheadError`, Ctrl-C, a reader of the output that has gone, full memory, a full
    disk, and a named file that the system refuses to open.

    Raises:
        SystemExit: there was one of these.
    """
    try:
        with _full_memory_reported():
            try:
                yield
            finally:
                if sys.stdout is not None:
                    sys.stdout.flush()
    except ClearheadError as error:
        _exit(error)
    except KeyboardInterrupt:
        say("interrupted")
        raise SystemExit(INTERRUPTED) from None
    except BrokenPipeError:
        _discard_output()
        raise SystemExit(BROKEN_PIPE) from None
    except OSError as error:
        if error.errno in FULL:
            _discard_output()
            _exit(_full_disk(error))
        if isinstance(error.filename, str | os.PathLike) and error.errno in REFUSED:
            _exit(_refused(error))
        raise


def _exit(error: ClearheadError) -> None:
    say(str(error))
    raise SystemExit(error.exit_code) from None


def _full_disk(error: OSError) -> DataError:
    return DataError(
        "the output cannot be written",
        where=error.filename,
        why=str(error),
        todo="free some space, then run the command again",
    )


def _refused(error: OSError) -> DataError:
    return DataError(
        "the file or folder cannot be read or written",
        # Where a file is renamed, the user named the second one.
        where=error.filename2 or error.filename,
        why=error.strerror,
        todo="check the name and its permissions, or choose another name",
    )


@contextlib.contextmanager
def _full_memory_reported() -> Iterator[None]:
    """Turn full memory that no engine has reported into a `ClearheadError`."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        # PyTorch has an exception of its own only for the memory of a GPU.
        if isinstance(error, MemoryError) or "DefaultCPUAllocator" in str(error):
            raise ClearheadError(
                "the memory of this machine is full",
                why=str(error).strip().splitlines()[0] if str(error).strip() else None,
                todo="use a smaller model or batch",
            ) from None
        torch = sys.modules.get("torch")
        if torch is None or not isinstance(error, torch.OutOfMemoryError):
            raise
        from clearhead.decoding.device import explain_full_memory

        with explain_full_memory("use a smaller model or batch, or the CPU: device = 'cpu'"):
            raise


def _discard_output() -> None:
    """Drop what is still buffered; otherwise Python fails when it flushes it at the end."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def say(text: str) -> None:
    """Print a message for the user on the standard error, unless it is closed."""
    with contextlib.suppress(OSError):
        if sys.stderr is not None:
            print(f"clearhead: {text}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def warnings_said() -> Iterator[None]:
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
        say(f"warning: {first}{more}")
