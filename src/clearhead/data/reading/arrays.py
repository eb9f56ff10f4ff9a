"""Feature sequences in `.npy` and `.npz` files: one file with many sequences, or a folder of files.

Pickled arrays are never read: unpickling can run any code.
"""

from __future__ import annotations

import math
import os
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from itertools import accumulate, pairwise, repeat
from pathlib import Path
from typing import IO, BinaryIO

import numpy as np
from numpy.lib.format import read_array_header_1_0, read_array_header_2_0

from clearhead.data.reading.features import as_frames
from clearhead.data.reading.labelled import LabelledSequence, label_name
from clearhead.data.reading.lines import check_expansion, open_packed
from clearhead.data.reading.tables import GROUP, open_table
from clearhead.errors import DataError, first_few, reason

MAGIC = b"\x93NUMPY"
"""The first bytes of an array in a file."""

SUFFIXES = (".npy", ".npz")
LIST = "labels.csv"
SHOWN_ENTRIES = 5

DAMAGE = (
    *(ValueError, OSError, EOFError, KeyError, TypeError, SyntaxError, OverflowError, MemoryError),
    *(zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, tokenize.TokenError),
)
"""What numpy and zipfile raise on damaged files."""


def read_array_file(path: str, labelled: bool = True) -> Iterator[LabelledSequence]:
    """The sequences of one `.npz` file, or without labels those of one `.npy` file.

    `x` is (N, frames, width), and `y` (N,) are the labels. If there are `lengths` (N,), the frames
    of a sequence after its length are padding; or `x` is (sum of lengths, width), all sequences one
    after the other. `group` (N,) is what each belongs to, such as a person. A single sequence
    without a label is (frames, width) or (frames,).
    """
    arrays = _load(path, "lengths", *["y", GROUP] * labelled)
    x, lengths, y = arrays["x"], arrays.get("lengths"), arrays.get("y")
    if labelled and y is None:
        todo = "save them as y in an .npz file, one for each sequence of x"
        raise DataError("the file has no labels", where=path, todo=todo)
    if x.ndim < 3 and lengths is None and not labelled:
        yield LabelledSequence(as_frames(x, path), (), path)
        return
    rows, count = _rows(path, x, lengths), len(x if lengths is None else lengths)
    labels = repeat((), count) if y is None else _labels(path, y, count)
    groups = repeat("", count) if GROUP not in arrays else _groups(path, arrays[GROUP], count)
    read = zip(rows, labels, groups, strict=True)
    for number, (row, label, group) in enumerate(read, start=1):
        place = f"{path}:{number}"
        yield LabelledSequence(as_frames(row, place), label, place, group=group)


def _rows(path: str, x: np.ndarray, lengths: np.ndarray | None) -> Iterator[np.ndarray]:
    """The sequences one by one: an archive of a few bytes may have millions."""
    if lengths is None:
        if x.ndim != 3:
            todo = "give (N, frames, features), or (frames of all, features) and lengths"
            raise DataError(f"x has the shape {x.shape}", where=path, todo=todo)
        return iter(x)
    if lengths.ndim != 1 or lengths.dtype.kind not in "iu" or (lengths < 0).any():
        raise DataError("lengths are not whole numbers of frames, (N,)", where=path)
    if x.ndim == 3:
        if len(lengths) != len(x) or (lengths > x.shape[1]).any():
            raise DataError(f"lengths do not fit x, whose shape is {x.shape}", where=path)
        return (row[:length] for row, length in zip(x, lengths, strict=True))
    frames = len(x) if x.ndim and x.size else 0
    # As floating-point numbers they do not overflow; sums up to 2**53 are exact.
    total = int(lengths.sum(dtype=np.float64))
    if total != frames:
        raise DataError(f"the lengths add up to {total:,}, x has {frames:,} frames", where=path)
    return (x[start:end] for start, end in pairwise(accumulate(map(int, lengths), initial=0)))


