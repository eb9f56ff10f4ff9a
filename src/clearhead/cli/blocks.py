"""Lines computed in blocks, as a stream: memory does not grow with the input."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from clearhead.cli.failures import say
from clearhead.errors import DataError

if TYPE_CHECKING:
    from clearhead.api import Translator
    from clearhead.cli.counter import Counter
    from clearhead.config import SearchConfig
    from clearhead.decoding.hypothesis import Hypothesis

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
