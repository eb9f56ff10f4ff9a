"""Speed of clearhead and Hugging Face on a GPU, and the share of the GPU's bf16 matrix rate.

    .venv/bin/python benchmarks/gpu.py
    .venv/bin/python benchmarks/gpu.py training --sizes big --length 64

Ids and weights are random, so no data are needed. Steps, searches and turns are those of
`speed.py`. The share is the theoretical cost of a token, times tokens per second, divided by the
rate of large bf16 products, which is measured before and after each work at each size.

The cost counts the matrix products of the model: (a, b) by (b, c) is 2·a·b·c operations. These are
the products with weights and the two of each attention, as in Kaplan et al. 2020 (section 2.1) and
Chowdhery et al. 2022 (appendix B), without norms, softmax, dropout, optimizer and embeddings. All
weights of an attention count, also those that a causal mask hides. Padding and recomputation do
not count.

With `--device cpu` and small options the script can be tested without a GPU.
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

import torch
from command import exit_code_of, log, make_parser, whole
from peers.contest import BEAMS, Contest, decoding_slices, measure, training_slices
from peers.installation import find_pythons
from peers.measurements import Measurement, Row
from peers.options import add_contest_options, possible_precisions
from peers.protocol import COMPILED, give_memory_back, wait_for
from peers.roster import OWN, Contender
from peers.workload import DECODED, POSITIONS, SIZES, Shape, write_random_workload
from results import Results, print_results

from clearhead.device import multiplies_bf16

WORKS = ("training", "decoding")
PEERS = ("huggingface",)
CLAIM = "gpu-training-big"
WARM_STEPS = 3  # before each slice, because at first memory is allocated and kernels are chosen
PRODUCTS = 20  # between two readings of the clock, so that the time of waiting does not count
REPETITIONS = 9


def main(words: list[str] | None = None) -> int:
    """Measure, print and record."""
    parser = make_parser(__doc__)
    add_contest_options(parser, WORKS)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=["base", "big"])
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=list(PEERS))
    for name, default, least, most, text in (
        ("length", 32, 1, POSITIONS, "tokens of a source, and of a target"),
        ("batch-tokens", 32_768, 1, sys.maxsize, "tokens of a training batch on each side"),
        ("vocabulary", 32_000, 16, sys.maxsize, "tokens of the vocabulary"),
        ("steps", 20, 1, sys.maxsize, "training steps per slice"),
        ("sentences", 128, 1, sys.maxsize, "most sentences per slice"),
        ("side", 8192, 1, sys.maxsize, "side of the matrices that the rate is measured with"),
    ):
        kind, text = whole(least, most), f"{text} (default: {default})"
        parser.add_argument(f"--{name}", type=kind, default=default, help=text)
    options = parser.parse_args(words)
    if options.device == "cpu" and options.output is None:
        parser.error("--device cpu requires --output, because its figures are not results")
    if options.device == "cuda" and not torch.cuda.is_available():
        print("skipped: PyTorch finds no GPU")
        return 0
    return exit_code_of(partial(compare, options, words))


def compare(options: argparse.Namespace, words: list[str] | None) -> None:
    """Install, prepare, measure; records are written after each round."""
    pythons = find_pythons([OWN, *options.peers], dict(options.python), log)
    bf16 = multiplies_bf16(torch.device(options.device))
    precisions = possible_precisions(options.precision, options.device, bf16)
    gpu = torch.cuda.get_device_name() if options.device == "cuda" else ""

    def rates() -> list[float]:
        return matrix_rates(options.device, options.side, options.threads) if bf16 else []

    with TemporaryDirectory(prefix="clearhead-benchmark-") as folder:
        workload = write_random_workload(
            Path(folder), options.vocabulary, options.length, options.batch_tokens
        )
        print(
            f"{len(workload.batches[0].source)} pairs per batch, {options.length} tokens per side;"
            f" vocabulary {options.vocabulary:,}; random ids and weights; {options.rounds} rounds\n"
        )
        for work in [options.work] if options.work else WORKS:
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
                if work == "training":
                    slices = training_slices(options.steps, WARM_STEPS)
                else:
                    slices = decoding_slices(options.sentences, ("b64", "beam5"))
                before = rates()
                measurements = measure(contest, slices)
                found = [*before, *rates()]
                record(results, options, median(found) if found else None, measurements)
                print_results(results.records)


def contenders(work: str, peers: Sequence[str], precisions: Sequence[str]) -> list[Contender]:
    """Clearhead and its peers, each in each precision; training in bf16 also compiled."""
    own = {"float32": "torch", "bf16": "torch bfloat16"} if work == "decoding" else {}
    kinds = [*precisions]
    if work == "training" and "bf16" in precisions:
        kinds.append(COMPILED)
    return [
        Contender(name, own.get(kind, kind) if name == OWN else kind)
        for name in (OWN, *peers)
        for kind in kinds
    ]


def record(
    results: Results,
    options: argparse.Namespace,
    rate: float | None,
    measurements: Sequence[Measurement],
) -> None:
    """Write the records, with the share of the matrix rate if that is known."""
    results.records.clear()
    for measurement in measurements:
        cost = flops_of_token(measurement, options)

        def more(row: Row, cost: float = cost) -> dict[str, float]:
            found = {"TFLOP/s": row.median * cost / 1e12}
            return found | ({"% of the rate": 100 * row.median * cost / rate} if rate else {})

        for row in measurement.rows:
            results.add(measurement.title, **measurement.fields(row, more))
        own = measurement.fastest(measurement.own)
        is_claimed = (measurement.work, measurement.size) == ("training", "big")
        if is_claimed and own is not None and rate is not None:
            results.add(
                measurement.title,
                "%",
                [100 * value * cost / rate for value in own.measured],
                subject=own.contender.label,
                range="rounds",
                claim=CLAIM,
                more={"matrix rate, TFLOP/s": rate / 1e12},
            )
    results.write()


def flops_of_token(measurement: Measurement, options: argparse.Namespace) -> float:
    """The theoretical cost of a target token, including the work on its source."""
    shape, vocabulary, length = SIZES[measurement.size], options.vocabulary, options.length
    if measurement.work == "training":
        return training_flops(shape, vocabulary, length, length) / length
    beam = BEAMS[measurement.name][2]
    return decoding_flops(shape, vocabulary, length, DECODED, beam) / DECODED


def matrix_rates(device: str, side: int, threads: int) -> list[float]:
    """Floating-point operations per second of square bf16 products, in each repetition.

    The numbers are random, because a GPU draws less power for zeros and may run faster.
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
    """Operations of one training step for a pair of `source` and `target` tokens, EOS included.

    The backward pass has two products for each product of the forward pass: the gradients of both
    factors. So a weight costs 6 operations for each token that it multiplies.
    """
    forward = (
        encoder_flops(shape, source)
        + target * decoder_weights_flops(shape, vocabulary)
        # Attention to the target's own positions and to the source's.
        + shape.layers * attention_flops(shape, target, target + source)
    )
    return 3 * forward


