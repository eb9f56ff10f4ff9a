"""The arrays of `.npy` and `.npz` files.

Nothing pickled is ever read: it could run any code.
"""

from __future__ import annotations

import os
import tokenize
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np

from clearhead.data.features import as_frames
from clearhead.data.labelled import LabelledSequence, label_name
from clearhead.data.readers import open_packed
from clearhead.data.tables import column_of, read_csv
from clearhead.errors import DataError

PLAIN = {
    "x": "save numbers; for sequences of unequal length put them one after the other as x and "
    "their lengths as lengths",
    "lengths": "save whole numbers: lengths.astype(int)",
    "y": "save the labels as text: y.astype(str)",
}
"""How each array is saved so that it need not be pickled."""

# What numpy and zipfile raise on damaged files.
_DAMAGE = (
    *(ValueError, OSError, EOFError, KeyError, TypeError, SyntaxError, OverflowError, MemoryError),
    *(zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, tokenize.TokenError),
)


@contextmanager
def arrays_of(path: str) -> Iterator[Mapping[str, np.ndarray]]:
    """The arrays of a file by name, an `.npz` file's read when they are asked for; x of an `.npy`.

    Raises:
        DataError: the file is missing, damaged, pickled or of another form.
    """
    with open_packed(path) as stream:
        try:
            magic = stream.read(6)
            stream.seek(0)
            if magic != b"\x93NUMPY" and not magic.startswith(b"PK"):
                raise DataError(
                    "this is neither an .npy nor an .npz file",
                    where=path,
                    why="an array that was pickled is not read: it could run any code",
                    todo="save it with numpy.save or numpy.savez",
                )
            loaded = np.load(stream, allow_pickle=False)
            if isinstance(loaded, np.ndarray):
                yield {"x": loaded}
            else:
                with loaded:
                    yield loaded
        except _DAMAGE as error:
            raise _unreadable(path, error) from None


def _unreadable(path: str, error: BaseException, name: str = "x") -> DataError:
    if "Object arrays" not in str(error):
        return DataError("the arrays cannot be read", where=path, why=str(error) or repr(error))
    return DataError(
        f"the array {name} holds Python objects",
        where=path,
        why="such an array is pickled, and could run any code",
        todo=PLAIN.get(name, PLAIN["x"]),
    )


def name_of_features(path: str, arrays: Mapping[str, np.ndarray], alone: bool) -> str:
    """The name of the array that holds the features: x, or if it is `alone` any other.

    Raises:
        DataError: there is none, or several that are not called x.
    """
    names = list(arrays)
    if "x" in names:
        return "x"
    if alone and len(names) == 1:
        return names[0]
    why = f"there are {', '.join(names) or 'none'}"
    raise DataError("there is no array x", where=path, why=why)


def array_of(path: str, arrays: Mapping[str, np.ndarray], name: str) -> np.ndarray:
    """The array of this name, which there is.

    Raises:
        DataError: it is pickled, or no array.
    """
    try:
        array = arrays[name]
    except ValueError as error:
        raise _unreadable(path, error, name) from None
    # Of a member that is not in its format numpy gives the bytes.
    if not isinstance(array, np.ndarray):
        raise DataError(f"{name} is not an array", where=path, why="the file may be damaged")
    return array


# ---- data.feature_arrays
# Feature sequences in `.npy` and `.npz` files: a folder of them, or one file with many.

SUFFIXES = (".npy", ".npz")
LIST = "labels.csv"
SHOWN_ENTRIES = 5


def read_array_file(path: str, labelled: bool = True) -> Iterator[LabelledSequence]:
    """The sequences of one `.npz` file, or without labels those of one `.npy` file.

    `x` is (N, frames, width), or with `lengths` (N,) all sequences one after the other, (frames
    of all, width); `y` (N,) are the labels. With `lengths`, what follows in a row of the former
    is padding. A lone sequence is (frames, width) or (frames,), and has no label.

    Raises:
        DataError: the file is missing, damaged, pickled or of another form.
    """
    with arrays_of(path) as arrays:
        x = array_of(path, arrays, name_of_features(path, arrays, alone=False))
        lengths = array_of(path, arrays, "lengths") if "lengths" in arrays else None
        y = array_of(path, arrays, "y") if labelled and "y" in arrays else None
    if labelled and y is None:
        raise DataError(
            "the file has no labels",
            where=path,
            todo="save them as y in an .npz file, one for each sequence of x",
        )
    if x.ndim < 3 and lengths is None and not labelled:
        yield LabelledSequence(as_frames(x, path), (), path)
        return
    rows = _rows(path, x, lengths)
    labels = [()] * len(rows) if y is None else _labels(path, y, len(rows))
    for number, (row, label) in enumerate(zip(rows, labels, strict=True), start=1):
        place = f"{path}:{number}"
        yield LabelledSequence(as_frames(row, place), label, place)


def read_array_folder(
    folder: Path, label_column: str = "label", labelled: bool = True
) -> Iterator[LabelledSequence]:
    """The sequences of a folder, one `.npy` or `.npz` file each, (frames, width) or (frames,).

    The folder holds `labels.csv` with the columns `file` and `label`, which says which files are
    read; or a folder for each label, `label/x.npy`. Without labels the files may also lie in the
    folder itself. An `.npz` file holds one array, or its sequence is called `x`.

    Raises:
        DataError: the folder is of another form, it has none of the files directly in it and a
            folder in it has none either, or a file is missing, damaged or pickled.
    """
    for path, labels in _files(folder, label_column, labelled):
        with arrays_of(str(path)) as arrays:
            values = array_of(str(path), arrays, name_of_features(str(path), arrays, alone=True))
        yield LabelledSequence(as_frames(values, str(path)), labels, str(path))


