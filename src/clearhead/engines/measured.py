"""Which engine is the faster one, as measured."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple


class Measured(NamedTuple):
    """Target tokens a second of both engines for one model, batch and beam."""

    d_model: int
    batch_size: int
    beam_size: int
    torch: float
    ctranslate2: float


MEASUREMENTS = (
    Measured(128, 1, 1, torch=475, ctranslate2=770),
    Measured(128, 64, 1, torch=7831, ctranslate2=10142),
    Measured(128, 64, 5, torch=2057, ctranslate2=2552),
)
"""In float32, without scores, two threads, AVX-512: benchmarks/README.md, "Beside the peers"."""

WORTH_LOADING = 1.2
"""PyTorch takes seconds to load, so it has to be faster by so much: above it nowhere is."""


def faster_engine(d_model: int, batch_size: int, beam_size: int) -> Literal["torch", "ctranslate2"]:
    """The engine to take for a search on a CPU in float32, where both can do it.

    That of the measurement that is nearest, a doubling of each number being one unit of distance;
    wide models were not measured yet.

    Args:
        d_model: the width of the model.
        batch_size: sentences at a time.
        beam_size: hypotheses kept of each.
    """
    wanted = (d_model, max(1, batch_size), beam_size)

    def distance(measured: Measured) -> float:
        return math.dist([math.log2(n) for n in wanted], [math.log2(n) for n in measured[:3]])

    nearest = min(MEASUREMENTS, key=distance)
    return "torch" if nearest.torch > WORTH_LOADING * nearest.ctranslate2 else "ctranslate2"
