"""Inputs and outputs of commands: read lines, compute in blocks, write results, count them."""

from __future__ import annotations

import functools
import os
import select
import shlex
import sys
import time
import warnings
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TextIO, TypeVar, cast

from clearhead.cli.failures import INTERRUPTED, WarningPrinter, print_message
from clearhead.cli.prompt import is_typed, typed_lines
from clearhead.errors import DataError, reason, what_helps
from clearhead.terminal import printable, unfiltered

if TYPE_CHECKING:
    from clearhead.api.translator import Translator
    from clearhead.decoding.engine import Hypothesis
    from clearhead.ranks import Ranks
    from clearhead.settings import SearchConfig

STANDARD = "-"
"""The name of the standard input and of the standard output."""

NOUNS = {"text": "text", "features": "sequence"}
"""What an input of a classifier is called, by the kind of input."""

BLOCK_LINES = 1024  # enough for batches of sentences of similar length
BLOCK_CHARACTERS = 4 * 2**20
DELAY_S = 2.0  # before the counter is shown
INTERVAL_S = 0.5
PAUSE_S = 0.01  # without more input, after which the lines so far are a block
READ_BYTES = 2**16  # at a time
CLEAR_LINE = "\r\x1b[K"

Item = TypeVar("Item", bound="tuple[str, Any]")
Result = TypeVar("Result")
ReportDone = Callable[[int], None]
Compute = Callable[[Sequence[Item], int, ReportDone], Sequence[Result]]


def reject_standard_input(path: str) -> None:
    """Reject the standard input as a source of features.

    Raises:
        DataError: the path is `-`.
    """
    if path == STANDARD:
        raise DataError(
            "this model classifies sequences of features, which are read from a file",
            todo="name the file: --input sequences.ts",
        )


def input_lines(path: str) -> Iterator[str]:
    """The lines of a file, or of the standard input if the path is `-`; a terminal has a prompt.

    An empty file is an error, since it is probably a mistake; an empty standard input is not.

    Raises:
        DataError: the input is unreadable, binary or not UTF-8; `where` has the line number.
    """
    from clearhead.data.reading.lines import read_stream, read_texts_in_lines

    if path != STANDARD:
        return read_texts_in_lines(path)
    if is_typed():
        return typed_lines()
    if sys.stdin is None:
        raise DataError("there is no standard input", todo="name a file: -i in.txt")
    return read_stream(standard_input(sys.stdin), "standard input")


@functools.lru_cache(maxsize=1)  # the blocks ask the same object from which the lines come
def standard_input(stdin: TextIO) -> BinaryIO:
    """The bytes of the standard input; an `Arriving` if it has a file descriptor."""
    try:
        return cast(BinaryIO, Arriving(stdin.fileno()))
    except OSError:  # a program has replaced it
        return stdin.buffer


