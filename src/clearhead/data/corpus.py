"""The training pairs as ids in memory-mapped files, which are written once and reused.

A corpus is a folder named after a hash of everything that it depends on: the content of the files,
the tokenizers, the limits and the held-out pairs. For each side it has `*.ids` (all ids one after
the other, 16 or 32 bits each by the size of the vocabulary) and `*.offsets` (int64, pairs + 1).
`lines` (int64, two numbers an entry) has the lines of the pairs in the files: an entry for each row
whose line does not follow that of the row before, with the row and the difference line - row.
It also has the findings of the check in `findings.tsv`, and `corpus.json` with the report, the
characters and lengths of the texts (`Extent`), and the size and SHA-256 of each file. The folder is
renamed to its name when it is complete and synced.

Whoever opens a corpus checks all of this, and that offsets and ids are possible. A corpus that
fails is encoded again.

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
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cached_property
from pathlib import Path

import numpy as np

from clearhead.data.judging.checks import PAIRS, Checker
from clearhead.data.judging.report import FINDINGS, DataReport, write_findings
from clearhead.data.judging.text_style import Extent, ExtentCounts
from clearhead.data.reading.pairs import Pair
from clearhead.data.reading.parts import DataPart
from clearhead.errors import ClearheadError, DataError, reason
from clearhead.folder.files import (
    move_into_place,
    open_to_append,
    read_json,
    remove_named,
    unwritable,
    write_bytes,
)
from clearhead.folder.manifest import Entries, Entry, entries_in, entry_of, sealed, unsealed
from clearhead.settings import DataConfig
from clearhead.tokenizer import Tokenizer

FORMAT_VERSION = 6
SIDES = ("source", "target")
FILES = ("source.ids", "source.offsets", "target.ids", "target.offsets", "lines", FINDINGS)
"""The files of a corpus, besides `corpus.json`."""

WRITTEN = re.compile(
    r"(source|target)\.(ids|offsets)|lines|(validation-|test-)?findings\.tsv|corpus\.json"
    r"|\.(corpus\.json|(validation|test)-findings\.tsv)\.unfinished"
)
"""The names of all files that are written into a corpus."""

BLOCK_PAIRS, BLOCK_CHARACTERS = 10_000, 2**25
"""A block of pairs ends when it has reached one of these numbers."""

BLOCK = 2**20
"""Offsets or ids that are read at a time."""

QUIET_S, INTERVAL_S = 2.0, 10.0
"""Progress of the check is noted after so many seconds, and then in such intervals."""

CORPUS_NAME = re.compile(r"[0-9a-f]{16}|\.[0-9a-f]{16}\.partial")
"""The name of a complete or incomplete corpus."""

UNNAMED = DataPart("train")
"""A part of the data without files: its pairs have numbers only."""

Tokenizers = tuple[Tokenizer, Tokenizer]
"""The tokenizers of the source and of the target."""

TakeLine = Callable[[str], object]
"""Receives a line for the user."""


class Corpus:
    """Encoded sentence pairs, read from disk on demand. An open corpus is not removed.

    Attributes:
        report: of the check, with the first places of each finding.
        findings: the file with all findings.
        extents: of the sources and of the targets.

    Args:
        folder: of the corpus.
        vocabulary_sizes: of the source and of the target. They determine the type of the ids.
        note: receives lines about the progress of the check.
        part: of the data that was encoded, for the places of its pairs.

    Raises:
        ValueError, OSError, KeyError, TypeError, ClearheadError: a file is missing or damaged.
    """

    def __init__(
        self,
        folder: Path,
        vocabulary_sizes: tuple[int, int],
        note: TakeLine = lambda line: None,
        part: DataPart = UNNAMED,
    ) -> None:
        self.folder, self.findings, self._part = folder, folder / FINDINGS, part
        _lock_against_removal(self, folder / "corpus.json")
        description = unsealed(read_json(folder / "corpus.json"))
        self.report = DataReport.from_dict(description["report"])
        self.extents = [Extent(*extent) for extent in description["extents"]]
        _check_files(folder, entries_in(description), note)
        self._ids, self._offsets = {}, {}
        for side, size in zip(SIDES, vocabulary_sizes, strict=True):
            ids = _mapped(folder / f"{side}.ids", _dtype(size))
            offsets = _mapped(folder / f"{side}.offsets", np.dtype(np.int64))
            _check_offsets(offsets, self.report.kept, len(ids), f"{side}.offsets")
            _check_ids(ids, size, f"{side}.ids")
            self._ids[side], self._offsets[side] = ids, offsets
        self._lines = _mapped(folder / "lines", np.dtype(np.int64)).reshape(-1, 2)
        _check_lines(self._lines[:, 0], self.report.kept)

    def __len__(self) -> int:
        return self.report.kept

    def source(self, row: int) -> np.ndarray:
        """The ids of a source sentence (S,), without BOS and EOS."""
        return self._row("source", row)

    def target(self, row: int) -> np.ndarray:
        """The ids of a target sentence (T,), without BOS and EOS."""
        return self._row("target", row)

    def place(self, row: int) -> str:
        """The file and line of a pair, for reports, e.g. `train.de:17`."""
        entry = int(np.searchsorted(self._lines[:, 0], row, side="right")) - 1
        return self._part.place(Pair("", "", row + int(self._lines[entry, 1])))

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


def _dtype(vocabulary_size: int) -> np.dtype:
    return np.dtype(np.uint16 if vocabulary_size <= 2**16 else np.uint32)


def _check_files(folder: Path, entries: Entries, note: TakeLine) -> None:
    """Compare the size and SHA-256 of each file with the description.

    Raises:
        ValueError: they differ, or a file is none, such as a pipe.
    """
    sizes = {name: entries[name].size for name in FILES}
    for name, size in sizes.items():
        if not (folder / name).is_file() or (folder / name).stat().st_size != size:
            raise ValueError(f"{name} does not have {size:,} bytes")
    progress = _Progress(sum(sizes.values()), note)
    for name in FILES:
        if entry_of(folder / name, progress.add) != entries[name]:
            raise ValueError(f"the content of {name} and its hash disagree")


class _Progress:
    """Notes how many bytes have been checked, if that takes longer than `QUIET_S`."""

    def __init__(self, total: int, note: TakeLine) -> None:
        self._done, self._total, self._note = 0, total, note
        self._next = time.monotonic() + QUIET_S

    def add(self, count: int) -> None:
        self._done += count
        if time.monotonic() >= self._next:
            done, total = round(self._done / 1e6), round(self._total / 1e6)
            self._note(f"checking the encoded pairs: {done:,} of {total:,} MB")
            self._next = time.monotonic() + INTERVAL_S


def _mapped(path: Path, dtype: np.dtype) -> np.ndarray:
    """The values of a file, which are read when they are needed."""
    if path.stat().st_size == 0:  # which cannot be mapped
        return np.empty(0, dtype)
    return np.memmap(path, dtype=dtype, mode="r")


def _check_offsets(offsets: np.ndarray, rows: int, ids: int, name: str) -> None:
    """Check that every row has a range of the ids.

    Raises:
        ValueError: it has not.
    """
    if len(offsets) != rows + 1 or offsets[0] != 0 or offsets[-1] != ids:
        raise ValueError(f"{name} does not divide {ids:,} ids into {rows:,} rows")
    for start in range(0, len(offsets), BLOCK):
        block = offsets[start : start + BLOCK + 1]
        if np.any(block[1:] < block[:-1]):
            raise ValueError(f"{name} falls")


def _check_ids(ids: np.ndarray, vocabulary_size: int, name: str) -> None:
    """Check that all ids are in the vocabulary.

    Raises:
        ValueError: one is not.
    """
    for start in range(0, len(ids), BLOCK):
        highest = int(ids[start : start + BLOCK].max())
        if highest >= vocabulary_size:
            raise ValueError(f"{name} has the id {highest:,}, of {vocabulary_size:,} possible")


def _check_lines(rows: np.ndarray, kept: int) -> None:
    """Check the rows of the entries of `lines`.

    Raises:
        ValueError: they do not ascend from 0 to less than `kept`.
    """
    if not len(rows) or rows[0] != 0 or rows[-1] >= kept or np.any(rows[1:] <= rows[:-1]):
        raise ValueError("lines does not have an entry for each row that needs one")


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
    note: TakeLine = lambda line: None,
) -> Corpus:
    """The corpus of the training pairs: a new one, or the one that was written before.

    It is `folder/<16 hex digits>`. After writing one, the other corpora of the folder that no
    process has open are removed. `held_out` are the validation and test pairs; `progress` is called
    after each block with the number of pairs read so far; `note` gets a line if the old corpus is
    damaged, and lines about a check that takes long.

    Raises:
        DataError: a file cannot be used, no pair is left, or the disk is full.
    """
    checker = Checker(part, PAIRS, config, held_out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / _key(part, tokenizers, config, checker)
        sizes = len(tokenizers[0]), len(tokenizers[1])

        def opened(note_damage: TakeLine) -> Corpus | None:
            if not path.exists():
                return None
            try:
                return Corpus(path, sizes, note, part)
            except (OSError, ValueError, KeyError, TypeError, ClearheadError) as error:
                what = f"the encoded pairs in {path} are damaged, encoding again"
                note_damage(f"{what}: {_why(error)}")
                return None

        with _locked(folder, fcntl.LOCK_SH):  # several processes check a corpus at the same time
            corpus = opened(lambda line: None)
        if corpus is not None:
            return corpus
        with _locked(folder, fcntl.LOCK_EX):
            corpus = opened(note)  # another process may have written it meanwhile
            if corpus is None:
                write_corpus(path, part, tokenizers, checker, progress)
                corpus = Corpus(path, sizes, note, part)
                _remove_unused(folder)
            return corpus
    except OSError as error:
        raise unwritable(folder, error, DataError) from None


def _why(error: Exception) -> str:
    if isinstance(error, KeyError | TypeError):
        return "corpus.json lacks a value"
    return error.what if isinstance(error, ClearheadError) else reason(error)


def _key(part: DataPart, tokenizers: Tokenizers, config: DataConfig, checker: Checker) -> str:
    """16 hex digits that change with anything that the corpus or its report depends on."""
    settings = (
        FORMAT_VERSION,
        part.name,
        [name for name, _ in part.hashes],
        [Entry.of(content) for each in tokenizers for content in each.files("").values()],
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
    partial = path.with_name(f".{path.name}.partial")
    remove_named(partial, WRITTEN)  # left by a run that was killed
    partial.mkdir()
    try:
        with ExitStack() as stack:
            writers = [
                stack.enter_context(_side_writer(partial / side, _dtype(len(tokenizer))))
                for side, tokenizer in zip(SIDES, tokenizers, strict=True)
            ]
            write_lines = stack.enter_context(_lines_writer(partial / "lines"))
            note = stack.enter_context(write_findings(partial / FINDINGS))
            counts = ExtentCounts(), ExtentCounts()
            read, pairs = 0, part.pairs()
            while block := _next_block(pairs):
                rows = encode_pairs(block, tokenizers)
                keep = checker.check(block, lengths_of(rows), note)
                for write, side in zip(writers, rows, strict=True):
                    write(list(itertools.compress(side, keep)))
                kept = list(itertools.compress(block, keep))
                write_lines([pair.line for pair in kept])
                counts[0].add(pair.source for pair in kept)
                counts[1].add(pair.target for pair in kept)
                read += len(block)
                if progress is not None:
                    progress(read)
        report = checker.report()
        if report.kept == 0:
            why = "\n".join(report.lines())
            todo = "correct the data, or change the settings in [data] that leave the pairs out"
            raise DataError("no pair is left to train on", where=part.where, why=why, todo=todo)
        files = {name: entry_of(partial / name)._asdict() for name in FILES}
        extents = [each.extent() for each in counts]
        description = sealed(
            {
                "version": FORMAT_VERSION,
                "files": files,
                "report": report.to_dict(),
                "extents": extents,
            }
        )
        # With escapes, because names of files may not be UTF-8.
        content = json.dumps(description, indent=1).encode()
        write_bytes(partial / "corpus.json", content, DataError)
        remove_named(path, WRITTEN)  # if it exists, it is damaged
        move_into_place(partial, path)
    finally:
        with suppress(OSError):
            remove_named(partial, WRITTEN)


def _next_block(pairs: Iterator[Pair]) -> list[Pair]:
    """The next pairs, as many as may be in memory at once; none at the end."""
    block, characters = list[Pair](), 0
    for pair in itertools.islice(pairs, BLOCK_PAIRS):
        block.append(pair)
        characters += len(pair.source) + len(pair.target)
        if characters >= BLOCK_CHARACTERS:
            break
    return block


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
        path.with_suffix(".ids").open("xb") as ids,
        path.with_suffix(".offsets").open("xb") as offsets,
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
def _lines_writer(path: Path) -> Iterator[Callable[[Sequence[int]], None]]:
    """Yields a function that appends the lines of further rows to the file `lines`."""
    with path.open("wb") as stream:
        count, shift = 0, -1  # line - row of the last row; -1 is that of no row

        def write(lines: Sequence[int]) -> None:
            nonlocal count, shift
            rows = np.arange(count, count + len(lines), dtype=np.int64)
            shifts = np.array(lines, dtype=np.int64) - rows
            changed = np.diff(shifts, prepend=shift) != 0
            stream.write(np.column_stack((rows, shifts))[changed].tobytes())
            count += len(lines)
            shift = int(shifts[-1]) if len(lines) else shift

        yield write
        stream.flush()
        os.fsync(stream.fileno())


@contextmanager
def _locked(folder: Path, kind: int) -> Iterator[None]:
    """If several runs need the same corpus at once, one writes it, and the others wait for it.

    `kind` is `LOCK_EX` to write a corpus, `LOCK_SH` to open one.
    """
    with open_to_append(folder / ".lock") as stream:
        fcntl.flock(stream, kind)
        yield


def _lock_against_removal(corpus: Corpus, file: Path) -> None:
    """Keep a shared lock as long as the object exists."""
    descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK)  # a pipe would block
    weakref.finalize(corpus, os.close, descriptor)
    with suppress(OSError):  # the disk has no such lock
        fcntl.flock(descriptor, fcntl.LOCK_SH)


def remove_unused_corpora(folder: Path) -> None:
    """Remove the corpora of a folder that no process has open; none while one is being written."""
    # There is no such folder, another process has the lock, or the disk has no such lock.
    with suppress(OSError), open_to_append(folder / ".lock") as writers:
        fcntl.flock(writers, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _remove_unused(folder)


def _remove_unused(folder: Path) -> None:
    """Remove the corpora that no process has open; the caller has the lock of the folder."""
    for corpus in folder.iterdir():
        if not CORPUS_NAME.fullmatch(corpus.name) or corpus.is_symlink():
            continue
        with suppress(OSError), open_to_append(corpus / "corpus.json") as readers:
            fcntl.flock(readers, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove_named(corpus, WRITTEN)
