"""Everything random is a function of (seed, epoch, step), so that resuming is arithmetic."""


def step_seed(seed: int, step: int) -> int:
    """A seed of its own for each step; neighbouring steps share no part of their streams."""
    return (seed * 1_000_003 + step) * 0x9E3779B97F4A7C15 % 2**63
