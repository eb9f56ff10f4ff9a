"""Feature sequences: every format is read exactly, or raises an error with the place."""

from __future__ import annotations

import csv
import io
import math
import os
import tracemalloc
import warnings
import zipfile
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from clearhead.data.reading.feature_sequences import (
    FEATURE_FORMATS,
    frame_times,
    read_feature_sequences,
)
from clearhead.data.reading.labelled import LabelledSequence
from clearhead.data.reading.parts import file_hash
from clearhead.errors import DataError
from data_files import Write, same_folder

Examples = list[tuple[np.ndarray, str]]
value = st.floats(allow_infinity=False, width=32)
plain_label = st.text("abc 1.", min_size=1).map(str.strip).filter(bool)


@st.composite
def examples_of_one_width(draw: st.DrawFn) -> Examples:
    width = draw(st.integers(1, 3))
    frame = st.lists(value, min_size=width, max_size=width)
    sequence = st.lists(frame, min_size=1, max_size=4)
    drawn = draw(st.lists(st.tuples(sequence, plain_label), min_size=1, max_size=4))
    return [(np.array(frames, dtype=np.float32), label) for frames, label in drawn]


def read(
    path: str | Path, label: str = "label", *, labelled: bool = True
) -> list[LabelledSequence]:
    return list(read_feature_sequences(str(path), label, labelled=labelled))


def refusal(path: str | Path, *, labelled: bool = True) -> DataError:
    with pytest.raises(DataError) as raised:
        read(path, labelled=labelled)
    return raised.value


def assert_same(
    found: Sequence[LabelledSequence], expected: Examples, *, labelled: bool = True
) -> None:
    assert [example.labels for example in found] == [
        (label,) if labelled else () for _, label in expected
    ]
    for example, (frames, _) in zip(found, expected, strict=True):
        assert example.input.dtype == np.float32
        np.testing.assert_array_equal(example.input, frames)


def array_bytes(array: np.ndarray, *, allow_pickle: bool = False) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=allow_pickle)
    return stream.getvalue()


def archive_bytes(**arrays: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, **arrays)  # pyright: ignore[reportArgumentType]
    return stream.getvalue()


# .ts


HEADER = "@dimensions 2\n@classLabel true a b\n@data\n"


def ts_text(
    examples: Examples,
    *,
    labelled: bool = True,
    missing: str = "NaN",
    times: Sequence[Sequence[str]] | None = None,
) -> str:
    """A `.ts` file, optionally with the times of the frames of each example."""

    def word(number: float) -> str:
        return missing if math.isnan(number) else repr(float(number))

    def cells(dimension: np.ndarray, example: int) -> list[str]:
        words = list(map(word, dimension))
        if times is None:
            return words
        return [f"({time},{word})" for time, word in zip(times[example], words, strict=True)]

    stamps = "false" if times is None else "true"
    lines = ["# a comment", "@problemName Made", f"@timeStamps {stamps}", ""]
    lines += [f"@dimensions {examples[0][0].shape[1]}", "@equalLength false"]
    lines += [f"@classLabel {'true a b' if labelled else 'false'}", "@data"]
    for number, (frames, label) in enumerate(examples):
        dimensions = [",".join(cells(dimension, number)) for dimension in frames.T]
        lines.append(":".join([*dimensions, *([label] if labelled else [])]))
    return "\n".join(lines) + "\n"


@same_folder
@pytest.mark.parametrize("name", ["a.ts", "a.TS", "a.ts.gz"])
@given(examples=examples_of_one_width(), missing=st.sampled_from(["NaN", "?", "nan"]))
def test_ts_gives_back_its_cases(name: str, examples: Examples, missing: str, write: Write) -> None:
    path = write(name, ts_text(examples, missing=missing))
    found = read(path)
    assert_same(found, examples)
    assert [example.place for example in found] == [
        f"{path}:{line}" for line in range(9, 9 + len(examples))
    ]
    assert_same(read(path, labelled=False), examples, labelled=False)
    unlabelled = write(name, ts_text(examples, labelled=False))
    assert_same(read(unlabelled, labelled=False), examples, labelled=False)


time_stamp = st.one_of(
    st.integers(-9, 10**12).map(str),
    st.floats(0, 1e6).map(repr),
    st.datetimes().map(str),
    st.datetimes().map(lambda moment: f" {moment:%Y-%m-%d %H:%M:%S} "),
)