def _labels(path: str, y: np.ndarray, count: int) -> Iterator[tuple[str, ...]]:
    if y.shape != (count,):
        raise DataError(f"y has the shape {y.shape}, and there are {count:,} sequences", where=path)
    if y.dtype.kind not in "Uiuf":
        raise DataError(
            f"the labels y are of the type {y.dtype}, not text or numbers",
            where=path,
            todo='save them as text: y.astype(str), or for bytes numpy.char.decode(y, "utf-8")',
        )
    for i in range(count):
        place = f"{path}:{i + 1}"
        try:
            value = y[i].item()
        except SystemError:  # a number beyond Unicode in place of a character
            raise DataError("the label is not text: the file is damaged", where=place) from None
        yield (label_name(value, place),)


def _groups(path: str, group: np.ndarray, count: int) -> Iterator[str]:
    what = f"{GROUP} is not a text or a whole number for each of the {count:,} sequences"
    if group.shape != (count,) or group.dtype.kind not in "Uiu":
        why = f"its shape is {group.shape}, its type {group.dtype}"
        raise DataError(what, where=path, why=why)
    try:
        return (str(value).strip() for value in group.tolist())
    except SystemError:  # a number beyond Unicode in place of a character
        raise DataError(what, where=path, why="the file is damaged") from None


def read_array_folder(
    folder: Path, label_column: str = "label", labelled: bool = True
) -> Iterator[LabelledSequence]:
    """The sequences of a folder of `.npy` or `.npz` files, each (frames, width) or (frames,).

    Either `labels.csv` with the columns `file` and `label` lists the files, or there is a folder
    for each label: `label/x.npy`. Without labels, files may also be in the folder itself. An `.npz`
    file has one array, or its sequence is called `x`.
    """
    for file, labels, group in _files(folder, label_column, labelled):
        path = str(file)
        yield LabelledSequence(as_frames(_load(path)["x"], path), labels, path, group=group)


def files_of_array_folder(folder: Path) -> list[Path]:
    """All files that `read_array_folder` reads, including `labels.csv`, with its errors."""
    lists = [folder / LIST] if os.path.isfile(folder / LIST) else []
    # Without labels: this includes the files in the folders that are named after labels.
    return lists + [path for path, *_ in _files(folder, label_column="", labelled=False)]


_Files = Iterator[tuple[Path, tuple[str, ...], str]]
"""Files, their labels and their group."""


def _files(folder: Path, label_column: str, labelled: bool) -> _Files:
    if not os.path.isfile(folder / LIST):
        yield from _found(folder, labelled)
        return
    path = str(folder / LIST)
    with open_table(path) as table:
        file, group = table.index("file"), table.optional(GROUP)
        label = table.index(label_column, "label_column") if labelled else None
        if group == label:
            group = None
        for line, cells in table.rows(header=True):
            where = f"{path}:{line}"
            if not os.path.isfile(folder / cells[file]):
                raise DataError(f"there is no such file: {cells[file]!r}", where=where)
            labels = () if label is None else (label_name(cells[label], where),)
            yield folder / cells[file], labels, "" if group is None else cells[group].strip()


def _found(folder: Path, labelled: bool) -> _Files:
    """The files in a folder, and those in its folders, which are named after labels."""
    here, folders = _listed(folder)
    if labelled and here:
        todo = f"put it into a folder named after its label, or list it in {folder / LIST}"
        raise DataError("the file has no label", where=here[0], todo=todo)
    if not here and not folders:
        raise _without_arrays(folder)
    yield from ((path, (), "") for path in here)
    for inner in folders:
        labels = (label_name(inner.name, str(inner)),) if labelled else ()
        found, _ = _listed(inner)
        # Next to unlabelled arrays, a folder may have other content.
        if not found and not here:
            raise _without_arrays(inner)
        yield from ((path, labels, "") for path in found)


