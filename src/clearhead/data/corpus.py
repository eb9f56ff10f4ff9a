"""Writes a corpus: encodes the training pairs block by block and lays the ids on disk."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
import shutil
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from clearhead.data.checks import FINDINGS, HeldOut, Note, PairChecker, noting
from clearhead.data.content_hash import content_hash
from clearhead.data.readers import Pair, read_pairs
from clearhead.data.report import DataReport
from clearhead.errors import DataError
from clearhead.settings import DataConfig
from clearhead.tokenizer import Tokenizer

FORMAT_VERSION = 3
BLOCK_PAIRS = 10_000
SIDES = ("source", "target")


def write_corpus(
    whole: Path,
    files: Sequence[str],
    tokenizers: tuple[Tokenizer, Tokenizer],
    checker: PairChecker,
    progress: Callable[[int], None] | None,
) -> None:
    """Write the folder `whole`, which does not exist until all of it is there.

    Raises:
        DataError: a file cannot be used, or no pair is left.
        OSError: the disk is full or may not be written.
    """
    partial = whole.with_name(f".{whole.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)  # of a run that was killed
    partial.mkdir()
    try:
        writers = [
            _SideWriter(partial, side, tokenizer)
            for side, tokenizer in zip(SIDES, tokenizers, strict=True)
        ]
        with ExitStack() as stack:
            for writer in writers:
                stack.enter_context(writer)
            note = stack.enter_context(noting(partial / FINDINGS))
            _encode(files, writers, checker, note, progress)
        report = checker.report()
        if report.kept == 0:
            raise DataError(
                "no pair is left to train on", where=", ".join(files), why="\n".join(report.lines())
            )
        described = {
            "version": FORMAT_VERSION,
            "dtypes": {writer.side: writer.dtype.name for writer in writers},
            "report": report.to_dict(),
        }
        (partial / "corpus.json").write_text(json.dumps(described, indent=1), "utf-8")
        shutil.rmtree(whole, ignore_errors=True)  # damaged, or it would have been used
        os.replace(partial, whole)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _encode(
    files: Sequence[str],
    writers: list[_SideWriter],
    checker: PairChecker,
    note: Note,
    progress: Callable[[int], None] | None,
) -> None:
    read = 0
    pairs = read_pairs(files)
    while block := list(itertools.islice(pairs, BLOCK_PAIRS)):
        sources = writers[0].tokenizer.encode_batch([pair.source for pair in block])
        targets = writers[1].tokenizer.encode_batch([pair.target for pair in block])
        keep = checker.check(block, _lengths(sources), _lengths(targets), note)
        for writer, rows in zip(writers, (sources, targets), strict=True):
            writer.write([row for row, kept in zip(rows, keep, strict=True) if kept])
        read += len(block)
        if progress is not None:
            progress(read)


def _lengths(rows: Sequence[Sequence[int]]) -> np.ndarray:
    return np.fromiter((len(row) for row in rows), dtype=np.int64, count=len(rows))


class _SideWriter:
    """Appends sentences to the two files of one side."""

    def __init__(self, folder: Path, side: str, tokenizer: Tokenizer) -> None:
        self.folder, self.side, self.tokenizer = folder, side, tokenizer
        self.dtype = np.dtype(np.uint16 if len(tokenizer) <= 2**16 else np.uint32)
        self._end = 0

    def __enter__(self) -> _SideWriter:
        self._ids = (self.folder / f"{self.side}.ids").open("wb")
        self._offsets = (self.folder / f"{self.side}.offsets").open("wb")
        self._offsets.write(np.zeros(1, dtype=np.int64).tobytes())
        return self

    def write(self, rows: list[list[int]]) -> None:
        ends = self._end + np.cumsum(_lengths(rows))
        self._ids.write(np.fromiter(itertools.chain.from_iterable(rows), self.dtype).tobytes())
        self._offsets.write(ends.tobytes())
        self._end = int(ends[-1]) if len(ends) else self._end

    def __exit__(self, *_: object) -> None:
        for stream in (self._ids, self._offsets):
            _sync(stream)
            stream.close()


def _sync(stream: BinaryIO) -> None:
    stream.flush()
    os.fsync(stream.fileno())


# ---- data.corpus
# The training pairs as ids on disk, memory-mapped, made once and used again.
#
# A corpus is a folder named after a hash of all that it depends on: the bytes of the files, the
# tokenizers, the limits, the held-out pairs. It holds, for each side, `*.ids` (all ids one after
# the other, 16 or 32 bits each by the size of the vocabulary) and `*.offsets` (int64, pairs + 1),
# what the check found in `findings.tsv`, and last `corpus.json`. The folder takes its name only
# when it is whole.
#
# Whoever has a corpus open holds a shared lock on its `corpus.json`, and whoever writes one the
# lock of the folder above (`.lock`): with both locks a corpus can be removed that nobody uses.

CORPUS_NAME = re.compile(r"[0-9a-f]{16}|\.[0-9a-f]{16}\.partial")
"""How a corpus is named, and what is left of one that was never whole."""


BLOCK = 2**20
"""Offsets that are read at a time to know the lengths of rows."""


class Corpus:
    """Encoded sentence pairs, read from disk as they are asked for; kept there while it is open.

    Raises:
        ValueError, OSError, KeyError, TypeError: the folder does not hold a whole corpus.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        _hold(self, folder / "corpus.json")
        described: dict[str, Any] = json.loads((folder / "corpus.json").read_text("utf-8"))
        self.report = DataReport.from_dict(described["report"])
        self._ids, self._offsets = {}, {}
        for side in SIDES:
            ids = np.memmap(folder / f"{side}.ids", dtype=described["dtypes"][side], mode="r")
            offsets = np.memmap(folder / f"{side}.offsets", dtype=np.int64, mode="r")
            if len(offsets) != self.report.kept + 1 or offsets[-1] != len(ids):
                raise ValueError(f"{side}.ids or {side}.offsets has the wrong length")
            self._ids[side], self._offsets[side] = ids, offsets

    def __len__(self) -> int:
        return self.report.kept

    @property
    def findings(self) -> Path:
        """The file of all findings of the check, of which the report has the first places."""
        return self.folder / FINDINGS

    def source(self, row: int) -> np.ndarray:
        """The ids of a source sentence (S,), without BOS and EOS."""
        return self._row("source", row)

    def target(self, row: int) -> np.ndarray:
        """The ids of a target sentence (T,), without BOS and EOS."""
        return self._row("target", row)

    @cached_property
    def source_lengths(self) -> np.ndarray:
        """The tokens of each source sentence, int32 (N,)."""
        return _differences(self.folder / "source.offsets", len(self))

    @cached_property
    def target_lengths(self) -> np.ndarray:
        """The tokens of each target sentence, int32 (N,), without BOS and EOS."""
        return _differences(self.folder / "target.offsets", len(self))

    def _row(self, side: str, row: int) -> np.ndarray:
        if not 0 <= row < len(self):
            raise IndexError(row)
        offsets = self._offsets[side]
        return np.asarray(self._ids[side][offsets[row] : offsets[row + 1]])