def files_of_array_folder(folder: Path) -> list[Path]:
    """All files that are read of such a folder, `labels.csv` too.

    Raises:
        DataError: the folder cannot be read, lists a file that is not there, or has no such file
            directly in it, and none in a folder in it.
    """
    lists = [folder / LIST] if os.path.isfile(folder / LIST) else []
    # Without labels, of the files in folders too, which labels may be the names of.
    return lists + [path for path, _ in _files(folder, label_column="", labelled=False)]


def _files(
    folder: Path, label_column: str, labelled: bool
) -> Iterator[tuple[Path, tuple[str, ...]]]:
    if os.path.isfile(folder / LIST):
        return _listed(folder, label_column, labelled)
    return _found(folder, labelled)


def _listed(
    folder: Path, label_column: str, labelled: bool
) -> Iterator[tuple[Path, tuple[str, ...]]]:
    path = str(folder / LIST)
    with closing(read_csv(path)) as rows:
        line, header = next(rows)
        column = column_of(header, "file", f"{path}:{line}")
        label = column_of(header, label_column, f"{path}:{line}") if labelled else None
        for line, cells in rows:
            where = f"{path}:{line}"
            if not os.path.isfile(folder / cells[column]):
                raise DataError(f"there is no such file: {cells[column]!r}", where=where)
            labels = () if label is None else (label_name(cells[label], where),)
            yield folder / cells[column], labels


def _found(folder: Path, labelled: bool) -> Iterator[tuple[Path, tuple[str, ...]]]:
    here, folders = _array_files(folder), _entries(folder, folders=True)
    if labelled and here:
        raise DataError(
            "the file has no label",
            where=here[0],
            todo=f"put it into a folder named after its label, or list it in {folder / LIST}",
        )
    if not here and not folders:
        raise _without_arrays(folder)
    yield from ((path, ()) for path in here)
    for inner in folders:
        labels = (label_name(inner.name, str(inner)),) if labelled else ()
        found = _array_files(inner)
        # Beside arrays, which have no label, another folder need not be one of a label.
        if not found and not here:
            raise _without_arrays(inner)
        yield from ((path, labels) for path in found)


def _without_arrays(folder: Path) -> DataError:
    """Of a folder that would be passed over, and its label with it."""
    names = [entry.name for entry in (*_entries(folder, folders=True), *_entries(folder))]
    shown = ", ".join(names[:SHOWN_ENTRIES])
    more = len(names) - SHOWN_ENTRIES
    return DataError(
        "the folder holds no .npy or .npz file",
        where=folder,
        why=f"it holds {shown or 'nothing'}" + (f" and {more:,} more" if more > 0 else ""),
        todo="put an array for each sequence directly into it, or take the folder away",
    )


def _array_files(folder: Path) -> list[Path]:
    return [path for path in _entries(folder) if path.suffix.lower() in SUFFIXES]


def _entries(folder: Path, folders: bool = False) -> list[Path]:
    """The files or folders in a folder, sorted, without hidden ones."""
    try:
        return sorted(
            path
            for path in folder.iterdir()
            if path.is_dir() == folders and not path.name.startswith(".")
        )
    except OSError as error:
        raise DataError("the folder cannot be read", where=folder, why=str(error)) from None


def _rows(path: str, x: np.ndarray, lengths: np.ndarray | None) -> list[np.ndarray]:
    """The sequences in the array of all of them."""
    if lengths is None:
        if x.ndim != 3:
            raise DataError(
                f"x has the shape {x.shape}",
                where=path,
                todo="give (N, frames, features), or (frames of all, features) and lengths",
            )
        return list(x)
    if lengths.ndim != 1 or lengths.dtype.kind not in "iu" or (lengths < 0).any():
        raise DataError("lengths are not whole numbers of frames, (N,)", where=path)
    if x.ndim == 3:
        if len(lengths) != len(x) or (lengths > x.shape[1]).any():
            raise DataError(f"lengths do not fit x, whose shape is {x.shape}", where=path)
        return [row[:length] for row, length in zip(x, lengths, strict=True)]
    frames, total = len(x) if x.ndim else 0, sum(lengths.tolist())
    if total != frames:
        what = f"the lengths add up to {total:,}, and x has {frames:,} frames"
        raise DataError(what, where=path)
    return np.split(x, np.cumsum(lengths)[:-1]) if frames else []


def _labels(path: str, y: np.ndarray, count: int) -> list[tuple[str, ...]]:
    if y.shape != (count,):
        raise DataError(f"y has the shape {y.shape}, and there are {count:,} sequences", where=path)
    if y.dtype.kind not in "Uiuf":
        text = 'numpy.char.decode(y, "utf-8")' if y.dtype.kind == "S" else "y.astype(str)"
        raise DataError(
            f"the labels y are of the type {y.dtype}, not text or numbers",
            where=path,
            todo=f"save them as text: {text}",
        )
    return [
        (label_name(value, f"{path}:{number}"),) for number, value in enumerate(y.tolist(), start=1)
    ]
