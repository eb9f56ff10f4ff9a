"""The seam between those who want translations and whatever computes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from clearhead.config import SearchConfig
from clearhead.decoding.hypothesis import Hypothesis


class Engine(Protocol):
    """Translates token ids; batching and its order are the engine's own business."""

    @property
    def longest_source(self) -> int | None:
        """The most tokens of a source that it can take; None: any number."""
        ...

    def translate(
        self,
        sources: Sequence[Sequence[int]],
        search: SearchConfig,
        *,
        prefixes: Sequence[Sequence[int]] | None = None,
        keys: Sequence[int] | None = None,
        batch_size: int = 64,
        progress: Callable[[int], None] | None = None,
    ) -> list[list[Hypothesis]]:
        """The hypotheses of each source, in the order of the sources.

        Args:
            sources: ids without start and end symbols; none is empty, nor longer than
                `longest_source`.
            search: how to search.
            prefixes: for each source the ids that its output must begin with.
            keys: for each source the number by which its random draws are known.
            batch_size: sentences at a time, at most.
            progress: told how many sentences are done, after each batch.

        Raises:
            SearchError: this engine lacks an option that `search` asks for, or a prefix does not
                fit.
        """
        ...
