"""Warnings name the line of the user's code, however deep in clearhead they are issued."""

from __future__ import annotations

import errno
import os
import pickle

import pytest

from clearhead.errors import DISK_ERRORS, TextWarning, reason, warn, what_helps


@pytest.mark.parametrize(
    ("error", "plain"),
    [
        (FileNotFoundError(2, "No such file or directory", "x.part"), "No such file or directory"),
        (OSError("Not a gzipped file"), "Not a gzipped file"),
        (ValueError("embedded null byte"), "embedded null byte"),
        (
            RuntimeError('IoError(Os { code: 28, kind: StorageFull, message: "No space left" })'),
            "No space left",
        ),
        (
            RuntimeError('Error: I/O error: No space left (os error 28) at path "/tmp/.tmpQ7"'),
            "No space left",
        ),
        (MemoryError(), "MemoryError"),
    ],
)
def test_a_reason_has_no_numbers_and_paths_of_the_system(error: Exception, plain: str) -> None:
    assert reason(error) == plain


class SafetensorError(Exception):
    """Stands for that of safetensors."""


@pytest.mark.parametrize("number", DISK_ERRORS)
def test_what_helps_depends_on_the_error_of_the_disk(number: int) -> None:
    found = what_helps(OSError(number, os.strerror(number)), "otherwise")
    assert found.startswith(DISK_ERRORS[number])
    of_rust = f'IoError(Os {{ code: {number}, kind: X, message: "{os.strerror(number)}" }})'
    assert what_helps(SafetensorError(of_rust), "otherwise") == found
    plain = f"I/O error: {os.strerror(number)} (os error {number})"
    assert what_helps(SafetensorError(plain), "otherwise") == found
    assert len(set(DISK_ERRORS.values())) == len(DISK_ERRORS)


@pytest.mark.parametrize(
    "error",
    [
        OSError("no number"),
        PermissionError(errno.EACCES, "Permission denied"),
        SafetensorError('Os { code: 13, kind: PermissionDenied, message: "Permission denied" }'),
    ],
)
def test_another_error_than_of_the_disk_has_the_advice_of_the_caller(error: Exception) -> None:
    assert what_helps(error, "otherwise") == "otherwise"


def test_a_warning_names_the_line_of_the_caller() -> None:
    with pytest.warns(UserWarning, match="careful") as caught:
        warn("careful")
    assert [warning.filename for warning in caught] == [__file__]


def test_clearheads_own_lines_are_passed_over() -> None:
    within = {"__name__": "clearhead.somewhere.deep", "warn": warn}
    exec(compile("def give():\n    warn('careful')", "deep.py", "exec"), within)
    with pytest.warns(UserWarning, match="careful") as caught:
        within["give"]()
    assert [warning.filename for warning in caught] == [__file__]


def test_a_text_warning_can_be_pickled() -> None:
    warning = TextWarning("cut", ["line 1 was cut", "line 2 was cut"])
    copy = pickle.loads(pickle.dumps(warning))
    assert (str(copy), copy.kind, copy.lines) == (str(warning), "cut", warning.lines)
