"""The filter of texts for a terminal."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.errors import ClearheadError, warn
from clearhead.terminal import (
    REPLACEMENT,
    UNSAFE,
    filtered,
    filtered_output,
    printable,
    printable_line,
    unfiltered,
)
from hostile import HOSTILE

ORDERING = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


@pytest.mark.parametrize("text", HOSTILE)
def test_of_a_hostile_text_the_harmless_characters_stay(text: str) -> None:
    shown = printable(text)
    assert len(shown) == len(text)
    assert shown != text
    assert all(new in (old, REPLACEMENT) for old, new in zip(text, shown, strict=True))
    assert not UNSAFE.search(shown)


def test_every_character_that_steers_or_reorders_is_replaced_and_no_letter_is() -> None:
    for code in range(sys.maxunicode + 1):
        mark = chr(code)
        category = unicodedata.category(mark)
        if category in ("Cc", "Cs", "Zl", "Zp") or unicodedata.bidirectional(mark) in ORDERING:
            assert printable(mark) == (mark if mark in "\n\t" else REPLACEMENT), hex(code)
        elif category != "Cf":
            assert printable(mark) == mark, hex(code)


def test_marks_that_ordinary_text_needs_stay() -> None:
    for text in ("می\u200cخواهم", "👩\u200d👩\u200d👧", "‏שלום‎ 3", "soft\u00adhyphen", "a\tb\nc"):
        assert printable(text) == text
    assert printable_line("a\tb\nc") == f"a{REPLACEMENT}b{REPLACEMENT}c"


@given(st.lists(st.text() | st.sampled_from(HOSTILE)))
def test_a_stream_filters_what_is_written(texts: list[str]) -> None:
    below = io.StringIO(newline="")
    stream = filtered(below)
    stream.writelines(texts)
    print(*texts, sep="", end="", file=stream)
    assert below.getvalue() == printable("".join(texts)) * 2
    assert stream.write("\x1b") == 1
    assert filtered(stream) is stream
    assert unfiltered(stream) is unfiltered(below) is below


class Stream(io.StringIO):
    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


@pytest.mark.parametrize("terminal", [True, False])
def test_results_are_filtered_on_a_terminal_and_errors_everywhere(
    terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, err = Stream(terminal), Stream(terminal)
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    with filtered_output():
        print("a\x1b[m")
        print("b\x1b[m", file=sys.stderr)
    assert (sys.stdout, sys.stderr) == (out, err)
    assert out.getvalue() == ("a\ufffd[m\n" if terminal else "a\x1b[m\n")
    assert err.getvalue() == "b\ufffd[m\n"


def test_closed_streams_stay_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, None)
    with filtered_output():
        assert sys.stdout is sys.stderr is None


def test_the_traceback_of_a_bug_is_filtered() -> None:
    code = (
        "from clearhead.terminal import filtered_output\n"
        "with filtered_output():\n"
        "    raise RuntimeError('a\\x1b[35mb')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    shown = done.stderr.decode()
    assert done.returncode == 1
    assert shown.startswith("Traceback")
    assert shown.endswith("RuntimeError: a\ufffd[35mb\n")


@pytest.mark.parametrize("text", HOSTILE)
def test_messages_of_errors_and_warnings_are_filtered_and_fields_are_not(text: str) -> None:
    error = ClearheadError(text, where=f"{text}\nx", why=text, todo=text)
    assert not UNSAFE.search(str(error))
    assert len(str(error).splitlines()) == 3
    assert (error.what, error.where) == (text, f"{text}\nx")
    with pytest.warns(UserWarning, match=re.escape(printable(text))):
        warn(text)
