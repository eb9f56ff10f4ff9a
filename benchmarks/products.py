"""In which layout a decoder's weights should lie on a CPU: as PyTorch has them, or as oneDNN does.

    .venv/bin/python benchmarks/products.py
    .venv/bin/python benchmarks/products.py --rounds 9 --threads 2 --rows 1 64

Products of some rows with the weights of a model, by turns: in float32 with weights as (inputs,
outputs) and as oneDNN lays them out, in bfloat16 (inputs and outputs too: to convert them is not
timed) with weights as they are and as oneDNN lays them out. Of each weight there are as many copies
as do not fit a processor's second cache, since a model has many too. Prints the median microseconds
of a product; `decoding/products.py` chooses by it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial

import torch
from command import exit_code_of, positive, whole
from costs.calls import by_turns
from peers.machine import machine
from torch import Tensor
from torch.nn import functional as F

from clearhead.decoding.device import set_up_torch
from clearhead.decoding.products import (
    LayOut,
    Product,
    packed_product,
    packs,
    packs_bfloat16,
    transposed_product,
)

COPIES_MB = 6
"""Of float32 weights; at least two."""

ROWS = (1, 5, 64, 320)
"""A sentence, its beam, a batch, its beams."""

SHAPES = (
    *((128, 128), (128, 384), (128, 10_000)),
    *((256, 256), (256, 768), (1024, 256)),
    *((512, 512), (512, 2048), (2048, 512), (512, 10_000)),
)
"""Inputs and outputs of the products of models 128, 256 and 512 wide."""


def as_it_is(weight: Tensor, bias: Tensor | None) -> Product:
    """The weights as a model holds them."""
    return lambda x: F.linear(x, weight, bias)


LAYOUTS: dict[str, tuple[torch.dtype, LayOut]] = {
    "transposed": (torch.float32, transposed_product),
    "packed": (torch.float32, packed_product),
    "bf16": (torch.bfloat16, as_it_is),
    "bf16 packed": (torch.bfloat16, packed_product),
}


def possible_layouts() -> dict[str, tuple[torch.dtype, LayOut]]:
    """Those that this processor and this PyTorch have."""
    return {
        name: (dtype, lay_out)
        for name, (dtype, lay_out) in LAYOUTS.items()
        if (dtype == torch.float32 or packs_bfloat16()) and (lay_out != packed_product or packs())
    }


def main(words: list[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=positive, default=15, help="visits to each layout")
    parser.add_argument("--rows", type=positive, nargs="+", default=list(ROWS))
    parser.add_argument("--threads", type=whole(0), default=0, help="of the CPU")
    return exit_code_of(partial(report, parser.parse_args(words)))


def report(options: argparse.Namespace) -> None:
    """A line for each shape and number of rows."""
    set_up_torch("cpu", options.threads)
    print(f"{machine(torch.get_num_threads())}; medians of {options.rounds}, microseconds")
    layouts = possible_layouts()
    print(f"{'inputs':>7}{'outputs':>9}{'rows':>6}" + "".join(f"{name:>13}" for name in layouts))
    for inputs, outputs in SHAPES:
        for rows in options.rows:
            copies = max(2, COPIES_MB * 2**20 // (4 * inputs * outputs))
            calls = [products(inputs, outputs, rows, copies, *each) for each in layouts.values()]
            took = by_turns(calls, options.rounds)
            cells = "".join(f"{1e6 * seconds / copies:>13.1f}" for seconds in took)
            print(f"{inputs:>7}{outputs:>9}{rows:>6}{cells}", flush=True)


def products(
    inputs: int, outputs: int, rows: int, copies: int, dtype: torch.dtype, lay_out: LayOut
) -> Callable[[], list[Tensor]]:
    """The products of some rows with each copy of a weight, laid out."""
    x, bias = torch.randn(rows, inputs, dtype=dtype), torch.randn(outputs, dtype=dtype)
    laid_out = [lay_out(torch.randn(outputs, inputs, dtype=dtype), bias) for _ in range(copies)]

    @torch.inference_mode()
    def multiply() -> list[Tensor]:
        return [product(x) for product in laid_out]

    return multiply


if __name__ == "__main__":
    sys.exit(main())
