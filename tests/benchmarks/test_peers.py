"""The comparison with other toolkits is fair: same batches, steps, clock and PyTorch for all."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from clearhead.data.reading.pairs import Pair
from clearhead.settings import ModelConfig
from scripts import ROOT

sys.path.append(str(ROOT / "benchmarks"))
gpu = importlib.import_module("gpu")
speed = importlib.import_module("speed")
recorded = importlib.import_module("results")
contest = importlib.import_module("peers.contest")
measurements = importlib.import_module("peers.measurements")
own = importlib.import_module("peers.clearhead")
own_training = importlib.import_module("peers.clearhead_training")
process = importlib.import_module("peers.process")
protocol = importlib.import_module("peers.protocol")
roster = importlib.import_module("peers.roster")
workload = importlib.import_module("peers.workload")

PAD, BOS, EOS, UNK = range(4)
VOCABULARY = 23
SMALL = workload.Shape(layers=2, d_model=12, d_ff=20, heads=3, dropout=0.0)
ids = st.lists(st.integers(4, 50), min_size=1, max_size=9)


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Tests write records here instead of into the repository."""
    found = tmp_path / "results"
    monkeypatch.setattr(recorded, "FOLDER", found)
    return found


def job_of(folder: Path, kind: str, size: Any = SMALL) -> Any:
    return protocol.Job(size, VOCABULARY, kind, 1, folder / "model", folder / "tokenizer")


# The same work for all


@given(st.lists(st.tuples(ids, ids), min_size=1, max_size=6))
def test_a_batch_holds_each_pair_and_padding_only_after_it(
    pairs: list[tuple[list[int], list[int]]],
) -> None:
    batch = workload.make_batch([s for s, _ in pairs], [t for _, t in pairs])
    for row, (source, target) in enumerate(pairs):
        assert batch.source[row, : len(source)].tolist() == source
        assert not batch.source[row, len(source) :].any()
        assert batch.target_input[row, : len(target) + 1].tolist() == [BOS, *target]
        assert not batch.target_input[row, len(target) + 1 :].any()
        assert batch.target_output[row, : len(target) + 1].tolist() == [*target, EOS]
    assert batch.target_tokens == sum(len(target) + 1 for _, target in pairs)


class Letters:
    """A tokenizer whose tokens are letters."""

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return [[ord(letter) - ord("a") + 4 for letter in text] for text in texts]


@given(st.lists(st.text("abcdef", min_size=1, max_size=12), min_size=2, max_size=40))
def test_an_epoch_has_each_pair_once_and_no_batch_beyond_the_limit(texts: list[str]) -> None:
    limit = 30
    pairs = [Pair(text, text[::-1], line) for line, text in enumerate(texts, 1)]
    batches = workload.training_batches(Letters(), pairs, limit)
    found = [
        (row[row != PAD].tolist(), target[target > EOS].tolist())
        for batch in batches
        for row, target in zip(batch.source, batch.target_output, strict=True)
    ]
    assert sorted(source for source, _ in found) == sorted(Letters().encode_batch(texts))
    assert all(source == target[::-1] for source, target in found)
    assert all(max(b.source.size, b.target_output.size) <= limit for b in batches)


def test_the_sizes_are_clearheads_own() -> None:
    for name, size in workload.SIZES.items():
        config = ModelConfig.of_size(name)
        found = config.encoder_layers, config.d_model, config.d_ff, config.n_heads
        assert found == (size.layers, size.d_model, size.d_ff, size.heads)
        assert config.decoder_layers == size.layers


# The same clock for all


class Doubling:
    """A trainer with a predictable loss, which records its batches."""

    def __init__(self, job: Any) -> None:
        self.given: list[int] = []

    def ready(self, batch: Any) -> int:
        return batch.target_tokens

    def step(self, ready: int) -> float:
        self.given.append(ready)
        return 2.0 * ready


class Counting:
    """A decoder that reports its steps."""

    steps = workload.DECODED

    def __init__(self, job: Any) -> None:
        self.batches: list[int] = []

    def decode(self, sentences: Sequence[Sequence[int]], beam_size: int) -> list[int]:
        self.batches.append(len(sentences))
        return [self.steps] * len(sentences)


class OwnClock(protocol.Program):
    """A program that reports a second for each target token."""

    def __init__(self, job: Any) -> None:
        pass

    def train(self, batches: Sequence[Any]) -> tuple[list[float], list[float]]:
        return [float(batch.target_tokens) for batch in batches], [1.0] * len(batches)

    def peak_mb(self) -> float:
        return 123.0


def started(tmp_path: Path, trainer: Any = Doubling, device: str = "cpu") -> Any:
    """A server whose workload has batches of 2, 3 and 4 target tokens."""
    batches = [workload.make_batch([[4]], [[5] * length]) for length in (1, 2, 3)]
    path = tmp_path / "workload.npz"
    workload.Workload(batches, [[4] * n for n in range(1, 8)], 9).write(path)
    server = protocol.Server(protocol.Abilities(trainer, Counting))
    job = {"size": "tiny", "kind": "float32", "threads": 1, "folder": str(tmp_path)}
    for work in ("training", "decoding"):
        server.answer({"do": "start", "work": work, "workload": str(path), "device": device, **job})
    return server


