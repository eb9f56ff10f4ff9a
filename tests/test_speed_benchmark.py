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
from clearhead.decoding.cache import INITIAL_POSITIONS
from clearhead.errors import DataError
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
shape = importlib.import_module("peers.shape")
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


def test_memory_is_measured_over_as_many_batches_as_several_rounds_have() -> None:
    [slice_] = slices.training_slices(4)
    assert slice_.for_memory() == {**slice_.in_round(0), "count": 4 * slices.MEMORY_ROUNDS}
    assert all(s.for_memory() == s.in_round(0) for s in slices.decoding_slices(64))


@given(
    st.lists(st.floats(0.5, 2), min_size=1, max_size=9),
    st.floats(0.1, 10),
)
def test_the_ratio_is_that_of_values_of_the_same_round(moments: list[float], factor: float) -> None:
    own = results.Row(FAST, [moment * factor for moment in moments])
    peer = results.Row(SLOW, list(moments))
    assert results.paired_ratio(own, peer) == pytest.approx(factor)
    assert results.paired_ratios(own, peer) == pytest.approx([factor] * len(moments))


def test_only_rounds_that_both_have_count() -> None:
    own = results.Row(FAST, [2.0, 30.0, None, 8.0])
    peer = results.Row(SLOW, [1.0, None, 5.0])
    assert results.paired_ratio(own, peer) == 2.0
    assert results.paired_ratio(own, results.Row(SLOW, [None, None])) is None


def measurement(unit: str, work: str = "training") -> Any:
    """Two that were measured, and one that was not."""
    rows = [
        results.Row(SLOW, [200.0, 100.0, 400.0], peak_mb=1234.4),
        results.Row(FAST, [400.0, 300.0, 400.0], peak_mb=617.2),
        results.Row(roster.Contender("eole", "float32"), [None] * 3, error="No | module"),
    ]
    return results.Measurement(work, "tiny", "steps", unit, rows)


def cells(lines: Sequence[str]) -> list[list[str]]:
    """What stands in a table, its heads first."""
    rows = [line for line in lines if line.startswith("|") and "---" not in line]
    return [[cell.strip() for cell in row.strip("| ").split(" | ")] for row in rows]


def test_a_table_has_medians_spread_ratios_and_why_something_is_missing() -> None:
    lines = table.table(measurement("tokens/s"))
    heads, *found = cells(lines)
    ratios = "clearhead torch : peer", "peak MB", "peak of clearhead torch : peer"
    assert heads == ["peer", "tokens/s", "min–max", *ratios]
    assert found[0] == ["clearhead torch", "400", "300–400", "1", "617", "1"]
    assert found[1] == ["marian float32", "200", "100–400", "2.00 (1.00–3.00)", "1,234", "0.50"]
    assert found[2] == ["eole float32", "No \\| module", "–", "–", "–", "–"]
    assert len({line.replace("\\|", "").count("|") for line in lines[2:7]}) == 1


def test_decoding_has_sentences_and_training_the_losses_that_there_are() -> None:
    heads, *found = cells(table.table(measurement("tokens/s", "decoding")))
    assert found[1][heads.index("sentences/s")] == f"{200 / shape.DECODED:.3g}"
    assert "loss" not in heads
    trained = measurement("tokens/s")
    trained.row(FAST).loss = 4.5678
    heads, *found = cells(table.table(trained))
    assert [row[heads.index("loss")] for row in found] == ["4.568", "–", "–"]


def test_below_the_table_stands_the_fastest_peer_of_each_sort_and_the_leanest() -> None:
    ratio = "clearhead torch 2.00 (1.00–3.00)"
    found = measurement("tokens/s")
    found.rows.append(results.Row(roster.Contender("torch", "float32"), [90.0, 110.0, 100.0]))
    quick = results.Row(roster.Contender("torch", "bf16"), [400.0, 300.0, 400.0], peak_mb=600.0)
    found.rows.append(quick)
    assert table.gist(found) == [
        f"fastest peer in float32 marian float32 = 1: {ratio}",
        "fastest peer in bf16 torch bf16 = 1: clearhead torch 1.00 (1.00–1.00)",
        "leanest peer torch bf16 = 1: clearhead torch 1.03",
    ]
    assert f"{table.gist(found)[0]}\n" in table.table(found)
    native = [results.Row(roster.Contender("ctranslate2", kind)) for kind in ("float32", "int8")]
    for row, scale in zip(native, (1.0, 2.0), strict=True):
        row.values = [400.0 * scale, 300.0 * scale, 400.0 * scale]
    found = measurement("tokens/s", "decoding")
    found.rows += native
    assert table.gist(found) == [
        f"fastest Python peer marian float32 = 1: {ratio}",
        "fastest native peer ctranslate2 int8 = 1: clearhead torch 0.50 (0.50–0.50)",
        "leanest peer marian float32 = 1: clearhead torch 0.50",
    ]