@st.composite
def examples_with_times(draw: st.DrawFn) -> tuple[Examples, list[list[str]]]:
    """Examples, and for each a time per frame, unordered and unevenly spaced."""
    examples = draw(examples_of_one_width())
    sizes = [len(frames) for frames, _ in examples]
    return examples, [draw(st.lists(time_stamp, min_size=n, max_size=n)) for n in sizes]


@same_folder
@given(drawn=examples_with_times(), gap=st.sampled_from([",", ", ", " ,"]))
def test_the_times_of_a_ts_file_change_nothing(
    drawn: tuple[Examples, list[list[str]]], gap: str, write: Write
) -> None:
    examples, times = drawn
    text = ts_text(examples, times=times)
    found = read(write("a.ts", text.replace("),(", f"){gap}(")))
    assert_same(found, examples)
    places = [example.place.rpartition(":")[2] for example in found]
    assert places == [str(line) for line in range(9, 9 + len(examples))]


@same_folder
@given(data=st.data(), times=st.lists(time_stamp, min_size=1, max_size=4))
def test_dimensions_with_other_times_are_rejected_with_their_line(
    data: st.DataObject, times: list[str], write: Write
) -> None:
    width = data.draw(st.integers(2, 3))
    wrong, frame = data.draw(st.integers(1, width - 1)), data.draw(st.integers(0, len(times) - 1))
    dimensions = [list(times) for _ in range(width)]
    dimensions[wrong][frame] = other = data.draw(time_stamp)
    assume(other.strip() != times[frame].strip())
    series = [",".join(f"({time},1)" for time in dimension) for dimension in dimensions]
    good = ":".join([series[0]] * width)
    header = f"@dimensions {width}\n@timeStamps true\n@classLabel true a\n@data\n"
    path = write("a.ts", f"{header}{good}:a\n{':'.join(series)}:a\n")
    error = refusal(path)
    assert error.where == f"{path}:6"
    assert repr(other.strip()) in error.what


def test_the_japanese_vowels_are_read_whole(clearhead_data: Path) -> None:
    folder = clearhead_data / "japanese-vowels"
    lengths: list[int] = []
    for part, count in (("TRAIN", 270), ("TEST", 370)):
        path = folder / f"JapaneseVowels_{part}.ts"
        found = read(path)
        assert len(found) == count
        assert {example.input.shape[1] for example in found} == {12}
        assert {example.labels for example in found} == {(str(label),) for label in range(1, 10)}
        lengths += [len(example.input) for example in found]
        last = path.read_text("utf-8").splitlines()[-1].split(":")
        expected = [[float(number) for number in dimension.split(",")] for dimension in last[:-1]]
        np.testing.assert_array_equal(found[-1].input, np.array(expected, np.float32).T)
    assert (min(lengths), max(lengths)) == (7, 29)


PLAIN, TIMED = f"{HEADER}1,2:3,4:a\n", f"@timeStamps true\n{HEADER}(0,1):(0,3):a\n"


@pytest.mark.parametrize(
    ("before", "case"),
    [
        *((PLAIN, case) for case in ("1,2:3,4,5:a", "1,2:3,4", "1,2:3,4:5,6:a", "1,2:3,4: ")),
        *((PLAIN, case) for case in ("1,x:3,4:a", "1,:3,4:a", "1,1_0:3,4:a", "1,-inf:3,4:a")),
        *((PLAIN, case) for case in ("1,1e999:3,4:a", "1,1e39:3,4:a", "::a", "(0,1):(0,3):a")),
        *((TIMED, case) for case in ("(0,1),(1,2):(0,3):a", "(0,1):a", "(0,1):(0,3),4:a")),
        *((TIMED, case) for case in ("(0,1)(1,2):(0,3):a", "(0,1,2):(0,3):a", "(0,1:(0,3):a")),
        *((TIMED, case) for case in ("1,2:3,4:a", "(0,x):(0,3):a", "(0,):(0,3):a", "::a")),
        (TIMED, "(12:30,1):(12:31,2):a"),
    ],
)
def test_a_case_that_is_wrong_is_rejected_with_its_line(
    before: str, case: str, write: Write
) -> None:
    path = write("a.ts", f"{before}{case}\n")
    assert refusal(path).where == f"{path}:{before.count(chr(10)) + 1}"


