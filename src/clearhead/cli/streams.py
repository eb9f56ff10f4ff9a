"""How far a long command has come, on the terminal."""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TextIO, TypeVar

from clearhead.cli.failures import say
from clearhead.errors import DataError

if TYPE_CHECKING:
    from clearhead.api import Translator
    from clearhead.decoding.engine import Hypothesis
    from clearhead.settings import SearchConfig


PATIENCE_S = 2.0
INTERVAL_S = 0.5
CLEAR = "\r\x1b[K"

CLASSIFIED = {"text": "texts", "features": "sequences"}
"""What a classifier's inputs are called, by their kind."""


class Counter:
    """One line on a terminal that is written over and over, and gone at the end.

    It says nothing in the first two seconds, and nothing at all where the stream is no terminal.

    Args:
        stream: where it writes; None, as Python has it, where it is closed.
        total: how many there are, if that is known.
        noun: what is counted: `sentences`.
        wanted: False if it would be in the way.
        clock: tells seconds that never go back.
    """

    def __init__(
        self,
        stream: TextIO | None,
        total: int | None,
        noun: str,
        wanted: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._terminal = stream if wanted and stream is not None and stream.isatty() else None
        self._total = total
        self._noun = noun
        self._clock = clock
        self._began = clock()
        self._next = self._began + PATIENCE_S
        self._shown = False

    def show(self, done: int) -> None:
        """So many are done."""
        now = self._clock()
        if self._terminal is None or now < self._next:
            return
        self._next = now + INTERVAL_S
        self._shown = True
        rate = done / (now - self._began)
        of_all = "" if self._total is None else f" of {self._total:,}"
        line = f"{done:,}{of_all} {self._noun}, {rate:,.1f} a second"
        if self._total is not None and rate > 0:
            from clearhead.training.display import duration

            line += f", {duration((self._total - done) / rate)} left"
        self._terminal.write(CLEAR + line)
        self._terminal.flush()

    def clear(self) -> None:
        """Take the line away, so that something else can be written."""
        if self._terminal is not None and self._shown:
            self._terminal.write(CLEAR)
            self._terminal.flush()
            self._shown = False


# ---- cli.streams
# Where the sentences of a command come from, and where its output goes.

STANDARD = "-"


def refuse_standard(path: str) -> None:
    """Say that a model of features reads a file, and not the standard input.

    Raises:
        DataError: the path is `-`.
    """
    if path == STANDARD:
        raise DataError(
            "this model classifies sequences of features, which are read from a file",
            todo="name it: --input sequences.ts",
        )


def input_lines(path: str) -> Iterator[str]:
    """The lines of a file, or of the standard input where the path is `-`.

    An empty standard input has no lines; an empty file is an error, for it is hardly meant.

    Raises:
        DataError: the input is unreadable, binary or not UTF-8, with the number of the line.
    """
    from clearhead.data.lines import read_lines, read_stream

    if path != STANDARD:
        return read_lines(path)
    if sys.stdin is None:
        raise DataError("there is no standard input", todo="name a file: -i in.txt")
    return read_stream(sys.stdin.buffer, "standard input")


def counted_lines(path: str) -> int | None:
    """The lines of a file, all of which are checked; None where it cannot be read twice.

    Raises:
        DataError: the file is missing, unreadable, empty, binary or not UTF-8.
    """
    from clearhead.data.lines import read_lines

    if path == STANDARD:
        return None
    # As the reader will look for it; what may not be looked at is its to refuse.
    found = os.path.expanduser(path)
    if os.path.exists(found) and not os.path.isfile(found):
        return None
    return sum(1 for _ in read_lines(path))


class Output:
    """Where results go.

    Args:
        stream: a file, or the standard output.
        where: its name for messages.
        old: whether the file holds what another command left, which is to go when this one begins.
    """

    def __init__(self, stream: BinaryIO, where: str, old: bool = False) -> None:
        self._stream = stream
        self._where = where
        self.old = old

    def begin(self) -> None:
        """Let go what another command left in the file."""
        if self.old:
            self._stream.truncate(0)
            self.old = False

    def write(self, text: str) -> None:
        """Write a text, through to whoever reads it; half a character (a surrogate) becomes `?`.

        Raises:
            DataError: it cannot be written.
            BrokenPipeError: nobody reads it any more.
        """
        with _unwritable_said(self._where):
            self.begin()
            self._stream.write(text.encode("utf-8", errors="replace"))
            self._stream.flush()

    def isatty(self) -> bool:
        """Whether a person reads it on a terminal."""
        return self._stream.isatty()


@contextmanager
def opened_output(path: str) -> Iterator[Output]:
    """An output to a file, or to the standard output where the path is `-`.

    The file appears under its name when all of it is written. If that does not come to pass, what
    was written stays beside it as `name.part`, until another command has something to write there.

    Raises:
        DataError: the file cannot be written.
    """
    if path == STANDARD:
        if sys.stdout is None:
            raise DataError("there is no standard output", todo="name a file: -o out.txt")
        yield Output(sys.stdout.buffer, "standard output")
        return
    with _unwritable_said(path):
        whole = Path(os.path.expanduser(path)).resolve()
        # A device or a pipe is written to; moving a file to its name would take its place.
        special = whole.exists() and not whole.is_file()
        part = whole if special else whole.with_name(f"{whole.name}.part")
        stream = part.open("wb" if special else "ab")
    output = Output(stream, path, old=not special)
    try:
        yield output
        with _unwritable_said(path):
            output.begin()
            stream.close()
            if not special:
                os.replace(part, whole)
    except BaseException:
        with suppress(OSError):  # what it still holds cannot be written either
            stream.close()
        if not special:
            _settle(part, said=not output.old)
        raise


@contextmanager
def _unwritable_said(where: str) -> Iterator[None]:
    """Tell what the system refuses within as an error of the output; a broken pipe stays one."""
    try:
        yield
    except BrokenPipeError:
        raise
    except (OSError, RuntimeError) as error:  # of links in a circle, pathlib's is a RuntimeError
        raise DataError("the output cannot be written", where=where, why=str(error)) from None


def _settle(part: Path, said: bool) -> None:
    """Keep what is worth keeping of an output that was not finished."""
    if not part.stat().st_size:
        part.unlink()
    elif said:
        say(f"what was written so far is in {part}")


# ---- cli.blocks
# Lines computed in blocks, as a stream: memory does not grow with the input.

BLOCK_LINES = 1024  # enough to make batches of sentences of like length
BLOCK_CHARACTERS = 4 * 2**20

Item = TypeVar("Item", bound="tuple[str, Any]")
Result = TypeVar("Result")
Progress = Callable[[int], None]


class Line(NamedTuple):
    """A line to translate, and what its translation must begin with ("": with anything)."""

    text: str
    prefix: str


def with_prefixes(texts: Iterable[str], prefixes: Iterable[str] | None) -> Iterator[Line]:
    """Each text with its prefix.

    Raises:
        DataError: there are not as many prefixes as texts.
    """
    if prefixes is None:
        for text in texts:
            yield Line(text, "")
        return
    for number, (text, prefix) in enumerate(zip_longest(texts, prefixes), start=1):
        if text is None or prefix is None:
            if text is None:
                what, where = "the input ended, but the prefixes go on", "prefixes"
            else:
                what, where = "the prefixes ended, but the input goes on", "input"
            raise DataError(what, where=f"{where}, line {number}")
        yield Line(text, prefix)


def blocks(lines: Iterable[Item], most: int = BLOCK_LINES) -> Iterator[list[Item]]:
    """The lines in lists of at most so many, fewer where their texts, the first part, are long."""
    block: list[Item] = []
    characters = 0
    for line in lines:
        block.append(line)
        characters += len(line[0])
        if len(block) >= most or characters >= BLOCK_CHARACTERS:
            yield block
            block, characters = [], 0
    if block:
        yield block


def translate_blocks(
    translator: Translator,
    lines: Iterable[Line],
    search: SearchConfig,
    batch_size: int,
    counter: Counter,
    most: int = BLOCK_LINES,
) -> Iterator[tuple[str, list[Hypothesis]]]:
    """Each text with its hypotheses, in order.

    Warnings, such as that a text was cut, are said with the number of the line.

    Args:
        translator: does it.
        lines: what to translate; read one block ahead of the output.
        search: how to search.
        batch_size: sentences at a time, at most.
        counter: shown how many lines are done.
        most: lines in a block.
    """

    def translate(block: Sequence[Line], before: int, progress: Progress) -> list[list[Hypothesis]]:
        prefixes = [line.prefix for line in block]
        return translator.translate(
            [line.text for line in block],
            search=search,
            prefixes=prefixes if any(prefixes) else None,
            batch_size=batch_size,
            offset=before,
            progress=progress,
        )

    for line, found in through_blocks(lines, translate, counter, most):
        yield line.text, found


def through_blocks(
    lines: Iterable[Item],
    compute: Callable[[Sequence[Item], int, Progress], Sequence[Result]],
    counter: Counter,
    most: int = BLOCK_LINES,
) -> Iterator[tuple[Item, Result]]:
    """Each line with its result, in order, block by block; warnings are said.

    Args:
        lines: read one block ahead of the output; the text comes first in each.
        compute: (block, lines before it, told how many of it are done) -> its results.
        counter: shown how many lines are done.
        most: lines in a block.
    """
    done = 0
    for block in blocks(lines, most):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            found = compute(block, done, lambda count, before=done: counter.show(before + count))
        if caught:
            counter.clear()
        for warning in caught:
            say(f"warning: {warning.message}")
        done += len(block)
        counter.show(done)
        yield from zip(block, found, strict=True)


def one_line(text: str) -> str:
    """A text without line breaks, which a model that knows all bytes may well write."""
    return text.replace("\r", " ").replace("\n", " ")


def best_texts(results: Iterable[tuple[str, Sequence[Hypothesis]]]) -> list[str]:
    """The best hypothesis of each, as one line."""
    return [one_line(hypotheses[0].text) for _, hypotheses in results]
