"""Which form of attention a training step should take: the written-out formula or the fused kernel.

    .venv/bin/python benchmarks/attention.py
    .venv/bin/python benchmarks/attention.py --rounds 9 --threads 2 --dropout 0

Forward and backward pass of each, by turns, over as many sequences as have `TOKENS` places
together, for the heads of the sizes tiny and base, with a mask of padding and dropout. Prints the
median milliseconds of each and their ratio, and how many megabytes each remembers for the backward
pass; `model/attention.py` chooses by `SHORT`, and by whether weights are dropped.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial

import torch
from command import exit_code_of, positive, rate, whole
from costs.calls import by_turns
from peers.machine import machine
from torch import Tensor

from clearhead.decoding.device import set_up_torch
from clearhead.model.attention import Attend, explicit_attention, fused_attention
from clearhead.model.dropout import Dropout

TOKENS = 4096
LENGTHS = (16, 32, 64, 128, 256, 512, 1024)
HEADS = {"tiny": (4, 32), "base": (8, 64)}
DTYPES = (torch.float32, torch.bfloat16)
FORMS: dict[str, Attend] = {"written out": explicit_attention, "fused": fused_attention}


def main(words: list[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=positive, default=9, help="visits to each form and length")
    parser.add_argument("--lengths", type=positive, nargs="+", default=list(LENGTHS))
    parser.add_argument("--dropout", type=rate, default=0.1, help="of the weights")
    parser.add_argument("--threads", type=whole(0), default=0, help="of the CPU")
    return exit_code_of(partial(report, parser.parse_args(words)))


def report(options: argparse.Namespace) -> None:
    """A line for each size, type and length."""
    set_up_torch("cpu", options.threads)
    print(
        f"{machine(torch.get_num_threads())}; medians of {options.rounds}, milliseconds; "
        f"dropout {options.dropout:g}"
    )
    print(
        f"{'heads':>8}{'type':>10}{'length':>8}{'written out':>13}{'fused':>9}{'ratio':>7}"
        f"{'MB: written out':>18}{'fused':>8}"
    )
    for size, (heads, width) in HEADS.items():
        for dtype in DTYPES:
            for length in options.lengths:
                shape = (max(1, TOKENS // length), heads, length, width)
                both = passes(shape, dtype, Dropout(options.dropout))
                written, fused = by_turns(both, options.rounds)
                held = [remembered_mb(each) for each in both]
                print(
                    f"{size:>8}{str(dtype).removeprefix('torch.'):>10}{length:>8}"
                    f"{1000 * written:>13.2f}{1000 * fused:>9.2f}{written / fused:>7.2f}"
                    f"{held[0]:>18.1f}{held[1]:>8.1f}",
                    flush=True,
                )


def remembered_mb(both: Callable[[], object]) -> float:
    """What a forward pass holds for the backward pass, each piece of memory counted once."""
    sizes: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        sizes[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        both()
    return sum(sizes.values()) / 1e6


def passes(
    shape: tuple[int, int, int, int], dtype: torch.dtype, dropout: Dropout
) -> list[Callable[[], tuple[Tensor, ...]]]:
    """For each form a forward and a backward pass over the same inputs; it gives the gradients."""
    inputs = [torch.randn(shape, dtype=dtype, requires_grad=True) for _ in range(3)]
    lengths = torch.randint(shape[2] // 2 + 1, shape[2] + 1, (shape[0],))
    mask = (torch.arange(shape[2]) < lengths[:, None])[:, None, None]

    def both(attend: Attend) -> tuple[Tensor, ...]:
        queries, keys, values = inputs
        context = attend(queries, keys, values, mask, dropout)
        return torch.autograd.grad(context.float().square().sum(), inputs)

    return [partial(both, attend) for attend in FORMS.values()]


if __name__ == "__main__":
    sys.exit(main())