@pytest.mark.parametrize(
    "line",
    [
        *("@timeStamps perhaps", "@targetLabel true", "@dimensions none", "@classLabel", "1,2:a"),
        "@",
    ],
)
def test_a_header_that_is_wrong_is_rejected_with_its_line(line: str, write: Write) -> None:
    path = write("a.ts", f"# made\n{line}\n{HEADER}1,2:3,4:a\n")
    assert refusal(path).where == f"{path}:2"


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("@classLabel true a\n", ""),  # no @data
        (HEADER, ""),  # no sequence
        ("@classLabel false\n@data\n1,2\n", ""),
        ("@univariate true\n@classLabel true a\n@data\n1,2:a\n1:2:a\n", ":5"),
        ("@timeStamps true\n@classLabel true a\n@data\na\n", ":4"),
    ],
)
def test_a_ts_file_that_is_not_complete_is_rejected(content: str, line: str, write: Write) -> None:
    path = write("a.ts", content)
    assert refusal(path).where == path + line


def test_labels_are_read_only_if_they_are_needed(write: Write) -> None:
    path = write("b.ts", "@classLabel false\n@data\n1,2\n")
    assert read(path, labelled=False)[0].input.tolist() == [[1.0], [2.0]]


# CSV


def csv_text(examples: Examples, *, labelled: bool = True) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream)
    width = examples[0][0].shape[1]
    names = [f"feature {number}" for number in range(width)]
    writer.writerow([*names, "sequence", "time", *(["label"] if labelled else [])])
    for number, (frames, label) in enumerate(examples):
        for time, frame in enumerate(frames):
            cells = ["" if math.isnan(cell) else repr(float(cell)) for cell in frame]
            writer.writerow([*cells, f"s{number}", time / 2, *([label] if labelled else [])])
    return stream.getvalue()


@same_folder
@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
@given(examples=examples_of_one_width())
def test_a_table_gives_back_its_sequences(name: str, examples: Examples, write: Write) -> None:
    path = write(name, csv_text(examples))
    found = read(path)
    assert_same(found, examples)
    firsts = np.cumsum([2, *(len(frames) for frames, _ in examples[:-1])])
    assert [example.place for example in found] == [f"{path}:{line}" for line in firsts]
    assert_same(read(path, labelled=False), examples, labelled=False)
    unlabelled = write(name, csv_text(examples, labelled=False))
    assert_same(read(unlabelled, labelled=False), examples, labelled=False)


def test_the_label_column_of_a_table_goes_by_its_name(write: Write) -> None:
    path = write("a.csv", "sequence,kind,label\n1,x,2.5\n")
    [found] = read(path, "kind")
    assert (found.labels, found.input.tolist()) == (("x",), [[2.5]])
    assert found.columns == ("label",)


@pytest.mark.parametrize(
    ("rows", "line"),
    [
        (["s,0,x,1,2", "s,1,y,1,2"], 3),
        (["s,0,x,1,2", "t,0,x,1,2", "s,1,x,1,2"], 4),
        (["s,1,x,1,2", "s,0.5,x,1,2"], 3),
        (["s,1,x,1,2", "s,,x,1,2"], 3),
        (["s,1,x,1,2", "s,noon,x,1,2"], 3),
        (["s,2024-01-02,x,1,2", "s,2024-01-01 23:59:59,x,1,2"], 3),
        (["s,1,x,1,2", " ,2,x,1,2"], 3),
        (["s,1,,1,2"], 2),
        (["s,1,x,1,2", "s,2,,1,2"], 3),
        (["s,0,x,1"], 2),
        (["s,0,x,1,2", "s,1,x,1e39,2"], 2),
    ],
)
def test_a_row_of_a_table_that_is_wrong_is_rejected_with_its_line(
    rows: list[str], line: int, write: Write
) -> None:
    path = write("a.csv", "\n".join(["sequence,time,label,a,b", *rows]) + "\n")
    assert refusal(path).where == f"{path}:{line}"


