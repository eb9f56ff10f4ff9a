"""How the cost of training and of decoding grows: with length, batch and beam.

    .venv/bin/python benchmarks/growth.py
    .venv/bin/python benchmarks/growth.py training --size base --json growth.json
    .venv/bin/python benchmarks/growth.py all --figure growth.png

The ids and the weights are random, but a step is the trainer's and a translation the engine's
own. Each round visits every point once, so that a slow moment of the machine hits all of them,
and what counts is the median of the rounds. Printed are the points of each curve, then two fits:
the exponent p of cost = c · n^p, and the a and b of cost = a + b · n. The second is what theory
has: each batch costs something whatever it holds, and beyond that it costs in proportion.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial

import torch
from command import exit_code_of, new_file, positive, whole, write_json
from costs.curves import chosen_curves
from costs.figure import draw
from costs.report import as_json, report
from costs.turns import measure
from costs.work import VOCABULARY
from peers.machine import machine

from clearhead.decoding.device import set_up_torch
from clearhead.settings import ModelConfig
from clearhead.training.step import choose_precision


def main(words: list[str] | None = None) -> int:
    """Measure, print, and write what is asked for."""
    return exit_code_of(partial(grow, make_parser().parse_args(words)))


def make_parser() -> argparse.ArgumentParser:
    """The options of the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    choices = ("training", "beam", "batch", "length", "all")
    parser.add_argument("what", nargs="?", choices=choices, default="all", help="which curves")
    parser.add_argument("--size", choices=("tiny", "base"), default="tiny", help="of the model")
    parser.add_argument("--rounds", type=positive, default=5, help="visits to each point")
    parser.add_argument("--precision", choices=("float32", "bf16", "auto"), default="float32")
    parser.add_argument("--device", default="cpu", help="cpu, cuda or auto")
    parser.add_argument("--threads", type=whole(0), default=0, help="of the CPU")
    json = new_file()
    parser.add_argument("--json", type=json, metavar="FILE", help="write all that was measured")
    figure = new_file(".png", ".svg", ".pdf")
    parser.add_argument("--figure", type=figure, metavar="FILE.png", help="draw the curves")
    return parser


def grow(options: argparse.Namespace) -> None:
    """Measure the curves; print them, and write what is asked for."""
    device = set_up_torch(options.device, options.threads)
    model = ModelConfig.of_size(options.size)
    curves = chosen_curves(options.what, model, options.precision, device)
    measure(curves, options.rounds)
    precision = choose_precision(options.precision, device)
    gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else ""
    facts = {
        **{"size": options.size, "rounds": options.rounds, "vocabulary": VOCABULARY},
        **{"training_precision": precision, "machine": machine(torch.get_num_threads(), gpu)},
    }
    print(
        f"{options.size}, {VOCABULARY:,} tokens in the vocabulary, training in {precision}, "
        f"decoding in float32; {options.rounds} rounds; {facts['machine']}\n"
    )
    print(report(curves))
    if options.json:
        write_json(options.json, as_json(curves, facts))
    if options.figure:
        draw(curves, options.figure, f"How cost grows: {options.size}\n{facts['machine']}")


if __name__ == "__main__":
    sys.exit(main())
