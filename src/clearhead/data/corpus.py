"""The training pairs as ids in memory-mapped files, which are written once and reused.

A corpus is a folder named after a hash of everything that it depends on: the content of the files,
the tokenizers, the limits and the held-out pairs. For each side it has `*.ids` (all ids one after
the other, 16 or 32 bits each by the size of the vocabulary) and `*.offsets` (int64, pairs + 1).
`lines` (int64, two numbers an entry) has the lines of the pairs in the files: an entry for each row
whose line does not follow that of the row before, with the row and the difference line - row.
It also has the findings of the check in `findings.tsv`, and the manifest `corpus.json` with the
report, the characters and lengths of the texts (`Extent`), and the hashes of the files. The folder
is renamed to its name when it is complete and synced. A corpus that fails the check of its hashes
is encoded again.

The processes of a run wait for the one that writes a corpus: it has the lock of the folder above
(`.lock`).
"""

from __future__ import annotations

import fcntl
import hashlib
import itertools
import json
import math
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence, Sized
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

import numpy as np

from clearhead.data.judging.checks import PAIRS, Checker
from clearhead.data.judging.report import FINDINGS, DataReport, write_findings
from clearhead.data.judging.text_style import Extent, ExtentCounts
from clearhead.data.reading.pairs import CORPUS_LINES, Pair
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
from clearhead.folder.manifest import Entry, check, entries_in, entry_of, sealed, unsealed
from clearhead.settings import DataConfig
from clearhead.text.spans import NOTHING, Protection
from clearhead.tokenizer import Tokenizer

FORMAT_VERSION = 8
SIDES = ("source", "target")
FILES = ("source.ids", "source.offsets", "target.ids", "target.offsets", "lines", FINDINGS)
"""The files of a corpus, besides `corpus.json`."""

WRITTEN = re.compile(
    r"(source|target)\.(ids|offsets)|lines|(validation-|test-)?findings\.tsv|corpus\.json"
    r"|\.(corpus\.json|(validation|test)-findings\.tsv)\.unfinished"
)
"""The names of all files that are written into a corpus."""

CORPUS_NAME = re.compile(r"[0-9a-f]{16}|\.[0-9a-f]{16}\.partial")
"""The name of a complete or incomplete corpus."""

BLOCK_PAIRS, BLOCK_CHARACTERS = 10_000, 2**25  # at one of these, a block of pairs ends
BLOCK = 2**20  # offsets or ids that are read at a time

UNNAMED = DataPart("train")
"""A part of the data without files: its pairs have numbers only."""

Tokenizers = tuple[Tokenizer, Tokenizer]
"""The tokenizers of the source and of the target."""

TakeLine = Callable[[str], object]
"""Receives a line for the user."""


class Corpus:
    """Encoded sentence pairs, read from disk on demand.

    `report` has the first places of each finding, the file `findings` all; `extents` are those of
    the sources and of the targets. The sizes of the vocabularies determine the type of the ids,
    `part` the places of the pairs.

    Raises:
        ValueError, OSError, KeyError, TypeError, ClearheadError: a file is missing or damaged.
    """

    def __init__(
        self, folder: Path, vocabulary_sizes: tuple[int, int], part: DataPart = UNNAMED
    ) -> None:
        self.folder, self.findings, self._part = folder, folder / FINDINGS, part
        tree = unsealed(read_json(folder / "corpus.json"))
        entries = entries_in(tree)
        for name in FILES:
            check(folder / name, entries[name])
        self.report = DataReport.from_dict(tree["report"])
        self.extents = [Extent(*extent) for extent in tree["extents"]]
        self._ids, self._offsets = {}, {}
        for side, size in zip(SIDES, vocabulary_sizes, strict=True):
            self._ids[side] = _mapped(folder / f"{side}.ids", _dtype(size))
            self._offsets[side] = _mapped(folder / f"{side}.offsets", np.dtype(np.int64))
            _check_side(self._ids[side], self._offsets[side], self.report.kept, size)
        self._lines = _mapped(folder / "lines", np.dtype(np.int64)).reshape(-1, 2)

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

    @property
    def data_sets(self) -> list[range]:
        """The rows of each data set of the training files."""
        numbers = (self._lines[:, 0] + self._lines[:, 1]) // CORPUS_LINES
        ends = [*self._lines[1:, 0].tolist(), len(self)]
        found: dict[int, range] = {}
        for number, start, end in zip(
            numbers.tolist(), self._lines[:, 0].tolist(), ends, strict=True
        ):
            found[number] = range(found[number].start if number in found else start, end)
        # A set of which no pair is left has no line.
        return [found.get(number, range(0)) for number in range(max(found, default=-1) + 1)]

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


