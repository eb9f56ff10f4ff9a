"""Text files: lines are read exactly, or raise an error with the line and the reason."""

from __future__ import annotations

import gzip
import os
import re
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from clearhead.data.reading.encodings import SIGNATURES
from clearhead.data.reading.lines import MAX_LINE_BYTES, Format, Formats, read_lines
from clearhead.data.reading.parts import parts_of
from clearhead.errors import DataError
from clearhead.settings import config_from
from fake_translator import run

Write = Callable[[str, bytes], str]
line_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r\0"))
# tmp_path is one folder for all examples of a test: each example writes its files anew.
same_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_file(name: str, content: bytes) -> str:
        path = tmp_path / name
        path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        return str(path)

    return write_file


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


def test_a_last_line_without_an_end_counts(write: Write) -> None:
    assert list(read_lines(write("a", b"one\ntwo"))) == ["one", "two"]


def test_a_line_of_a_megabyte_is_read(write: Write) -> None:
    assert list(read_lines(write("a", b"x" * 2**20 + b"\ny\n"))) == ["x" * 2**20, "y"]


def test_only_one_byte_order_mark_at_the_beginning_is_dropped(write: Write) -> None:
    path = write("a", "\ufeff\ufeffa\n\ufeffb\n".encode())
    assert list(read_lines(path)) == ["\ufeffa", "\ufeffb"]


def test_bytes_that_are_not_utf8_are_rejected_with_the_line_and_the_byte(write: Write) -> None:
    error = refusal(write("bad", b"a\nb\ncaf\xe9\n"))
    assert str(error.where).endswith("bad:3")
    assert error.why == "byte 4 of the line is 0xe9"


def test_a_byte_order_mark_does_not_shift_the_byte_that_is_named(write: Write) -> None:
    error = refusal(write("bad", b"\xef\xbb\xbf\xff\n"))
    assert error.why == "byte 4 of the line is 0xff"


@pytest.mark.parametrize("content", [b"ab\ncd\0ef\n", "ab\ncd\n".encode("utf-16-le"), b"\0" * 99])
def test_binary_files_are_rejected(content: bytes, write: Write) -> None:
    error = refusal(write("bad", content))
    assert "NUL" in error.what or "utf-16" in error.what


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


def test_a_missing_file_and_a_folder_are_rejected(tmp_path: Path, write: Write) -> None:
    missing, folder = refusal(str(tmp_path / "none")), refusal(str(tmp_path))
    assert "no such file" in missing.what
    assert "folder of that file" in str(missing.todo)
    assert os.getcwd() in str(refusal("none").todo)
    assert "folder" in folder.what
    assert "file in it" in str(folder.todo)
    assert "cannot be read" in refusal("nul\0in-name").what


def test_a_gz_file_cut_short_or_not_gz_at_all_is_rejected(tmp_path: Path, write: Write) -> None:
    path = tmp_path / "bad.gz"
    whole = gzip.compress(bytes(range(1, 10)) * 9999 + b"\n", mtime=0)
    path.write_bytes(whole[: len(whole) // 2])
    assert "cut short" in refusal(str(path)).what
    assert "again" in str(refusal(str(path)).todo)
    path.write_bytes(b"plain text\n")
    assert "no gzip file" in refusal(str(path)).what
    path.write_bytes(whole[:40] + bytes(20) + whole[60:])
    assert refusal(str(path)).what


def test_an_endless_line_is_rejected_before_it_fills_the_memory(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert MAX_LINE_BYTES >= 2**20
    monkeypatch.setattr("clearhead.data.reading.lines.MAX_LINE_BYTES", 100)
    error = refusal(write("bad", b"a\n" + b"x" * 101))
    assert str(error.where).endswith("bad:2")


# Formats


FORMATS = Formats({".one": Format(1, "a", named_columns=True), ".two": Format(2, "b")})


@pytest.mark.parametrize("name", ["x.one", "x.ONE", "x.One.GZ", "x.two.one"])
def test_a_format_goes_by_the_ending_of_the_name(name: str) -> None:
    assert FORMATS.reader(name, "ones") == 1
    found = FORMATS.of(name)
    assert found is not None
    assert found.named_columns


def test_another_ending_is_rejected_with_those_that_are_read(tmp_path: Path, write: Write) -> None:
    path = write("x.three", b"")
    with pytest.raises(DataError, match="ones are not read") as raised:
        FORMATS.reader(path, "ones", "do without")
    assert raised.value.where == path
    assert ".one (a) and .two (b)" in str(raised.value.why)
    assert "do without" in str(raised.value.todo)
    with pytest.raises(DataError, match="no such file"):
        FORMATS.reader(str(tmp_path / "y.three"), "ones")


def test_a_packed_file_that_expands_without_end_is_rejected(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = b"a line of text\n" * 100_000
    monkeypatch.setattr("clearhead.data.reading.lines.EXPANDED_BYTES", len(content))
    assert sum(1 for _ in read_lines(write("a.gz", content))) == 100_000
    monkeypatch.setattr("clearhead.data.reading.lines.EXPANDED_BYTES", 2**16)
    assert refusal(write("a.gz", content)).where == write("a.gz", content)
    # Text that is packed as text is may be of any length.
    real = "".join(f"{number**7}\n" for number in range(100_000)).encode()
    assert sum(1 for _ in read_lines(write("b.gz", real))) == 100_000


def test_a_pipe_is_read_as_text(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.txt"
    os.mkfifo(pipe)
    writer = Thread(target=pipe.write_bytes, args=(b"a\nb\n",))
    writer.start()
    assert list(read_lines(str(pipe))) == ["a", "b"]
    writer.join()


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
@pytest.mark.parametrize("last", [b"three", b"three\r"])
def test_carriage_returns_end_the_lines_of_a_file_without_line_feeds(
    name: str, last: bytes, write: Write
) -> None:
    path = write(name, b"\xef\xbb\xbfone\r\rtwo\r" + last)
    assert list(read_lines(path)) == ["one", "", "two", "three"]


def test_one_line_feed_at_the_end_does_not_make_one_line_of_a_file(write: Write) -> None:
    assert list(read_lines(write("a", b"one\rtwo\rthree\n"))) == ["one", "two", "three"]
    assert list(read_lines(write("b", b"one\rtwo\rthree\r\n"))) == ["one", "two", "three"]
    assert list(read_lines(write("c", b"one\rtwo\n"))) == ["one\rtwo"]
    assert list(read_lines(write("d", b"a\rb\rc\nd\n"))) == ["a\rb\rc", "d"]


def test_a_carriage_return_inside_a_line_is_text_if_there_are_line_feeds(write: Write) -> None:
    assert list(read_lines(write("a", b"one\ra\ntwo\rb\r\r\n"))) == ["one\ra", "two\rb"]


def test_lines_that_end_at_carriage_returns_have_no_limit_together(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clearhead.data.reading.lines.MAX_LINE_BYTES", 11)
    monkeypatch.setattr("clearhead.data.reading.lines.BLOCK_BYTES", 4)
    path = write("a", b"0123456789\r" * 5 + b"end")
    assert list(read_lines(path)) == ["0123456789"] * 5 + ["end"]
    long = write("b", b"short\r" + b"x" * 40)
    assert refusal(long).where == f"{long}:2"


def test_an_error_in_a_line_that_ends_at_a_carriage_return_has_its_number(write: Write) -> None:
    path = write("a", b"one\rtwo\rcaf\xe9\rfour\r")
    assert refusal(path).where == f"{path}:3"


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
