"""Errors (what, where, why, what to do), suggestions, warnings, and remarks on texts.

The command prints `str(error)` and exits with `error.exit_code`. Only a bug gives a traceback.
"""

from __future__ import annotations

import errno
import re
import sys
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from clearhead.terminal import printable, printable_line

DISK_ERRORS = {
    errno.ENOSPC: "free some space on the disk",
    errno.EDQUOT: "free some space, or ask for a larger quota",
    errno.EFBIG: "raise the limit for the size of a file (ulimit -f), or choose another disk",
    errno.EROFS: "choose a folder on another disk, or make this one writable (if it has become "
    "read-only by itself, it may have a fault: see dmesg)",
    errno.EIO: "check the disk and the connection to it (see dmesg), or choose a folder on another",
}
"""What to do about errors of the system that another name or other permissions do not solve."""


OTHER_NAMES = {"gpu": "cuda", "num_beams": "beam_size", "dim_feedforward": "d_ff"}
"""Words that mean a choice without being similar to it, also those of other libraries."""


LONGEST_PART = 4_000
"""The most characters of a part of an error that are shown: a value in it may be a whole file."""


class ClearheadError(Exception):
    """An error that a user can correct.

        try:
            translator = clearhead.load("runs/my-model")
        except clearhead.ClearheadError as error:
            print(error.what)  # the problem
            print(error.where)  # the file, the line or the setting, or None
            print(error.todo)  # what to do about it, or None

    Args:
        what: what is wrong, in one sentence.
        where: the file, the file and line (`train.en:17`) or the dotted path of a setting.
        why: the reason, if `what` does not make it clear.
        todo: what the user can do about it.

    These attributes have names and texts as they are. `str(error)`, which tracebacks and notebooks
    show, has U+FFFD for characters that are not safe on a terminal, and at most 4,000 characters of
    each part.
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
        what = _cut(self.what)
        parts = [f"{printable_line(_cut(self.where))}: {what}" if self.where else what]
        if self.why:
            parts.append(f"Why: {_cut(self.why)}")
        if self.todo:
            parts.append(f"What to do: {_cut(self.todo)}")
        return printable("\n".join(parts))


def _cut(part: str) -> str:
    return part if len(part) <= LONGEST_PART else f"{part[:LONGEST_PART]} …"


class ConfigError(ClearheadError):
    """The configuration has a wrong key, type or value.

    Raised, for example, by:

        clearhead.load("runs/my-model", device="gpu0")

    Args:
        what: see `ClearheadError`, also for `where`, `why` and `todo`.
        setting: the dotted path of the setting, if the error is about one.
    """

    exit_code = 2

    def __init__(self, what: str, *, setting: str | None = None, **parts: Any) -> None:
        super().__init__(what, **parts)
        self.setting = setting


class DataError(ClearheadError):
    """A data file is missing or unreadable, or its content is wrong.

    Raised, for example, by:

        clearhead.record(translator, "", "Ein Mann")
    """

    exit_code = 3


class ModelFolderError(ClearheadError):
    """A model folder is missing, damaged, or of another version.

    Raised, for example, by:

        clearhead.load("runs/no-such-model")
    """

    exit_code = 4


class UnreadableError(ModelFolderError):
    """The system cannot read a file of a model folder. Unlike a damaged one it may be good."""


class SearchError(ClearheadError):
    """A search option is wrong, or the chosen engine does not support it.

    Raised, for example, by:

        translator.translate(["A man sleeps."], beam_size=0)
    """

    exit_code = 5


class TrainingError(ClearheadError):
    """Training cannot start, continue or be resumed.

    Raised, for example, by:

        clearhead.train(dataclasses.replace(config, folder="runs/my-model"))
    """

    exit_code = 6


class NotTrainedError(TrainingError, ValueError, AttributeError):
    """A classifier is used before `fit`.

    Like scikit-learn's `NotFittedError` it is a ValueError and an AttributeError.
    """


class InputError(DataError, ValueError):
    """A `TextClassifier` or `FeatureClassifier` cannot use the inputs or labels.

    It is a ValueError, which scikit-learn expects for such data.
    """


class ExportError(ClearheadError):
    """A model cannot be exported, or an export cannot be used.

    Raised, for example, by:

        clearhead.export_model("runs/my-model", "onnx")
    """

    exit_code = 7


def reason(error: BaseException) -> str:
    """The reason in an exception of the system or of a library, without numbers and paths."""
    # The path of an `OSError` may be that of a temporary file, so the error that is raised instead
    # names the file in `where`.
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.start + 1:,} is 0x{error.object[error.start]:02x}, which is not UTF-8"
    if isinstance(error, UnicodeEncodeError):
        return "a name or text has bytes that are not UTF-8"
    if isinstance(error, FileExistsError | NotADirectoryError):
        return "a part of the path is a file, not a folder"
    if isinstance(error, OSError) and error.errno == errno.ELOOP:
        return "a symbolic link is in its place"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    message = str(error) or type(error).__name__
    # safetensors prints the errors of the system in the forms of its language.
    of_system = re.search(r'message: "(?P<why>[^"]+)"|(?P<text>[^:]+) \(os error \d+\)', message)
    if of_system:
        return of_system["why"] or of_system["text"].strip()
    return re.sub(r"^Error while \w+( header)?: ", "", message)


def is_of_system(error: Exception) -> bool:
    """Whether an exception is an error of the system; safetensors has its own for these."""
    return isinstance(error, OSError) or type(error).__name__ == "SafetensorError"


def what_helps(error: Exception, otherwise: str) -> str:
    """What to do about an error of the system: `otherwise` if it is not one of `DISK_ERRORS`."""
    # An error of safetensors has its number in its text.
    in_text = re.search(r"\b(?:code:|os error) (\d+)", str(error))
    number = error.errno if isinstance(error, OSError) else in_text and int(in_text[1])
    todo = DISK_ERRORS.get(number or 0)
    return f"{todo}, then run it again" if todo else otherwise


def type_of(value: object) -> str:
    """The type of a value, with its article: `an int`."""
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def nearest(word: object, choices: Iterable[str]) -> str | None:
    """The choice that is most similar to the word, in any case; None if none is similar."""
    import difflib

    if not isinstance(word, str):
        return None
    by_lower = {choice.lower(): choice for choice in choices}
    likely = OTHER_NAMES.get(word.lower(), word.lower())
    close = difflib.get_close_matches(likely, by_lower, n=1, cutoff=0.5)
    return by_lower[close[0]] if close else None


def meant(path: str, word: object, choices: Iterable[str]) -> str | None:
    """What to do about a wrong choice for the setting of this path, if one is similar."""
    choice = nearest(word, choices)
    return None if choice is None else f'did you mean {path} = "{choice}"?'


def first_few(names: Sequence[str], limit: int) -> str:
    """At most `limit` names, for messages: `a, b and 1,234 more`."""
    more = len(names) - limit
    return ", ".join(names[:limit]) + (f" and {more:,} more" if more > 0 else "")


class Remark(NamedTuple):
    """What there is to say of one text.

    Attributes:
        kind: a key of `REMARKS`.
        text: the remark, without the name of the text: `has 1,500 tokens and was cut to 1,024`.
    """

    kind: str
    text: str


REMARKS = {
    "cut": "texts that were cut",
    "characters": "texts with characters that the training text did not have",
    "long": "texts that are longer than nearly all training texts",
    "prefix": "prefixes that are not in the vocabulary",
    "similar": "texts with the translation of a similar text",
    "unfinished": "translations that end at the length limit",
    "repetition": "translations that repeat themselves",
    "spans": "translations with other placeholders",
    "term": "translations without a term of the glossary",
    "placed": "translations whose placeholders were put in by alignment",
    "branches": "texts with branches that are not translated",
    "divided": "sentences that were divided",
    "same": "texts with a sentence that stays as it is",
    "error": "texts that were not translated",
}
"""The kinds of remarks, and what has them."""


class TextWarning(UserWarning):
    """The remarks of one kind on the texts of a call; the message is the first one and a count.

        warnings.simplefilter("error", clearhead.TextWarning)

    Attributes:
        kind: a key of `REMARKS`.
        lines: each remark with the name of its text.
    """

    def __init__(self, kind: str, lines: Sequence[str]) -> None:
        self.kind, self.lines = kind, [printable(line) for line in lines]
        more = f" (more {REMARKS[kind]}: {len(lines) - 1:,})" if len(lines) > 1 else ""
        super().__init__(self.lines[0] + more)

    def __reduce__(self) -> tuple[Any, ...]:
        return TextWarning, (self.kind, self.lines)


def warn_of_texts(remarks: Iterable[tuple[str, Remark]]) -> None:
    """Issue a `TextWarning` for each kind of remark; each is given with the name of its text."""
    lines: dict[str, list[str]] = {}
    for name, remark in remarks:
        lines.setdefault(remark.kind, []).append(f"{name} {remark.text}")
    for kind, found in lines.items():
        warn(TextWarning(kind, found))


def warn(message: str | Warning) -> None:
    """Issue a warning for the line of the user's code that called clearhead."""
    # Characters of the message that are not safe on a terminal become U+FFFD.
    level, frame = 1, sys._getframe()
    # Code that `exec` runs may have no `__name__`.
    while frame.f_back and frame.f_globals.get("__name__", "").startswith("clearhead."):
        level, frame = level + 1, frame.f_back
    warnings.warn(
        printable(message) if isinstance(message, str) else message, UserWarning, stacklevel=level
    )