def _listed(folder: Path) -> tuple[list[Path], list[Path]]:
    """The arrays and the folders in a folder, sorted, without hidden ones."""
    try:
        paths = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except OSError as error:
        raise DataError("the folder cannot be read", where=folder, why=reason(error)) from None
    folders = [path for path in paths if path.is_dir()]
    return [p for p in paths if p.suffix.lower() in SUFFIXES and p not in folders], folders


def _without_arrays(folder: Path) -> DataError:
    names = sorted(name for name in os.listdir(folder) if not name.startswith("."))
    return DataError(
        f"the folder has no {' or '.join(SUFFIXES)} file",
        where=folder,
        why=f"it contains {first_few(names, SHOWN_ENTRIES) or 'nothing'}",
        todo="put an array for each sequence directly into it, or remove the folder",
    )


def check_sizes(stream: BinaryIO) -> None:
    """Check that no array of an `.npy` or `.npz` file is larger than the file allows.

    Raises:
        ValueError: a header describes more numbers than there are, or the archive expands to far
            more than its size.
        OSError, zipfile.BadZipFile: it cannot be read.
    """
    size = stream.seek(0, os.SEEK_END)
    stream.seek(0)
    if stream.read(2) != b"PK":
        stream.seek(0)
        _check_header(stream, size)
    else:
        with zipfile.ZipFile(stream) as archive:
            members = archive.infolist()
            check_expansion(size, sum(member.file_size for member in members))
            for member in members:
                with archive.open(member) as array:
                    _check_header(array, member.file_size)
    stream.seek(0)


def _check_header(stream: IO[bytes], size: int) -> None:
    magic = stream.read(len(MAGIC) + 2)
    if not magic.startswith(MAGIC):
        return  # no array
    version = tuple(magic[len(MAGIC) :])
    read = read_array_header_1_0 if version == (1, 0) else read_array_header_2_0
    shape, _, dtype = read(stream)
    given, described = size - stream.tell(), math.prod(shape) * max(dtype.itemsize, 1)
    if not dtype.hasobject and described > given:
        raise ValueError(f"an array needs {described:,} bytes, and there are {given:,}")


def _load(path: str, *others: str) -> dict[str, np.ndarray]:
    """The features of a file as x (the array x, or the only array), and `others` that it has."""
    arrays: dict[str, np.ndarray] = {}
    name = "x"
    with open_packed(path, regular=True) as stream:
        try:
            magic = stream.read(6)
            if magic != MAGIC and not magic.startswith(b"PK"):
                raise DataError(
                    "this is neither an .npy nor an .npz file",
                    where=path,
                    why="a pickled array is not read: it could run any code",
                    todo="save it with numpy.save or numpy.savez",
                )
            check_sizes(stream)
            loaded = np.load(stream, allow_pickle=False)
            if isinstance(loaded, np.ndarray):
                return {"x": loaded}
            with loaded:
                names = list(loaded)
                arrays = {"x": loaded[names[0]]} if len(names) == 1 else {}
                for name in ("x", *others):
                    if name in names:
                        arrays[name] = loaded[name]
        except DAMAGE as error:
            if "Object arrays" not in str(error):
                what, why, todo = "the arrays cannot be read", reason(error), None
            else:
                what = f"the array {name} has Python objects"
                why = "such an array is pickled, and could run any code"
                todo = "save x and lengths as numbers, y and group as text (y.astype(str)), and "
                todo += "sequences of unequal length one after the other as x, with their lengths"
            raise DataError(what, where=path, why=why, todo=todo) from None
    if "x" not in arrays:
        why = f"there are {', '.join(names) or 'none'}"
        raise DataError("there is no array x", where=path, why=why)
    for name, array in arrays.items():
        # For a member of the archive that is not in numpy's format, numpy returns the bytes.
        if not isinstance(array, np.ndarray):
            raise DataError(f"{name} is not an array", where=path, why="the file may be damaged")
    return arrays
