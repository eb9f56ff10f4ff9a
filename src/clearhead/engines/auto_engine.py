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
    """PyTorch for the searches that CTranslate2 lacks, or is measured to be slower at.

    The former load PyTorch, where it is not yet; the latter once what it would have saved, in all
    calls together, is more than its loading takes. Only greedy search goes by speed: with a beam
    the two may find other outputs, and a sentence's must not depend on how many stand beside it.

    Args:
        fast: the CTranslate2 engine.
        make_torch: makes the PyTorch engine of the same model.
    """

    def __init__(self, fast: CTranslate2Engine, make_torch: Callable[[], TorchEngine]) -> None:
        self.fast = fast
        self._make_torch = make_torch
        self._not_saved = 0.0

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
        engine = self.torch if unable or self._pays(len(sources), search, batch_size) else self.fast
        return engine.translate(
            sources,
            search,
            prefixes=prefixes,
            keys=keys,
            batch_size=batch_size,
            progress=progress,
        )

    def _pays(self, sentences: int, search: SearchConfig, batch_size: int) -> bool:
        """Whether PyTorch saves time, its loading included if it was not needed yet."""
        if search.beam_size > 1:
            return False
        together = min(batch_size, sentences)
        width, scores = self.fast.exported.d_model, self.fast.scores
        saved = sentences * saved_by_torch(width, together, scores)
        if saved <= 0 or "torch" in self.__dict__:
            return saved > 0
        # A file comes in many calls, and nobody knows how many are to come: as many as there were.
        self._not_saved += saved
        return self._not_saved > LOADING_S