def test_of_a_cold_start_the_difference_is_told() -> None:
    found = measurement("s", "cold")
    assert table.gist(found) == [
        "fastest peer marian float32: clearhead torch +200.00 s (+0.00 to +200.00)",
        "leanest peer marian float32 = 1: clearhead torch 0.50",
    ]
    found.row(SLOW).values = [401.0, 301.5, 402.0]
    assert "clearhead torch −1.50 s (−2.00 to −1.00)" in table.gist(found)[0]
    found.row(SLOW).values = [None] * 3
    found.row(SLOW).peak_mb = None
    assert table.gist(found) == []


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

    steps = shape.DECODED

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
    assert answer["loss"] == pytest.approx((2 * 2.0 * 2 + 3 * 2.0 * 3) / (2 + 3))
    assert answer["seconds"] >= 0
    assert answer["peak_mb"] > 0


def test_sentences_are_decoded_in_batches_after_a_first_that_is_not_counted(server: Any) -> None:
    answer = server.answer(
        {"do": "decode", "first": 0, "count": 5, "batch_size": 2, "beam_size": 1}
    )
    assert server.decoder.batches == [2, 2, 2, 1]
    assert answer["tokens"] == 5 * shape.DECODED


def test_who_decodes_fewer_steps_is_not_fast_but_wrong(server: Any) -> None:
    server.decoder.steps -= 1
    with pytest.raises(ValueError, match=f"not all sentences took {shape.DECODED} steps"):
        server.answer({"do": "decode", "first": 0, "count": 2, "batch_size": 2, "beam_size": 1})


def test_the_cache_has_to_grow_while_decoding_is_measured() -> None:
    assert shape.DECODED > INITIAL_POSITIONS


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
    answers = {"tokens": 50, "seconds": 2.0, "loss": 3.0}, process.PeerError("out of memory")
    found = results.Measurement("training", "tiny", "steps", "tokens/s", [results.Row(SLOW)])
    ready = {SLOW: Scripted(*answers)}
    for number in range(3):
        turns.take_turn(ready, SLOW, {}, found)
        results.fill_up(found.rows, number + 1)
    assert found.rows[0].values == [25.0, None, None]
    assert found.rows[0].error == "out of memory"
    assert found.rows[0].loss == 3.0


def test_everybody_is_first_in_turn() -> None:
    firsts = [next(contest.rotated("abc", number)) for number in range(4)]
    assert firsts == ["a", "b", "c", "a"]
    assert sorted(contest.rotated("abc", 2)) == ["a", "b", "c"]


def test_clearhead_takes_part_in_everything() -> None:
    for work in speed.WORKS:
        found = roster.contenders(work, ["ctranslate2"], ["float32"], bf16=True)
        assert found[0].is_own
        assert ("ctranslate2" in {c.peer for c in found}) == (work != "training")


def test_clearhead_decodes_in_bfloat16_only_where_the_processor_can() -> None:
    bfloat16 = roster.Contender("clearhead", "torch bfloat16")
    able, unable = (roster.contenders("decoding", [], [], bf16=bf16) for bf16 in (True, False))
    assert set(able) - set(unable) == {bfloat16}


def test_files_of_contenders_differ_and_have_no_spaces() -> None:
    names = [c.file_name for c in roster.contenders("decoding", list(roster.PEERS), [], bf16=True)]
    assert len(set(names)) == len(names)
    assert not any(" " in name for name in names)


def test_all_processes_keep_memory_where_that_is_asked_for() -> None:
    plain, kept = (process.environment_of(2, keep_memory) for keep_memory in (False, True))
    assert kept == {**plain, "MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**63 - 1)}


def test_the_last_line_of_a_traceback_is_told() -> None:
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


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--json", "no/such/folder/x.json"], "no/such/folder"),
        (["juggling"], "juggling"),
        (["--rounds", "0"], "--rounds"),
    ],
)
def test_what_cannot_work_is_refused_at_once(
    words: list[str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr(speed, "compare", lambda *_: pytest.fail("it measures"))
    with pytest.raises(SystemExit) as stopped:
        speed.main(words)
    assert stopped.value.code == 2
    assert said in capsys.readouterr().err


def test_nothing_is_installed_for_data_that_are_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setenv("CLEARHEAD_DATA", str(tmp_path))
    monkeypatch.setattr(speed, "find_pythons", lambda *_: pytest.fail("it installs"))
    assert speed.main(["training", "--sizes", "tiny"]) == DataError.exit_code
    assert "there is no such file" in capsys.readouterr().err


def test_the_json_has_each_table_that_was_printed_before_ctrl_c(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    def interrupted(contest: Any, options: Any) -> list[Any]:
        if contest.work == "decoding":
            raise KeyboardInterrupt
        return [measurement("tokens/s")]

    def prepared(config: Any, folder: Path) -> Path:
        batches = [workload.make_batch([[4]], [[5]])]
        workload.Workload(batches, [[4]], 9).write(folder / "workload.npz")
        return folder / "workload.npz"

    monkeypatch.setenv("CLEARHEAD_DATA", str(tmp_path))
    monkeypatch.setattr(speed, "find_pythons", lambda *_: installation.Pythons())
    monkeypatch.setattr(speed, "prepare_workload", prepared)
    monkeypatch.setattr(speed, "measured", interrupted)
    path = tmp_path / "speed.json"
    words = ["training", "decoding", "--sizes", "tiny", "--keep-memory", "--json", str(path)]
    assert speed.main(words) == 130
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    assert rows == list(measurement("tokens/s").to_dicts())
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    out, err = capsys.readouterr()
    assert "--keep-memory" in out.partition("###")[0]
    assert err.splitlines()[-1].startswith("interrupted")
