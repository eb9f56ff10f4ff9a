"""Takes for each search the engine that can do it and is the sooner done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from clearhead.config import SearchConfig
from clearhead.decoding.hypothesis import Hypothesis
from clearhead.engines.ctranslate2.engine import CTranslate2Engine
from clearhead.engines.measured import LOADING_S, saved_by_torch

if TYPE_CHECKING:
    from clearhead.engines.torch_engine import TorchEngine
    from clearhead.model.transformer import EncoderDecoder


class AutoEngine:
    """CTranslate2 where it can do a search and is measured to be faster, PyTorch elsewhere.

    PyTorch is loaded when it is needed for the first time.

    Args:
        fast: the CTranslate2 engine.
        make_torch: makes the PyTorch engine of the same model.
    """

    def __init__(self, fast: CTranslate2Engine, make_torch: Callable[[], TorchEngine]) -> None:
        self.fast = fast
        self._make_torch = make_torch

    @cached_property
    def torch(self) -> TorchEngine:
        """The PyTorch engine."""
        return self._make_torch()

    @property
    def model(self) -> EncoderDecoder:
        """The model, as PyTorch has it: what can be looked into."""
        return self.torch.model

    @property
    def longest_source(self) -> int | None:
        """The most tokens of a source, whichever engine takes it."""
        return self.fast.longest_source

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
        """The hypotheses of each source, in the order of the sources; see `Engine`."""
        prefix = max(map(len, prefixes or ()), default=0)
        longest = max(map(len, sources), default=0)
        unable = self.fast.refusal(search, prefix, longest) is not None
        slower = self._saved_by_torch(len(sources), search, batch_size) > 0
        engine = self.torch if unable or slower else self.fast
        return engine.translate(
            sources,
            search,
            prefixes=prefixes,
            keys=keys,
            batch_size=batch_size,
            progress=progress,
        )

    def _saved_by_torch(self, sentences: int, search: SearchConfig, batch_size: int) -> float:
        """The seconds that PyTorch saves, less what it takes to load if it was not needed yet."""
        together = min(batch_size, sentences)
        width, scores = self.fast.exported.d_model, self.fast.scores or search.n_best > 1
        saved = sentences * saved_by_torch(width, together, search.beam_size, scores)
        return saved if "torch" in self.__dict__ else saved - LOADING_S
