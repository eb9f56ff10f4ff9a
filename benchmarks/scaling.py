"""Memory, traffic and time of training in several processes, beside what a model says of them.

    .venv/bin/python benchmarks/scaling.py
    .venv/bin/python benchmarks/scaling.py --size small --batches 2 --mbit 1000
    .venv/bin/python benchmarks/scaling.py --plan --size big --rate 185000 --network 25 200

Each process has one thread, random ids and random weights, and makes the steps of the trainer. The
model (`Plan`) needs three figures: what a batch takes in memory and in time, and the bandwidth. A
process that trains alone gives the first. As many such processes at once as are to be connected
give the second: they share the cores and the memory. A large sum over the processes gives the
third. The rest is predicted, and each record has the ratio of the measured to the predicted figure.

By default the processes exchange data over the loopback interface, whose counters include the
traffic of other programs. With `--mbit` each process is a host of its own: a network namespace
behind an interface with that bandwidth. That needs root and Linux.

`--plan` measures nothing. It prints what the model says of larger runs, for an assumed speed of a
GPU and assumed bandwidths, and what `corpus_scale.py` has measured, scaled up to `--pairs`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import mean, median
from typing import Any

import torch
from command import exit_code_of, log, make_parser, positive
from growth import VOCABULARY, Training, random_batch
from results import FOLDER, Results, print_results, read_records, table
from torch import distributed

from clearhead.device import keep_freed_memory, set_up_torch
from clearhead.errors import ClearheadError
from clearhead.model.build import build_model
from clearhead.ranks import joined_ranks
from clearhead.settings import ModelConfig
from clearhead.settings.model import SIZES

LENGTH = 32
ENGINES = ("ddp", "fsdp")
PORT = 29_517
SUMS = 100  # small sums over all processes, whose median time is the latency
LARGE_SUMS = 5
PRIVATE = "clearhead-scaling"  # the first part of the names of network namespaces
MALLOC = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
"""Makes the C library return freed memory, so that the memory of a process is that of its tensors.
"""


@dataclass(frozen=True)
class Plan:
    """The model: what a process of a run keeps, sends and waits for.

    All weights are float32. "Copy" is the size of all weights, 4 bytes each.

    Attributes:
        weights: of the model.
        root: those of them outside of the layers: the embeddings, the output, the last norms.
        layer: those of the largest layer.
        engine: `ddp` or `fsdp`.
        processes: their number.
        batches: of a process in a step.
        activations: bytes that a batch adds at the peak.
        seconds: that a batch takes to compute.
        bandwidth: bytes a second that a process sends while the others send too.
        latency: seconds of a small sum over all processes.
        gloo: whether gloo exchanges, which scatters sums by summing everything.
    """

    weights: int
    root: int
    layer: int
    engine: str
    processes: int
    batches: int = 1
    activations: float = 0.0
    seconds: float = 0.0
    bandwidth: float = float("inf")
    latency: float = 0.0
    gloo: bool = False

    @property
    def copy(self) -> float:
        """Bytes of a copy of the weights, or of this process's part with FSDP."""
        return 4 * self.weights / (self.processes if self.engine == "fsdp" else 1)

    @property
    def resting(self) -> float:
        """Bytes between two steps: weights, two moments, and the buckets of DDP's gradients."""
        return (4 if self.engine == "ddp" and self.processes > 1 else 3) * self.copy

    @property
    def peak(self) -> float:
        """Bytes at the peak of a step.

        Gradients of earlier batches are a further copy. FSDP gathers the root and two layers.
        """
        held = self.resting + (self.copy if self.batches > 1 else 0)
        if self.engine == "fsdp":
            held += 4 * (self.root + 2 * self.layer)
        # At the end of the backward pass the gradients have replaced the activations.
        new = self.resting == 3 * self.copy and self.batches == 1
        return held + max(self.activations, self.copy if new else 0)

    @property
    def traffic(self) -> float:
        """Bytes that a process sends in a step.

        A sum of n bytes over N processes in a ring is 2n(N - 1)/N for each, and gathering or
        scattering is half of that. DDP sums the gradients once. For each batch, FSDP gathers the
        weights, gathers the layers again for the backward pass, and scatters the gradients.
        """
        share = (self.processes - 1) / self.processes
        if self.engine == "ddp":
            return 2 * share * 4 * self.weights
        scattered = (2 if self.gloo else 1) * self.weights
        return self.batches * share * 4 * (2 * self.weights - self.root + scattered)

    @property
    def computing(self) -> float:
        """Seconds of a step without the other processes."""
        return self.batches * self.seconds

    @property
    def exchange(self) -> float:
        """Seconds that the data of a step are on the way, small sums included."""
        small = {"ddp": 2, "fsdp": 3}[self.engine] * self.latency
        return self.traffic / self.bandwidth + (small if self.processes > 1 else 0)

    @property
    def slowest(self) -> float:
        """Seconds of a step if nothing is exchanged while something is computed."""
        return self.computing + self.exchange

    @property
    def fastest(self) -> float:
        """Seconds of a step if all that can be is exchanged during the computation.

        That is the backward pass of DDP's last batch, two thirds of its time, and all of FSDP's.
        """
        hidden = 2 / 3 * self.seconds if self.engine == "ddp" else self.computing
        return self.computing + max(0.0, self.exchange - hidden)