@pytest.mark.parametrize("cell", ["one", "inf", "-Infinity", "1_0", "?"])
def test_a_cell_that_is_no_number_is_rejected_with_its_line_and_column(
    cell: str, write: Write
) -> None:
    path = write("a.csv", f"sequence,label,left,right\ns,x,1,2\ns,x,3,{cell}\n")
    assert refusal(path).where == f"{path}:3 (column 'right')"


@pytest.mark.parametrize(
    "header",
    [
        *("label,a", "sequence,a", "sequence,time,label", "sequence,sequence,label,a"),
        *("sequence,label,a,b, a", "time,date,sequence,label,x"),
        # The numbers of the rows
        *(f"{name},sequence,label,x" for name in ("", "Unnamed: 0", "Index", "level_0", '"  "')),
    ],
)
def test_a_table_with_wrong_columns_is_rejected(header: str, write: Write) -> None:
    path = write("a.csv", f"{header}\n")
    assert refusal(path).where == f"{path}:1"


def test_a_table_of_a_header_alone_is_rejected(write: Write) -> None:
    path = write("a.csv", "sequence,label,a\n")
    assert refusal(path).where == path


# Arrays


@same_folder
@given(examples=examples_of_one_width(), compressed=st.booleans())
def test_an_npz_file_gives_back_sequences_of_any_length(
    examples: Examples, compressed: bool, tmp_path: Path
) -> None:
    path = tmp_path / "a.npz"
    save = np.savez_compressed if compressed else np.savez
    frames = [frames for frames, _ in examples]
    lengths = np.array([len(sequence) for sequence in frames])
    labels = np.array([label for _, label in examples])
    save(path, x=np.concatenate(frames), lengths=lengths, y=labels)
    found = read(path)
    assert_same(found, examples)
    assert [example.place for example in found] == [
        f"{path}:{number}" for number in range(1, len(examples) + 1)
    ]
    assert_same(read(path, labelled=False), examples, labelled=False)

    padded = np.full((len(frames), max(lengths), frames[0].shape[1]), np.inf, dtype=np.float32)
    for row, sequence in zip(padded, frames, strict=True):
        row[: len(sequence)] = sequence
    save(path, x=padded, lengths=lengths, y=labels)
    assert_same(read(path), examples)


def test_an_npz_file_gives_back_sequences_of_one_length(tmp_path: Path) -> None:
    x = np.arange(24).reshape(2, 4, 3)
    np.savez(tmp_path / "a.npz", x=x, y=np.array([3, 10]))
    found = read(tmp_path / "a.npz")
    assert_same(found, [(x[0], "3"), (x[1], "10")])


def test_a_flat_array_with_lengths_has_one_feature(write: Write) -> None:
    path = write(
        "a.npz", archive_bytes(x=np.arange(5.0), lengths=np.array([2, 3]), y=np.array(["a", "b"]))
    )
    assert [example.input.tolist() for example in read(path)] == [[[0], [1]], [[2], [3], [4]]]


@pytest.mark.parametrize("kind", ["npy", "npz"])
def test_a_lone_sequence_can_be_read_without_a_label(kind: str, write: Write) -> None:
    for array in (np.arange(6.0).reshape(3, 2), np.arange(3.0)):
        content = array_bytes(array) if kind == "npy" else archive_bytes(x=array)
        path = write(f"a.{kind}", content)
        [found] = read(path, labelled=False)
        np.testing.assert_array_equal(found.input, array.reshape(3, -1))
        assert (found.labels, found.place) == ((), path)
        assert "no labels" in refusal(path).what
    many = write("many.npy", array_bytes(np.zeros((4, 3, 2))))
    assert len(read(many, labelled=False)) == 4


X = np.zeros((2, 3, 1))