class Epoch:
    """The pairs of one epoch, read like a `Corpus`; a function of (seed, epoch).

    With `weights`, one for each data set, an epoch has so many times its pairs: a weight of 2 has
    each pair twice, 0.5 another half of the pairs in each epoch. With `replay`, `share` of the
    pairs are a sample of earlier ones, at least 0 and less than 1: fine-tuning on new data alone
    makes a translator forget what it does not see any more (McCloskey and Cohen 1989), and pairs of
    its earlier training prevent it (Robins 1995). Of a sample, a pair occurs again only after all
    others.
    """

    def __init__(
        self,
        corpus: Corpus,
        seed: int,
        epoch: int,
        weights: Sequence[float] = (),
        replay: Corpus | None = None,
        share: float = 0.0,
    ) -> None:
        self._parts: list[tuple[Corpus, np.ndarray | range]] = []
        sets = corpus.data_sets if weights else ()
        for number, (rows, weight) in enumerate(zip(sets, weights, strict=False)):
            rng = np.random.default_rng((seed, epoch, 2, number))
            chosen = rows.start + _sampled(len(rows), math.ceil(weight * len(rows)), rng)
            self._parts.append((corpus, chosen))
        if not weights:
            self._parts.append((corpus, range(len(corpus))))
        if replay is not None:
            count = round(sum(len(rows) for _, rows in self._parts) * share / (1 - share))
            rng = np.random.default_rng((seed, epoch, 1))
            self._parts.append((replay, _sampled(len(replay), count, rng)))
        self._ends = np.cumsum([len(rows) for _, rows in self._parts])

    def __len__(self) -> int:
        return int(self._ends[-1])

    def source(self, row: int) -> np.ndarray:
        corpus, place = self._place(row)
        return corpus.source(place)

    def target(self, row: int) -> np.ndarray:
        corpus, place = self._place(row)
        return corpus.target(place)

    def place(self, row: int) -> str:
        corpus, place = self._place(row)
        return corpus.place(place)

    @cached_property
    def source_lengths(self) -> np.ndarray:
        return np.concatenate([_at(each.source_lengths, rows) for each, rows in self._parts])

    @cached_property
    def target_lengths(self) -> np.ndarray:
        return np.concatenate([_at(each.target_lengths, rows) for each, rows in self._parts])

    def _place(self, row: int) -> tuple[Corpus, int]:
        if not 0 <= row < len(self):
            raise IndexError(row)
        part = int(np.searchsorted(self._ends, row, side="right"))
        corpus, rows = self._parts[part]
        return corpus, int(rows[row - (int(self._ends[part - 1]) if part else 0)])


def _at(lengths: np.ndarray, rows: np.ndarray | range) -> np.ndarray:
    return lengths[rows.start : rows.stop] if isinstance(rows, range) else lengths[rows]


