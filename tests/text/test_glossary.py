"""The terms of a glossary: found in texts, and counted in translations."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.text.glossary import Glossary
from clearhead.tokenizer.normal_form import NormalForm

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
        ("a network  printer", [("network printer", "Netzwerkdrucker")]),
        ("a network of printers", [("printers", "Drucker")]),
        ("blueprinter, printerless", []),
        ("printer-printer", [("printer", "Drucker")] * 2),
        ("PRINTER", [("PRINTER", "DRUCKER")]),
        ("a word in Word", [("Word", "Word")]),
        ("WORD", [("WORD", "WORD")]),
        ("打开Word文件", [("Word", "Word")]),
        ("a {printer} <b>printer</b>", [("printer", "Drucker")]),
        ("https://printer.org", []),
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
        assert GLOSSARY.missing([term], text) == []
    for text in ("der Laserdrucker", "Druckerei", "drucker", ""):
        assert GLOSSARY.missing([term], text) == [term]
    dogs = Glossary([("dog", "hund"), ("iphone", "iPhone")])
    assert dogs.missing(dogs.find("a dog"), "Hund und Katze") == []
    assert [term.forms for term in dogs.find("Iphone")] == [("iPhone",)]


def test_each_word_of_a_translation_is_in_one_term() -> None:
    terms = GLOSSARY.find("printer to printer")
    assert GLOSSARY.missing(terms, "Drucker an Drucker") == []
    assert GLOSSARY.missing(terms, "ein Drucker") == terms[1:]
    assert GLOSSARY.missing(terms, "") == terms
    assert terms[0].remark.kind == "term"


@given(st.lists(st.sampled_from(["printer", "network printer", "a", "Word", "of"])))
def test_placing_each_term_leaves_none_missing(words: list[str]) -> None:
    source = " ".join(words)
    output = " x ".join(term.forms[-1] for term in GLOSSARY.find(source))
    found = GLOSSARY.count([source, "x"], [output, ""])
    assert found.placed == found.terms == len(GLOSSARY.find(source))


def test_a_term_with_few_forms_has_the_first_choice() -> None:
    glossary = Glossary([("printer", "Drucker|Druckern"), ("printers", "Drucker")])
    terms = glossary.find("printer and printers")
    for text in ("Druckern und Drucker", "Drucker und Druckern"):
        assert glossary.missing(terms, text) == []


def test_texts_are_compared_in_their_normal_forms() -> None:
    spaces = NormalForm("NFC", spaces="\u00a0", removed="\u00ad")
    lower = NormalForm("NFC", lower=True)
    glossary = Glossary([("U\u0308bung", "Noche"), ("New York", "N Y")], (spaces, lower))
    for text in ("Übung in New\u00a0York", "U\u0308b\u00adung in New  York"):
        assert [term.source for term in glossary.find(text)] == ["Übung", "New York"]
    assert glossary.missing(glossary.find("Übung"), "la noche") == []
    assert len(glossary) == 2
