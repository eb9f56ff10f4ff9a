"""Clearhead on a GPU beside Hugging Face: tokens a second, and the share of the bf16 matrix rate.

    .venv/bin/python benchmarks/gpu.py
    .venv/bin/python benchmarks/gpu.py training --sizes big --length 64
    .venv/bin/python benchmarks/gpu.py --device cpu --rounds 1 --output try.jsonl   # without a GPU

Ids and weights are random, so no data are needed; steps, searches and turns are those of
`speed.py`. The share is the theoretical cost of a token, times tokens a second, divided by the rate
of large bf16 products, which is measured before and after each work at each size.

The cost counts the products of the model: (a, b) by (b, c) is 2·a·b·c operations. That is, the
products with weights and the two of each attention, as Kaplan et al. 2020 (section 2.1) and
Chowdhery et al. 2022 (appendix B) count them; no norms, softmax, dropout, optimizer, or look-up of
embeddings. All weights of an attention count, also those that a causal mask hides. Padding and
recomputation do not.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import torch
from command import exit_code_of, log, make_parser, whole
from peers.contest import BEAMS, Contest, Slice, decoding_slices, measure, training_slices
from peers.installation import find_pythons
from peers.measurements import Measurement, Row
from peers.options import add_contest_options, multiplies_bf16, possible_precisions
from peers.protocol import give_memory_back, wait_for
from peers.roster import OWN, Contender
from peers.workload import DECODED, POSITIONS, SIZES, Shape, write_random_workload
from results import Results, line, measurement_table

from clearhead.decoding.engine import PADDED_TOKENS

WORKS = ("training", "decoding")
PEERS = ("huggingface",)
CLAIM = "gpu-training-big"
WARM_STEPS = 3
"""Before each slice: in the first steps GPU memory is allocated and kernels are chosen."""

LEAST_VOCABULARY = 16
PRODUCTS = 20
"""Products between two readings of the clock, so that the time of waiting does not count."""

REPETITIONS = 9

DEFAULTS: dict[str, dict[str, Any]] = {
    "cuda": dict(
        sizes=["base", "big"],
        batch_tokens=32_768,
        vocabulary=32_000,
        steps=20,
        sentences=128,
        side=8192,
    ),
    "cpu": dict(sizes=["tiny"], batch_tokens=256, vocabulary=1000, steps=1, sentences=4, side=128),
}
"""By device. On a CPU a run takes a minute; its figures mean nothing."""


def main(words: list[str] | None = None) -> int:
    """Measure, print and record; also 0 without a GPU."""
    options = options_of(words)
    if options.device == "cuda" and not torch.cuda.is_available():
        print("skipped: PyTorch finds no GPU here (--device cpu tries the benchmark out)")
        return 0
    work = partial(compare, options, sys.argv[1:] if words is None else words)
    return exit_code_of(work, "interrupted; all peers are ended")


def options_of(words: list[str] | None) -> argparse.Namespace:
    """The options; the device decides on the defaults."""
    parser = make_parser(__doc__)
    usual = DEFAULTS["cuda"]
    add_contest_options(parser, WORKS, "of the CPU")
    parser.add_argument("--device", choices=list(DEFAULTS), default="cuda")
    parser.add_argument("--sizes", nargs="+", choices=SIZES, help="(base big)")
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=list(PEERS))
    parser.add_argument(
        "--length",
        type=whole(1, POSITIONS),
        default=32,
        help=f"tokens of a source, and of a target (32; at most {POSITIONS})",
    )
    for name, least, text in (
        ("batch-tokens", 1, "of a batch in training, on each side"),
        ("vocabulary", LEAST_VOCABULARY, "its size"),
        ("steps", 1, "of training in a slice"),
        ("sentences", 1, "decoded in a slice, at most"),
        ("side", 1, "of the matrices by which the rate is measured"),
    ):
        value = usual[name.replace("-", "_")]
        parser.add_argument(f"--{name}", type=whole(least), help=f"{text} ({value})")
    options = parser.parse_args(words)
    options.works = options.works or list(WORKS)
    for name, value in DEFAULTS[options.device].items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    if options.device == "cpu" and options.output is None:
        parser.error("--device cpu needs --output: its figures mean nothing")
    if "decoding" in options.works:
        longest = min(map(longest_whole, slices_of("decoding", options)))
        if options.length > longest:
            parser.error(
                f"--length {options.length}: in decoding at most {longest}, because clearhead's"
                " engine splits a batch of longer sentences; training alone takes more"
            )
    return options


def longest_whole(slice_: Slice) -> int:
    """The longest sentences of which clearhead's engine does not split a batch of the slice."""
    rows = min(slice_.request["count"], slice_.request["batch_size"])
    return PADDED_TOKENS // slice_.request["beam_size"] // rows


