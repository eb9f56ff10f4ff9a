"""What PyTorch's machinery for several processes costs.

    .venv/bin/python benchmarks/ranks.py
    .venv/bin/python benchmarks/ranks.py --size tiny --rounds 20
    .venv/bin/python benchmarks/ranks.py --device cuda --precision bf16 --tokens 32768 --size big

Steps of training without the machinery, with DDP and with FSDP take turns, in one process, which
exchanges with itself what it would exchange with others. The ratio of the medians counts.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from functools import partial
from statistics import median
from typing import Any, cast

import torch
from command import add_threads, exit_code_of, log, make_parser, positive
from growth import TOKENS, Training, random_batch
from results import Results, print_results
from torch import distributed

from clearhead.device import set_up_torch
from clearhead.ranks import BACKEND_WITH_GPU, Ranks
from clearhead.settings import ModelConfig
from clearhead.settings.model import SIZES

LENGTH = 32
ENGINES = ("ddp", "fsdp")


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
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=["ddp"])
    parser.add_argument("--tokens", type=positive, default=TOKENS, help="of a batch, on each side")
    parser.add_argument("--rounds", type=positive, default=15)
    parser.add_argument("--precision", choices=("float32", "bf16", "auto"), default="float32")
    add_threads(parser)
    options = parser.parse_args(words)
    if options.device == "cuda" and not torch.cuda.is_available():
        print("skipped: PyTorch finds no GPU")
        return 0
    gpu = torch.cuda.get_device_name() if options.device == "cuda" else ""
    results = Results("ranks", words, options.output, gpu=gpu)
    return exit_code_of(partial(measure, options, results))


def measure(options: argparse.Namespace, results: Results) -> None:
    """Time the steps by turns."""
    device = set_up_torch(options.device, options.threads)
    model = ModelConfig(**cast(Any, SIZES[options.size]))
    backend = BACKEND_WITH_GPU if device.type == "cuda" else "gloo"
    store = distributed.HashStore()  # pyright: ignore[reportPrivateImportUsage]
    distributed.init_process_group(backend, store=store, rank=0, world_size=1)
    alone = Training(model, options.precision, device)
    trainings = {"alone": alone} | {
        engine: Training(model, options.precision, device, Exchanging(), engine)
        for engine in options.engines
    }
    batch = random_batch(options.tokens // LENGTH, LENGTH)
    seconds: dict[str, list[float]] = {name: [] for name in trainings}
    for number in range(options.rounds + 1):
        for name, training in trainings.items():
            began = time.perf_counter()
            training.step(batch)
            if number:  # the first step allocates memory
                seconds[name].append(time.perf_counter() - began)
    distributed.destroy_process_group()
    for name, times in seconds.items():
        log(f"{name}: {median(times):.4f} s")
    for engine in options.engines:
        gpu = options.device == "cuda"
        is_claimed = (engine, options.size, options.device) == ("ddp", "base", "cpu")
        results.add(
            f"a training step with {engine.upper()} in one process, time compared with one without",
            "ratio",
            [b / a for a, b in zip(seconds["alone"], seconds[engine], strict=True)],
            subject=options.size.upper() + (f", {options.precision}" if gpu else ""),
            claim="ddp-overhead" if is_claimed else None,
            more={
                "seconds without": round(median(seconds["alone"]), 4),
                "rounds": options.rounds,
                "tokens": options.tokens,
            },
        )
    print_results(results.records)
    results.write()


if __name__ == "__main__":
    sys.exit(main())
