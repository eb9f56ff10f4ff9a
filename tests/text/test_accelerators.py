"""Accelerators are removed from labels and put into their translations."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.text.accelerators import with_accelerator, without_accelerator


@pytest.mark.parametrize(
    ("label", "mark", "wanted"),
    [
        ("_Save", "_", ("Save", "S")),
        ("Save _As...", "_", ("Save As...", "A")),
        ("E&xit", "&", ("Exit", "x")),
        ("ファイル(_F)", "_", ("ファイル", "F")),
        ("file_name", "_", ("file_name", "")),
        ("a_b and _c", "_", ("a_b and _c", "")),
        ("Save", "~", ("Save", "")),
        ("is_ok", "_", ("is_ok", "")),
        ("AT&T", "&", ("AT&T", "")),
        ("Q&A", "&", ("Q&A", "")),
        ("__init__", "_", ("__init__", "")),
        ("_" + "long " * 20, "_", ("_" + "long " * 20, "")),
    ],
)
def test_a_label_without_its_mark(label: str, mark: str, wanted: tuple[str, str]) -> None:
    assert without_accelerator(label, mark) == wanted


@pytest.mark.parametrize(
    ("text", "letter", "wanted"),
    [
        ("Speichern", "S", "_Speichern"),
        ("Datei sichern", "s", "Datei _sichern"),
        ("Beenden", "x", "_Beenden"),
        ("Öffnen", "o", "_Öffnen"),
        ("保存", "S", "保存(_S)"),
        ("保存：", "s", "保存(_S)："),
        ("", "s", ""),
    ],
)
def test_a_translation_with_a_mark(text: str, letter: str, wanted: str) -> None:
    assert with_accelerator(text, "_", letter) == wanted


@given(st.text("abc XÄ保.", max_size=12), st.sampled_from("abcX"), st.sampled_from("_&~"))
def test_a_mark_comes_off_again(text: str, letter: str, mark: str) -> None:
    marked = with_accelerator(text, mark, letter)
    assert marked.count(mark) == bool(text.rstrip(" :：.…"))
