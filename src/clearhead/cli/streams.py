"""Inputs and outputs of commands: read lines, compute in blocks, write results, count them."""

from __future__ import annotations

import functools
import os
import select
import shlex
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TextIO, TypeVar, cast

from clearhead.cli.failures import INTERRUPTED, print_message, warnings_printed
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

Item = TypeVar("Item", bound="tuple[Any, ...]")
Result = TypeVar("Result")
ReportDone = Callable[[int], None]
Compute = Callable[[Sequence[Item], int, ReportDone], Sequence[Result]]


def required(file: str | None, name: str) -> str:
    """The file of an option; a `DataError` if the option was not given."""
    if file is None:
        raise DataError(f"{name} is missing", todo=f"name a file: {name} FILE")
    return file


def reject_standard_input(path: str) -> None:
    """Raise a `DataError` if sequences of features would be read from the standard input."""
    if path == STANDARD:
        raise DataError(
            "this model classifies sequences of features, which are read from a file",
            todo="name the file: --input sequences.ts",
        )


def input_lines(path: str) -> Iterator[str]:
    """The lines of a file, or of the standard input if the path is `-`; a terminal has a prompt.

    An empty file is an error, since it is probably a mistake; an empty standard input is not.
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
    """The sentences of a file: its lines, with a warning if line 1 does not look like one."""
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
    """Each text with its prefix; a `DataError` if their numbers differ."""
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


def in_blocks(
    blocks: Iterable[Sequence[Item]], compute: Compute[Item, Result], counter: Counter
) -> Iterator[tuple[Item, Result]]:
    """Each item with its result, in order; the memory does not grow with the input.

    `compute` takes a block, the number of items before it, and a function to call with the number
    of finished items of the block; `counter` shows the number of all finished items.
    """
    done = 0
    for block in blocks:
        results = compute(block, done, lambda count, before=done: counter.show(before + count))
        done += len(block)
        counter.show(done)
        yield from zip(block, results, strict=True)


@contextmanager
def shared_input(path: str) -> Iterator[Ranks]:
    """The processes, as torchrun starts them, that compute the results of one input together."""
    from clearhead.ranks import joined_ranks

    with joined_ranks() as ranks:
        if ranks.count > 1 and path == STANDARD:
            raise DataError(
                "several processes cannot share the standard input",
                todo="name a file: --input FILE",
            )
        yield ranks


def write_results(
    args: Namespace,
    ranks: Ranks,
    items: Iterable[Item],
    total: int | None,
    noun: str,
    compute: Compute[Item, Result],
    form: Callable[[int, Item, Result], str],
) -> None:
    """Compute the result of each item (see `in_blocks`) and write it.

    Items are tuples that begin with a text; `total` is their number, if it is known, and `noun`
    what one is called. `form` takes the number of the item, from 0, the item and its result, and
    returns complete lines of output.
    """

    def of_all(block: Sequence[Item], offset: int, progress: ReportDone) -> Sequence[Result]:
        part = ranks.part(block)
        before = offset + ranks.first_of(block)
        return ranks.gathered(compute(part, before, progress) if part else [])

    typed = args.input_file == STANDARD and is_typed()
    if typed:
        print_message(f"type a {noun} and press Enter; Ctrl-D ends")
    path = args.output_file if ranks.is_first else os.devnull
    # A user who types waits for each result.
    pauses = functools.partial(input_pauses, args.input_file)
    in_parts = blocks(items, 1 if typed else BLOCK_LINES, pauses)
    with opened_output(path, (args.input_file, getattr(args, "prefix_file", None))) as output:
        # In a terminal the counter would disturb the output, or what is being typed.
        visible = not typed and not (path == STANDARD and output.isatty())
        counter = Counter(sys.stderr, total, f"{noun}s", visible)
        with counter, warnings_printed(counter.clear):
            results = in_blocks(in_parts, compute if ranks.count == 1 else of_all, counter)
            try:
                for number, (item, result) in enumerate(results):
                    output.write(form(number, item, result))
            except KeyboardInterrupt:
                if not typed:
                    raise
                # The usual way to end a dialogue needs no message.
                print(file=sys.stderr)
                raise SystemExit(INTERRUPTED) from None


def translating(
    translator: Translator, search: SearchConfig, args: Namespace, on_error: str = "raise"
) -> Compute[Line, list[Hypothesis]]:
    """The function for `in_blocks` that gives the hypotheses of each line."""

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
    """The output of a command, to a file or to the standard output, with its name in messages."""

    def __init__(self, stream: BinaryIO, where: str) -> None:
        self._stream = stream
        self._where = where

    def write(self, text: str) -> None:
        """Write and flush a text, `printable` on a terminal; a lone surrogate becomes `?`."""
        with _write_errors(self._where):
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
    `name.part`. A file that is one of the inputs, or in one of them, is refused.
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
        stream = open(part, "wb", opener=None if special else not_followed)  # noqa: SIM115
    try:
        yield Output(stream, path)
        with _write_errors(path):
            stream.close()
            if not special:
                move_into_place(part, target)
    except BaseException:
        with suppress(OSError):  # the disk is full, and the buffer cannot be written
            stream.close()
        with suppress(OSError):  # the file has its name already, or the disk has failed
            if not special and part.stat().st_size:
                print_message(f"the output so far is in {part}")
            elif not special:
                part.unlink()
        raise


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

    The line appears after two seconds, and never if the stream is closed (None) or no terminal.
    """

    def __init__(
        self,
        stream: TextIO | None,
        total: int | None,
        nouns: str,
        visible: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        is_shown = visible and stream is not None and stream.isatty()
        self._terminal = unfiltered(stream) if stream is not None and is_shown else None
        self._total, self._nouns, self._clock = total, nouns, clock
        self._start = clock()
        self._next = self._start + DELAY_S
        self._shown = False

    def __enter__(self) -> Counter:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def show(self, done: int, total: int | None = None) -> None:
        """Show the number of finished inputs, at most twice per second."""
        self._total = self._total if total is None else total
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


@contextmanager
def counting(total: int, nouns: str) -> Iterator[ReportDone]:
    """Count on the standard error, for a function that is given how many are done."""
    with Counter(sys.stderr, total, nouns) as counter:
        yield counter.show