def _sampled(rows: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """So many rows (count,), each again only after all others."""
    rounds = [rng.permutation(rows) for _ in range(-(-count // max(1, rows)))]
    return np.concatenate([np.empty(0, dtype=np.int64), *rounds])[:count]


def _dtype(vocabulary_size: int) -> np.dtype:
    return np.dtype(np.uint16 if vocabulary_size <= 2**16 else np.uint32)


def _mapped(path: Path, dtype: np.dtype) -> np.ndarray:
    """The values of a file, which are read when they are needed."""
    if path.stat().st_size == 0:  # which cannot be mapped
        return np.empty(0, dtype)
    return np.memmap(path, dtype=dtype, mode="r")


def _check_side(ids: np.ndarray, offsets: np.ndarray, rows: int, vocabulary_size: int) -> None:
    """Check that every row has a range of the ids, and that all ids are in the vocabulary."""
    if len(offsets) != rows + 1 or offsets[0] != 0 or offsets[-1] != len(ids):
        raise ValueError(f"the offsets do not divide {len(ids):,} ids into {rows:,} rows")
    for start in range(0, len(offsets), BLOCK):
        block = offsets[start : start + BLOCK + 1]
        if np.any(block[1:] < block[:-1]):
            raise ValueError("the offsets fall")
    for start in range(0, len(ids), BLOCK):
        highest = int(ids[start : start + BLOCK].max())
        if highest >= vocabulary_size:
            raise ValueError(f"there is the id {highest:,}, of {vocabulary_size:,} possible")


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
    protection: Protection = NOTHING,
) -> Corpus:
    """The corpus of the training pairs: a new one, or the one that was written before.

    It is `folder/<16 hex digits>`. `held_out` are the validation and test pairs; `progress` is
    called after each block with the number of pairs read so far; `note` gets lines for the user.

    Raises:
        DataError: a file cannot be used, no pair is left, or the disk is full.
    """
    checker = Checker(part, PAIRS, config, held_out, protection)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / _key(part, tokenizers, config, checker)
        sizes = len(tokenizers[0]), len(tokenizers[1])

        def opened(note_damage: TakeLine) -> Corpus | None:
            if not path.exists():
                return None
            try:
                return Corpus(path, sizes, part)
            except (OSError, ValueError, KeyError, TypeError, ClearheadError) as error:
                why = error.what if isinstance(error, ClearheadError) else reason(error)
                note_damage(f"the encoded pairs in {path} are damaged, encoding again: {why}")
                return None

        with _locked(folder, fcntl.LOCK_SH):  # several processes check a corpus at the same time
            corpus = opened(lambda line: None)
        if corpus is not None:
            return corpus
        with _locked(folder, fcntl.LOCK_EX):
            corpus = opened(note)  # another process may have written it meanwhile
            if corpus is None:
                write_corpus(path, part, tokenizers, checker, progress)
                corpus = Corpus(path, sizes, part)
            return corpus
    except OSError as error:
        raise unwritable(folder, error, DataError) from None


def _key(part: DataPart, tokenizers: Tokenizers, config: DataConfig, checker: Checker) -> str:
    """16 hex digits that change with anything that the corpus or its report depends on."""
    settings = (
        FORMAT_VERSION,
        part.name,
        [name for name, _ in part.hashes],
        [Entry.of(content) for each in tokenizers for content in each.files("").values()],
        *(config.max_length, config.max_length_ratio),
        (part.languages, asdict(checker.protection), checker.protection.expression),
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
    """Read, encode and check the pairs block by block, and write them to a folder.

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
            lines = _Lines(stack.enter_context(_synced(partial / "lines")))
            sides = [
                _Side(
                    stack.enter_context(_synced(partial / f"{side}.ids")),
                    stack.enter_context(_synced(partial / f"{side}.offsets")),
                    _dtype(len(tokenizer)),
                )
                for side, tokenizer in zip(SIDES, tokenizers, strict=True)
            ]
            note = stack.enter_context(write_findings(partial / FINDINGS))
            counts = ExtentCounts(), ExtentCounts()
            read, pairs = 0, part.pairs()
            while block := _next_block(pairs):
                rows = encode_pairs(block, tokenizers, checker.protection)
                keep = checker.check(block, lengths_of(rows), note)
                for side, its_rows in zip(sides, rows, strict=True):
                    side.append(list(itertools.compress(its_rows, keep)))
                kept = list(itertools.compress(block, keep))
                lines.append([pair.line for pair in kept])
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
        extents = [each.extent() for each in counts]
        files = {name: entry_of(partial / name)._asdict() for name in FILES}
        tree = sealed({"report": report.to_dict(), "extents": extents, "files": files})
        # With escapes, because names of files may not be UTF-8.
        content = json.dumps(tree, indent=1).encode()
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


def encode_pairs(
    pairs: Sequence[Pair], tokenizers: Tokenizers, protection: Protection = NOTHING
) -> list[list[list[int]]]:
    """The ids of all sources, and those of all targets, without BOS and EOS.

    Protected spans are symbols, if both sides of a pair have the same spans.
    """
    masked = [mask_pair(pair, protection) for pair in pairs]
    return [
        tokenizer.encode_batch([pair[side] for pair in masked])
        for side, tokenizer in enumerate(tokenizers)
    ]


def mask_pair(pair: Pair, protection: Protection) -> tuple[str, str]:
    """Both sides of a pair with symbols for protected spans, if they have the same spans."""
    # The numbers of symbols depend on the line, so that all symbols are learned alike.
    masked = protection.mask_pair(pair.source, pair.target, seed=pair.line)
    return masked or (protection.unmarked(pair.source), protection.unmarked(pair.target))


def lengths_of(sides: Sequence[Sequence[Sized]]) -> np.ndarray:
    """The tokens of each row of each side, int64 (N, sides)."""
    return np.array([list(map(len, rows)) for rows in sides], dtype=np.int64).T


@contextmanager
def _synced(path: Path) -> Iterator[BinaryIO]:
    """A new file, which is on the disk when it is closed."""
    with path.open("xb") as stream:
        yield stream
        stream.flush()
        os.fsync(stream.fileno())


class _Side:
    """Appends rows of ids to the two files of a side."""

    def __init__(self, ids: BinaryIO, offsets: BinaryIO, dtype: np.dtype) -> None:
        self._ids, self._offsets, self._dtype, self._end = ids, offsets, dtype, 0
        offsets.write(np.zeros(1, dtype=np.int64).tobytes())

    def append(self, rows: Sequence[list[int]]) -> None:
        ends = self._end + np.cumsum([len(row) for row in rows], dtype=np.int64)
        ids = np.fromiter(itertools.chain.from_iterable(rows), self._dtype)
        self._ids.write(ids.tobytes())
        self._offsets.write(ends.tobytes())
        self._end = int(ends[-1]) if len(ends) else self._end


class _Lines:
    """Appends the lines of further rows to the file `lines`."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream, self._count = stream, 0
        self._shift = -1  # line - row of the last row; -1 is that of no row

    def append(self, lines: Sequence[int]) -> None:
        rows = np.arange(self._count, self._count + len(lines), dtype=np.int64)
        shifts = np.array(lines, dtype=np.int64) - rows
        changed = np.diff(shifts, prepend=self._shift) != 0
        self._stream.write(np.column_stack((rows, shifts))[changed].tobytes())
        self._count += len(lines)
        self._shift = int(shifts[-1]) if len(lines) else self._shift


@contextmanager
def _locked(folder: Path, kind: int) -> Iterator[None]:
    """The lock of a folder of corpora: `LOCK_EX` to write a corpus, `LOCK_SH` to open one."""
    with open_to_append(folder / ".lock") as stream:
        fcntl.flock(stream, kind)
        yield


def remove_other_corpora(folder: Path, used: Collection[Path] = ()) -> None:
    """Remove the corpora of a folder, complete or not, but for those that its run uses."""
    for corpus in folder.glob("*"):
        if CORPUS_NAME.fullmatch(corpus.name) and corpus not in used:
            with suppress(OSError):
                remove_named(corpus, WRITTEN)
