"""Warnings name the line of the user's code, however deep in clearhead they are issued."""

from __future__ import annotations

import pytest

from clearhead.errors import reason, warn


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
        (MemoryError(), "MemoryError"),
    ],
)
def test_a_reason_has_no_numbers_and_paths_of_the_system(error: Exception, plain: str) -> None:
    assert reason(error) == plain


def test_the_reason_of_a_wrong_byte_is_its_number() -> None:
    with pytest.raises(UnicodeDecodeError) as caught:
        b"ab\xff".decode()
    assert reason(caught.value).startswith("byte 3 is 0xff")


def test_a_warning_names_the_line_of_the_caller() -> None:
    with pytest.warns(UserWarning, match="careful") as caught:
        warn("careful")
    assert [warning.filename for warning in caught] == [__file__]


def test_code_without_a_module_is_warned_too() -> None:
    with pytest.warns(UserWarning, match="careful"):
        exec("from clearhead.errors import warn; warn('careful')", {})


def test_clearheads_own_lines_are_passed_over() -> None:
    within = {"__name__": "clearhead.somewhere.deep", "warn": warn}
    exec(compile("def give():\n    warn('careful')", "deep.py", "exec"), within)
    with pytest.warns(UserWarning, match="careful") as caught:
        within["give"]()
    assert [warning.filename for warning in caught] == [__file__]