@pytest.mark.parametrize(
    "arrays",
    [
        {"a": X},
        {"x": np.zeros((2, 3))},
        {"x": np.zeros((2, 3, 1, 1))},
        {"x": np.zeros((3, 3, 1))},
        *({"x": np.zeros((4, 1)), "lengths": np.array(sizes)} for sizes in ([1, 2], [2**62] * 4)),
        *({"x": np.zeros((4, 1)), "lengths": np.array(sizes)} for sizes in ([5, -1], [2.0, 2.0])),
        *({"x": np.zeros((4, 1)), "lengths": np.array(sizes)} for sizes in ([[2, 2]], [4, 0])),
        {"x": np.zeros((4, 1)), "lengths": np.array([2**63, 2**63, 4], dtype=np.uint64)},
        {"x": np.zeros(()), "lengths": np.array([1, 2])},
        *({"x": X, "lengths": np.array(sizes)} for sizes in ([2, 4], [2])),
        {"x": np.zeros((2, 3, 0))},
        {"x": np.full((2, 3, 1), "a")},
        {"x": X.astype(complex)},
        *({"x": np.full((2, 3, 1), number)} for number in (np.inf, 1e39)),
        {"x": np.zeros((0, 3, 1)), "y": np.zeros(0)},
        *({"x": X, "y": np.array(y)} for y in ([True, False], [1.0, np.nan], ["a", " "], "a")),
        {"x": X, "y": np.array([b"a", b"b"])},
        {"x": X, "y": np.array(["2024-01-02"] * 2, dtype="datetime64[ns]")},
    ],
)
def test_an_npz_file_of_another_form_is_rejected(
    arrays: dict[str, np.ndarray], write: Write
) -> None:
    path = write("a.npz", archive_bytes(**{"y": np.array([1, 2]), **arrays}))
    assert str(refusal(path).where).startswith(path)


def test_an_infinite_value_is_named_by_frame_and_feature(write: Write) -> None:
    x = np.zeros((2, 3, 4))
    x[1, 2, 3] = -np.inf
    error = refusal(write("a.npz", archive_bytes(x=x, y=np.array([1, 2]))))
    assert str(error.where).endswith("a.npz:2")
    assert "frame 3, feature 4" in str(error.why)


class Treacherous:
    """Writes a file if it is unpickled."""

    unpickled = False

    def __reduce__(self) -> tuple[object, tuple[()]]:
        return (_leave_a_trace, ())


def _leave_a_trace() -> None:
    Treacherous.unpickled = True


def test_pickled_arrays_are_rejected_and_never_run(write: Write) -> None:
    array = np.array([Treacherous(), None], dtype=object)
    pickled = array_bytes(array, allow_pickle=True)
    header = pickled[: pickled.index(b"\n") + 1]
    files = {"a.npy": pickled, "a.npz": archive(x=pickled), "b.npy": pickled[len(header) :]}
    for name, content in files.items():
        path = write(name, content)
        assert refusal(path, labelled=False).where == path
    assert not Treacherous.unpickled


@pytest.mark.parametrize("name", ["x", "lengths", "y"])
def test_an_array_of_objects_is_rejected_by_its_name(name: str, write: Write) -> None:
    arrays = {"x": np.zeros((5, 2)), "lengths": np.array([2, 3]), "y": np.array(["a", "b"])}
    arrays[name] = arrays[name].astype(object)
    assert f"array {name} " in refusal(write("a.npz", archive_bytes(**arrays))).what


@same_folder
@pytest.mark.parametrize("kind", ["npy", "npz"])
@given(data=st.data())
def test_damaged_arrays_give_an_error_and_no_other_exception(
    kind: str, data: st.DataObject, write: Write
) -> None:
    x = np.arange(12.0).reshape(2, 3, 2)
    content = array_bytes(x) if kind == "npy" else archive_bytes(x=x, lengths=np.array([3, 1]))
    at = data.draw(st.integers(0, len(content) - 1))
    change = data.draw(st.one_of(st.just(b""), st.binary(min_size=1, max_size=3)))
    cut = data.draw(st.booleans())
    damaged = content[:at] if cut else content[:at] + change + content[at + len(change) :]
    with suppress(DataError), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy's, about headers of old files
        read(write(f"a.{kind}", damaged), labelled=False)


def test_a_member_of_an_archive_that_is_no_array_is_rejected(write: Write) -> None:
    for name in ("x", "lengths", "y"):
        arrays = {"x": np.zeros((1, 2, 3)), "lengths": np.array([2]), "y": np.array([1])}
        del arrays[name]
        archive = io.BytesIO(archive_bytes(**arrays))
        with zipfile.ZipFile(archive, "a") as members:
            members.writestr(f"{name}.npy", b"not an array")
        assert refusal(write("a.npz", archive.getvalue())).what == f"{name} is not an array"


