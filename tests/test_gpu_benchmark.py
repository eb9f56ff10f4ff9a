"""The benchmark for a GPU: its count of operations, its clock, its table, all tried on a CPU."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from clearhead.settings import ModelConfig
from clearhead.tokenizer import load_tokenizer
from scripts import ROOT

sys.path.append(str(ROOT / "benchmarks"))
gpu = importlib.import_module("gpu")
contest = importlib.import_module("peers.contest")
device = importlib.import_module("peers.device")
flops = importlib.import_module("peers.flops")
matrix_rate = importlib.import_module("peers.matrix_rate")
batching = importlib.import_module("clearhead.decoding.engine")
torch_engine = importlib.import_module("clearhead.decoding.torch_engine")
own = importlib.import_module("peers.clearhead")
own_training = importlib.import_module("peers.clearhead_training")
protocol = importlib.import_module("peers.protocol")
random_work = importlib.import_module("peers.random_work")
results = importlib.import_module("peers.results")
roster = importlib.import_module("peers.roster")
shape = importlib.import_module("peers.shape")
workload = importlib.import_module("peers.workload")
turns = importlib.import_module("peers.turns")

VOCABULARY = 23
SMALL = shape.Shape(layers=2, d_model=12, d_ff=20, heads=3, dropout=0.0)
OWN_BF16 = roster.Contender("clearhead", "bf16")
MARIAN = roster.Contender("marian", "bf16")


def addmm_in_place(_: Any, left: Sequence[int], right: Sequence[int], **__: Any) -> int:
    """The operations of `addmm_`, of which PyTorch's own counter knows nothing."""
    return 2 * left[0] * left[1] * right[1]


def counted(work: Any) -> int:
    """The operations of all products that PyTorch makes in a call."""
    counter = FlopCounterMode(display=False, custom_mapping={torch.ops.aten.addmm_: addmm_in_place})
    with counter:
        work()
    return counter.get_total_flops()


def job_of(folder: Path, kind: str, size: Any = SMALL) -> Any:
    return protocol.Job(size, VOCABULARY, kind, 1, folder / "model", folder / "tokenizer")


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a peer does in a process of its own is done in this one."""
    monkeypatch.setattr(own, "apart", lambda work, job: work(job))


@pytest.mark.parametrize(
    ("size", "source", "target"),
    [
        (SMALL, 5, 5),
        (SMALL, 3, 7),
        (shape.Shape(layers=1, d_model=8, d_ff=4, heads=1, dropout=0.0), 6, 2),
    ],
)
def test_a_step_makes_the_products_that_the_formula_counts(
    tmp_path: Path, size: Any, source: int, target: int
) -> None:
    # On a CPU and at such lengths attention is written out, and nothing is computed twice.
    pairs = 3
    batch = workload.make_batch([[4] * source] * pairs, [[5] * (target - 1)] * pairs)
    trainer = own_training.Trainer(job_of(tmp_path, "float32", size))
    ready = trainer.ready(batch)
    expected = pairs * flops.training_flops(size, VOCABULARY, source, target)
    assert counted(lambda: trainer.step(ready)) == expected


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(("source", "beam"), [(4, 1), (6, 3)])
def test_decoding_makes_the_products_that_the_formula_counts(
    tmp_path: Path, source: int, beam: int
) -> None:
    random_work.write_random_workload(tmp_path, VOCABULARY, source, 8)
    decoder = own.Decoder(job_of(tmp_path, "torch"))
    sentences = [[4] * source, [5] * source]
    steps = shape.DECODED
    expected = len(sentences) * flops.decoding_flops(SMALL, VOCABULARY, source, steps, beam)
    assert counted(lambda: decoder.decode(sentences, beam)) == expected


@pytest.mark.parametrize(("length", "batch_tokens", "pairs"), [(5, 17, 3), (1, 2, 2), (9, 4, 1)])
def test_a_random_workload_has_no_padding_and_a_tokenizer_of_its_size(
    tmp_path: Path, length: int, batch_tokens: int, pairs: int
) -> None:
    made = random_work.write_random_workload(tmp_path, VOCABULARY, length, batch_tokens)
    read = workload.Workload.read(tmp_path / "workload.npz")
    assert read.vocabulary == len(load_tokenizer(tmp_path, "tokenizer")) == VOCABULARY
    assert read.sentences == made.sentences
    assert {len(sentence) for sentence in read.sentences} == {length}
    for batch in read.batches:
        assert batch.source.shape == batch.target_output.shape == (pairs, length)
        assert batch.padding_share == 0
        words = batch.target_output[:, :-1]
        for ids in (batch.source, words):
            assert ((ids > shape.UNK) & (ids < VOCABULARY)).all()


class Clock:
    """Counts looks at it as half seconds, and notes what happens in which order."""

    def __init__(self) -> None:
        self.looks = 0
        self.events: list[str] = []

    def perf_counter(self) -> float:
        self.events.append("look")
        self.looks += 1
        return self.looks / 2

    def wait_for(self, device: str) -> None:
        self.events.append(f"wait for {device}")


def test_the_matrix_rate_is_operations_by_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(matrix_rate, "time", clock)
    monkeypatch.setattr(matrix_rate, "wait_for", clock.wait_for)
    threads: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", threads.append)
    side = 4
    rates = matrix_rate.matrix_rates("cpu", side, threads=3)
    assert threads == [3]
    one = 2 * side * side * side
    assert rates == [matrix_rate.PRODUCTS * one / 0.5] * matrix_rate.REPETITIONS
    assert clock.events == ["wait for cpu", "look"] * 2 * (matrix_rate.REPETITIONS + 1)


class Noting:
    """A trainer and a decoder that tell a clock when they work."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock

    def ready(self, batch: Any) -> None:
        self.clock.events.append("ready")

    def step(self, ready: None) -> float:
        self.clock.events.append("work")
        return 1.0

    def decode(self, sentences: Sequence[Any], beam_size: int) -> list[int]:
        self.clock.events.append("work")
        return [shape.DECODED] * len(sentences)


