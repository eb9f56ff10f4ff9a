"""What a contender does when its turn comes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

WARM_STEPS = 1
MEMORY_ROUNDS = 8
"""Rounds of training that a process does whose memory is measured: each batch has its own shape,
and in bf16 a CPU keeps what it compiled for each."""

BEAMS = {"b1": (32, 1, 1), "b64": (128, 64, 1), "beam5": (64, 64, 5)}
"""Sentences of a slice, sentences of a batch, beam; a beam of 1 is greedy search."""


@dataclass(frozen=True)
class Slice:
    """A short piece of work, sent to a peer; round r begins at item r · `count`."""

    name: str
    request: Mapping[str, Any]

    def in_round(self, number: int) -> dict[str, Any]:
        """The request of a round."""
        return {**self.request, "first": number * self.request["count"]}

    def for_memory(self) -> dict[str, Any]:
        """The request by which memory is measured: of training, several rounds in one."""
        rounds = MEMORY_ROUNDS if self.request["do"] == "train" else 1
        return {**self.in_round(0), "count": rounds * self.request["count"]}


def training_slices(steps: int, warm: int = WARM_STEPS) -> list[Slice]:
    """Some training steps, after `warm` ones that are not timed."""
    return [Slice("steps", {"do": "train", "count": steps, "warm": warm})]


def decoding_slices(most: int, searches: Collection[str] = tuple(BEAMS)) -> list[Slice]:
    """Greedy one by one and in batches of 64, a beam of 5 in batches of 64, or some of these."""
    return [
        Slice(
            name,
            {
                "do": "decode",
                "count": min(count, most),
                "batch_size": batch_size,
                "beam_size": beam_size,
            },
        )
        for name, (count, batch_size, beam_size) in BEAMS.items()
        if name in searches
    ]