def _differences(offsets: Path, count: int) -> np.ndarray:
    """So many differences between neighbours, int32; all offsets are never in memory at once."""
    found = np.empty(count, dtype=np.int32)
    for start in range(0, count, BLOCK):
        # One more than a block: the last offset of one is the first of the next.
        block = np.fromfile(offsets, np.int64, BLOCK + 1, offset=start * np.int64().itemsize)
        found[start : start + BLOCK] = np.diff(block)
    return found


def build_corpus(
    folder: Path,
    files: Sequence[str],
    source_tokenizer: Tokenizer,
    target_tokenizer: Tokenizer,
    config: DataConfig,
    forbidden: Iterable[Pair] = (),
    progress: Callable[[int], None] | None = None,
) -> tuple[Corpus, DataReport]:
    """The corpus of training files and the report on them: made now, or found as made before.

    When one has been made, the others of the folder that nobody has open are removed.

    Args:
        folder: where corpora are kept; this one becomes `folder/<16 hex digits>`.
        files: the training files, as `read_pairs` takes them.
        source_tokenizer: encodes the sources.
        target_tokenizer: encodes the targets.
        config: the limits.
        forbidden: the validation and test pairs, which are not trained on.
        progress: called after each block with the number of pairs read so far.

    Raises:
        DataError: a file cannot be used, no pair is left, or the disk is full.
    """
    held_out = HeldOut(forbidden)
    tokenizers = (source_tokenizer, target_tokenizer)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        whole = folder / _key(files, tokenizers, config, held_out)
        with _lock(folder):
            corpus = _open(whole)
            if corpus is None:
                checker = PairChecker("train", files, config, held_out)
                write_corpus(whole, files, tokenizers, checker, progress)
                corpus = Corpus(whole)
                _remove_unused(folder)
    except OSError as error:
        raise DataError("the corpus cannot be written", where=folder, why=str(error)) from None
    return corpus, corpus.report


def _open(folder: Path) -> Corpus | None:
    try:
        return Corpus(folder)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _hold(corpus: Corpus, file: Path) -> None:
    """Lock a corpus against being removed, by whatever process, while the object is there."""
    held = os.open(file, os.O_RDONLY)
    weakref.finalize(corpus, os.close, held)
    with suppress(ImportError, OSError):  # the system or the disk has no such lock
        import fcntl

        fcntl.flock(held, fcntl.LOCK_SH)


def remove_unused_corpora(folder: Path) -> None:
    """Remove the corpora in a folder that nobody has open; none while somebody writes one."""
    with suppress(ImportError, OSError):  # there is no such folder, or no such lock
        import fcntl

        with (folder / ".lock").open("a") as writers:
            fcntl.flock(writers, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove_unused(folder)


def _remove_unused(folder: Path) -> None:
    """Remove the corpora that nobody has open; the lock of the folder is held."""
    for corpus in folder.iterdir():
        if not CORPUS_NAME.fullmatch(corpus.name):
            continue
        with suppress(ImportError, OSError), (corpus / "corpus.json").open("a") as readers:
            import fcntl

            fcntl.flock(readers, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(corpus, ignore_errors=True)


def _key(
    files: Sequence[str],
    tokenizers: tuple[Tokenizer, Tokenizer],
    config: DataConfig,
    held_out: HeldOut,
) -> str:
    """16 hex digits that change with anything the corpus or its report depends on."""
    key = hashlib.blake2b(digest_size=8)
    settings = (
        FORMAT_VERSION,
        [str(file) for file in files],
        [tokenizer.fingerprint() for tokenizer in tokenizers],
        *(config.max_length, config.max_length_ratio),
        *(config.drop_duplicates, config.drop_held_out),
    )
    key.update(json.dumps(settings).encode())
    key.update(held_out.pairs.tobytes())
    key.update(held_out.sources.tobytes())
    key.update(held_out.targets.tobytes())
    for file in files:
        key.update(content_hash(str(file)))
    return key.hexdigest()


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """Runs that want the same corpus at once: one makes it, the others wait and find it."""
    try:
        import fcntl
    except ImportError:  # no such lock on Windows
        yield
        return
    with (folder / ".lock").open("wb") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield
