"""Inputs and outputs of commands: lines in, computed in blocks, results out, and a counter."""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TextIO, TypeVar

from clearhead.cli.failures import say
from clearhead.errors import DataError

if TYPE_CHECKING:
    from clearhead.api.translator import Translator
    from clearhead.decoding.engine import Hypothesis
    from clearhead.settings import SearchConfig

STANDARD = "-"
"""The name of the standard input and of the standard output."""

CLASSIFIED = {"text": "texts", "features": "sequences"}
"""What the inputs of a classifier are called, by kind."""

BLOCK_LINES = 1024  # enough for batches of sentences of similar length
BLOCK_CHARACTERS = 4 * 2**20
PATIENCE_S = 2.0
INTERVAL_S = 0.5
CLEAR_LINE = "\r\x1b[K"

Item = TypeVar("Item", bound="tuple[str, Any]")
Result = TypeVar("Result")
Progress = Callable[[int], None]


def refuse_standard(path: str) -> None:
    """Reject the standard input as a source of features.

    Raises:
        DataError: the path is `-`.
    """
    if path == STANDARD:
        raise DataError(
            "this model classifies sequences of features, which are read from a file",
            todo="name the file: --input sequences.ts",
        )


def is_typed(path: str) -> bool:
    """Whether the input is typed at a terminal."""
    return path == STANDARD and sys.stdin is not None and sys.stdin.isatty()


def input_lines(path: str) -> Iterator[str]:
    """The lines of a file, or of the standard input if the path is `-`.

    An empty file is an error, since it is probably a mistake; an empty standard input is not.

    Raises:
        DataError: the input is unreadable, binary or not UTF-8; `where` has the line number.
    """
    from clearhead.data.lines import read_lines, read_stream

    if path != STANDARD:
        return read_lines(path)
    if sys.stdin is None:
        raise DataError("there is no standard input", todo="name a file: -i in.txt")
    return read_stream(sys.stdin.buffer, "standard input")


def counted_lines(path: str) -> int | None:
    """Check all lines of a file and count them; None if it cannot be read twice.

    Raises:
        DataError: the file is missing, unreadable, empty, binary or not UTF-8.
    """
    from clearhead.data.lines import read_lines

    if path == STANDARD:
        return None
    found = os.path.expanduser(path)
    if os.path.exists(found) and not os.path.isfile(found):  # a pipe or a device
        return None
    return sum(1 for _ in read_lines(path))


class Line(NamedTuple):
    """A line to translate, and the beginning that its translation must have ("": any)."""

    text: str
    prefix: str


def with_prefixes(texts: Iterable[str], prefixes: Iterable[str] | None) -> Iterator[Line]:
    """Each text with its prefix.

    Raises:
        DataError: the numbers of texts and prefixes differ.
    """
    if prefixes is None:
        for text in texts:
            yield Line(text, "")
        return
    for number, (text, prefix) in enumerate(zip_longest(texts, prefixes), start=1):
        if text is None or prefix is None:
            longer, shorter = ("prefixes", "input") if text is None else ("input", "prefixes")
            raise DataError(
                f"there are fewer lines in the {shorter} than in the {longer}",
                where=f"{longer}, line {number}",
            )
        yield Line(text, prefix)


