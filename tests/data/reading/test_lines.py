"""Text files: lines are read exactly, or raise an error with the line and the reason."""

from __future__ import annotations

import gzip
import os
import re
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from clearhead.data.reading.encodings import SIGNATURES
from clearhead.data.reading.feature_sequences import read_feature_sequences
from clearhead.data.reading.labelled import read_labelled_texts
from clearhead.data.reading.lines import MAX_LINE_BYTES, read_lines
from clearhead.data.reading.pairs import read_pairs
from clearhead.data.reading.parts import parts_of
from clearhead.errors import DataError
from clearhead.settings import config_from
from data_files import Write, line_text, same_folder
from fake_translator import run


def refusal(file: str) -> DataError:
    with pytest.raises(DataError) as raised:
        list(read_lines(file))
    return raised.value


@same_folder
@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
@given(lines=st.lists(line_text, min_size=1), end=st.sampled_from(["\n", "\r\n"]))
@example(lines=["a\u2028b\x85c\x0bd\x1ce"], end="\n")
@example(lines=["", "", ""], end="\r\n")
def test_lines_end_at_line_feeds_and_nowhere_else(
    name: str, lines: list[str], end: str, write: Write
) -> None:
    # A first line that begins with U+FEFF would lose it as a byte order mark.
    content = "\ufeff" + "".join(line + end for line in lines)
    assert list(read_lines(write(name, content.encode()))) == lines


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"one\ntwo", ["one", "two"]),
        (b"x" * 2**20 + b"\ny\n", ["x" * 2**20, "y"]),
        ("\ufeff\ufeffa\n\ufeffb\n".encode(), ["\ufeffa", "\ufeffb"]),
        # Carriage returns end the lines of a file whose only line feed, if any, is at its end.
        (b"\xef\xbb\xbfone\r\rtwo\rthree", ["one", "", "two", "three"]),
        (b"one\rtwo\rthree\r", ["one", "two", "three"]),
        (b"one\rtwo\rthree\n", ["one", "two", "three"]),
        (b"one\rtwo\rthree\r\n", ["one", "two", "three"]),
        (b"one\rtwo\n", ["one\rtwo"]),
        (b"a\rb\rc\nd\n", ["a\rb\rc", "d"]),
        (b"one\ra\ntwo\rb\r\r\n", ["one\ra", "two\rb"]),
    ],
)
@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
def test_lines_of_other_forms(name: str, content: bytes, lines: list[str], write: Write) -> None:
    assert list(read_lines(write(name, content))) == lines


@pytest.mark.parametrize(
    ("content", "line", "why"),
    [
        (b"a\nb\ncaf\xe9\n", 3, "byte 4 of the line is 0xe9"),
        (b"\xef\xbb\xbf\xff\n", 1, "byte 4 of the line is 0xff"),
        (b"one\rtwo\rcaf\xe9\rfour\r", 3, "byte 4 of the line is 0xe9"),
        (b"ab\ncd\0ef\n", 2, None),
        ("ab\ncd\n".encode("utf-16-le"), 1, None),
        (b"\0" * 99, 1, None),
    ],
)
def test_bytes_that_are_no_text_are_rejected_with_the_line_and_the_byte(
    content: bytes, line: int, why: str | None, write: Write
) -> None:
    path = write("bad", content)
    error = refusal(path)
    assert (error.where, error.why) == (f"{path}:{line}", why)


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("Двое мужчин стоят перед магазином и говорят о погоде.", "cp1251"),
        ("Двое мужчин стоят перед магазином и говорят о погоде.", "koi8-r"),
        ("二人の男性が店の前に立って天気について話しています。", "cp932"),
        ("Dwóch mężczyzn stoi przed sklepem i mówi: zażółć gęślą jaźń.", "cp1250"),
        ("Zwei Männer stehen vor dem Geschäft und reden über schöne Gärten.", "cp1252"),
        ("Two dogs play in the snow.", "utf-16"),
    ],
)
def test_the_encoding_is_named_if_it_is_certain(text: str, encoding: str, write: Write) -> None:
    path = write("bad", f"{text}\n".encode(encoding) * 3)
    assert f"-f {encoding} " in str(refusal(path).todo)
    if encoding != "utf-16":  # one line of ASCII does not change the guess
        assert f"-f {encoding} " in str(
            refusal(write("bad2", b"a\n" + Path(path).read_bytes())).todo
        )


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("Zażółć gęślą jaźń. Dwóch mężczyzn stoi przed sklepem.", "iso8859-2"),
        ("Příliš žluťoučký kůň úpěl ďábelské ódy.", "iso8859-2"),
        ("Deux hommes élégants à côté de la fenêtre.", "latin-1"),
        ("caf\xe9", "latin-1"),
    ],
)
def test_no_wrong_encoding_is_named(text: str, encoding: str, write: Write) -> None:
    error = refusal(write("bad", f"{text}\n".encode(encoding)))
    named = re.search(r"-f (\S+)", str(error.todo))
    assert named is None or text.encode(encoding).decode(named[1]) == text


