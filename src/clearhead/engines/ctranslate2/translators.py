"""Which threads of a CPU translate what: workers for many sentences, or all for one."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

from clearhead.engines.cores import intel, processors, real_cores
from clearhead.engines.ctranslate2.folder import ExportedModel
from clearhead.engines.ctranslate2.loading import installed, loaded

if TYPE_CHECKING:
    import ctranslate2

NARROW = 256
"""The largest d_model for which many sentences are translated soonest by workers of one thread."""

SHARING = 2
"""The most threads that share the products of a sentence alone: more were not measured."""

SMALLEST_PART = 8
"""Sentences that a worker takes at a time, at least, where there are so many."""


class Translators:
    """CTranslate2's translators of one export (docs/decisions/0012); arguments as for its engine.

    On a CPU a narrow model has as many workers as threads, else one worker with all of them. A
    sentence alone would leave all workers but one idle: in float32 as many threads as have cores
    of their own, and at most `SHARING`, share its products in place of that. For this the weights
    of a narrow model, which are small, are loaded twice. On Intel's processors, where CTranslate2
    takes other libraries, threads that share a product lose by it: workers for every width there.

    Raises:
        ExportError: CTranslate2 is not installed, or cannot read the export.
        ConfigError: the device is not there, or cannot multiply such numbers.
        ClearheadError: the device failed, e.g. because its memory is full.
    """

    def __init__(
        self, exported: ExportedModel, device: str, threads: int, compute_type: str
    ) -> None:
        gpu = device == "cuda" or (device == "auto" and installed().get_cuda_device_count() > 0)
        apart = exported.d_model <= NARROW or intel()
        workers = threads or _usual_threads() if apart and not gpu else 1
        load = partial(loaded, exported, device, compute_type)
        self._many = load(workers, 1 if workers > 1 else threads)
        shares = compute_type == "float32" and not intel()
        sharing = min(workers, SHARING, real_cores()) if shares else 1
        # Not only when it is needed: then another export might have taken this one's place.
        self._alone = load(1, sharing) if sharing > 1 else self._many

    def of(self, sentences: int) -> ctranslate2.Translator:
        """That which has so many sentences translated the soonest."""
        return self._alone if sentences == 1 else self._many


def part_size(translator: ctranslate2.Translator, sentences: int) -> int:
    """How many of the sentences a worker takes at a time; 0: all of them.

    Of few sentences there are fewer parts than workers.
    """
    workers = translator.num_translators
    return 0 if workers == 1 else max(SMALLEST_PART, -(-sentences // workers))


def _usual_threads() -> int:
    """As many as CTranslate2 takes where none are asked for; no more than may run."""
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return int(asked) if asked.isdecimal() and int(asked) else min(4, processors())
