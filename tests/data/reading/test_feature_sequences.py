"""Feature sequences: every format is read exactly, or raises an error with the place."""

from __future__ import annotations

import csv
import io
import math
import os
import tracemalloc
import warnings
import zipfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.data.reading.feature_sequences import of_one_width, read_feature_sequences
from clearhead.data.reading.labelled import LabelledSequence
from clearhead.data.reading.parts import file_hash
from clearhead.errors import DataError
from data_files import Write, same_folder

Examples = list[tuple[np.ndarray, str]]
Draw = Callable[..., Any]
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
        padding = next((n for n, row in enumerate(frames[::-1]) if not np.isnan(row).all()), 0)
        np.testing.assert_array_equal(example.input, frames[: len(frames) - padding])


def array_bytes(array: np.ndarray, *, allow_pickle: bool = False) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=allow_pickle)
    return stream.getvalue()


def archive_bytes(**arrays: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, **arrays)  # pyright: ignore[reportArgumentType]
    return stream.getvalue()


# Every form gives back its sequences


def ts_text(examples: Examples, draw: Draw, labelled: bool = True) -> str:
    missing, gap = draw(st.sampled_from(["NaN", "?", "nan"])), draw(st.sampled_from([",", ", "]))
    lines = ["# a comment", "@problemName Made", "@timeStamps false", ""]
    lines += [f"@dimensions {examples[0][0].shape[1]}", "@equalLength false"]
    lines += [f"@classLabel {'true a b' if labelled else 'false'}", "@data"]
    for frames, label in examples:
        dimensions = [
            gap.join(missing if math.isnan(number) else repr(number) for number in dimension)
            for dimension in frames.T.tolist()
        ]
        lines.append(":".join([*dimensions, *([label] if labelled else [])]))
    return "\n".join(lines) + "\n"


def csv_text(examples: Examples, draw: Draw, labelled: bool = True) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream)
    names = [f"feature {number}" for number in range(examples[0][0].shape[1])]
    writer.writerow([*names, "sequence", "time", *(["label"] if labelled else [])])
    for number, (frames, label) in enumerate(examples):
        for time, frame in enumerate(frames.tolist()):
            cells = ["" if math.isnan(cell) else repr(cell) for cell in frame]
            writer.writerow([*cells, f"s{number}", time / 2, *([label] if labelled else [])])
    return stream.getvalue()


def npz_bytes(examples: Examples, draw: Draw, labelled: bool = True) -> bytes:
    """The sequences one after the other, or padded."""
    frames = [frames for frames, _ in examples]
    lengths = np.array([len(sequence) for sequence in frames])
    x = np.concatenate(frames)
    if draw(st.booleans()):
        x = np.full((len(frames), max(lengths), frames[0].shape[1]), np.inf, dtype=np.float32)
        for row, sequence in zip(x, frames, strict=True):
            row[: len(sequence)] = sequence
    labels = {"y": np.array([label for _, label in examples])} if labelled else {}
    arrays = {"x": x, "lengths": lengths, **labels}
    if draw(st.booleans()):
        return archive(**{name: array_bytes(array) for name, array in arrays.items()})
    return archive_bytes(**arrays)


@same_folder
@pytest.mark.parametrize(
    ("name", "content", "first"),
    [
        *(("a.ts", ts_text, 9), ("a.TS", ts_text, 9), ("a.ts.gz", ts_text, 9)),
        *(("a.csv", csv_text, 2), ("a.csv.gz", csv_text, 2), ("a.npz", npz_bytes, 1)),
    ],
)
@given(examples=examples_of_one_width(), data=st.data())
def test_sequences_are_read_as_they_were_written(
    name: str,
    content: Callable[..., str | bytes],
    first: int,
    examples: Examples,
    data: st.DataObject,
    write: Write,
) -> None:
    path = write(name, content(examples, data.draw))
    found = read(path)
    assert_same(found, examples)
    steps = [len(frames) if "csv" in name else 1 for frames, _ in examples]
    lines = np.cumsum([first, *steps[:-1]])
    assert [example.place for example in found] == [f"{path}:{line}" for line in lines]
    assert_same(read(path, labelled=False), examples, labelled=False)
    unlabelled = write(name, content(examples, data.draw, labelled=False))
    assert_same(read(unlabelled, labelled=False), examples, labelled=False)


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


def test_the_label_column_of_a_table_goes_by_its_name(write: Write) -> None:
    path = write("a.csv", "sequence,kind,label\n1,x,2.5\n")
    [found] = read(path, "kind")
    assert (found.labels, found.input.tolist()) == (("x",), [[2.5]])
    assert found.columns == ("label",)


def test_a_column_of_labels_may_be_called_date(write: Write) -> None:
    (sequence,) = read(write("x.csv", "time,date,sequence,x\n1,monday,a,1\n"), "date")
    assert (sequence.columns, sequence.labels) == (("x",), ("monday",))


NUMBERS = np.arange(24.0).reshape(2, 4, 3)
FLAT = {"x": np.arange(5.0), "lengths": np.array([2, 3])}