def translate_blocks(
    translator: Translator,
    lines: Iterable[Line],
    search: SearchConfig,
    batch_size: int,
    counter: Counter,
    most: int = BLOCK_LINES,
) -> Iterator[tuple[str, list[Hypothesis]]]:
    """Each text with its hypotheses, in order; warnings are printed with the line number.

    Args:
        translator: translates the blocks.
        lines: read one block at a time.
        search: settings of the search.
        batch_size: largest number of sentences in a batch.
        counter: shows the number of finished lines.
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
    items: Iterable[Item],
    compute: Callable[[Sequence[Item], int, Progress], Sequence[Result]],
    counter: Counter,
    most: int = BLOCK_LINES,
) -> Iterator[tuple[Item, Result]]:
    """Each item with its result, in order; the memory does not grow with the input.

    Args:
        items: tuples that begin with a text; read one block at a time.
        compute: (block, number of items before it, progress) -> results of the block; it calls
            progress with the number of items of the block that are finished.
        counter: shows the number of finished items.
        most: items in a block.
    """
    done = 0
    for block in blocks(items, most):
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


def blocks(items: Iterable[Item], most: int = BLOCK_LINES) -> Iterator[list[Item]]:
    """Lists of at most `most` items; of fewer if their texts are long."""
    block: list[Item] = []
    characters = 0
    for item in items:
        block.append(item)
        characters += len(item[0])
        if len(block) >= most or characters >= BLOCK_CHARACTERS:
            yield block
            block, characters = [], 0
    if block:
        yield block


def one_line(text: str) -> str:
    """The text with spaces for line breaks, which a byte vocabulary can produce."""
    return text.replace("\r", " ").replace("\n", " ")


def best_texts(results: Iterable[tuple[str, Sequence[Hypothesis]]]) -> list[str]:
    """The best hypothesis of each text, as one line."""
    return [one_line(hypotheses[0].text) for _, hypotheses in results]


class Output:
    """The output of a command.

    Args:
        stream: a file, or the standard output.
        where: its name in messages.
        leftover: whether the file may hold the output of an earlier command, which the first write
            removes.
    """

    def __init__(self, stream: BinaryIO, where: str, leftover: bool = False) -> None:
        self._stream = stream
        self._where = where
        self.leftover = leftover

    def begin(self) -> None:
        """Remove the output of an earlier command."""
        if self.leftover:
            self._stream.truncate(0)
            self.leftover = False

    def write(self, text: str) -> None:
        """Write and flush a text; a lone surrogate becomes `?`.

        Raises:
            DataError: the text cannot be written.
            BrokenPipeError: the reader of the output has gone.
        """
        with _write_errors(self._where):
            self.begin()
            self._stream.write(text.encode("utf-8", errors="replace"))
            self._stream.flush()

    def isatty(self) -> bool:
        """Whether the output is a terminal."""
        return self._stream.isatty()


@contextmanager
def opened_output(path: str, inputs: Iterable[str | None] = ()) -> Iterator[Output]:
    """An output to a file, or to the standard output if the path is `-`.

    The file gets its name when it is complete. After a failure, what was written stays in
    `name.part` until another command writes the same file.

    Args:
        path: the file, or `-`.
        inputs: files and folders that the command reads (None: no such input).

    Raises:
        DataError: the file cannot be written, or is one of the inputs.
    """
    from clearhead.files import move_into_place

    if path == STANDARD:
        if sys.stdout is None:
            raise DataError("there is no standard output", todo="name a file: -o out.txt")
        yield Output(sys.stdout.buffer, "standard output")
        return
    with _write_errors(path):
        whole = Path(os.path.expanduser(path)).resolve()
        # A device or a pipe is written directly: a file moved to its name would replace it.
        special = whole.exists() and not whole.is_file()
        part = whole if special else whole.with_name(f"{whole.name}.part")
        if not special:
            _refuse_inputs((whole, part), inputs)
        stream = part.open("wb" if special else "ab")
    output = Output(stream, path, leftover=not special)
    try:
        yield output
        with _write_errors(path):
            output.begin()
            stream.close()
            if not special:
                move_into_place(part, whole)
    except BaseException:
        with suppress(OSError):  # the disk is full, and the buffer cannot be written
            stream.close()
        if not special:
            if not part.stat().st_size:
                part.unlink()
            elif not output.leftover:
                say(f"the output so far is in {part}")
        raise


def _refuse_inputs(written: Iterable[Path], inputs: Iterable[str | None]) -> None:
    """Raise a `DataError` if a file to be written is an input, or is in a folder that is one."""
    statuses = [_status(path) for path in inputs if path is not None]
    for file in written:
        if not file.exists():
            continue
        places = [file.stat(), *(folder.stat() for folder in file.parents)]
        for status in statuses:
            if status is not None and any(os.path.samestat(status, place) for place in places):
                raise DataError(
                    "the output would overwrite an input",
                    where=file,
                    todo="write to another file: --output FILE",
                )


def _status(path: str) -> os.stat_result | None:
    """The status of a file, or of the standard input if the path is `-`; None if it has none."""
    try:
        return os.stat(sys.stdin.fileno() if path == STANDARD else os.path.expanduser(path))
    except (OSError, ValueError, AttributeError):
        return None


@contextmanager
def _write_errors(where: str) -> Iterator[None]:
    """Turn errors of the file system into a `DataError`, but not a broken pipe."""
    try:
        yield
    except BrokenPipeError:
        raise
    except (OSError, RuntimeError) as error:  # pathlib raises RuntimeError for links in a circle
        raise DataError("the output cannot be written", where=where, why=str(error)) from None


class Counter:
    """A line on a terminal that shows how many inputs are finished.

    It is silent for the first two seconds, and always if the stream is not a terminal.

    Args:
        stream: where it writes; None if the stream is closed, as in `sys`.
        total: number of inputs, if it is known.
        noun: what is counted, e.g. `sentences`.
        wanted: False if it would disturb other output.
        clock: a monotonic clock, in seconds.
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
        """Show the number of finished inputs, at most twice a second."""
        now = self._clock()
        if self._terminal is None or now < self._next:
            return
        self._next = now + INTERVAL_S
        self._shown = True
        rate = done / (now - self._began)
        of_all = "" if self._total is None else f" of {self._total:,}"
        line = f"{done:,}{of_all} {self._noun}, {rate:,.1f} a second"
        if self._total is not None and rate > 0:
            line += f", {timedelta(seconds=round((self._total - done) / rate))} left"
        self._terminal.write(CLEAR_LINE + line)
        self._terminal.flush()

    def clear(self) -> None:
        """Remove the line, so that something else can be written."""
        if self._terminal is not None and self._shown:
            self._terminal.write(CLEAR_LINE)
            self._terminal.flush()
            self._shown = False
