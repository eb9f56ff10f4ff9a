"""The shipped phrasebook: its sizes, parts and alignments, its names and files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from clearhead.data.reading.parts import file_hash
from clearhead.data.reading.phrasebook import (
    LANGUAGE_PAIRS,
    REFERENCE_TIMES,
    AlignedPair,
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


def words_of(pairs: Iterable[AlignedPair]) -> tuple[set[str], set[str]]:
    """The source words and the target words."""
    sources: set[str] = set()
    targets: set[str] = set()
    for entry in pairs:
        sources.update(entry.source.split())
        targets.update(entry.target.split())
    return sources, targets


@pytest.mark.parametrize("pair", LANGUAGE_PAIRS)
def test_about_twenty_thousand_distinct_pairs_with_a_thousand_to_test(pair):
    book = phrasebook(pair)
    assert (len(book.validation), len(book.test)) == (500, 1000)
    assert len({entry.source for entry in every_pair(pair)}) == len(every_pair(pair)) == 20_000


@pytest.mark.parametrize("pair", LANGUAGE_PAIRS)
def test_the_training_part_starts_with_the_reference_pairs(pair):
    book = phrasebook(pair)
    assert {entry.source: entry.target for entry in book.reference} == REFERENCE[pair]
    assert book.train[: len(book.reference)] == book.reference


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
def test_no_source_and_no_target_of_the_held_out_parts_is_in_another_part(pair):
    book = phrasebook(pair)
    for held_out, others in (
        (book.test, (*book.train, *book.validation)),
        (book.validation, (*book.train, *book.test)),
    ):
        assert not {e.source for e in held_out} & {e.source for e in others}
        assert not {e.target for e in held_out} & {e.target for e in others}


@pytest.mark.parametrize("pair", LANGUAGE_PAIRS)
def test_every_held_out_word_occurs_in_training(pair):
    book = phrasebook(pair)
    for seen, tested in zip(
        words_of(book.train), words_of((*book.validation, *book.test)), strict=True
    ):
        assert tested <= seen


def test_an_unknown_language_pair_is_rejected_by_name():
    with pytest.raises(ValueError, match=r"'en-fr'.*en-es and de-en"):
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
    pairs = phrasebook_pairs(f"phrasebook:{pair}")
    own = [(entry.source, entry.target) for entry in book.train]
    assert pairs == [*reference * (REFERENCE_TIMES - 1), *own]


# The keys of encoded corpora: a change of the data makes every one of them be encoded anew.
@pytest.mark.parametrize(
    ("name", "part", "digest"),
    [
        ("en-es", "train", "96e1c9af82ccbefe01296795345934a8a1835e681814fbd58811f2a14042de8f"),
        ("en-es", "validation", "9288f95536e463e8353fecbfd90b163fde1292027a434f99eddd1a1cd06c0bbb"),
        ("en-es", "test", "c39cf0fc857d44c3c222a12b3a3e1bd004c83e7cb8cd37a16682e276be889236"),
        ("de-en", "train", "90fc47ead88d022fdebce8f09800abf19c647b53e2236dffcbdbbeb4a67b0c88"),
        ("de-en", "validation", "c648bfaa2a04750fefc8a7eec5b6d2ba96c6b2e918de962ac01933540869e525"),
        ("de-en", "test", "cace9b05443a8430274f0def2055adce706ab197816f1b9aad9ae20e40b2b415"),
    ],
)
def test_the_content_of_each_part_stays(name, part, digest):
    assert file_hash(f"phrasebook:{name}", part).hex() == digest