class Arriving:
    """The bytes of a pipe, a socket or a file, and whether the next line has arrived."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._held = bytearray()
        self._ended = False

    def readline(self, limit: int) -> bytes:
        """The next line with its end, at most `limit` bytes; empty at the end of the input."""
        searched = 0
        while (end := self._held.find(b"\n", searched, limit)) < 0:
            searched = len(self._held)
            if self._ended or searched >= limit:
                end = min(searched, limit) - 1
                break
            self._fill()
        return self._taken(end + 1)

    def read(self, count: int) -> bytes:
        """At most `count` bytes, as far as they have arrived; empty at the end of the input."""
        while not (self._held or self._ended):
            self._fill()
        return self._taken(count)

    def pauses(self) -> bool:
        """Whether the next line is not complete, and no more of it arrives within `PAUSE_S`."""
        while not (self._ended or b"\n" in self._held or len(self._held) > BLOCK_CHARACTERS):
            if not select.select([self._descriptor], [], [], PAUSE_S)[0]:
                return True
            self._fill()
        return False

    def _taken(self, count: int) -> bytes:
        taken = bytes(self._held[:count])
        del self._held[:count]
        return taken

    def _fill(self) -> None:
        """Wait for more bytes, or for the end."""
        try:
            more = os.read(self._descriptor, READ_BYTES)
        except BlockingIOError:  # another program has made the pipe so
            select.select([self._descriptor], [], [])
            return
        self._held += more
        self._ended = not more


def input_pauses(path: str) -> bool:
    """Whether the next line has to be waited for: not in a file."""
    if path != STANDARD or sys.stdin is None:
        return False
    stream = standard_input(sys.stdin)
    return isinstance(stream, Arriving) and stream.pauses()


def sentence_lines(path: str, name: str = "input") -> Iterator[str]:
    """The sentences of a file, such as those to translate: `input_lines`.

    A warning, with the name of the file, is printed if line 1 has a tab, or looks like JSON,
    markup or subtitles.

    Raises:
        DataError: as `input_lines`; or a `.tsv` file has several columns.
    """
    for number, line in enumerate(input_lines(path)):
        if name == "references" and "\t" in line:
            what, todo = "a reference has a tab", "give one column: cut -f 2 FILE > NEW_FILE"
            raise DataError(what, where=f"{path}:{number + 1}", todo=todo)
        if number == 0:
            _check_first_line(line, path, name)
        yield line


def _check_first_line(line: str, path: str, name: str) -> None:
    from clearhead.data.reading.encodings import NO_TEXT

    if "\t" in line:
        what, todo = "has a tab", "to read the first column only: cut -f 1 FILE > NEW_FILE"
        if path.lower().removesuffix(".gz").endswith(".tsv"):
            raise DataError("the file has several columns", where=path, todo=todo)
    elif NO_TEXT.match(line):
        what, todo = "looks like JSON, markup or subtitles", "write one sentence per line"
    else:
        return
    print_message(
        f"warning: line 1 of the {name} {what}, and each whole line is read as one sentence; {todo}"
    )


def count_lines(path: str) -> int | None:
    """Check all lines of a file and count them; None if it cannot be read twice.

    Raises:
        DataError: the file is missing, unreadable, empty, binary or not UTF-8.
    """
    from clearhead.data.reading.lines import is_read_once, read_texts_in_lines

    if path == STANDARD or is_read_once(path):
        return None
    return sum(1 for _ in read_texts_in_lines(path))


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
        yield from (Line(text, "") for text in texts)
        return
    for number, (text, prefix) in enumerate(zip_longest(texts, prefixes), start=1):
        if text is None or prefix is None:
            longer, shorter = ("prefixes", "input") if text is None else ("input", "prefixes")
            raise DataError(
                f"there are fewer lines in the {shorter} than in the {longer}",
                where=f"{longer}, line {number}",
            )
        yield Line(text, prefix)


def in_blocks(
    items: Iterable[Item],
    compute: Compute[Item, Result],
    counter: Counter,
    size: int | None = None,
    pauses: Callable[[], bool] = lambda: False,
) -> Iterator[tuple[Item, Result]]:
    """Each item with its result, in order; the memory does not grow with the input.

    Args:
        items: tuples that begin with a text; read one block at a time.
        compute: (block, offset, progress) -> results of the block; `offset` is the number of items
            before it, and `progress` is called with the number of finished items of the block.
            Warnings are printed.
        counter: shows the number of finished items.
        size: maximum number of items in a block (default: `BLOCK_LINES`).
        pauses: whether the next item has to be waited for; a block then ends.
    """
    done = 0
    printer = WarningPrinter()
    for block in blocks(items, size or BLOCK_LINES, pauses):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            results = compute(block, done, lambda count, before=done: counter.show(before + count))
        if caught:
            counter.clear()
        for warning in caught:
            printer.show(warning.message)
        done += len(block)
        counter.show(done)
        yield from zip(block, results, strict=True)
    printer.end()


def blocks(
    items: Iterable[Item], size: int, pauses: Callable[[], bool] = lambda: False
) -> Iterator[list[Item]]:
    """Lists of at most `size` items; of fewer if their texts are long, or if the input pauses."""
    block: list[Item] = []
    characters = 0
    for item in items:
        block.append(item)
        characters += len(item[0])
        if len(block) >= size or characters >= BLOCK_CHARACTERS or pauses():
            yield block
            block, characters = [], 0
    if block:
        yield block


def write_results(
    args: Namespace,
    output: Output,
    items: Iterable[Item],
    total: int | None,
    noun: str,
    compute: Compute[Item, Result],
    form: Callable[[int, Item, Result], str],
) -> None:
    """Compute the result of each item (see `in_blocks`) and write it.

    Args:
        args: the options of the command; `input_file` and `output_file` are used.
        output: where the results go.
        items: read one block at a time.
        total: number of items, if it is known.
        noun: what an item is called, e.g. `sentence`.
        compute: computes the results of a block.
        form: (number of the item, from 0; item; result) -> complete lines of output.
    """
    typed = args.input_file == STANDARD and is_typed()
    if typed:
        print_message(f"type a {noun} and press Enter; Ctrl-D ends")
    # In a terminal the counter would disturb the output, or what is being typed.
    visible = not typed and not (args.output_file == STANDARD and output.isatty())
    with Counter(sys.stderr, total, f"{noun}s", visible) as counter:
        # A user who types waits for each result.
        pauses = functools.partial(input_pauses, args.input_file)
        results = in_blocks(items, compute, counter, 1 if typed else None, pauses)
        try:
            for number, (item, result) in enumerate(results):
                output.write(form(number, item, result))
        except KeyboardInterrupt:
            if not typed:
                raise
            # The usual way to end a dialogue needs no message.
            print(file=sys.stderr)
            raise SystemExit(INTERRUPTED) from None


@contextmanager
def shared(args: Namespace) -> Iterator[Ranks]:
    """The processes that compute the results together, as torchrun starts them.

    All read the input; rank 0 alone writes.

    Raises:
        DataError: the input is the standard input, which not every process can read.
    """
    from clearhead.ranks import joined_ranks

    with joined_ranks() as ranks:
        if ranks.count > 1 and args.input_file == STANDARD:
            raise DataError(
                "several processes cannot share the standard input",
                todo="name a file: --input-file FILE",
            )
        if not ranks.is_first:
            args.output_file = os.devnull
        yield ranks


def shared_out(compute: Compute[Item, Result], ranks: Ranks) -> Compute[Item, Result]:
    """The function for `in_blocks` that computes a part of a block on each rank."""

    def of_all(block: Sequence[Item], offset: int, progress: ReportDone) -> Sequence[Result]:
        part = ranks.part(block)
        before = offset + ranks.first_of(block)
        return ranks.gathered(compute(part, before, progress) if part else [])

    return compute if ranks.count == 1 else of_all


def translating(
    translator: Translator, search: SearchConfig, args: Namespace, on_error: str = "raise"
) -> Compute[Line, list[Hypothesis]]:
    """The function for `in_blocks` that gives the hypotheses of each line.

    Of the options, `batch_size` and `normalise` are used; `on_error` is for `Translator.translate`.
    """

    def translate(
        block: Sequence[Line], offset: int, progress: ReportDone
    ) -> list[list[Hypothesis]]:
        prefixes = [line.prefix for line in block]
        return translator.translate(
            [line.text for line in block],
            search=search,
            prefixes=prefixes if any(prefixes) else None,
            normalise=args.normalise,
            batch_size=args.batch_size,
            offset=offset,
            progress=progress,
            on_error=on_error,
        )

    return translate


def text_in_line(hypothesis: Hypothesis) -> str:
    """The text with spaces for line breaks, which a byte vocabulary can produce."""
    return hypothesis.text.replace("\r", " ").replace("\n", " ")


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

    def remove_leftover(self) -> None:
        """Remove the output of an earlier command, if there is one."""
        if self.leftover:
            self._stream.truncate(0)
            self.leftover = False

    def write(self, text: str) -> None:
        """Write and flush a text, which is `printable` on a terminal; a lone surrogate becomes `?`.

        Raises:
            DataError: the text cannot be written.
            BrokenPipeError: the reader of the output has closed it.
        """
        with _write_errors(self._where):
            self.remove_leftover()
            shown = printable(text) if self.isatty() else text
            self._stream.write(shown.encode("utf-8", errors="replace"))
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
    from clearhead.folder.files import move_into_place, not_followed

    if path == STANDARD:
        if sys.stdout is None:
            raise DataError("there is no standard output", todo="name a file: -o out.txt")
        yield Output(sys.stdout.buffer, "standard output")
        return
    with _write_errors(path):
        target = Path(os.path.expanduser(path)).resolve()
        # A device or a pipe is written directly: a file moved to its name would replace it.
        special = target.exists() and not target.is_file()
        if target.is_dir():
            raise DataError("this is a folder", where=path, todo="name a file: --output FILE")
        if not target.parent.exists():
            raise DataError(
                f"the folder {target.parent} is missing",
                where=path,
                todo=f"create it: mkdir -p {shlex.quote(str(target.parent))}",
            )
        part = target if special else target.with_name(f"{target.name}.part")
        if not special:
            reject_inputs((target, part), inputs)
        opener = None if special else not_followed
        stream = open(part, "wb" if special else "ab", opener=opener)  # noqa: SIM115
    output = Output(stream, path, leftover=not special)
    try:
        yield output
        with _write_errors(path):
            output.remove_leftover()
            stream.close()
            if not special:
                move_into_place(part, target)
    except BaseException:
        with suppress(OSError):  # the disk is full, and the buffer cannot be written
            stream.close()
        if not special:
            _keep_part(part, output)
        raise


def _keep_part(part: Path, output: Output) -> None:
    """Print where the incomplete output is after a failure; an empty file is removed."""
    with suppress(OSError):  # the file has its name already, or the disk has failed
        if not part.stat().st_size:
            part.unlink()
        elif not output.leftover:
            print_message(f"the output so far is in {part}")


def reject_inputs(written: Iterable[Path], inputs: Iterable[str | None]) -> None:
    """Raise a `DataError` if a file to be written is an input, or is in a folder that is one."""
    statuses = [_status(path) for path in inputs if path is not None]
    for file in written:
        if not file.exists():
            continue
        written_stats = [path.stat() for path in (file, *file.parents)]
        for status in statuses:
            if status is not None and any(os.path.samestat(status, each) for each in written_stats):
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
        what, todo = "the output cannot be written", "name another file: --output FILE"
        todo = what_helps(error, todo)
        raise DataError(what, where=where, why=reason(error), todo=todo) from None


class Counter:
    """A line on a terminal that shows how many inputs are finished; a context manager clears it.

    The line appears after two seconds, and never if the stream is not a terminal.

    Args:
        stream: where it is written; None if the stream is closed, as in `sys`.
        total: number of inputs, if it is known.
        nouns: what is counted, e.g. `sentences`.
        visible: False if it would disturb other output.
        clock: a monotonic clock, in seconds.
    """

    def __init__(
        self,
        stream: TextIO | None,
        total: int | None,
        nouns: str,
        visible: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._terminal: TextIO | None = None
        if visible and stream is not None and stream.isatty():
            self._terminal = unfiltered(stream)
        self._total = total
        self._nouns = nouns
        self._clock = clock
        self._start = clock()
        self._next = self._start + DELAY_S
        self._shown = False

    def __enter__(self) -> Counter:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def show(self, done: int) -> None:
        """Show the number of finished inputs, at most twice per second."""
        now = self._clock()
        if self._terminal is None or now < self._next:
            return
        self._next = now + INTERVAL_S
        self._shown = True
        rate = done / (now - self._start)
        of_all = "" if self._total is None else f" of {self._total:,}"
        line = f"{done:,}{of_all} {self._nouns}, {rate:,.1f} a second"
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