@pytest.mark.parametrize(
    "content", [b"", b"hello", b"PK\x03\x04", b"\x93NUMPY", b"\x93NUMPY\x01\0"]
)
def test_what_is_no_array_is_rejected(content: bytes, write: Write) -> None:
    for name in ("a.npy", "a.npz"):
        assert refusal(write(name, content), labelled=False).where


# Folders


@same_folder
@given(examples=examples_of_one_width())
def test_a_folder_with_a_list_gives_the_sequences_in_its_order(
    examples: Examples, tmp_path: Path
) -> None:
    folder = tmp_path / "listed"
    (folder / "inner").mkdir(parents=True, exist_ok=True)
    rows = ["note,file,label"]
    for number, (frames, label) in reversed(list(enumerate(examples))):
        name = f"inner/{number}.npy" if number % 2 else f"{number}.npz"
        if number % 2:
            np.save(folder / name, frames)
        else:
            np.savez(folder / name, frames)
        rows.append(f"-,{name},{label}")
    (folder / "labels.csv").write_text("\n".join(rows) + "\n", "utf-8")
    expected = examples[::-1]
    assert_same(read(folder), expected)
    assert_same(read(folder, labelled=False), expected, labelled=False)
    assert [str(folder / row.split(",")[1]) for row in rows[1:]] == [
        example.place for example in read(folder)
    ]


def test_folders_are_labels(tmp_path: Path, write: Write) -> None:
    for name, first in {"cat/2": 2.0, "cat/10": 10.0, "dog/1": 1.0, ".hidden/1": 0.0}.items():
        write(f"{name}.npy", array_bytes(np.full((3, 2), first)))
    write("cat/notes.txt", "not an array")
    write("about.txt", "not an array")
    found = read(tmp_path)
    assert [(example.labels, example.input[0, 0]) for example in found] == [
        *((("cat",), 10.0), (("cat",), 2.0), (("dog",), 1.0))
    ]
    assert found[0].place == str(tmp_path / "cat" / "10.npy")
    assert [example.labels for example in read(tmp_path, labelled=False)] == [(), (), ()]


@pytest.mark.parametrize("labelled", [True, False])
@pytest.mark.parametrize(
    ("names", "held"),
    [(["sub/1.npy"], "sub"), (["1.csv", "2.csv"], "1.csv, 2.csv"), ([], "nothing")],
)
def test_a_folder_of_a_label_without_arrays_is_rejected_with_what_it_holds(
    names: list[str], held: str, labelled: bool, tmp_path: Path, write: Write
) -> None:
    write("data/b/1.npy", array_bytes(np.ones((1, 2))))
    (tmp_path / "data" / "a").mkdir()
    for name in names:
        write(f"data/a/{name}", array_bytes(np.ones((1, 2))))
    error = refusal(tmp_path / "data", labelled=labelled)
    assert error.where == str(tmp_path / "data" / "a")
    assert str(error.why).endswith(f" {held}")


def test_a_folder_of_tables_is_rejected_with_some_of_them(tmp_path: Path, write: Write) -> None:
    for number in range(8):
        write(f"{number}.csv", "sequence,label,a\n")
    assert str(refusal(tmp_path).why).endswith("0.csv, 1.csv, 2.csv, 3.csv, 4.csv and 3 more")


def test_files_in_the_folder_itself_have_no_label(tmp_path: Path, write: Write) -> None:
    write("b.npy", array_bytes(np.ones((1, 2))))
    write("a.npz", archive_bytes(x=np.zeros((1, 2)), y=np.zeros(1)))
    assert [example.input[0, 0] for example in read(tmp_path, labelled=False)] == [0, 1]
    error = refusal(tmp_path)
    assert "labels.csv" in str(error.todo)
    assert error.where == str(tmp_path / "a.npz")


def test_beside_arrays_without_labels_a_folder_may_hold_none(tmp_path: Path, write: Write) -> None:
    write("1.npy", array_bytes(np.ones((1, 2))))
    write("more/2.npy", array_bytes(np.full((1, 2), 2.0)))
    write("plots/1.png", "not an array")
    assert [example.input[0, 0] for example in read(tmp_path, labelled=False)] == [1, 2]


