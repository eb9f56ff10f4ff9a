"""What the command does when something goes wrong: a message and an exit code, no traceback."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import typer
from typer.core import TyperGroup

from clearhead.errors import ClearheadError, DataError

INTERRUPTED = 130  # 128 + SIGINT, as a shell has it
BROKEN_PIPE = 141  # 128 + SIGPIPE
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
REFUSED = (
    *(errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENOTDIR, errno.EISDIR),
    *(errno.EEXIST, errno.ENOTEMPTY, errno.ENAMETOOLONG, errno.ELOOP, errno.EINVAL),
)
"""What another name, or other permissions, can mend."""


class CommandGroup(TyperGroup):
    """Runs a command and turns its failure into an exit code.

    A `ClearheadError` is printed and gives its own code. So does what the file system refuses of
    a file that has a name, as a `DataError`. A bug keeps its traceback.
    """

    def invoke(self, ctx: Any) -> Any:
        """Run the command that the context names."""
        try:
            with _full_memory_said():
                result = super().invoke(ctx)
            if sys.stdout is not None:
                sys.stdout.flush()
        except ClearheadError as error:
            say(str(error))
            raise typer.Exit(error.exit_code) from None
        except BrokenPipeError:
            _forget_output()
            raise typer.Exit(BROKEN_PIPE) from None
        except KeyboardInterrupt:
            say("interrupted")
            raise typer.Exit(INTERRUPTED) from None
        except OSError as error:
            # A full disk is said by `full_disk_said`.
            if not isinstance(error.filename, str | os.PathLike) or error.errno not in REFUSED:
                raise
            failure = _refused(error)
            say(str(failure))
            raise typer.Exit(failure.exit_code) from None
        return result


def _refused(error: OSError) -> DataError:
    """What the file system does not let this user do, as an error that the user can mend."""
    return DataError(
        "this cannot be read or written here",
        # Of two files the second is the one that somebody named: the first is to become it.
        where=error.filename2 or error.filename,
        why=error.strerror,
        todo="check the name and its permissions, or name another place",
    )


@contextlib.contextmanager
def full_disk_said() -> Iterator[None]:
    """End the process with a message where the disk is full, e.g. that of the standard output."""
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        failure = DataError(
            "the output cannot be written",
            where=error.filename,
            why=str(error),
            todo="free some space, then say the command again",
        )
        say(str(failure))
        raise SystemExit(failure.exit_code) from None
    finally:
        if _output_is_stuck():
            _forget_output()


@contextlib.contextmanager
def _full_memory_said() -> Iterator[None]:
    """Say what a memory is too small for where no engine does: for the model alone, for example."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        # PyTorch has no error of its own for a full memory that is not a GPU's.
        if isinstance(error, MemoryError) or "DefaultCPUAllocator" in str(error):
            raise ClearheadError(
                "the memory of this machine is full",
                why=str(error).strip().splitlines()[0] if str(error).strip() else None,
                todo="use a smaller model or batch",
            ) from None
        torch = sys.modules.get("torch")
        if torch is None or not isinstance(error, torch.OutOfMemoryError):
            raise
        from clearhead.decoding.device import full_memory_said

        with full_memory_said("use a smaller model or batch, or the CPU: device = 'cpu'"):
            raise


def say(text: str) -> None:
    """A line for the person at the terminal, on the standard error, if anybody reads it."""
    with contextlib.suppress(OSError):
        typer.echo(f"clearhead: {text}", err=True)


@contextlib.contextmanager
def warnings_said() -> Iterator[None]:
    """Say what is warned of within; of warnings that differ in their numbers alone, the first."""
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


def _output_is_stuck() -> bool:
    """Whether something is left in the buffer of the standard output that cannot be written."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        return True
    return False


def _forget_output() -> None:
    """Nobody reads what is still buffered: Python would fail when it flushes it at the end."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
