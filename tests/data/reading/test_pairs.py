"""Readers: every format of pairs is read exactly, or raises an error with the place."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.data.reading.lines import Format, read_lines
from clearhead.data.reading.pairs import (
    PAIR_FORMATS,
    TERM_FORMATS,
    Pair,
    holds_pairs,
    languages_of,
    place,
    read_pairs,
)
from clearhead.data.reading.phrasebook import phrasebook, phrasebook_pairs
from clearhead.errors import ConfigError, DataError
from clearhead.settings import DataConfig, config_from
from data_files import Write, line_text, same_folder


def refusal(*files: str) -> DataError:
    with pytest.raises(DataError) as raised:
        list(read_pairs(files))
    return raised.value


@same_folder
@given(rows=st.lists(st.tuples(line_text, line_text), min_size=1))
def test_parallel_files_give_their_lines_pair_by_pair(
    rows: list[tuple[str, str]], write: Write
) -> None:
    source = write("s", ("\ufeff" + "".join(f"{row[0]}\n" for row in rows)).encode())
    target = write("t.gz", ("\ufeff" + "".join(f"{row[1]}\n" for row in rows)).encode())
    expected = [Pair(*row, line) for line, row in enumerate(rows, start=1)]
    assert list(read_pairs([source, target])) == expected


@same_folder
@pytest.mark.parametrize("name", ["p.jsonl", "p.jsonl.gz"])
@pytest.mark.parametrize("ascii_only", [True, False])
@given(rows=st.lists(st.tuples(line_text, line_text), min_size=1))
def test_jsonl_gives_back_any_text(
    name: str, ascii_only: bool, rows: list[tuple[str, str]], write: Write
) -> None:
    lines = (
        json.dumps({"source": source, "target": target, "more": 1}, ensure_ascii=ascii_only)
        for source, target in rows
    )
    path = write(name, "".join(f"{line}\n" for line in lines).encode())
    expected = [Pair(*row, line) for line, row in enumerate(rows, start=1)]
    assert list(read_pairs([path])) == expected


@pytest.mark.parametrize("name", ["p.tsv", "p.TSV", "p.tsv.gz"])
def test_tsv_is_source_tab_target(name: str, write: Write) -> None:
    path = write(name, b"a b\tc d\n\te\n")
    assert list(read_pairs([path])) == [Pair("a b", "c d", 1), Pair("", "e", 2)]


@pytest.mark.parametrize(
    ("line", "header"),
    [
        *((line, True) for line in ("source\ttarget", "SRC\ttrg", "en\tde", " EN\tDe ")),
        *((line, False) for line in ("no\tno", "no\tnay", "en\tder Hund", "ab\txx", "\tde")),
    ],
)
def test_names_of_sides_and_language_codes_in_line_1_are_a_header(
    line: str, header: bool, write: Write
) -> None:
    path = write("p.tsv", f"{line}\na\tb\n{line}\n".encode())
    assert [pair.line for pair in read_pairs([path])] == ([2, 3] if header else [1, 2, 3])


def test_the_phrasebook_is_named_by_languages_and_part() -> None:
    named = {part: list(read_pairs([f"phrasebook:en-es:{part}"])) for part in ("train", "test")}
    assert named["train"] == list(read_pairs(["phrasebook:en-es"]))
    assert named["test"] == list(read_pairs(["phrasebook:en-es"], "test"))
    first = phrasebook("en-es").test[0]
    assert (named["test"][0], len(named["test"])) == (Pair(first.source, first.target, 1), 1000)
    # The part in the name wins.
    assert named["test"] == list(read_pairs(["phrasebook:en-es:test"], "validation"))


# Refusals


def test_files_of_unequal_length_are_rejected_with_both_counts(write: Write) -> None:
    short, long = write("short", b"a\n" * 3), write("long", b"a\n" * 1205)
    assert refusal(short, long).why == "3 lines and 1,205 lines"
    assert refusal(long, short).why == "1,205 lines and 3 lines"


def test_a_line_break_in_a_sentence_becomes_a_space(write: Write) -> None:
    table = write("p.tsv", b'"a\nb"\t"c ""d"""\ne\tf\n')
    assert list(read_pairs([table])) == [Pair("a b", 'c "d"', 1), Pair("e", "f", 3)]
    record = json.dumps({"source": "a\r\nb", "target": "c\n\nd"})
    objects = write("p.jsonl", f"{record}\n{record}\n".encode())
    assert list(read_pairs([objects])) == [Pair("a b", "c d", 1), Pair("a b", "c d", 2)]


