"""What PyTorch's machinery for several processes costs.

    .venv/bin/python benchmarks/ranks.py
    .venv/bin/python benchmarks/ranks.py --size tiny --rounds 20

Steps of training with and without DDP take turns, in one process: DDP copies the gradients into its
buckets and reduces them with itself, as it would with others. The ratio of the medians counts.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from functools import partial
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, cast

import torch
from command import add_threads, exit_code_of, log, make_parser, positive
from growth import TOKENS, Training, random_batch
from results import Results, print_results
from torch import distributed

from clearhead.device import set_up_torch
from clearhead.ranks import Ranks
from clearhead.settings import ModelConfig
from clearhead.settings.model import SIZES

LENGTH = 32


class Exchanging(Ranks):
    """One process that exchanges its sums with itself."""

    def total(self, values: Sequence[float]) -> list[float]:
        """The sums of one process, through the collective."""
        sums = torch.tensor(values, dtype=torch.float64)
        distributed.all_reduce(sums)
        return sums.tolist()


def main(words: list[str] | None = None) -> int:
    """Measure, print and record."""
    parser = make_parser(__doc__)
    parser.add_argument("--size", choices=tuple(SIZES), default="base")
    parser.add_argument("--rounds", type=positive, default=15)
    parser.add_argument("--precision", choices=("float32", "bf16", "auto"), default="float32")
    add_threads(parser)
    options = parser.parse_args(words)
    return exit_code_of(partial(measure, options, Results("ranks", words, options.output)))


def measure(options: argparse.Namespace, results: Results) -> None:
    """Time the steps by turns."""
    device = set_up_torch("cpu", options.threads)
    model = ModelConfig(**cast(Any, SIZES[options.size]))
    alone, together = (Training(model, options.precision, device) for _ in range(2))
    with TemporaryDirectory() as folder:
        method = f"file://{folder}/store"
        distributed.init_process_group("gloo", init_method=method, rank=0, world_size=1)
    together.updater.ranks = Exchanging()
    together.updater._connected = torch.nn.parallel.DistributedDataParallel(
        together.updater._loss,
        gradient_as_bucket_view=True,
    )
    batch = random_batch(TOKENS // LENGTH, LENGTH)
    seconds: dict[str, list[float]] = {"alone": [], "together": []}
    for number in range(options.rounds + 1):
        for name, training in (("alone", alone), ("together", together)):
            began = time.perf_counter()
            training.step(batch)
            if number:  # the first step allocates memory
                seconds[name].append(time.perf_counter() - began)
    distributed.destroy_process_group()
    for name, times in seconds.items():
        log(f"{name}: {median(times):.3f} s")
    ratios = [b / a for a, b in zip(*seconds.values(), strict=True)]
    results.add(
        "a training step with DDP in one process, time compared with one without",
        "ratio",
        ratios,
        subject=options.size.upper(),
        claim="ddp-overhead" if options.size == "base" else None,
        more={"seconds without": round(median(seconds["alone"]), 3), "rounds": options.rounds},
    )
    print_results(results.records)
    results.write()


if __name__ == "__main__":
    sys.exit(main())
