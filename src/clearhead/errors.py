"""The errors of clearhead: what happened, where, why, and what to do about it; and warnings.

The command prints `str(error)` and exits with `error.exit_code`. Only a bug gives a traceback.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any


class ClearheadError(Exception):
    """An error that a user can correct.

    Args:
        what: what is wrong, in one sentence.
        where: the file, the file and line (`train.en:17`) or the dotted path of a setting.
        why: the reason, if `what` does not make it clear.
        todo: what the user can do about it.
    """

    exit_code = 1

    def __init__(
        self,
        what: str,
        *,
        where: str | Path | None = None,
        why: str | None = None,
        todo: str | None = None,
    ) -> None:
        super().__init__(what)
        self.what = what
        self.where = None if where is None else str(where)
        self.why = why
        self.todo = todo

    def __str__(self) -> str:
        parts = [f"{self.where}: {self.what}" if self.where else self.what]
        if self.why:
            parts.append(f"Why: {self.why}")
        if self.todo:
            parts.append(f"What to do: {self.todo}")
        return "\n".join(parts)


class ConfigError(ClearheadError):
    """The configuration has a wrong key, type or value.

    Args:
        what: as for every error; likewise `where`, `why` and `todo`.
        setting: the dotted path of the setting, if the error is about one.
    """

    exit_code = 2

    def __init__(self, what: str, *, setting: str | None = None, **parts: Any) -> None:
        super().__init__(what, **parts)
        self.setting = setting


class DataError(ClearheadError):
    """A data file is missing, unreadable, or holds what it should not."""

    exit_code = 3


class ModelFolderError(ClearheadError):
    """A model folder is missing, damaged, or of another version."""

    exit_code = 4


class SearchError(ClearheadError):
    """A search option that is wrong, or that the chosen engine lacks."""

    exit_code = 5


class TrainingError(ClearheadError):
    """Training cannot start, go on, or be resumed."""

    exit_code = 6


class NotTrainedError(TrainingError, ValueError, AttributeError):
    """A classifier is used before `fit`.

    Like scikit-learn's `NotFittedError` it is a ValueError and an AttributeError.
    """


class InputError(DataError, ValueError):
    """Texts or labels that a `TextClassifier` cannot use.

    It is a ValueError, which scikit-learn expects for such data.
    """


class ExportError(ClearheadError):
    """A model cannot be exported, or an export cannot be used."""

    exit_code = 7


def first_few(names: Sequence[str], limit: int) -> str:
    """At most `limit` names, for messages: `a, b and 1,234 more`."""
    more = len(names) - limit
    return ", ".join(names[:limit]) + (f" and {more:,} more" if more > 0 else "")


def warn(message: str) -> None:
    """Issue a `UserWarning` for the line of the user's code that called clearhead."""
    level, frame = 1, sys._getframe()
    # Code that `exec` runs may have no `__name__`.
    while frame.f_back and frame.f_globals.get("__name__", "").startswith("clearhead."):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, stacklevel=level)