RECORDS = (
    *("", "{", "[]", "1", "null", '"source"', "[" * 100_000, "9" * 5000, '{"source": "a"}'),
    *('{"source": "a", "target": 1}', '{"source": null, "target": "a"}'),
    *(r'{"source": "a", "target": "\u0000"}', r'{"source": "a", "target": "\ud800"}'),
)


@pytest.mark.parametrize(
    ("name", "content", "place"),
    [
        *(("p.tsv", f"a\tb\n{line}\n", ":2") for line in ("no tab", "", "two\ttabs\there")),
        *(("p.tsv", f"{line}\na\tb\n", ":1") for line in ("target\tsource", " TRG\tsrc")),
        *(("p.tsv", content, "") for content in ("", "source\ttarget\n")),
        *(("p.jsonl", f'{{"source": "a", "target": "b"}}\n{line}\n', ":2") for line in RECORDS),
        ("p.txt", "a\n", ""),  # parallel to nothing
    ],
)
def test_what_is_wrong_is_rejected_with_its_place(
    name: str, content: str, place: str, write: Write
) -> None:
    path = write(name, content)
    assert refusal(path).where == path + place


@pytest.mark.parametrize(
    ("name", "content"),
    [
        *((name, "a\n") for name in ("a.json", "a.csv.gz", "a.rtf", "a.htm", "a.vtt", "a.pdf")),
        ("empty.gz", ""),
    ],
)
def test_files_whose_lines_are_no_texts_are_not_parallel(
    name: str, content: str, write: Write
) -> None:
    plain, other = write("a.txt", "a\n"), write(name, content)
    assert refusal(plain, other).where == refusal(other, plain).where == other


def test_names_that_do_not_go_together_are_rejected(write: Write) -> None:
    plain, table = write("a", "a\n"), write("p.tsv", "a\tb\n")
    assert refusal(plain, table).where == table
    assert refusal("phrasebook:en-es", plain).where == plain
    assert refusal(plain, plain, plain).where == plain
    assert refusal().where is None
    for name in ("phrasebook:en-xx", "phrasebook:en-es:dev", "phrasebook:"):
        assert refusal(name).where == name