TRAIN = {"do": "train", "first": 2, "count": 2, "warm": 1}
DECODE = {"do": "decode", "first": 0, "count": 5, "batch_size": 2, "beam_size": 1}


def test_the_tokens_of_warm_steps_do_not_count(tmp_path: Path) -> None:
    server = started(tmp_path)
    answer = server.answer(TRAIN)
    assert server.trainer.given == [4, 2, 3]
    assert answer["tokens"] == 2 + 3
    assert answer["loss"] == pytest.approx((2 * 2.0 * 2 + 3 * 2.0 * 3) / (2 + 3))
    assert answer["peak_mb"] > 0


def test_a_program_trains_on_the_same_batches_and_times_itself(tmp_path: Path) -> None:
    answer = started(tmp_path, OwnClock).answer(TRAIN)
    assert answer == {"tokens": 5, "seconds": 5.0, "loss": 1.0, "peak_mb": 123.0}


@pytest.mark.slow
def test_decoding_fewer_steps_is_an_error(tmp_path: Path) -> None:
    server = started(tmp_path)
    answer = server.answer(DECODE)
    assert server.decoder.batches == [2, 2, 2, 1]
    assert answer["tokens"] == 5 * workload.DECODED
    server.decoder.steps -= 1
    with pytest.raises(ValueError, match=str(workload.DECODED)):
        server.answer(DECODE)


