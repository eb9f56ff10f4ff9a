"""Which engine is the faster one, as measured."""

from __future__ import annotations

from typing import Literal


def faster_engine(d_model: int, batch_size: int, beam_size: int) -> Literal["torch", "ctranslate2"]:
    """The engine to take for a search on a CPU in float32, where both can do it.

    Not measured yet for each size: CTranslate2 counts as the faster one everywhere.

    Args:
        d_model: the width of the model.
        batch_size: sentences at a time.
        beam_size: hypotheses kept of each.
    """
    return "ctranslate2"
