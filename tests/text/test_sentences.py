"""Sentences and their white space together are the text; long sentences are divided."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.text.sentences import in_parts, joined, sentences


@pytest.mark.parametrize(
    ("language", "text", "wanted"),
    [
        ("en", "Dr. Smith left.  He is in Bonn.", ["Dr. Smith left.", "He is in Bonn."]),
        ("de", "Das ist z. B. gut. Am 3. Mai kam er.", ["Das ist z. B. gut.", "Am 3. Mai kam er."]),
        ("zh-CN", "你好。今天很好！", ["你好。", "今天很好！"]),
        ("", "One. Two", ["One.", "Two"]),
        ("en", " \n ", []),
    ],
)
def test_sentences_of_a_text(language: str, text: str, wanted: list[str]) -> None:
    assert [sentence.text for sentence in sentences(text, language)] == wanted


@given(st.text("aB.?! \n\t。", max_size=40), st.sampled_from(["en", "de", "zh", "xx", ""]))
def test_sentences_with_their_white_space_are_the_text(text: str, language: str) -> None:
    found = sentences(text, language)
    assert "".join("".join(sentence) for sentence in found) == (text if found else "")
    assert all(sentence.text == sentence.text.strip() for sentence in found)


def test_sentences_get_a_space_where_the_target_language_has_one() -> None:
    chinese, english = sentences("你好。再见。", "zh"), sentences("Hello. Bye.", "en")
    assert joined(chinese, ["Hello.", "Bye."], "en") == "Hello. Bye."
    assert joined(english, ["你好。", "再见。"], "zh") == "你好。再见。"


@given(st.text("ab ,;", min_size=1, max_size=60), st.integers(1, 10))
def test_the_parts_of_a_sentence_fit_and_are_the_sentence(text: str, most: int) -> None:
    parts = in_parts(text, lambda part: len(part) <= most)
    assert "".join("".join(part) for part in parts) == text
    assert all(len(part.text) <= most for part in parts)


def test_a_sentence_is_divided_at_a_clause() -> None:
    parts = in_parts("if it rains, we stay at home", lambda part: len(part) < 20)
    assert [part.text for part in parts] == ["if it rains,", "we stay at home"]
