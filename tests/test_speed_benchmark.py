"""The comparison with other toolkits: its batches, its ratios, its table, its protocol."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.data.readers import Pair
from scripts import ROOT

sys.path.append(str(ROOT / "benchmarks"))
speed = importlib.import_module("speed")
contest = importlib.import_module("peers.contest")
installation = importlib.import_module("peers.installation")
preparation = importlib.import_module("peers.preparation")
process = importlib.import_module("peers.process")
protocol = importlib.import_module("peers.protocol")
results = importlib.import_module("peers.results")
roster = importlib.import_module("peers.roster")
slices = importlib.import_module("peers.slices")
table = importlib.import_module("peers.table")
turns = importlib.import_module("peers.turns")
workload = importlib.import_module("peers.workload")

PAD, BOS, EOS = 0, 1, 2
ids = st.lists(st.integers(4, 50), min_size=1, max_size=9)
pairs_of_ids = st.lists(st.tuples(ids, ids), min_size=1, max_size=6)
FAST = roster.Contender("clearhead", "torch")
SLOW = roster.Contender("marian", "float32")


class Letters:
    """A tokenizer whose tokens are letters."""

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return [[ord(letter) - ord("a") + 4 for letter in text] for text in texts]


@given(pairs_of_ids)
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
    assert batch.source_lengths.tolist() == [len(source) for source, _ in pairs]
    assert batch.target_tokens == sum(len(target) + 1 for _, target in pairs)
    real = sum(len(source) + len(target) + 1 for source, target in pairs)
    places = batch.source.size + batch.target_output.size
    assert batch.padding_share == pytest.approx((places - real) / places)


@given(st.lists(st.text("abcdef", min_size=1, max_size=12), min_size=2, max_size=40))
def test_an_epoch_has_each_pair_once_and_no_batch_beyond_the_limit(texts: list[str]) -> None:
    limit = 30
    pairs = [Pair(text, text[::-1], line) for line, text in enumerate(texts, 1)]
    batches = preparation.training_batches(Letters(), pairs, limit)
    found = [
        (row[row != PAD].tolist(), target[target > EOS].tolist())
        for batch in batches
        for row, target in zip(batch.source, batch.target_output, strict=True)
    ]
    expected = Letters().encode_batch(texts)
    assert sorted(source for source, _ in found) == sorted(expected)
    assert all(source == target[::-1] for source, target in found)
    assert all(max(b.source.size, b.target_output.size) <= limit for b in batches)


def test_a_workload_comes_back_from_its_file(tmp_path: Path) -> None:
    batches = [workload.make_batch([[4, 5], [6]], [[7], [8, 9]]), workload.make_batch([[4]], [[5]])]
    written = workload.Workload(batches, [[4, 5, 6], [7]], 11)
    written.write(tmp_path / "workload.npz")
    read = workload.Workload.read(tmp_path / "workload.npz")
    assert read.vocabulary == written.vocabulary
    assert read.sentences == written.sentences
    for one, other in zip(read.batches, batches, strict=True):
        np.testing.assert_array_equal(one.source, other.source)
        np.testing.assert_array_equal(one.target, other.target)
    assert read.padding_share == pytest.approx(2 / (4 + 6 + 1 + 2))


def test_a_slice_goes_on_where_the_last_ended_and_begins_again_at_the_end() -> None:
    sentences = [[4] * length for length in (1, 5, 2, 4, 3)]
    load = workload.Workload([], sentences, 9)
    assert [len(s) for s in load.slice_of_sentences(0, 3)] == [5, 2, 1]
    assert [len(s) for s in load.slice_of_sentences(3, 3)] == [4, 3, 1]
    [slice_] = slices.training_slices(4)
    assert [slice_.in_round(number)["first"] for number in range(3)] == [0, 4, 8]


@given(
    st.lists(st.floats(0.5, 2), min_size=1, max_size=9),
    st.floats(0.1, 10),
)
def test_a_slow_moment_that_meets_both_cancels(moments: list[float], factor: float) -> None:
    own = results.Row(FAST, [moment * factor for moment in moments])
    peer = results.Row(SLOW, list(moments))
    assert results.paired_ratio(own, peer) == pytest.approx(factor)


def test_only_rounds_that_both_have_count() -> None:
    own = results.Row(FAST, [2.0, 30.0, None, 8.0])
    peer = results.Row(SLOW, [1.0, None, 5.0])
    assert results.paired_ratio(own, peer) == 2.0
    assert results.paired_ratio(own, results.Row(SLOW, [None, None])) is None


def measurement(unit: str) -> Any:
    """Two that were measured, and one that was not."""
    rows = [
        results.Row(SLOW, [200.0, 100.0, 400.0], peak_mb=1234.4),
        results.Row(FAST, [400.0, 300.0, 400.0]),
        results.Row(roster.Contender("eole", "float32"), [None] * 3, error="No | module"),
    ]
    return results.Measurement("training", "tiny", "steps", unit, rows)


def test_a_table_has_medians_spread_ratios_and_why_something_is_missing() -> None:
    lines = table.table(measurement("tokens/s"))
    cells = [[cell.strip() for cell in line.split(" | ")] for line in lines[4:7]]
    assert cells[0] == ["| clearhead torch", "400", "300–400", "1.00", "– |"]
    assert cells[1] == ["| marian float32", "200", "100–400", "2.00", "1,234 |"]
    assert cells[2] == ["| eole float32", "No \\| module", "–", "–", "– |"]
    assert len({line.replace("\\|", "").count("|") for line in lines[2:7]}) == 1


def test_of_seconds_the_fewest_come_first() -> None:
    lines = table.table(measurement("s"))
    assert "marian" in lines[4]


def test_json_has_every_value() -> None:
    rows = list(measurement("tokens/s").to_dicts())
    assert json.loads(json.dumps(rows)) == rows
    assert rows[0]["values"] == [200.0, 100.0, 400.0]
    assert rows[0]["ratios"] == {"clearhead torch": 2.0}
    assert rows[2]["error"] == "No | module"


class Doubling:
    """A trainer whose loss can be foretold, and which notes what it was given."""

    def __init__(self, job: Any) -> None:
        self.given: list[int] = []

    def ready(self, batch: Any) -> int:
        return batch.target_tokens

    def step(self, ready: int) -> float:
        self.given.append(ready)
        return 2.0 * ready


class Counting:
    """A decoder that says how many steps it took."""

    steps = 32

    def __init__(self, job: Any) -> None:
        self.batches: list[int] = []

    def decode(self, sentences: Sequence[Sequence[int]], beam_size: int) -> list[int]:
        self.batches.append(len(sentences))
        return [self.steps] * len(sentences)


@pytest.fixture
def server(tmp_path: Path) -> Any:
    """A server of made-up abilities, and a workload of batches of 2, 3, 4 target tokens."""
    batches = [workload.make_batch([[4]], [[5] * length]) for length in (1, 2, 3)]
    workload.Workload(batches, [[4] * n for n in range(1, 8)], 9).write(tmp_path / "workload.npz")
    found = protocol.Server(protocol.Abilities(Doubling, Counting))
    job = {"size": "tiny", "kind": "float32", "threads": 1, "folder": str(tmp_path)}
    for work in ("training", "decoding"):
        request = {"do": "start", "work": work, "workload": str(tmp_path / "workload.npz"), **job}
        found.answer(request)
    return found


def test_the_tokens_of_warm_steps_are_not_counted(server: Any) -> None:
    answer = server.answer({"do": "train", "first": 2, "count": 2, "warm": 1})
    assert server.trainer.given == [4, 2, 3]
    assert answer["tokens"] == 2 + 3
    assert answer["loss"] == 2.0 * 3
    assert answer["seconds"] >= 0
    assert answer["peak_mb"] > 0


def test_sentences_are_decoded_in_batches_after_a_first_that_is_not_counted(server: Any) -> None:
    answer = server.answer(
        {"do": "decode", "first": 0, "count": 5, "batch_size": 2, "beam_size": 1}
    )
    assert server.decoder.batches == [2, 2, 2, 1]
    assert answer["tokens"] == 5 * 32


def test_who_decodes_fewer_steps_is_not_fast_but_wrong(server: Any) -> None:
    server.decoder.steps = 31
    with pytest.raises(ValueError, match="not all sentences took 32 steps"):
        server.answer({"do": "decode", "first": 0, "count": 2, "batch_size": 2, "beam_size": 1})


class Scripted:
    """A peer's process that answers as foretold."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_who_fails_in_a_round_keeps_its_values_and_is_asked_no_more() -> None:
    answers = {"tokens": 50, "seconds": 2.0}, process.PeerError("out of memory")
    found = results.Measurement("training", "tiny", "steps", "tokens/s", [results.Row(SLOW)])
    ready = {SLOW: Scripted(*answers)}
    for number in range(3):
        turns.take_turn(ready, SLOW, {}, found)
        results.fill_up(found.rows, number + 1)
    assert found.rows[0].values == [25.0, None, None]
    assert found.rows[0].error == "out of memory"


