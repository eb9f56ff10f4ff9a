"""The shipped phrasebook: its sizes, parts and alignments, its names and files."""

from __future__ import annotations

from pathlib import Path

import pytest

from clearhead.data.reading.phrasebook import (
    LANGUAGE_PAIRS,
    REFERENCE_TIMES,
    phrasebook,
    phrasebook_pairs,
    write_phrasebook,
)
from small_data import every_pair

PARTS = ("train", "validation", "test")
REFERENCE = {
    "en-es": {
        "hello world": "hola mundo",
        "i love you": "te amo",
        "the cat is black": "el gato es negro",
        "good morning": "buenos dias",
        "this is a book": "este es un libro",
        "what is your name": "como te llamas",
    },
    "de-en": {
        "ich mochte ein bier": "i want a beer .",
        "ich mochte ein cola": "i want a coke .",
    },
}


@pytest.mark.parametrize("pair", LANGUAGE_PAIRS)
def test_about_twenty_thousand_distinct_pairs_with_a_thousand_to_test(pair):
    book = phrasebook(pair)
    assert (len(book.validation), len(book.test)) == (500, 1000)
    assert len({entry.source for entry in every_pair(pair)}) == len(every_pair(pair)) == 20_000


def test_the_unseen_sentences_of_system_a_are_left_out_but_similar_ones_occur():
    pairs = {entry.source: entry.target for entry in every_pair("en-es")}
    assert not {"i love cat", "this is a cat"} & set(pairs)
    assert "este es un gato" not in pairs.values()
    trained = {entry.source: entry.target for entry in phrasebook("en-es").train}
    alike = [source for source in trained if source.startswith("this is a ")]
    assert len(alike) > 50
    assert any(
        " cat" in source and target.startswith("ese es ") for source, target in pairs.items()
    )


@pytest.mark.parametrize("pair", LANGUAGE_PAIRS)
@pytest.mark.parametrize("side", ["source", "target"])
def test_held_out_pairs_are_unseen_and_their_words_seen(pair, side):
    book = phrasebook(pair)
    texts, held_out, tested = (
        [getattr(entry, side) for entry in part]
        for part in (book.train, book.validation, book.test)
    )
    assert not set(tested) & {*texts, *held_out}
    assert not set(held_out) & {*texts, *tested}
    words = [set(" ".join(part).split()) for part in (texts, [*held_out, *tested])]
    assert words[1] <= words[0]


def test_an_unknown_language_pair_is_rejected_by_name():
    with pytest.raises(ValueError, match="en-fr"):
        phrasebook("en-fr")


@pytest.mark.parametrize("pair", LANGUAGE_PAIRS)
def test_sentences_are_lower_cased_words_between_single_spaces(pair):
    marks = {"?", "¿", ".", ",", "o'clock"}
    for entry in every_pair(pair):
        for text in (entry.source, entry.target):
            assert text == text.strip().lower()
            assert all(word.isalpha() or word in marks for word in text.split(" "))


@pytest.mark.parametrize("pair", LANGUAGE_PAIRS)
def test_every_word_is_aligned_but_the_personal_a_and_marks(pair):
    for entry in every_pair(pair):
        source, target = entry.source.split(), entry.target.split()
        assert list(entry.alignment) == sorted(set(entry.alignment))
        left = {i for i, _ in entry.alignment}
        right = {j for _, j in entry.alignment}
        assert left <= set(range(len(source)))
        assert right <= set(range(len(target)))
        assert {word for i, word in enumerate(source) if i not in left} <= {","}
        assert {word for j, word in enumerate(target) if j not in right} <= {"a", "."}


def test_files_hold_the_phrasebook_line_by_line(tmp_path: Path):
    paths = write_phrasebook(tmp_path / "new", "de-en")
    suffixes = ("de", "en", "align")
    assert set(paths) == {f"{part}.{suffix}" for part in PARTS for suffix in suffixes}
    for part in PARTS:
        columns = [
            paths[f"{part}.{suffix}"].read_bytes().decode("utf-8").split("\n")
            for suffix in suffixes
        ]
        assert [column.pop() for column in columns] == ["", "", ""]
        entries = getattr(phrasebook("de-en"), part)
        assert list(zip(*columns, strict=True)) == [
            (entry.source, entry.target, entry.pharaoh) for entry in entries
        ]
        first = [tuple(map(int, link.split("-"))) for link in columns[2][0].split()]
        assert tuple(first) == entries[0].alignment


@pytest.mark.parametrize("pair", LANGUAGE_PAIRS)
def test_training_repeats_the_reference_pairs_and_no_others(pair):
    book = phrasebook(pair)
    reference = [(entry.source, entry.target) for entry in book.reference]
    assert {entry.source: entry.target for entry in book.reference} == REFERENCE[pair]
    pairs = phrasebook_pairs(f"phrasebook:{pair}")
    own = [(entry.source, entry.target) for entry in book.train]
    assert pairs == [*reference * (REFERENCE_TIMES - 1), *own]
