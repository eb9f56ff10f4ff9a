"""How long an output may be, and how its length weighs on its score."""

from __future__ import annotations

import math

from clearhead.config import SearchConfig


def length_penalty(length: int, alpha: float) -> float:
    """What a log-probability is divided by: ((5 + |Y|) / 6) ** alpha.

    Wu et al. 2016, section 7, equation 14. `length` counts the end symbol. With an alpha of 0
    nothing is changed.
    """
    return ((5 + length) / 6) ** alpha


def longest_output(
    source_length: int,
    config: SearchConfig,
    prefix_length: int = 0,
    positions: int | None = None,
) -> int:
    """The most tokens that an output may have, the end symbol counted as one.

    That is `max_length_ratio * source_length + max_length_offset`, rounded up, or
    `prefix_length + max_length_offset` where a forced prefix makes that more, or `min_length` and
    the end symbol where that is more; and `max_length` at most where that is set. A prefix that is
    longer than `max_length` still stands whole, and is then the output.

    Args:
        source_length: tokens of the source.
        config: names the limits.
        prefix_length: tokens that the output must begin with.
        positions: how many a model has for its output, which nothing can exceed; None: any number.
    """
    # Without the small number 1.1 * 50 gave 56, because floats make it 55.00000000000001.
    longest = math.ceil(config.max_length_ratio * source_length + config.max_length_offset - 1e-9)
    longest = max(longest, prefix_length + config.max_length_offset)
    if config.min_length:
        longest = max(longest, config.min_length + 1)
    if config.max_length:
        longest = min(longest, config.max_length)
    longest = max(longest, prefix_length)
    return longest if positions is None else min(longest, positions)