def test_several_corpora_are_read_one_after_the_other(write: Write, tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    files = [
        write("a.en", b"1\n2\n"),
        write("a.de", b"eins\nzwei\n"),
        write("c.tsv", b"source\ttarget\n3\tdrei\n"),
        write("b/c.tsv", b"4\tvier\n"),
        "phrasebook:en-es",
        write("d.jsonl", b'{"source": "5", "target": "f\xc3\xbcnf"}\n'),
    ]
    pairs = list(read_pairs(files))
    assert [(source, target) for source, target, _ in (*pairs[:4], pairs[-1])] == [
        *(("1", "eins"), ("2", "zwei"), ("3", "drei"), ("4", "vier"), ("5", "fünf")),
    ]
    assert len(pairs) == 5 + len(phrasebook_pairs("phrasebook:en-es"))
    book = "phrasebook:en-es:1"
    places = [place(files, line) for _, _, line in (*pairs[:5], pairs[-1])]
    name = tmp_path.name
    assert places == ["a.en:1", "a.en:2", f"{name}/c.tsv:2", "b/c.tsv:1", book, "d.jsonl:1"]
    assert place(files, pairs[1].line, in_target=True) == "a.de:2"


def test_a_format_is_registered_in_one_place(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(path: str, languages: tuple[str, str]) -> Iterator[Pair]:
        for number, line in enumerate(read_lines(path), start=1):
            source, _, target = line.partition(" = ")
            yield Pair(source, target, number)

    monkeypatch.setitem(PAIR_FORMATS, ".equals", Format(read, "source = target"))
    path = write("a.EQUALS.gz", b"x = y\n")
    assert list(read_pairs([path])) == [Pair("x", "y", 1)]
    assert holds_pairs(path)
    assert ".equals (source = target)" in str(refusal(write("a", b"x\n")).why)


@pytest.mark.parametrize(
    ("files", "languages"),
    [
        (("a/train.lc.norm.tok.en.gz", "b.de"), ("en", "de")),
        (("train.txt", "train.de"), ("", "de")),
        (("train.de.gz", "en/train.gz"), ("de", "")),
        (("train.en.lc", "train.gz.gz"), ("", "")),
        (("train.pt-BR", "train.zh_Hant"), ("pt-BR", "zh-Hant")),
        (("dev.tur_Latn", "dev.src"), ("tur-Latn", "")),
        (("reviews.tr.csv",), ("tr", "")),
        (("train.de.txt", "train.en.txt.gz"), ("de", "en")),
        (("corpus.tr.jsonl",), ("", "")),  # a file of pairs
        (("news.de.tsv", "web.de.tsv"), ("", "")),
        (("phrasebook:en-es",), ("en", "es")),
        (("phrasebook:de-en:train",), ("de", "en")),
        ((), ("", "")),
    ],
)
def test_the_names_of_files_give_the_languages(
    files: tuple[str, ...], languages: tuple[str, str]
) -> None:
    assert languages_of(files) == DataConfig(train=files).languages == languages
    assert DataConfig(train=files, target_language="tr").languages == (languages[0], "tr")


@pytest.mark.parametrize(
    ("line", "languages"),
    [
        *(("en\ttr", ("en", "tr")), ("EN\tDE", ("en", "de")), (" en \tpt-BR", ("en", "pt-BR"))),
        *(("source\ttarget", ("", "")), ("en\ten", ("", "")), ("a cat\tun gato", ("", ""))),
    ],
)
def test_the_header_of_a_tsv_file_gives_the_languages(
    line: str, languages: tuple[str, str], write: Write
) -> None:
    path = write("a.tsv", f"{line}\na\tb\n".encode())
    assert languages_of([path]) == languages


@pytest.mark.parametrize("wrong", ["tr_TR", "turkish", "t", "türk", "tr-"])
def test_a_language_is_a_code(wrong: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config_from({"data": {"source_language": wrong}})
    assert caught.value.setting == "data.source_language"


def test_a_catalogue_without_translations_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "app.po"
    path.write_text('msgid "a"\nmsgstr ""\n')
    with pytest.raises(DataError) as found:
        list(read_pairs([str(path)]))
    assert found.value.where == str(path)
    assert "1 untranslated" in str(found.value.why)


@pytest.mark.parametrize(
    ("languages", "wanted"),
    [(("", "de"), ("a", "b")), (("en", "fr"), ("a", "c")), (("fr", "en"), ("c", "a"))],
)
def test_a_memory_of_three_languages(
    tmp_path: Path, languages: tuple[str, str], wanted: tuple[str, str]
) -> None:
    path = tmp_path / "memory.tmx"
    variants = "".join(
        f'<tuv xml:lang="{language}"><seg>{text}</seg></tuv>'
        for language, text in (("en-US", "a"), ("de", "b"), ("fr", "c"))
    )
    path.write_text(f'<tmx><header srclang="en"/><body><tu>{variants}</tu></body></tmx>')
    ((source, target, _),) = read_pairs([str(path)], languages=languages)
    assert (source, target) == wanted
    with pytest.raises(DataError):
        list(read_pairs([str(path)]))


@pytest.mark.parametrize(
    "elements",
    [("martif", "termEntry", "langSet", "tig"), ("tbx", "conceptEntry", "langSec", "termSec")],
)
def test_the_terms_of_a_concept_are_forms(tmp_path: Path, elements: tuple[str, ...]) -> None:
    root, concept, language, term = elements
    old, preferred = (
        f'<termNote type="administrativeStatus">{status}Term-admn-sts</termNote>'
        for status in ("deprecated", "preferred")
    )
    path = tmp_path / "terms.tbx"
    sides = "".join(
        f'<{language} xml:lang="{name}">'
        + "".join(f"<{term}><term>{word}</term>{note}</{term}>" for word, note in words)
        + f"</{language}>"
        for name, words in (
            ("en", [("printer", "")]),
            ("de", [("Pr", old), ("Drucker", ""), ("Printer", preferred), ("Prt", old)]),
        )
    )
    path.write_text(f"<{root}><text><{concept}>{sides}</{concept}></text></{root}>")
    ((source, target, _),) = TERM_FORMATS[".tbx"].read(str(path), ("en", "de"))
    assert (source, target) == ("printer", "Drucker|Printer")
    with pytest.raises(DataError):  # terms are no sentences
        read_pairs([str(path)], languages=("en", "de"))