def compare(options: argparse.Namespace, words: list[str]) -> None:
    """Install, prepare, measure; records are written after each round."""
    pythons = find_pythons([OWN, *options.peers], dict(options.python), log)
    bf16 = multiplies_bf16(options.device)
    precisions = possible_precisions(options.precision, options.device, bf16)
    gpu = torch.cuda.get_device_name() if options.device == "cuda" else ""
    with TemporaryDirectory(prefix="clearhead-benchmark-") as folder:
        workload = write_random_workload(
            Path(folder), options.vocabulary, options.length, options.batch_tokens
        )
        print(
            f"{len(workload.batches[0].source)} pairs a batch of {options.length} tokens a side;"
            f" vocabulary {options.vocabulary:,}; random ids and weights; {options.rounds} rounds\n"
        )
        for work in options.works:
            for size in options.sizes:
                results = Results("gpu", words, options.output, pythons.versions, gpu)
                contest = Contest(
                    work=work,
                    size=size,
                    contenders=contenders(work, options.peers, precisions),
                    pythons=pythons.paths,
                    failures=pythons.failures,
                    folder=Path(folder),
                    rounds=options.rounds,
                    threads=options.threads,
                    limit_s=options.limit,
                    device=options.device,
                    keep=partial(record, results, options, None),
                )
                rates = rates_of(options) if bf16 else []
                measurements = measure(contest, slices_of(work, options))
                rates += rates_of(options) if bf16 else []
                record(results, options, median(rates) if rates else None, measurements)
                report(results)


def rates_of(options: argparse.Namespace) -> list[float]:
    """The matrix rate of the device, with the options' side and threads."""
    return matrix_rates(options.device, options.side, options.threads)


def contenders(work: str, peers: Sequence[str], precisions: Sequence[str]) -> list[Contender]:
    """Clearhead and its peers, each in each precision."""
    own = {"float32": "torch", "bf16": "torch bfloat16"} if work == "decoding" else {}
    return [
        Contender(name, own.get(precision, precision) if name == OWN else precision)
        for name in (OWN, *peers)
        for precision in precisions
    ]


def slices_of(work: str, options: argparse.Namespace) -> list[Slice]:
    """Training steps, or searches in batches."""
    if work == "training":
        return training_slices(options.steps, WARM_STEPS)
    return decoding_slices(options.sentences, ("b64", "beam5"))


def record(
    results: Results,
    options: argparse.Namespace,
    rate: float | None,
    measurements: Sequence[Measurement],
) -> None:
    """Write the records; the share of the matrix rate only once that is known."""
    results.records.clear()
    for measurement in measurements:
        cost = flops_of_token(measurement, options)

        def more(row: Row, cost: float = cost) -> dict[str, float]:
            found = {"TFLOP/s": row.median * cost / 1e12}
            return found if rate is None else {**found, "% of the rate": share(row, cost, rate)}

        for row in measurement.rows:
            results.add(**measurement.fields(row, more))
        own = measurement.fastest(measurement.own)
        is_claimed = (measurement.work, measurement.size) == ("training", "big")
        if is_claimed and own is not None and rate is not None:
            shares = [100 * value * cost / rate for value in own.measured]
            results.add(
                measurement.fields(own)["measure"],
                "%",
                shares,
                subject=own.contender.label,
                range="rounds",
                claim=CLAIM,
                more={"matrix rate, TFLOP/s": rate / 1e12},
            )
    results.write()


