"""How fast a device multiplies matrices of bf16 numbers: what a share of its rate refers to."""

from __future__ import annotations

import time

import torch

from .device import give_memory_back, wait_for

PRODUCTS = 20
"""Products between two looks at the clock, so that what waiting costs does not count."""

REPETITIONS = 9


def matrix_rates(device: str, side: int, threads: int) -> list[float]:
    """Floating-point operations a second of square bf16 products, in each repetition.

    The numbers are random, for with zeros a GPU draws less power and may run faster.

    Args:
        device: `cpu` or `cuda`.
        side: of the matrices.
        threads: of the CPU, as many as those have whose share of the rate is asked for.
    """
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    left, right = (torch.randn(side, side, device=device).bfloat16() for _ in range(2))
    product = torch.empty_like(left)
    rates = []
    # The first only warms up.
    for _ in range(1 + REPETITIONS):
        wait_for(device)
        began = time.perf_counter()
        for _ in range(PRODUCTS):
            torch.mm(left, right, out=product)
        wait_for(device)
        rates.append(PRODUCTS * 2 * side**3 / (time.perf_counter() - began))
    del left, right, product
    give_memory_back(device)
    return rates[1:]