@pytest.mark.parametrize("start", SIGNATURES)
def test_a_binary_file_is_named_by_its_kind(start: bytes, write: Write) -> None:
    error = refusal(write("a.txt", start + bytes(range(256)) * 9))
    kind, todo = SIGNATURES[start]
    assert kind in error.what
    assert (str(error.where).endswith("a.txt"), error.todo) == (True, todo)


def test_a_missing_file_and_a_folder_are_rejected(tmp_path: Path) -> None:
    for path in (str(tmp_path / "none"), str(tmp_path), "nul\0in-name"):
        assert refusal(path).where == path
    assert os.getcwd() in str(refusal("none").todo)


def test_a_gz_file_cut_short_or_not_gz_at_all_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "bad.gz"
    whole = gzip.compress(bytes(range(1, 10)) * 9999 + b"\n", mtime=0)
    damaged = whole[:40] + bytes(20) + whole[60:]
    for content, line in ((whole[: len(whole) // 2], ":1"), (b"plain\n", ""), (damaged, ":2")):
        path.write_bytes(content)
        assert refusal(str(path)).where == f"{path}{line}"


def test_an_endless_line_is_rejected_before_it_fills_the_memory(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert MAX_LINE_BYTES >= 2**20
    monkeypatch.setattr("clearhead.data.reading.lines.MAX_LINE_BYTES", 100)
    error = refusal(write("bad", b"a\n" + b"x" * 101))
    assert str(error.where).endswith("bad:2")


def test_a_packed_file_that_expands_without_end_is_rejected(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    bomb = write("a.gz", b"a line of text\n" * 100_000)
    real = write("b.gz", "".join(f"{number**7}\n" for number in range(100_000)).encode())
    monkeypatch.setattr("clearhead.data.reading.lines.EXPANDED_BYTES", 2**16)
    assert refusal(bomb).where == bomb
    # Text that is packed as text is may be of any length.
    assert sum(1 for _ in read_lines(real)) == 100_000


@pytest.mark.parametrize(
    ("read", "name", "first", "further"),
    [
        (read_lines, "a.txt", "", "a\n"),
        (read_labelled_texts, "a.csv", "text,label\n", "a,x\n"),
        (read_labelled_texts, "a.tsv", "text\tlabel\n", "a\tx\n"),
        (read_labelled_texts, "a.jsonl", "", '{"text": "a", "label": "x"}\n'),
        (lambda path: read_pairs([path, path]), "a", "", "a\n"),
        (read_feature_sequences, "a.ts", "@classLabel true a b\n@data\n", "1:2:a\n"),
        (read_feature_sequences, "a.csv", "sequence,label,a\n1,x,1\n", "2,x,1\n3,x,1\n"),
    ],
)
def test_a_file_read_in_part_is_closed(
    read: Callable[[str], Iterator[Any]], name: str, first: str, further: str, write: Write
) -> None:
    # ResourceWarning is an error in these tests.
    items = read(write(name, first + further * (1 if "sequence" in first else 9)))
    assert len(list(islice(items, 2))) == 2
    del items


def test_a_pipe_is_read_as_text(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.txt"
    os.mkfifo(pipe)
    writer = Thread(target=pipe.write_bytes, args=(b"a\nb\n",))
    writer.start()
    assert list(read_lines(str(pipe))) == ["a", "b"]
    writer.join()


def test_lines_that_end_at_carriage_returns_have_no_limit_together(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clearhead.data.reading.lines.MAX_LINE_BYTES", 11)
    monkeypatch.setattr("clearhead.data.reading.lines.BLOCK_BYTES", 4)
    path = write("a", b"0123456789\r" * 5 + b"end")
    assert list(read_lines(path)) == ["0123456789"] * 5 + ["end"]
    long = write("b", b"short\r" + b"x" * 40)
    assert refusal(long).where == f"{long}:2"


@pytest.mark.parametrize("part", ["train", "validation", "test"])
@pytest.mark.parametrize("kind", ["text", "features"])
def test_a_pipe_is_no_training_data(tmp_path: Path, part: str, kind: str) -> None:
    os.mkfifo(tmp_path / "pipe.tsv")  # without a writer, opening it would never end
    data = {"train": [str(tmp_path / "a.tsv")], part: [str(tmp_path / "pipe.tsv")]}
    with pytest.raises(DataError) as raised:
        parts_of(config_from({"task": "classification", "input": kind, "data": data}))
    assert raised.value.where == str(tmp_path / "pipe.tsv")
    options = ("--input", kind, "--train", *data["train"], f"--{part}", *data[part])
    code, _, err = run("init", str(tmp_path / "m"), "--task", "classification", *options)
    assert (code, str(tmp_path / "pipe.tsv") in err) == (DataError.exit_code, True)
    assert not (tmp_path / "m.toml").exists()