def plan_of(size: str, vocabulary: int, engine: str, processes: int, **fields: Any) -> Plan:
    """The plan of a translator of this size."""
    with torch.device("meta"):
        model = build_model(ModelConfig.of_size(size), vocabulary, vocabulary)
    stacks = [part for name, part in model.named_modules() if name.endswith(".layers")]
    layers = [sum(p.numel() for p in layer.parameters()) for s in stacks for layer in s.children()]
    weights = sum(p.numel() for p in model.parameters())
    return Plan(weights, weights - sum(layers), max(layers), engine, processes, **fields)


def main(words: list[str] | None = None) -> int:
    """Measure, print and record; or be one of the processes."""
    parser = make_parser(__doc__)
    parser.add_argument("--size", choices=tuple(SIZES), default="base", help="default: base")
    parser.add_argument(
        "--processes", type=positive, nargs="+", default=[], help="default: 2 4, with --plan 8 64"
    )
    parser.add_argument("--engines", choices=ENGINES, nargs="+", default=list(ENGINES))
    parser.add_argument("--tokens", type=positive, default=512, help="of a batch (default: 512)")
    parser.add_argument("--batches", type=positive, default=1, help="of a process in a step")
    parser.add_argument("--rounds", type=positive, default=5, help="timed steps (default: 5)")
    parser.add_argument("--mbit", type=positive, help="Mbit/s of each process (default: loopback)")
    parser.add_argument("--process", help=argparse.SUPPRESS)
    parser.add_argument("--plan", action="store_true", help="print the costs of larger runs")
    group = parser.add_argument_group("assumptions of --plan")
    for name, default, text in (
        ("rate", 400_000, "target tokens a second that one process trains on"),
        ("batch-tokens", 32_768, "target tokens of a batch"),
        ("vocabulary", 32_000, "tokens of the vocabulary"),
        ("pairs", 1_000_000_000, "sentence pairs"),
    ):
        text = f"{text} (default: {default:,})"
        group.add_argument(f"--{name}", type=positive, default=default, help=text)
    group.add_argument("--network", type=positive, nargs="+", default=[10, 100, 400], help="Gbit/s")
    options = parser.parse_args(words)
    if options.process:
        work(json.loads(options.process))
        return 0
    if options.plan:
        return exit_code_of(partial(print_plan, options))
    return exit_code_of(partial(check, options, Results("scaling", words, options.output)))


def check(options: argparse.Namespace, results: Results) -> None:
    """Measure each number of processes, with each engine."""
    job = {name: getattr(options, name) for name in ("size", "tokens", "batches", "rounds")}
    alone = run(job, 1, options.mbit)[0]
    for count in options.processes or (2, 4):
        apart = run(job, count, options.mbit, together=False)
        for engine in options.engines:
            log(f"{count} processes, {engine}")
            found = run({**job, "engine": engine}, count, options.mbit)
            plan = plan_of(options.size, VOCABULARY, engine, count)
            held = 4 * plan.weights if options.batches > 1 else 0
            plan = replace(
                plan,
                batches=options.batches,
                activations=alone["peak"] - alone["resting"] - held,
                seconds=mean(each["seconds"] for each in apart) / options.batches,
                bandwidth=mean(each["bandwidth"] for each in found),
                latency=mean(each["latency"] for each in found),
                gloo=True,
            )
            record(options, results, plan, alone, found)
    print_results(results.records)
    results.write()