def test_everybody_is_first_in_turn() -> None:
    firsts = [next(contest.rotated("abc", number)) for number in range(4)]
    assert firsts == ["a", "b", "c", "a"]
    assert sorted(contest.rotated("abc", 2)) == ["a", "b", "c"]


def test_clearhead_takes_part_in_everything() -> None:
    for work in speed.WORKS:
        found = roster.contenders(work, ["ctranslate2"], ["float32"])
        assert found[0].is_own
        assert ("ctranslate2" in {c.peer for c in found}) == (work != "training")


def test_pytorch_is_pinned_wherever_it_is_installed() -> None:
    # Anything looser lets pip choose another build.
    for peer in roster.PEERS.values():
        steps = peer.environment.steps if peer.environment else ()
        assert not any(word.startswith("torch=") for step in steps for word in step)
    assert roster.TORCH.startswith("torch==")


def test_the_first_line_of_an_error_is_told() -> None:
    said = "Collecting x\nERROR: Cannot install x\nERROR: more\n"
    assert installation.first_error(said) == "ERROR: Cannot install x"
    assert process.last_line("Traceback\n  File\nValueError: no\n\n") == "ValueError: no"


def test_a_process_answers_and_its_errors_are_one_line(tmp_path: Path) -> None:
    with process.PeerProcess(sys.executable, "torch_loop", tmp_path / "log", 1, 60.0) as peer:
        with pytest.raises(process.PeerError, match="training was not started"):
            peer.ask({"do": "train", "first": 0, "count": 1, "warm": 0})
        with pytest.raises(process.PeerError, match="KeyError"):
            peer.ask({"do": "nothing"})


def test_a_process_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    with (
        process.PeerProcess(sys.executable, "torch_loop", tmp_path / "log", 1, 0.01) as peer,
        pytest.raises(process.PeerError, match="took more than"),
    ):
        peer.ask({"do": "train", "first": 0, "count": 1, "warm": 0})


def test_without_data_it_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.delenv("CLEARHEAD_DATA", raising=False)
    assert speed.main([]) == 0
    assert capsys.readouterr().out.startswith("skipped: CLEARHEAD_DATA")