@pytest.mark.parametrize(
    ("arrays", "expected"),
    [
        ({"x": NUMBERS, "y": np.array([3, 10])}, [(NUMBERS[0], "3"), (NUMBERS[1], "10")]),
        ({**FLAT, "y": np.array(["a", "b"])}, [([[0], [1]], "a"), ([[2], [3], [4]], "b")]),
        ({"x": NUMBERS[0]}, [(NUMBERS[0], None)]),
        ({"x": NUMBERS}, [(frames, None) for frames in NUMBERS]),
        ({"x": np.arange(3.0)}, [([[0], [1], [2]], None)]),
    ],
)
def test_arrays_of_one_length_or_of_one_sequence(
    arrays: dict[str, np.ndarray], expected: list[Any], write: Write
) -> None:
    paths = [write("a.npz", archive_bytes(**arrays))]
    if "y" not in arrays:
        paths.append(write("a.npy", array_bytes(arrays["x"])))
    for path in paths:
        found = read(path, labelled="y" in arrays)
        assert [example.input.tolist() for example in found] == [
            np.asarray(frames).tolist() for frames, _ in expected
        ]
        assert [example.labels for example in found] == [
            (label,) if label else () for _, label in expected
        ]
        if "y" not in arrays:
            assert refusal(path).where == path


# Refusals


HEADER = "@dimensions 2\n@classLabel true a b\n@data\n"
PLAIN = f"{HEADER}1,2:3,4:a\n"
PLAIN_CASES = (
    *("1,2:3,4,5:a", "1,2:3,4", "1,2:3,4:5,6:a", "1,2:3,4: ", "1,x:3,4:a", "1,:3,4:a", "::a"),
    *("1,1_0:3,4:a", "1,-inf:3,4:a", "1,1e999:3,4:a", "1,1e39:3,4:a", "(0,1):(0,3):a"),
)
TS_LINES = (
    "@timeStamps true",
    "@timeStamps x",
    "@targetLabel true",
    "@dimensions none",
    "@classLabel",
    "1,2:a",
    "@",
)
ROWS = (
    *("s,1,y,1,2", "s,0.5,x,1,2", "s,,x,1,2", "s,noon,x,1,2", " ,2,x,1,2", "s,2,,1,2", "s,2,x,1"),
    *("t,1,,1,2", "t,1,x,1e39,2"),
)
NO_INDEX = ("", "Unnamed: 0", "Index", "level_0", '"  "')  # the numbers of the rows
COLUMNS = (
    *("label,a", "sequence,a", "sequence,time,label", "sequence,sequence,label,a"),
    *("sequence,label,a,b, a", "time,date,sequence,label,x"),
    *(f"{name},sequence,label,x" for name in NO_INDEX),
)
FRAMES = "sequence,label,left,right\ns,x,1,2\n"


@pytest.mark.parametrize(
    ("name", "content", "place"),
    [
        *(("a.ts", f"{PLAIN}{case}\n", ":5") for case in PLAIN_CASES),
        *(("a.ts", f"# made\n{line}\n{PLAIN}", ":2") for line in TS_LINES),
        *(("a.ts", content, "") for content in ("", HEADER, "@classLabel true a\n")),
        ("a.ts", "@classLabel false\n@data\n1,2\n", ""),
        ("a.ts", "@univariate true\n@classLabel true a\n@data\n1,2:a\n1:2:a\n", ":5"),
        ("a.ts", "@classLabel true a\n@data\na\n", ":3"),
        *(("a.csv", f"sequence,time,label,a,b\ns,1,x,1,2\n{row}\n", ":3") for row in ROWS),
        ("a.csv", "sequence,time,label,a\ns,0,x,1\nt,0,x,1\ns,1,x,1\n", ":4"),
        ("a.csv", "time,sequence,label,a\n2024-01-02,s,x,1\n2024-01-01 23:59:59,s,x,1\n", ":3"),
        *(("a.csv", f"{FRAMES}s,x,3,{cell}\n", ":3 (column 'right')") for cell in ("one", "?")),
        *(("a.csv", f"{FRAMES}s,x,3,{cell}\n", ":3 (column 'right')") for cell in ("inf", "1_0")),
        *(("a.csv", f"{header}\n", ":1") for header in COLUMNS),
        ("a.csv", "sequence,label,a\n", ""),
        *((f"a.{kind}", b"hello", "") for kind in ("npy", "npz", "parquet")),
        *((f"a.{kind}", b"PK\x03\x04", "") for kind in ("npy", "npz")),
        *((f"a.{kind}", b"\x93NUMPY\x01\0", "") for kind in ("npy", "npz")),
        *((f"a.{kind}", None, "") for kind in ("ts", "csv", "npy", "npz", "txt")),
        ("folder", None, ""),
    ],
)
def test_what_is_wrong_is_rejected_with_its_place(
    name: str, content: str | bytes | None, place: str, tmp_path: Path, write: Write
) -> None:
    path = str(tmp_path / name) if content is None else write(name, content)
    assert refusal(path).where == path + place