def record(
    options: argparse.Namespace,
    results: Results,
    plan: Plan,
    alone: dict[str, float],
    found: Sequence[dict[str, float]],
) -> None:
    """Compare the figures of the processes with the plan."""
    loaded = alone["resting"] - 3 * 4 * plan.weights  # by libraries
    network = f", {options.mbit:,} Mbit/s" if options.mbit else ""
    subject = f"{options.size.upper()}, {plan.processes} × {plan.engine.upper()}, " + (
        f"{plan.batches} × {options.tokens} tokens{network}"
    )
    for measure, unit, scale, name, predicted in (
        ("memory between two steps", "MB", 1e6, "resting", plan.resting + loaded),
        ("memory at the peak of a step", "MB", 1e6, "peak", plan.peak + loaded),
        ("data that a process sends in a step", "MB", 1e6, "sent", plan.traffic),
        ("a step", "s", 1.0, "seconds", plan.slowest),
    ):
        values = [each[name] / scale for each in found]
        more = {"model": predicted / scale, "measured : model": mean(values) / predicted * scale}
        if name == "seconds":
            more |= {"computing": plan.computing, "exchange": plan.exchange}
            more |= {"model, overlapped": plan.fastest, "Mbit/s": plan.bandwidth * 8e-6}
            more |= {"latency, ms": plan.latency * 1e3}
        results.add(measure, unit, values, subject=subject, range="processes", more=more)


def run(
    job: dict[str, Any], count: int, mbit: int | None, together: bool = True
) -> list[dict[str, float]]:
    """What `work` finds in so many processes, which exchange data or only run at the same time."""
    with hosts(count, mbit) as (prefixes, address, interface):
        processes = []
        for number, prefix in enumerate(prefixes):
            env = {**os.environ, **MALLOC, "GLOO_SOCKET_IFNAME": interface}
            env |= {"MASTER_ADDR": address, "MASTER_PORT": str(PORT)}
            env |= {"RANK": str(number), "WORLD_SIZE": str(count if together else 1)}
            sharing = 1 if mbit else count  # of the interface's counter
            words = json.dumps({"engine": "ddp", **job, "interface": interface, "sharing": sharing})
            command = [*prefix, sys.executable, __file__, "--process", words]
            processes.append(subprocess.Popen(command, env=env, stdout=subprocess.PIPE))
        outputs = [process.communicate()[0] for process in processes]
    if any(process.returncode for process in processes):
        raise ClearheadError(f"one of {count} processes has failed")
    return [json.loads(output) for output in outputs]


@contextmanager
def hosts(count: int, mbit: int | None) -> Iterator[tuple[list[list[str]], str, str]]:
    """Hosts for processes: the start of their commands, the first one's address, the interface."""
    if mbit is None:
        yield [[]] * count, "127.0.0.1", "lo"
        return
    hub, names = f"{PRIVATE}-hub", [f"{PRIVATE}-{number}" for number in range(count)]
    _remove(hub, *names)  # left by a benchmark that was killed
    try:
        _ip(f"netns add {hub}", f"-n {hub} link add name joint type bridge")
        _ip(f"-n {hub} link set joint up")
        for number, name in enumerate(names):
            port = f"port{number}"
            _ip(f"netns add {name}", f"-n {name} link set lo up")
            _ip(f"-n {hub} link add {port} type veth peer name net netns {name}")
            _ip(f"-n {hub} link set {port} master joint up")
            _ip(f"-n {name} addr add 10.77.0.{number + 1}/24 dev net")
            _ip(f"-n {name} link set net up")
            limit = f"tc -n {name} qdisc add dev net root tbf rate {mbit}mbit burst 256kb"
            subprocess.run([*limit.split(), "latency", "100ms"], check=True)
        prefixes = [["ip", "netns", "exec", name] for name in names]
        yield prefixes, "10.77.0.1", "net"
    finally:
        _remove(hub, *names)


def _ip(*commands: str) -> None:
    for command in commands:
        subprocess.run(["ip", *command.split()], check=True)


def _remove(*names: str) -> None:
    for name in names:
        subprocess.run(["ip", "netns", "del", name], check=False, stderr=subprocess.DEVNULL)


