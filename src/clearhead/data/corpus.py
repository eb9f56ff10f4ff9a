"""The training pairs as ids in memory-mapped files, which are written once and reused.

A corpus is a folder named after a hash of everything that it depends on: the content of the files,
the tokenizers, the limits and the held-out pairs. For each side it has `*.ids` (all ids one after
the other, 16 or 32 bits each by the size of the vocabulary) and `*.offsets` (int64, pairs + 1).
It also has the findings of the check in `findings.tsv`, and `corpus.json`. The folder is renamed
to its name when it is complete.

A process that has a corpus open has a shared lock on its `corpus.json`; one that writes a corpus
has the lock of the folder above (`.lock`). With both locks an unused corpus can be removed.
"""

from __future__ import annotations

import fcntl
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
from typing import Any

import numpy as np

from clearhead.data.checks import PAIRS, Checker
from clearhead.data.parts import DataPart
from clearhead.data.readers import Pair
from clearhead.data.report import FINDINGS, DataReport, write_findings
from clearhead.errors import DataError
from clearhead.files import move_into_place, unwritable, write_bytes
from clearhead.settings import DataConfig
from clearhead.tokenizer import Tokenizer

FORMAT_VERSION = 3
SIDES = ("source", "target")
BLOCK_PAIRS = 10_000
BLOCK = 2**20
"""Offsets that are read at a time."""

CORPUS_NAME = re.compile(r"[0-9a-f]{16}|\.[0-9a-f]{16}\.partial")
"""The name of a complete or incomplete corpus."""

Tokenizers = tuple[Tokenizer, Tokenizer]
"""The tokenizers of the source and of the target."""