def test_a_listed_file_that_is_missing_is_rejected_with_the_line(
    tmp_path: Path, write: Write
) -> None:
    write("a.npy", array_bytes(np.ones((1, 2))))
    for name in ("gone.npy", "", "x" * 5000, "."):
        write("labels.csv", f'file,label\na.npy,x\n"{name}",y\n')
        assert str(refusal(tmp_path).where).endswith("labels.csv:3")
    write("labels.csv", "file,label\na.npy,\n")
    assert "label is empty" in refusal(tmp_path).what
    write("labels.csv", "file,kind\na.npy,x\n")
    assert "'label'" in refusal(tmp_path).what
    assert len(read(tmp_path, labelled=False)) == 1
    assert read(tmp_path, "kind")[0].labels == ("x",)


def test_an_empty_folder_and_an_ambiguous_archive_are_rejected(
    tmp_path: Path, write: Write
) -> None:
    (tmp_path / "empty").mkdir()
    for labelled in (True, False):
        assert refusal(tmp_path / "empty", labelled=labelled).where == str(tmp_path / "empty")
    path = write("many/cat/a.npz", archive_bytes(a=np.ones(1), b=np.ones(1)))
    error = refusal(tmp_path / "many")
    assert (error.where, error.why) == (path, "there are a, b")


# Any form


def test_differing_widths_are_rejected_with_both_places(write: Write) -> None:
    path = write("a.ts", "@classLabel true a\n@data\n1:2:a\n1:2:a\n1:2:3:a\n")
    error = refusal(path)
    assert error.what == "the sequence has 3 features, those before it 2"
    assert error.where == f"{path}:5"
    assert error.why == f"the first is {path}:3"


@pytest.mark.parametrize("name", ["a.ts", "a.csv", "a.npy", "a.npz", "folder", "a.txt"])
def test_what_is_not_there_is_rejected(name: str, tmp_path: Path) -> None:
    assert refusal(tmp_path / name).where == str(tmp_path / name)


def test_a_file_of_another_form_is_rejected_with_those_that_are_read(write: Write) -> None:
    error = refusal(write("a.parquet", ""))
    assert str(error.where).endswith("a.parquet")
    assert all(ending in str(error.why) for ending in FEATURE_FORMATS)


def test_files_read_in_part_are_closed(write: Write) -> None:
    # ResourceWarning is an error in these tests.
    cases = [
        write("a.ts", HEADER + "1:2:a\n" * 9),
        write("a.csv", "sequence,label,a\n" + "".join(f"{line},x,1\n" for line in range(9))),
        write("a.npz", archive_bytes(x=np.zeros((9, 2, 1)), y=np.zeros(9))),
    ]
    for path in cases:
        sequences = read_feature_sequences(path)
        assert len(list(islice(sequences, 2))) == 2
        del sequences


# Times of frames


@pytest.mark.parametrize(
    ("name", "content", "times"),
    [
        (
            "x.csv",
            "x,time,sequence\n1,0.50,a\n1, 1e0,a\n1,3,b\n1,3,c\n1,4,c\n",
            [("0.50", "1e0"), ("3",), ("3", "4")],
        ),
        *(
            (
                "x.ts",
                f"@timeStamps true\n@classLabel {'true a' if label else 'false'}\n@data\n"
                f"(0.50,1),(1e0,2):(0.50,3),(1e0,4){label}\n"
                f"(2020-01-01 10:30:00,1):(2020-01-01 10:30:00,2){label}\n",
                [("0.50", "1e0"), ("2020-01-01 10:30:00",)],
            )
            for label in ("", ":a")
        ),
        ("y.csv", "x,sequence\n1,a\n", [None]),
        ("y.ts", "@classLabel true a\n@data\n1,2:a\n", [None]),
        ("y.npy", array_bytes(np.ones((1, 2))), [None]),
        ("folder.csv/x.npy", array_bytes(np.ones((1, 2))), [None]),
    ],
)
def test_the_times_of_a_sequence_are_given_as_they_are_written(
    name: str, content: str | bytes, times: list[tuple[str, ...] | None], write: Write
) -> None:
    path = write(name, content).removesuffix("/x.npy")
    assert [frame_times(path, number) for number in range(1, len(times) + 1)] == times
    with pytest.raises(DataError) as raised:
        frame_times(path, len(times) + 1)
    assert raised.value.where == path