def work(job: dict[str, Any]) -> None:
    """Train as one of the processes, and print what it takes."""
    device = set_up_torch("cpu", 1)
    with joined_ranks() as ranks:
        before = memory("VmRSS")
        model = ModelConfig.of_size(job["size"])
        training = Training(model, "float32", device, ranks, job["engine"])
        batches = [random_batch(job["tokens"] // LENGTH, LENGTH) for _ in range(job["batches"])]
        for _ in range(2):  # DDP makes its last buckets in the second step
            training.step(*batches)
        found = {"resting": memory("VmRSS") - before}
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # forget the peak
        training.step(*batches)
        found["peak"] = memory("VmHWM") - before

        keep_freed_memory()
        training.step(*batches)
        seconds, sent = [], []
        for _ in range(job["rounds"]):
            ranks.wait()
            sent_before, began = sent_bytes(job["interface"]), time.perf_counter()
            training.step(*batches)
            seconds.append(time.perf_counter() - began)
            ranks.wait()
            sent.append((sent_bytes(job["interface"]) - sent_before) / job["sharing"])
        found |= {"seconds": median(seconds), "sent": median(sent)}
        if ranks.count > 1:
            found["latency"] = median(timed(ranks.wait) for _ in range(SUMS))
            large = torch.zeros(sum(p.numel() for p in training.model.parameters()))
            sum_up = partial(distributed.all_reduce, large)
            took = median(timed(sum_up) for _ in range(LARGE_SUMS))
            share = (ranks.count - 1) / ranks.count
            found["bandwidth"] = 2 * share * large.nbytes / took
    print(json.dumps(found))


def memory(key: str) -> float:
    """Bytes of this process: `VmRSS` now, `VmHWM` at the peak."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return 1024 * float(status.partition(f"{key}:")[2].split()[0])


def sent_bytes(interface: str) -> int:
    """Bytes that an interface has sent."""
    lines = Path("/proc/self/net/dev").read_text(encoding="ascii").splitlines()
    numbers = next(line for line in lines if line.strip().startswith(f"{interface}:"))
    return int(numbers.partition(":")[2].split()[8])


def timed(call: Callable[[], object]) -> float:
    """The seconds of a call."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def print_plan(options: argparse.Namespace) -> None:
    """Print the costs of steps and of data in larger runs, each process with one batch a step."""
    records = read_records(FOLDER / "corpus_scale.jsonl")
    measured = max(
        (r for r in records if r["unit"] == "pairs/s" and "s to open" in (r["more"] or {})),
        key=lambda r: int(r["subject"].replace(",", "")),
    )
    data, times = measured["more"], options.pairs / int(measured["subject"].replace(",", ""))
    # A corpus has two bytes for each token and eight for each sentence; targets end with EOS.
    target_tokens = (data["bytes a pair"] - 2 * 8) / 2 / 2 + 1
    epoch_tokens = options.pairs * target_tokens
    seconds = options.batch_tokens / options.rate
    rows = []
    for engine in options.engines:
        for count in options.processes or (8, 64):
            plan = plan_of(options.size, options.vocabulary, engine, count, seconds=seconds)
            plans = [replace(plan, bandwidth=gbit * 1e9 / 8) for gbit in options.network]
            steps = epoch_tokens / options.batch_tokens / count
            rows.append(
                [
                    f"{count} × {engine.upper()}",
                    f"{plan.peak / 1e9:.2f}",
                    f"{plan.traffic / 1e9:.2f}",
                    *(f"{1000 * plan.exchange:,.0f}" for plan in plans),
                    *(f"{steps * plan.slowest / 3600:.2f}" for plan in plans),
                ]
            )
    weights = plan_of(options.size, options.vocabulary, "ddp", 1).weights
    names = [f"at {gbit} Gbit/s" for gbit in options.network]
    heads = ["processes", "GB without activations", "GB sent a step"]
    for what in ("ms of exchange", "h an epoch"):
        heads += [f"{what} {name}" for name in names]
    print(
        f"{options.size.upper()}, {weights:,} weights; {options.batch_tokens:,} tokens a"
        f" batch, {1000 * seconds:.1f} ms at {options.rate:,} tokens/s;"
        f" {options.pairs:,} pairs, {target_tokens:.1f} target tokens each\n"
    )
    print(table(heads, rows))
    pairs_a_second = options.rate / target_tokens
    figures = (
        ("GB of the corpus on the disk", data["bytes a pair"] * options.pairs / 1e9),
        ("hours until process 0 has prepared it", options.pairs / measured["median"] / 3600),
        ("minutes in which each process checks it", data["s to open"] * times / 60),
        ("minutes to sort an epoch into batches", data["s to the first batch"] * times / 60),
        ("GB of memory of each process then", data["bytes a pair then"] * options.pairs / 1e9),
        ("processes that one thread of batches feeds", data["batches, pairs/s"] / pairs_a_second),
        ("the same with subword sampling", data["sampled, pairs/s"] / pairs_a_second),
    )
    print(f"\nscaled up from {measured['subject']} pairs:\n")
    print(table(["figure", ""], [[name, f"{value:,.2f}"] for name, value in figures]))


if __name__ == "__main__":
    sys.exit(main())