@pytest.mark.slow
@pytest.mark.parametrize("request_", [TRAIN, DECODE])
def test_the_clock_is_read_when_the_device_has_finished(
    request_: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("forget_peak", "give_memory_back"):
        monkeypatch.setattr(protocol, name, lambda device: None)
    monkeypatch.setattr(protocol, "peak_mb", lambda device: 2.0)
    server = started(tmp_path, device="cuda")
    events: list[str] = []
    monkeypatch.setattr(protocol, "wait_for", lambda device: events.append(f"wait for {device}"))
    clock = SimpleNamespace(perf_counter=lambda: events.append("clock") or len(events))
    monkeypatch.setattr(protocol, "time", clock)
    server.answer(request_)
    assert events == ["wait for cuda", "clock", "wait for cuda", "clock"]


# Turns

FAST = roster.Contender("clearhead", "torch")
SLOW = roster.Contender("eole", "float32")


@given(st.lists(st.floats(0.5, 2), min_size=1, max_size=9), st.floats(0.1, 10))
def test_ratios_are_those_of_values_of_the_same_round(moments: list[float], factor: float) -> None:
    one = measurements.Row(FAST, [moment * factor for moment in moments])
    other = measurements.Row(SLOW, list(moments))
    assert measurements.paired_ratios(one, other) == pytest.approx([factor] * len(moments))
    other.values[0] = None
    assert len(measurements.paired_ratios(one, other)) == len(moments) - 1


def test_all_processes_have_the_same_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, kept = (process.environment_of(2, keep_memory) for keep_memory in (False, True))
    assert plain["OMP_NUM_THREADS"] == "2"
    assert kept == {**plain, "MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**63 - 1)}


# The claims


def measurement(work: str, name: str, **rows: tuple[list[float], float]) -> Any:
    """A measurement of TINY; a row is named `peer_kind`, and has values and peak memory."""
    found = [
        measurements.Row(roster.Contender(*label.replace("_", " ").split(" ", 1)), values, peak)
        for label, (values, peak) in rows.items()
    ]
    return measurements.Measurement(
        work, "tiny", name, "s" if work == "cold" else "tokens/s", found
    )


def claims_of(found: Any, kept: bool = False) -> dict[str, tuple[str, str | None, list[float]]]:
    return {
        c.claim: (c.own.contender.label, c.peer and c.peer.contender.label, list(c.values))
        for c in speed.comparisons(found, kept)
    }


def test_training_is_compared_with_the_fastest_and_with_the_leanest_peer() -> None:
    found = measurement(
        "training",
        "steps",
        clearhead_float32=([20.0, 20.0], 80.0),
        clearhead_bf16=([30.0, 60.0], 90.0),
        marian_float32=([10.0, 12.0], 400.0),
        eole_float32=([5.0, 5.0], 200.0),
        eole_bf16=([15.0, 15.0], 100.0),
    )
    bf16, float32 = "clearhead bf16", "clearhead float32"
    assert claims_of(found) == {
        "training-tiny-float32": (bf16, "marian float32", [3.0, 5.0]),
        "training-tiny-bf16": (bf16, "eole bf16", [2.0, 4.0]),
        "training-tiny-marian": (float32, "marian float32", [2.0, 20 / 12]),
        "memory-tiny-float32-float32": (float32, "eole float32", [0.4]),
        "memory-tiny-float32-any": (float32, "eole bf16", [0.8]),
        "memory-tiny-bf16-float32": (bf16, "eole float32", [0.45]),
        "memory-tiny-bf16-any": (bf16, "eole bf16", [0.9]),
    }
    kept = claims_of(found, kept=True)
    assert kept == {"training-tiny-bf16-kept": (bf16, "eole bf16", [2.0, 4.0])}


def test_decoding_is_compared_with_ctranslate2_and_with_the_fastest_python_peer() -> None:
    found = measurement(
        "decoding",
        "b64",
        clearhead_auto=([8.0], 1.0),
        clearhead_torch=([6.0], 1.0),
        clearhead_torch_int8=([9.0], 1.0),
        ctranslate2_float32=([4.0], 1.0),
        ctranslate2_int8=([10.0], 1.0),
        eole_float32=([2.0], 1.0),
        sockeye_float32=([3.0], 1.0),
    )
    torch_row = "clearhead torch int8"
    assert claims_of(found) == {
        "decoding-tiny-b64-auto": ("clearhead auto", "ctranslate2 float32", [2.0]),
        "decoding-tiny-b64-native": (torch_row, "ctranslate2 int8", [0.9]),
        "decoding-tiny-b64-python": (torch_row, "sockeye float32", [3.0]),
    }


# The contenders


# On a GPU


def addmm_in_place(_: Any, left: Sequence[int], right: Sequence[int], **__: Any) -> int:
    """The operations of `addmm_`, which PyTorch's own counter does not know."""
    return 2 * left[0] * left[1] * right[1]


def counted(work: Any) -> int:
    """The operations of all products that PyTorch makes in a call."""
    counter = FlopCounterMode(display=False, custom_mapping={torch.ops.aten.addmm_: addmm_in_place})
    with counter:
        work()
    return counter.get_total_flops()


@pytest.mark.parametrize(("source", "target"), [(5, 5), (3, 7)])
def test_a_step_makes_the_products_that_the_formula_counts(
    tmp_path: Path, source: int, target: int
) -> None:
    # On a CPU and at such lengths attention is written out, and nothing is computed twice.
    pairs = 3
    batch = workload.make_batch([[4] * source] * pairs, [[5] * (target - 1)] * pairs)
    trainer = own_training.Trainer(job_of(tmp_path, "float32"))
    ready = trainer.ready(batch)
    expected = pairs * gpu.training_flops(SMALL, VOCABULARY, source, target)
    assert counted(lambda: trainer.step(ready)) == expected


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Peers do preparatory work in this process."""
    monkeypatch.setattr(own, "apart", lambda work, job: work(job))


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(("source", "beam"), [(4, 1), (6, 3)])
def test_decoding_makes_the_products_that_the_formula_counts(
    tmp_path: Path, source: int, beam: int
) -> None:
    workload.write_random_workload(tmp_path, VOCABULARY, source, 8)
    decoder = own.Decoder(job_of(tmp_path, "torch"))
    sentences = [[4] * source, [5] * source]
    steps = workload.DECODED
    expected = len(sentences) * gpu.decoding_flops(SMALL, VOCABULARY, source, steps, beam)
    assert counted(lambda: decoder.decode(sentences, beam)) == expected


def test_without_a_gpu_it_is_skipped_and_a_cpu_needs_an_output_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert gpu.main([]) == 0
    assert "skipped" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        gpu.main(["--device", "cpu"])


class InThisProcess:
    """Clearhead's side of the protocol in this process, with JSON as in its own."""

    def __init__(self) -> None:
        self.server = protocol.Server(protocol.Abilities(own.trainer, own.Decoder))

    def __enter__(self) -> InThisProcess:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        return json.loads(json.dumps(self.server.answer(json.loads(json.dumps(request)))))


@pytest.mark.usefixtures("here")
def test_a_whole_run_on_a_cpu_records_every_measurement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rate = 5e9
    monkeypatch.setitem(workload.SIZES, "big", SMALL)
    monkeypatch.setattr(contest.Contest, "process", lambda *_: InThisProcess())
    monkeypatch.setattr(gpu, "matrix_rates", lambda *_: [rate] * 2)
    monkeypatch.setattr(gpu, "multiplies_bf16", lambda device: True)
    monkeypatch.setattr(protocol.gc, "collect", lambda: 0)  # which takes most of the time
    path = tmp_path / "gpu.jsonl"
    words = "--device cpu --peers --rounds 2 --threads 1 --sentences 2 --length 6 --batch-tokens 12"
    words += " --steps 1"
    words += f" --sizes big --precision float32 --vocabulary {VOCABULARY} --output {path}"
    assert gpu.main(words.split()) == 0
    training, claim, *decoding = recorded.read_records(path)
    names = [record["measure"] for record in (training, *decoding)]
    assert names == ["training big, steps", "decoding big, b64", "decoding big, beam5"]
    share = training["median"] * gpu.training_flops(SMALL, VOCABULARY, 6, 6) / 6 / rate
    assert training["more"]["% of the rate"] == pytest.approx(100 * share, rel=1e-4)
    assert claim["claim"] == "gpu-training-big"
    assert claim["median"] == pytest.approx(100 * share, rel=1e-4)
    assert claim["met"] == (share >= 0.4)
