"""What CTranslate2's own errors say to a person: what failed, and how to go round it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from clearhead.errors import ClearheadError

FAILURES = (RuntimeError, MemoryError)
"""What it raises where the device fails it: a library of the GPU, or memory, that is not there."""


def failure(error: Exception, todo: str) -> ClearheadError:
    """The device failed, as CTranslate2 says it."""
    return ClearheadError(
        "CTranslate2 failed on this device", why=str(error) or type(error).__name__, todo=todo
    )


@contextmanager
def failures_said() -> Iterator[None]:
    """What fails within while CTranslate2 computes is said as an error that a user can mend.

    Raises:
        ClearheadError: CTranslate2 failed.
    """
    try:
        yield
    except FAILURES as error:
        raise failure(error, "use --device cpu or a smaller --batch-size") from None