def test_the_first_sequence_of_another_width_is_named(write: Write) -> None:
    path = write("a.ts", "@classLabel true a\n@data\n1:2:a\n1:2:3:a\n")
    with pytest.raises(DataError) as raised:
        list(of_one_width(read(path)))
    assert (raised.value.where, raised.value.why) == (f"{path}:4", f"the first is {path}:3")


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
        *({"x": X, "group": np.array(group)} for group in (["a"], [0.5, 1.5])),
    ],
)
def test_an_npz_file_of_another_form_is_rejected(
    arrays: dict[str, np.ndarray], write: Write
) -> None:
    path = write("a.npz", archive_bytes(**{"y": np.array([1, 2]), **arrays}))
    assert str(refusal(path).where).startswith(path)


def test_an_npz_file_may_say_what_a_sequence_belongs_to(write: Write) -> None:
    arrays = {"x": X, "y": np.array([1, 2]), "group": np.array(["ann", "bob"])}
    found = read_feature_sequences(write("a.npz", archive_bytes(**arrays)))
    assert [each.group for each in found] == ["ann", "bob"]


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
    [
        *((["sub/1.npy"], "sub"), ([], "nothing"), (["2.csv", "1.csv"], "1.csv, 2.csv")),
        ([f"{n}.csv" for n in range(8)], "0.csv, 1.csv, 2.csv, 3.csv, 4.csv and 3 more"),
    ],
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


def test_files_in_the_folder_itself_have_no_label(tmp_path: Path, write: Write) -> None:
    write("b.npy", array_bytes(np.ones((1, 2))))
    write("a.npz", archive_bytes(x=np.zeros((1, 2)), y=np.zeros(1)))
    write("more/2.npy", array_bytes(np.full((1, 2), 2.0)))
    write("plots/1.png", "not an array")
    assert [example.input[0, 0] for example in read(tmp_path, labelled=False)] == [0, 1, 2]
    assert refusal(tmp_path).where == str(tmp_path / "a.npz")


@pytest.mark.parametrize(
    ("listed", "line"),
    [
        *((f'file,label\na.npy,x\n"{name}",y\n', 3) for name in ("b.npy", "", "x" * 5000, ".")),
        ("file,label\na.npy,\n", 2),
        ("file,label\n/dev/zero,a\n", 2),
        ("file,kind\na.npy,x\n", 1),
    ],
)
def test_a_list_that_is_wrong_is_rejected_with_the_line(
    listed: str, line: int, tmp_path: Path, write: Write
) -> None:
    write("a.npy", array_bytes(np.ones((1, 2))))
    path = write("labels.csv", listed)
    assert refusal(tmp_path).where == f"{path}:{line}"


def test_an_empty_folder_and_an_ambiguous_archive_are_rejected(
    tmp_path: Path, write: Write
) -> None:
    (tmp_path / "empty").mkdir()
    for labelled in (True, False):
        assert refusal(tmp_path / "empty", labelled=labelled).where == str(tmp_path / "empty")
    path = write("many/cat/a.npz", archive_bytes(a=np.ones(1), b=np.ones(1)))
    error = refusal(tmp_path / "many")
    assert (error.where, error.why) == (path, "there are a, b")


@pytest.mark.parametrize("name", ["time", "Time", " TIMESTAMP", "datetime", "Date", "time_stamp"])
@pytest.mark.parametrize("times", [("1", "2"), ("2024-05-31", "2024-05-31 10:00:00+02:00")])
def test_times_are_no_feature(name: str, times: tuple[str, str], write: Write) -> None:
    rows = [f"{time},a,one,1" for time in times]
    path = write("x.csv", "\n".join([f"{name},sequence,label,x", *rows]))
    (sequence,) = read_feature_sequences(path)
    assert (sequence.columns, sequence.input.shape) == (("x",), (2, 1))


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
    x, labels = forged(shape), forged((2,), "<U2")
    files = {"a.npy": x, "a.npz": archive(x=x, y=labels), "b.npz": archive(x=x)}
    for name, content in files.items():
        for labelled in (True, False):
            path = write(name, content)
            assert str(refusal(path, labelled=labelled).where).startswith(path)


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
    assert refusal(tmp_path / "a" / "x.npy", labelled=False).where == str(tmp_path / "a" / "x.npy")


def test_an_archive_that_expands_without_end_is_not_read(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = archive(x=forged((1000, 1000), content=b"\0" * 4_000_000))
    assert len(read(write("a.npz", content), labelled=False)) == 1
    monkeypatch.setattr("clearhead.data.reading.lines.EXPANDED_BYTES", 2**16)
    assert refusal(write("a.npz", content), labelled=False).where == write("a.npz", content)


@pytest.mark.parametrize(
    ("shape", "labels", "place"),
    [
        ((10**12, 1, 0), forged((10**12,), "<U0"), ""),  # without any bytes
        ((1, 1, 4), forged((1,), "<U1", b"\0\0\xff\0"), ":1"),  # beyond Unicode
    ],
)
def test_labels_that_are_no_text_are_rejected(
    shape: tuple[int, ...], labels: bytes, place: str, write: Write
) -> None:
    path = write("a.npz", archive(x=forged(shape), y=labels))
    assert refusal(path).where == path + place
