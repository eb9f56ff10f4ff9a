"""Writes a corpus: encodes the training pairs block by block and lays the ids on disk."""

from __future__ import annotations

import itertools
import json
import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

import numpy as np

from clearhead.data.checks import PairChecker
from clearhead.data.findings import FINDINGS, Note, noting
from clearhead.data.readers import read_pairs
from clearhead.errors import DataError
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
