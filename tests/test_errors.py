"""Warnings name the line of the user's code, however deep in clearhead they are issued."""

from __future__ import annotations

import pytest

from clearhead.errors import warn


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
