"""The terms of a glossary: found in texts, and counted in translations."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.text.glossary import Glossary, count_placed, missing

GLOSSARY = Glossary(
    [
        ("printer|printers", "Drucker|Druckers"),
        ("printer", "never, because the first entry counts"),
        ("network printer", "Netzwerkdrucker"),
        ("Word", "Word"),
        ("C++", "C++"),
        ("打印机", "printer"),
        ("nothing", " | "),
    ]
)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("the printer", [("printer", "Drucker")]),
        ("Printers print", [("Printers", "Drucker")]),
        ("a network  printer", [("network  printer", "Netzwerkdrucker")]),
        ("a network of printers", [("printers", "Drucker")]),
        ("blueprinter, printerless", []),
        ("printer-printer", [("printer", "Drucker")] * 2),
        ("PRINTER", [("PRINTER", "DRUCKER")]),
        ("a word in Word", [("Word", "Word")]),
        ("WORD", []),
        ("C++.", [("C++", "C++")]),
        ("连接打印机。", [("打印机", "printer")]),
        ("nothing", []),
        ("", []),
    ],
)
def test_terms_are_found_as_words(text: str, found: list[tuple[str, str]]) -> None:
    assert [(term.source, term.forms[0]) for term in GLOSSARY.find(text)] == found


def test_a_translation_may_have_any_form_and_a_capital() -> None:
    (term,) = GLOSSARY.find("printer")
    for text in ("des Druckers.", "Drucker", "(Drucker)", "Drucker-Name"):
        assert missing([term], text) == []
    for text in ("der Laserdrucker", "Druckerei", "drucker", ""):
        assert missing([term], text) == [term]
    assert missing(Glossary([("dog", "hund")]).find("a dog"), "Hund und Katze") == []


def test_each_word_of_a_translation_is_in_one_term() -> None:
    terms = GLOSSARY.find("printer to printer")
    assert missing(terms, "Drucker an Drucker") == []
    assert missing(terms, "ein Drucker") == terms[1:]
    assert missing(terms, "") == terms
    assert terms[0].remark.kind == "term"


@given(st.lists(st.sampled_from(["printer", "network printer", "a", "Word", "of"])))
def test_placing_each_term_leaves_none_missing(words: list[str]) -> None:
    source = " ".join(words)
    output = " x ".join(term.forms[-1] for term in GLOSSARY.find(source))
    found = count_placed(GLOSSARY, [source, "x"], [output, ""])
    assert found.placed == found.terms == len(GLOSSARY.find(source))