@pytest.mark.parametrize(
    ("request_", "work"),
    [
        ({"do": "train", "first": 0, "count": 2, "warm": 1}, "training"),
        ({"do": "decode", "first": 0, "count": 2, "batch_size": 1, "beam_size": 1}, "decoding"),
    ],
)
def test_the_clock_is_looked_at_once_the_device_has_finished(
    request_: dict[str, Any], work: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random_work.write_random_workload(tmp_path, VOCABULARY, 2, 4)
    clock = Clock()
    server = protocol.Server(protocol.Abilities(*[lambda _: Noting(clock)] * 2))
    job = {"size": "tiny", "kind": "x", "threads": 1, "folder": str(tmp_path), "device": "cuda"}
    path = str(tmp_path / "workload.npz")
    for name in ("forget_peak", "give_memory_back"):
        monkeypatch.setattr(protocol, name, lambda device: None)
    monkeypatch.setattr(protocol, "peak_mb", lambda device: {"cpu": 1.0, "cuda": 2.0}[device])
    server.answer({"do": "start", "work": work, "workload": path, **job})
    monkeypatch.setattr(protocol, "time", clock)
    monkeypatch.setattr(protocol, "wait_for", clock.wait_for)
    answer = server.answer(request_)
    timed = ["wait for cuda", "look", "work", "work", "wait for cuda", "look"]
    assert [event for event in clock.events if event != "ready"] == ["work", *timed]
    assert answer["seconds"] == 0.5
    assert answer["peak_mb"] == 2.0


def test_the_memory_of_a_gpu_is_what_tensors_held_since_it_was_asked_to_forget(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done: list[str] = []
    for name in ("synchronize", "reset_peak_memory_stats", "empty_cache"):
        monkeypatch.setattr(torch.cuda, name, lambda name=name: done.append(name))
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: 3_000_000)
    calls = device.wait_for, device.forget_peak, device.give_memory_back
    for call in calls:
        call("cpu")
    assert done == []
    for call in calls:
        call("cuda")
    assert done == ["synchronize", "reset_peak_memory_stats", "empty_cache"]
    assert device.peak_mb("cuda") == 3.0


@pytest.mark.parametrize(("work", "bf16"), [("training", "bf16"), ("decoding", "torch bfloat16")])
def test_everybody_works_in_each_precision(work: str, bf16: str) -> None:
    found = gpu.contenders(work, ["marian"], ["float32", "bf16"])
    kinds = {name: [c.kind for c in found if c.peer == name] for name in ("clearhead", "marian")}
    assert kinds["clearhead"][1] == bf16
    assert kinds["marian"] == ["float32", "bf16"]


def measurement(work: str, size: str, own_speed: float) -> Any:
    rows = [
        results.Row(OWN_BF16, [own_speed] * 3, peak_mb=10.0),
        results.Row(MARIAN, [100.0, 200.0, 400.0], peak_mb=20.0),
    ]
    return results.Measurement(work, size, "steps", "tokens/s", rows)


def test_the_share_is_what_the_tokens_cost_by_what_the_device_can() -> None:
    cost, rate = 3e9, 2e12
    found = measurement("training", "big", 300.0)
    columns = gpu.share_columns(cost, rate)
    cells = {row.contender: [cell(row) for _, cell in columns] for row in found.rows}
    assert [head for head, _ in columns] == ["TFLOP/s", "of the bf16 rate"]
    assert cells == {OWN_BF16: ["0.9", "45.0%"], MARIAN: ["0.6", "30.0%"]}


def test_in_training_big_the_share_is_judged() -> None:
    cost, rate = 3e9, 2e12
    for speed, said in ((267.0, "reached"), (266.0, "missed")):
        found = measurement("training", "big", speed)
        assert gpu.verdict(found, cost, rate) == [
            f"wanted of clearhead: 40% of the rate; clearhead bf16: {said}"
        ]
    for work, size in (("training", "base"), ("decoding", "big")):
        assert gpu.verdict(measurement(work, size, 267.0), cost, rate) == []
    failed = measurement("training", "big", 1.0)
    failed.rows[0].values = [None]
    assert gpu.verdict(failed, cost, rate) == []


def test_without_a_gpu_it_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(gpu, "compare", lambda *_: pytest.fail("it measures"))
    assert gpu.main([]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "skipped: PyTorch finds no GPU here (--device cpu tries the benchmark out)"
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["juggling"], "juggling"),
        (["--json", "no/such/folder/x.json"], "no/such/folder"),
        (["--sizes", "huge"], "huge"),
        (["--rounds", "0"], "--rounds"),
        (["--vocabulary", "4"], "--vocabulary"),
        (["--device", "abacus"], "abacus"),
        (["training", "--length", str(shape.POSITIONS + 1)], "--length"),
        (["--python", "marian=no/such/python"], "no/such/python"),
    ],
)
def test_what_cannot_work_is_refused_at_once(
    words: list[str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr(gpu, "compare", lambda *_: pytest.fail("it measures"))
    with pytest.raises(SystemExit) as stopped:
        gpu.main(words)
    assert stopped.value.code == 2
    assert said in capsys.readouterr().err


def test_the_device_decides_on_what_is_not_asked_for() -> None:
    assert gpu.options_of([]).sizes == ["base", "big"]
    asked = gpu.options_of(["--device", "cpu", "--steps", "7"])
    assert (asked.sizes, asked.steps) == (["tiny"], 7)


def test_decoding_takes_no_length_that_splits_a_batch(capsys: pytest.CaptureFixture) -> None:
    def is_whole(slice_: Any, length: int) -> bool:
        """Whether the engine's own rule leaves a batch of the slice as it is."""
        rows = min(slice_.request["count"], slice_.request["batch_size"])
        places = batching.PADDED_TOKENS // slice_.request["beam_size"]
        return len(list(batching.batches_by_length([length] * rows, rows, places))) == 1

    found = gpu.slices_of("decoding", gpu.options_of([]))
    longest = max(n for n in range(1, 100) if all(is_whole(slice_, n) for slice_ in found))
    assert gpu.options_of(["--length", str(longest)]).length == longest
    for works in ([], ["decoding"]):
        with pytest.raises(SystemExit):
            gpu.options_of([*works, "--length", str(longest + 1)])
        said = f"--length {longest + 1}: in decoding at most {longest},"
        assert said in capsys.readouterr().err
    # Training has no batches to split, and few sentences are no batch that is split.
    for words in (["training"], ["--sentences", "4"]):
        asked = gpu.options_of([*words, "--length", str(shape.POSITIONS)])
        assert asked.length == shape.POSITIONS


@pytest.mark.usefixtures("here")
def test_an_engine_that_splits_a_batch_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random_work.write_random_workload(tmp_path, VOCABULARY, 4, 8)
    decoder = own.Decoder(job_of(tmp_path, "torch"))
    monkeypatch.setattr(torch_engine, "PADDED_TOKENS", 11)
    with pytest.raises(AssertionError, match="took 3 sentences in 2 batches"):
        decoder.decode([[4] * 4] * 3, 1)


class InThisProcess:
    """Clearhead's process, but it is this one; speaks JSON all the same."""

    def __init__(self) -> None:
        self.server = protocol.Server(protocol.Abilities(own.trainer, own.Decoder))

    def __enter__(self) -> InThisProcess:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        return json.loads(json.dumps(self.server.answer(json.loads(json.dumps(request)))))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, here: None) -> None:
    """All is so small that a run takes a moment, and is done in this process."""
    monkeypatch.setitem(shape.SIZES, "tiny", SMALL)
    monkeypatch.setattr(contest.Contest, "process", lambda *_: InThisProcess())


WORDS = "--device cpu --peers --rounds 2 --threads 1 --sentences 2 --length 6 --batch-tokens 12"


@pytest.mark.usefixtures("small")
def test_a_whole_run_on_a_cpu_prints_and_writes_every_measurement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    rate = 5e9
    asked: list[tuple[str, int, int]] = []

    def matrix_rates(device: str, side: int, threads: int) -> list[float]:
        asked.append((device, side, threads))
        return [rate] * 2

    monkeypatch.setattr(gpu, "matrix_rates", matrix_rates)
    monkeypatch.setattr(gpu, "multiplies_bf16", lambda device: True)
    path = tmp_path / "gpu.json"
    words = f"{WORDS} --precision float32 --vocabulary {VOCABULARY} --json {path}"
    assert gpu.main(words.split()) == 0
    out, _ = capsys.readouterr()
    # Before and after each of the two works.
    assert asked == [("cpu", 128, 1)] * 4
    assert "2 pairs a batch of 6 tokens a side" in out
    assert f"bf16 products of 128 × 128: {rate / 1e12:.3g} TFLOP/s" in out
    heads = [line for line in out.splitlines() if line.startswith("| peer")]
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    assert [row["measurement"] for row in rows] == ["steps", "b64", "beam5"]
    assert len(heads) == len(rows)
    assert all("of the bf16 rate" in head for head in heads)
    costs = [
        flops.training_flops(SMALL, VOCABULARY, 6, 6) / 6,
        *(
            flops.decoding_flops(SMALL, VOCABULARY, 6, shape.DECODED, beam) / shape.DECODED
            for beam in (1, 5)
        ),
    ]
    for row, cost in zip(rows, costs, strict=True):
        assert row["error"] is None
        assert len(row["values"]) == 2
        assert row["flops"] == cost
        assert row["matrix_rates"] == [rate] * 4
        assert row["share"] == pytest.approx(row["median"] * cost / rate)
        assert row["peak_mb"] > 0


@pytest.mark.usefixtures("small")
def test_ctrl_c_leaves_the_json_of_the_rounds_that_are_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def tell(self: Any, text: str) -> None:
        if text.startswith("round 2"):
            raise KeyboardInterrupt

    monkeypatch.setattr(turns.Progress, "next", tell)
    monkeypatch.setattr(gpu, "multiplies_bf16", lambda device: False)
    path = tmp_path / "gpu.json"
    words = f"training {WORDS} --vocabulary {VOCABULARY} --json {path}"
    assert gpu.main(words.split()) == 130
    [row] = json.loads(path.read_text(encoding="utf-8"))["rows"]
    assert len(row["values"]) == 1
    assert row["median"] > 0


@pytest.mark.usefixtures("small")
def test_a_device_without_bf16_has_no_share_of_its_rate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr(gpu, "matrix_rates", lambda *_: pytest.fail("it measures a rate"))
    monkeypatch.setattr(gpu, "multiplies_bf16", lambda device: False)
    monkeypatch.setattr(gpu, "name_of", lambda device: "Abacus 3000")
    path = tmp_path / "gpu.json"
    assert gpu.main(f"training {WORDS} --vocabulary {VOCABULARY} --json {path}".split()) == 0
    out, _ = capsys.readouterr()
    assert out.splitlines()[:2] == [
        "bf16 is left out: Abacus 3000 has no instructions for it",
        "no share of the bf16 rate is told: Abacus 3000 has no such rate",
    ]
    _, *table = out.partition("###")
    assert "TFLOP/s" in "".join(table)
    assert "of the bf16 rate" not in "".join(table)
    assert "bf16 products" not in out
    [row] = json.loads(path.read_text(encoding="utf-8"))["rows"]
    assert row["peer"] == "clearhead float32"
    assert row["median"] > 0
    assert (row["matrix_rates"], row["share"]) == ([], None)


def test_the_sizes_are_those_that_clearhead_has_ready_made() -> None:
    for name, size in shape.SIZES.items():
        config = ModelConfig.of_size(name)
        found = config.encoder_layers, config.d_model, config.d_ff, config.n_heads
        assert found == (size.layers, size.d_model, size.d_ff, size.heads)
        assert config.decoder_layers == size.layers