@pytest.mark.parametrize("name", ["time", "Time", " TIMESTAMP", "datetime", "Date", "time_stamp"])
@pytest.mark.parametrize("times", [("1", "2"), ("2024-05-31", "2024-05-31 10:00:00+02:00")])
def test_times_are_no_feature(name: str, times: tuple[str, str], write: Write) -> None:
    rows = [f"{time},a,one,1" for time in times]
    path = write("x.csv", "\n".join([f"{name},sequence,label,x", *rows]))
    (sequence,) = read_feature_sequences(path)
    assert (sequence.columns, sequence.input.shape) == (("x",), (2, 1))
    assert frame_times(path, 1) == times


def test_a_column_of_labels_may_be_called_date(write: Write) -> None:
    (sequence,) = read(write("x.csv", "time,date,sequence,x\n1,monday,a,1\n"), "date")
    assert (sequence.columns, sequence.labels) == (("x",), ("monday",))


# Damage


def forged(shape: tuple[int, ...], type_: str = "<f4", content: bytes = b"\0" * 16) -> bytes:
    """An array whose header has this shape, whatever its content is."""
    header = io.BytesIO()
    facts = {"descr": type_, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(header, facts)
    return header.getvalue() + content


def archive(**arrays: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in arrays.items():
            packed.writestr(f"{name}.npy", content)
    return file.getvalue()


@pytest.mark.parametrize(
    "shape",
    [(10**12,), (10**6, 10**6), (2**62, 4), (2**32, 2**32, 2**32), (10**12, 5, 0), (10**12, 0, 5)],
)
def test_an_array_that_is_larger_than_its_file_is_not_read(
    shape: tuple[int, ...], write: Write
) -> None:
    assert refusal(write("a.npy", forged(shape)), labelled=False).where
    labels = forged((2,), "<U2")
    for content in (archive(x=forged(shape), y=labels), archive(x=forged(shape))):
        for labelled in (True, False):
            assert refusal(write("a.npz", content), labelled=labelled).where


def test_labels_without_any_bytes_are_not_counted_out(write: Write) -> None:
    content = archive(x=forged((10**12, 1, 0)), y=forged((10**12,), "<U0"))
    assert refusal(write("a.npz", content)).where


@pytest.mark.parametrize("width", [0, 1])
def test_millions_of_sequences_in_a_few_bytes_do_not_fill_the_memory(
    width: int, write: Write
) -> None:
    """The archive has 10,000,000 labels, and lengths of 0 or sequences without features."""
    count = 10**7
    numbers = forged((count,), "|i1", bytes(count))
    ones = forged((count,), "|i1", b"\1" * count)
    for x in (forged((1, width), "|i1", b"\0"), forged((count, 1, width), "|i1", bytes(count))):
        lengths = ones if width == 0 else numbers
        path = write("a.npz", archive(x=x, y=numbers, lengths=lengths))
        tracemalloc.start()
        try:
            assert str(refusal(path).where).startswith(path)
            assert tracemalloc.get_traced_memory()[1] < 10 * count
        finally:
            tracemalloc.stop()


def test_a_pipe_in_the_place_of_an_array_is_refused(tmp_path: Path, write: Write) -> None:
    (tmp_path / "a").mkdir()
    os.mkfifo(tmp_path / "a" / "x.npy")
    assert refusal(tmp_path).where == str(tmp_path / "a" / "x.npy")
    with pytest.raises(DataError):
        file_hash(str(tmp_path))
    assert refusal(tmp_path / "a" / "x.npy", labelled=False).where
    write("labels.csv", "file,label\n/dev/zero,a\n")
    assert refusal(tmp_path).where == f"{tmp_path / 'labels.csv'}:2"


def test_an_archive_that_expands_without_end_is_not_read(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = archive(x=forged((1000, 1000), content=b"\0" * 4_000_000))
    assert len(read(write("a.npz", content), labelled=False)) == 1
    monkeypatch.setattr("clearhead.data.reading.lines.EXPANDED_BYTES", 2**16)
    assert refusal(write("a.npz", content), labelled=False).where == write("a.npz", content)


def test_labels_beyond_unicode_are_not_text(write: Write) -> None:
    content = archive(x=forged((1, 1, 4)), y=forged((1,), "<U1", b"\0\0\xff\0"))
    assert refusal(write("a.npz", content)).where == f"{write('a.npz', content)}:1"