def report(results: Results) -> None:
    """Print a table for each measurement, then the claim."""
    for name in dict.fromkeys(found["measure"] for found in results.records):
        rows = [r for r in results.records if r["measure"] == name and r["claim"] is None]
        print(f"### {name}\n\n{measurement_table(rows)}\n")
    for found in results.records:
        if found["claim"] is not None:
            print(line(found))


def flops_of_token(measurement: Measurement, options: argparse.Namespace) -> float:
    """The theoretical cost of a target token, with the work on its source."""
    shape, vocabulary, length = SIZES[measurement.size], options.vocabulary, options.length
    if measurement.work == "training":
        return training_flops(shape, vocabulary, length, length) / length
    beam = BEAMS[measurement.name][2]
    return decoding_flops(shape, vocabulary, length, DECODED, beam) / DECODED


def share(row: Row, flops: float, rate: float) -> float:
    """The share of the matrix rate that a row's tokens a second need, in percent."""
    return 100 * row.median * flops / rate


def matrix_rates(device: str, side: int, threads: int) -> list[float]:
    """Floating-point operations a second of square bf16 products, in each repetition.

    The numbers are random, since with zeros a GPU draws less power and may run faster.

    Args:
        device: `cpu` or `cuda`.
        side: of the matrices.
        threads: of the CPU, as many as the contenders have.
    """
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    left, right = (torch.randn(side, side, device=device).bfloat16() for _ in range(2))
    product = torch.empty_like(left)
    rates = []
    # The first repetition warms up.
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


def training_flops(shape: Shape, vocabulary: int, source: int, target: int) -> int:
    """Operations of one training step for a pair of `source` and `target` tokens, EOS among them.

    The backward pass takes two products for each one of the forward pass: its gradient by either
    factor. So a weight costs 6 operations for each token that it multiplies.
    """
    forward = (
        encoder_flops(shape, source)
        + target * decoder_weights_flops(shape, vocabulary)
        # To the target's own places, and to the source's.
        + shape.layers * attention_flops(shape, target, target + source)
    )
    return 3 * forward


def decoding_flops(shape: Shape, vocabulary: int, source: int, steps: int, beam: int) -> int:
    """Operations of one sentence of `source` tokens, decoded by so many steps.

    The source is encoded once; the first step has one hypothesis, each later one `beam`, which
    attends to the steps so far and to the source.
    """
    total = encoder_flops(shape, source)
    for step in range(1, steps + 1):
        rows = 1 if step == 1 else beam
        total += rows * decoder_weights_flops(shape, vocabulary)
        total += shape.layers * attention_flops(shape, rows, step + source)
    return total


def encoder_flops(shape: Shape, source: int) -> int:
    """Operations of the forward pass over a source, as far as its keys and values for the decoder.

    A layer's weights: 4·d² for queries, keys, values and output, 2·d·d_ff for the feed-forward
    network, and in each layer of the decoder 2·d² for the memory's keys and values.
    """
    d = shape.d_model
    weights = shape.layers * (4 * d * d + 2 * d * shape.d_ff + 2 * d * d)
    return 2 * source * weights + shape.layers * attention_flops(shape, source, source)


def decoder_weights_flops(shape: Shape, vocabulary: int) -> int:
    """Operations of the products with weights for one target token.

    A layer's weights: 4·d² of the self-attention, 2·d² for the queries and the output of the
    attention to the memory, 2·d·d_ff; once d·vocabulary for the logits.
    """
    d = shape.d_model
    layer = 4 * d * d + 2 * d * d + 2 * d * shape.d_ff
    return 2 * (shape.layers * layer + d * vocabulary)


def attention_flops(shape: Shape, queries: int, keys: int) -> int:
    """Operations of QKᵀ and of weights times V, all heads together, in one layer."""
    return 2 * (2 * queries * keys * shape.d_model)


if __name__ == "__main__":
    sys.exit(main())
