"""The arrays of `.npy` and `.npz` files.

Nothing pickled is ever read: it could run any code.
"""

from __future__ import annotations

import tokenize
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np

from clearhead.data.readers import open_packed
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