def decoding_flops(shape: Shape, vocabulary: int, source: int, steps: int, beam: int) -> int:
    """Operations of decoding one sentence of `source` tokens in so many steps.

    The source is encoded once. The first step has one hypothesis, each later step has `beam`
    hypotheses, which attend to the steps so far and to the source.
    """
    total = encoder_flops(shape, source)
    for step in range(1, steps + 1):
        rows = 1 if step == 1 else beam
        total += rows * decoder_weights_flops(shape, vocabulary)
        total += shape.layers * attention_flops(shape, rows, step + source)
    return total


def encoder_flops(shape: Shape, source: int) -> int:
    """Operations of the forward pass over a source, with its keys and values for the decoder.

    Weights: 4·d² for queries, keys, values and output and 2·d·d_ff for the feed-forward network of
    each layer, and 2·d² for the keys and values of the memory in each layer of the decoder.
    """
    d = shape.d_model
    weights = shape.layers * (4 * d * d + 2 * d * shape.d_ff + 2 * d * d)
    return 2 * source * weights + shape.layers * attention_flops(shape, source, source)


def decoder_weights_flops(shape: Shape, vocabulary: int) -> int:
    """Operations of the products with weights for one target token.

    Weights: 4·d² for self-attention, 2·d² for queries and output of the attention to the memory and
    2·d·d_ff for the feed-forward network of each layer; d·vocabulary for the logits.
    """
    d = shape.d_model
    layer = 4 * d * d + 2 * d * d + 2 * d * shape.d_ff
    return 2 * (shape.layers * layer + d * vocabulary)


def attention_flops(shape: Shape, queries: int, keys: int) -> int:
    """Operations of QKᵀ and of weights times V, all heads together, in one layer."""
    return 2 * (2 * queries * keys * shape.d_model)


if __name__ == "__main__":
    sys.exit(main())