class Corpus:
    """Encoded sentence pairs, read from disk on demand. An open corpus is not removed.

    Attributes:
        report: of the check, with the first places of each finding.
        findings: the file with all findings.

    Raises:
        ValueError, OSError, KeyError, TypeError: the folder is not a complete corpus.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.findings = folder, folder / FINDINGS
        _lock_against_removal(self, folder / "corpus.json")
        description: dict[str, Any] = json.loads((folder / "corpus.json").read_text("utf-8"))
        self.report = DataReport.from_dict(description["report"])
        self._ids, self._offsets = {}, {}
        for side in SIDES:
            ids = np.memmap(folder / f"{side}.ids", dtype=description["dtypes"][side], mode="r")
            offsets = np.memmap(folder / f"{side}.offsets", dtype=np.int64, mode="r")
            if len(offsets) != self.report.kept + 1 or offsets[-1] != len(ids):
                raise ValueError(f"{side}.ids or {side}.offsets has the wrong length")
            self._ids[side], self._offsets[side] = ids, offsets

    def __len__(self) -> int:
        return self.report.kept

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
    """The differences between neighbours, int32 (count,), computed in blocks to save memory."""
    found = np.empty(count, dtype=np.int32)
    for start in range(0, count, BLOCK):
        # The last offset of a block is also the first of the next.
        block = np.fromfile(offsets, np.int64, BLOCK + 1, offset=start * np.int64().itemsize)
        found[start : start + BLOCK] = np.diff(block)
    return found


def build_corpus(
    folder: Path,
    part: DataPart,
    tokenizers: Tokenizers,
    config: DataConfig,
    held_out: Iterable[Pair] = (),
    progress: Callable[[int], None] | None = None,
) -> Corpus:
    """The corpus of the training pairs: a new one, or the one that was written before.

    It is `folder/<16 hex digits>`. After writing one, the other corpora of the folder that no
    process has open are removed. `held_out` are the validation and test pairs; `progress` is called
    after each block with the number of pairs read so far.

    Raises:
        DataError: a file cannot be used, no pair is left, or the disk is full.
    """
    checker = Checker(part, PAIRS, config, held_out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / _key(part, tokenizers, config, checker)
        with _locked(folder):
            with suppress(OSError, ValueError, KeyError, TypeError):
                return Corpus(path)
            write_corpus(path, part, tokenizers, checker, progress)
            corpus = Corpus(path)
            _remove_unused(folder)
            return corpus
    except OSError as error:
        raise unwritable(folder, error, DataError) from None


def _key(part: DataPart, tokenizers: Tokenizers, config: DataConfig, checker: Checker) -> str:
    """16 hex digits that change with anything that the corpus or its report depends on."""
    settings = (
        FORMAT_VERSION,
        part.name,
        [name for name, _ in part.hashes],
        [tokenizer.fingerprint() for tokenizer in tokenizers],
        *(config.max_length, config.max_length_ratio),
        checker.rules,
    )
    key = hashlib.blake2b(json.dumps(settings).encode(), digest_size=8)
    for hashes in checker.held_out.values():
        key.update(hashes.sorted.tobytes())
    for _, content in part.hashes:
        key.update(content)
    return key.hexdigest()


def write_corpus(
    path: Path,
    part: DataPart,
    tokenizers: Tokenizers,
    checker: Checker,
    progress: Callable[[int], None] | None,
) -> None:
    """Reads, encodes and checks the pairs block by block, and writes them to a folder.

    The folder `path` appears when it is complete.

    Raises:
        DataError: a file cannot be used, or no pair is left.
        OSError: the disk is full or cannot be written to.
    """
    dtypes = {
        side: np.dtype(np.uint16 if len(tokenizer) <= 2**16 else np.uint32)
        for side, tokenizer in zip(SIDES, tokenizers, strict=True)
    }
    partial = path.with_name(f".{path.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)  # left by a run that was killed
    partial.mkdir()
    try:
        with ExitStack() as stack:
            writers = [
                stack.enter_context(_side_writer(partial / side, dtype))
                for side, dtype in dtypes.items()
            ]
            note = stack.enter_context(write_findings(partial / FINDINGS))
            read, pairs = 0, part.pairs()
            while block := list(itertools.islice(pairs, BLOCK_PAIRS)):
                rows = encode_pairs(block, tokenizers)
                keep = checker.check(block, lengths_of(rows), note)
                for write, side in zip(writers, rows, strict=True):
                    write(list(itertools.compress(side, keep)))
                read += len(block)
                if progress is not None:
                    progress(read)
        report = checker.report()
        if report.kept == 0:
            why = "\n".join(report.lines())
            todo = "correct the data, or change the settings in [data] that leave the pairs out"
            raise DataError("no pair is left to train on", where=part.where, why=why, todo=todo)
        names = {side: dtype.name for side, dtype in dtypes.items()}
        description = {"version": FORMAT_VERSION, "dtypes": names, "report": report.to_dict()}
        write_bytes(partial / "corpus.json", json.dumps(description, indent=1).encode(), DataError)
        shutil.rmtree(path, ignore_errors=True)  # if it exists, it is damaged
        move_into_place(partial, path)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def encode_pairs(pairs: Sequence[Pair], tokenizers: Tokenizers) -> list[list[list[int]]]:
    """The ids of all sources, and those of all targets, without BOS and EOS."""
    sources = tokenizers[0].encode_batch([pair.source for pair in pairs])
    return [sources, tokenizers[1].encode_batch([pair.target for pair in pairs])]


def lengths_of(sides: Sequence[Sequence[Sequence[int]]]) -> np.ndarray:
    """The tokens of each row of each side, int64 (N, sides)."""
    return np.array([list(map(len, rows)) for rows in sides], dtype=np.int64).T


@contextmanager
def _side_writer(path: Path, dtype: np.dtype) -> Iterator[Callable[[Sequence[list[int]]], None]]:
    """Yields a function that appends rows of ids to the two files of a side."""
    with (
        path.with_suffix(".ids").open("wb") as ids,
        path.with_suffix(".offsets").open("wb") as offsets,
    ):
        offsets.write(np.zeros(1, dtype=np.int64).tobytes())
        end = 0

        def write(rows: Sequence[list[int]]) -> None:
            nonlocal end
            ends = end + np.cumsum([len(row) for row in rows], dtype=np.int64)
            ids.write(np.fromiter(itertools.chain.from_iterable(rows), dtype).tobytes())
            offsets.write(ends.tobytes())
            end = int(ends[-1]) if len(ends) else end

        yield write
        for stream in (ids, offsets):
            stream.flush()
            os.fsync(stream.fileno())


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """If several runs need the same corpus at once, one writes it, and the others wait for it."""
    with (folder / ".lock").open("wb") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def _lock_against_removal(corpus: Corpus, file: Path) -> None:
    """Keep a shared lock as long as the object exists."""
    descriptor = os.open(file, os.O_RDONLY)
    weakref.finalize(corpus, os.close, descriptor)
    with suppress(OSError):  # the disk has no such lock
        fcntl.flock(descriptor, fcntl.LOCK_SH)


def remove_unused_corpora(folder: Path) -> None:
    """Remove the corpora of a folder that no process has open; none while one is being written."""
    # There is no such folder, another process has the lock, or the disk has no such lock.
    with suppress(OSError), (folder / ".lock").open("a") as writers:
        fcntl.flock(writers, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _remove_unused(folder)


def _remove_unused(folder: Path) -> None:
    """Remove the corpora that no process has open; the caller has the lock of the folder."""
    for corpus in folder.iterdir():
        if not CORPUS_NAME.fullmatch(corpus.name):
            continue
        with suppress(OSError), (corpus / "corpus.json").open("a") as readers:
            fcntl.flock(readers, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(corpus, ignore_errors=True)
