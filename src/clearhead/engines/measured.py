"""Which engine is the faster one, as measured."""

from __future__ import annotations

import math
from typing import NamedTuple


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
