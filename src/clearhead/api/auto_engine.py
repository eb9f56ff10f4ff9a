"""Which engine is the faster one, as measured."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from clearhead.ctranslate2.engine import CTranslate2Engine
from clearhead.decoding.engine import Hypothesis
from clearhead.settings import SearchConfig

if TYPE_CHECKING:
    from clearhead.decoding.torch_engine import TorchEngine
    from clearhead.model.transformer import EncoderDecoder


class Measured(NamedTuple):
    """Sentences a second of both engines by greedy search: for one model and batch."""

    d_model: int
    batch_size: int
    scores: bool
    torch: float
    ctranslate2: float


MEASUREMENTS = (
    Measured(128, 1, scores=False, torch=14.1, ctranslate2=17.7),
    Measured(128, 64, scores=False, torch=172.8, ctranslate2=190.2),
    Measured(128, 1, scores=True, torch=26, ctranslate2=63),
    Measured(128, 64, scores=True, torch=356, ctranslate2=265),
    Measured(128, 256, scores=True, torch=509, ctranslate2=285),
    Measured(512, 1, scores=False, torch=3.7, ctranslate2=5.1),
    Measured(512, 64, scores=False, torch=34.4, ctranslate2=25.7),
)
"""In float32, with two threads. Width 128 on a Xeon with AVX-512: without scores random weights and
40 tokens a sentence (benchmarks/other_machines.md), with them a trained model, before greedy search
had a loop of its own (benchmarks/README.md, "The same words in any batch"). Width 512 on an EPYC
with AVX-512, random weights and 40 tokens (benchmarks/README.md, "Beside the peers"); a Xeon had
47.1 and 39.3 in batches of 64."""

NEARBY = 2.0
"""By how many times a model may be wider, or narrower, than what was measured speaks for it."""

LOADING_S = 2.6
"""What PyTorch takes to load, in seconds: the cold start of one engine less that of the other."""


def saved_by_torch(d_model: int, batch_size: int, scores: bool) -> float:
    """The seconds a sentence that PyTorch takes less for greedy search, on a CPU in float32.

    By the measurement that is nearest, a doubling of each number being one unit of distance. Less
    than 0 where CTranslate2 is the faster one, and 0 where no model about as wide was measured.

    Args:
        d_model: the width of the model.
        batch_size: sentences at a time.
        scores: whether the scores of the outputs are wanted.
    """
    wanted = (d_model, max(1, batch_size))

    def distance(measured: Measured) -> float:
        return math.dist([math.log2(n) for n in wanted], [math.log2(n) for n in measured[:2]])

    alike = [
        measured
        for measured in MEASUREMENTS
        if measured.scores == scores and 1 / NEARBY <= d_model / measured.d_model <= NEARBY
    ]
    if not alike:
        return 0.0
    nearest = min(alike, key=distance)
    return 1 / nearest.ctranslate2 - 1 / nearest.torch


# ---- engines.auto_engine
# Takes for each search the engine that can do it and is the sooner done.


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
