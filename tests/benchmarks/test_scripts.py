"""The benchmark scripts parse their commands, run, and record what the claims are about."""

from __future__ import annotations

import importlib
import shlex
import sys
import tomllib
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clearhead import api
from clearhead.data.reading.pairs import read_pairs
from clearhead.decoding.confidence import Confidence
from clearhead.decoding.engine import Hypothesis
from clearhead.errors import ConfigError, DataError
from clearhead.inspect.importance import head_importance
from clearhead.inspect.subject import Subject
from clearhead.settings import ModelConfig, RunConfig, SearchConfig, TrainingConfig
from clearhead.training.checkpoints import Keeper
from clearhead.training.loop import Trainer
from scripts import ROOT
from small_runs import small_run, write_pairs

sys.path.append(str(ROOT / "benchmarks"))
results = importlib.import_module("results")
beside = importlib.import_module("beside")
batch_invariance = importlib.import_module("batch_invariance")
confidence = importlib.import_module("confidence")
glossary = importlib.import_module("glossary")
classification = importlib.import_module("classification")
copying = importlib.import_module("copying")
growth = importlib.import_module("growth")
inside = importlib.import_module("inside")
multi30k = importlib.import_module("multi30k")
same_bleu = importlib.import_module("same_bleu")
scaling = importlib.import_module("scaling")

COMMANDS = sorted(
    {r["command"] for r in results.all_records() if r["command"].startswith("python benchmarks/")}
)
CPU = torch.device("cpu")
MODEL = ModelConfig(encoder_layers=1, decoder_layers=1, d_model=16, d_ff=16, n_heads=2)


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Tests write records here instead of into the repository."""
    found = tmp_path / "results"
    monkeypatch.setattr(results, "FOLDER", found)
    return found


def records(folder: Path, script: str) -> list[Any]:
    return results.read_records(folder / f"{script}.jsonl")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> RunConfig:
    """A tiny trained model."""
    config = small_run(tmp_path_factory.mktemp("benchmarks"))
    api.train(config)
    return config


# Commands


@pytest.mark.parametrize("text", COMMANDS)
def test_the_command_of_each_record_parses(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLEARHEAD_DATA", "somewhere")
    _, path, *words = shlex.split(text.partition(";")[0])
    module = importlib.import_module(Path(path).stem)
    monkeypatch.setattr(module, "exit_code_of", lambda *_: 0)
    assert module.main(words) == 0


@pytest.mark.parametrize("name", ["speed", "multi30k", "classification"])
def test_without_data_a_benchmark_is_skipped(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.delenv("CLEARHEAD_DATA", raising=False)
    module = importlib.import_module(name)
    assert module.main(["some.toml"] if name == "classification" else []) == 0
    assert "CLEARHEAD_DATA" in capsys.readouterr().out


# Multi30k and classification


@pytest.mark.parametrize(
    ("words", "claim", "minutes"),
    [
        ([], "trec", "trec-minutes"),
        (["--set", "training.threads=1"], "trec", "trec-minutes"),
        (["--set", "model.d_ff=64"], None, None),
        (["--folds", "2"], None, None),
    ],
)
def test_only_the_example_on_the_test_data_is_a_claim(
    words: list[str],
    claim: str | None,
    minutes: str | None,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = [classification.Result(right, 200, 0.5, 2.0) for right in (180, 190)]
    monkeypatch.setenv("CLEARHEAD_DATA", "somewhere")
    monkeypatch.setattr(classification, "run", lambda result: result)
    for name in ("seeds", "folds"):
        monkeypatch.setattr(classification, name, lambda *_: found)
    assert classification.main([str(ROOT / "examples" / "trec.toml"), *words]) == 0
    accuracy, time = records(folder, "classification")
    assert [accuracy[key] for key in ("median", "min", "max", "claim")] == [92.5, 90, 95, claim]
    assert (time["median"], time["claim"]) == (2.0, minutes)


TINY = """
folder = "{folder}/model"
[data]
train = ["${{CLEARHEAD_DATA}}/train.tsv"]
validation = ["${{CLEARHEAD_DATA}}/validation.tsv"]
test = ["${{CLEARHEAD_DATA}}/validation.tsv"]
drop_duplicates = false
[tokenizer]
kind = "words"
[model]
encoder_layers = 1
decoder_layers = 1
d_model = 16
d_ff = 16
n_heads = 2
[training]
batch_tokens = 200
max_steps = 2
[search]
max_length = 12
[evaluation]
tokenize = "none"
"""


def test_multi30k_trains_and_scores_the_test_set(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write_pairs(tmp_path)
    monkeypatch.setenv("CLEARHEAD_DATA", str(tmp_path))
    (tmp_path / "tiny.toml").write_text(TINY.format(folder=tmp_path), encoding="utf-8")
    words = ["--config", str(tmp_path / "tiny.toml"), "--set", "seed=3"]
    assert multi30k.main(words) == 0
    found = records(folder, "multi30k")
    assert [record["unit"] for record in found] == ["BLEU", "chrF2", "TER", "minutes"]
    assert all("tok:none" in record["note"] for record in found[:1])
    assert {record["subject"] for record in found} == {"seed 3 seed=3"}
    assert found[-1]["more"]["steps"] == 2
    assert all(record["claim"] is None for record in found)
    # A finished run is scored again, with the same scores.
    assert multi30k.main(words) == 0
    again = records(folder, "multi30k")
    assert [r["median"] for r in again[:3]] == [r["median"] for r in found[:3]]
    assert multi30k.main([*words, "--set", "data.test=[]"]) == ConfigError.exit_code


def test_both_directions_of_multi30k_differ_in_files_and_folder_alone() -> None:
    there, back = (
        tomllib.loads((ROOT / f"examples/multi30k-{pair}.toml").read_text(encoding="utf-8"))
        for pair in ("en-de", "de-en")
    )
    assert there.pop("folder") != back.pop("folder")
    data = back.pop("data")
    swapped = {part: files[::-1] for part, files in data.items() if isinstance(files, list)}
    assert there.pop("data") == {**data, **swapped}
    assert there == back
    assert sorted(swapped) == ["test", "train", "validation"]


# Copying


@pytest.mark.parametrize("wrong", ["nothing", *copying.TASKS])
def test_copying_fails_if_one_output_is_wrong(
    wrong: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying, "trained", lambda task, *_: (1000 - (task == wrong), 1000))
    assert copying.main([]) == (wrong != "nothing")
    found = {record["claim"]: record["met"] for record in records(folder, "copying")}
    assert found == {task: task != wrong for task in copying.TASKS}


def test_copying_is_tested_on_sequences_that_are_not_trained_on(tmp_path: Path) -> None:
    parts = copying.write_data(tmp_path, 300, copying.TASKS["reversing"])
    assert [len(part) for part in parts] == [300, 100, 1000]
    assert len(set().union(*parts)) == 1400
    for name, part in zip(copying.PARTS, parts, strict=True):
        lines = (tmp_path / f"{name}.tsv").read_text(encoding="utf-8").splitlines()
        assert [line.split("\t")[0] for line in lines] == part
        assert all(a.split() == b.split()[::-1] for a, b in (line.split("\t") for line in lines))


@pytest.mark.slow
def test_copying_counts_right_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    short = copying.run_config
    monkeypatch.setattr(
        copying,
        "run_config",
        lambda *given: replace(short(*given), search=SearchConfig(beam_size=1, max_length=6)),
    )
    monkeypatch.setitem(copying.TASKS, "stopping", lambda _: "1")
    assert copying.trained("stopping", 300, 60) == (1000, 1000)
    assert copying.trained("copying", 300, 10) == (0, 1000)


# The same translations with every batch size and engine


@pytest.mark.slow
def test_translations_do_not_depend_on_the_batch_size(
    trained: RunConfig, folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(batch_invariance, "BATCH_SIZES", (1, 3, 256))
    source = tmp_path / "in.txt"
    words = "a b c d e f g h".split()
    lines = [" ".join(words[i % 8 : i % 8 + 1 + i % 5] * (1 + i % 3)) for i in range(20)]
    source.write_text("\n".join([*lines, ""]), encoding="utf-8")
    assert batch_invariance.main([trained.folder, str(source), "--sentences", "15"]) == 0
    *speeds, claim = records(folder, "batch_invariance")
    assert len(speeds) == 2 * 3
    assert (claim["median"], claim["more"], claim["met"]) == (0, {"sentences": 15}, True)


class Wavering:
    """A translator whose output differs in some batch sizes."""

    def __init__(self, wrong_in: set[int]) -> None:
        self.wrong_in = wrong_in

    def translate(
        self, texts: Sequence[str], *, batch_size: int, **choices: object
    ) -> list[list[Hypothesis]]:
        found = ["ja"] * len(texts)
        if batch_size in self.wrong_in:
            found[:2] = ["nein", "nein"]
        return [[Hypothesis((), 0.0, (), 0.0, True, text)] for text in found]


@pytest.mark.parametrize(("wrong_in", "count"), [(set(), 0), ({8}, 2), ({256}, 2)])
def test_translations_that_differ_are_counted_and_fail(
    wrong_in: set[int], count: int, folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def load_translator(folder: str, **choices: object) -> Wavering:
        assert (folder, choices["engine"]) == ("model", "ctranslate2")
        return Wavering(wrong_in)

    monkeypatch.setattr(batch_invariance.api, "load_translator", load_translator)
    (tmp_path / "in.txt").write_text("a\nb\nc\n", encoding="utf-8")
    words = ["model", str(tmp_path / "in.txt"), "--engine", "ctranslate2"]
    assert batch_invariance.main(words) == (count > 0)
    assert records(folder, "batch_invariance")[-1]["median"] == count


def test_heads_are_ranked_on_validation_data_and_scored_on_the_test_set(
    trained: RunConfig, folder: Path, tmp_path: Path
) -> None:
    source, reference = tmp_path / "source", tmp_path / "reference"
    source.write_text("1 a b\n2 c\n3 h h\n")
    reference.write_text("b a 1\nc 2\nh h 3\n")
    assert inside.main(["heads", trained.folder, str(source), str(reference)]) == 0
    found = records(folder, "inside")
    scores = [each for each in found if each["unit"] == "BLEU"]
    assert [each["more"]["sentences"] for each in scores] == [3, 3, 3]
    assert all("12 validation sentences" in each["note"] for each in scores)
    translator = api.load_translator(trained.folder, engine="torch", device="cpu")
    pairs = read_pairs(trained.data.validation, "validation")
    importance = head_importance([Subject.translation(translator, *pair[:2]) for pair in pairs])
    expected = dict(zip(map(str, importance.heads), importance.intervals()[:, 0], strict=True))
    rises = {each["subject"]: each["median"] for each in found if each not in scores}
    assert rises.keys() == expected.keys()
    for head, rise in rises.items():
        assert rise == pytest.approx(expected[head], rel=1e-4, abs=1e-7), head


def test_all_engines_and_types_are_scored_on_the_same_sentences(
    trained: RunConfig, folder: Path, tmp_path: Path
) -> None:
    source, reference = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("a b c\nd e\nf g h a\n", encoding="utf-8")
    reference.write_text("b c a\ne d\ng h f a\n", encoding="utf-8")
    assert same_bleu.main([trained.folder, str(source), str(reference)]) == 0
    *scores, claim = records(folder, "same_bleu")
    assert [r["subject"] for r in scores[:3]] == ["torch float32", "ctranslate2 float32", "auto"]
    assert [r["more"]["translations that differ"] for r in scores[:3]] == [0, 0, 0]
    assert (claim["claim"], claim["met"]) == ("same-bleu", True)
    assert not (Path(trained.folder) / "ctranslate2").exists()
    best = str(Path(trained.folder) / "training" / "checkpoints" / "best.safetensors")
    assert same_bleu.main([best, str(source), str(reference)]) == ConfigError.exit_code
    reference.write_text("b c a\n", encoding="utf-8")
    assert same_bleu.main([trained.folder, str(source), str(reference)]) == DataError.exit_code


@pytest.mark.parametrize(("worse", "code"), [(None, 0), (("torch", "int8"), 0), (("auto", ""), 1)])
def test_a_default_engine_that_scores_less_fails(
    worse: tuple[str, str] | None,
    code: int,
    trained: RunConfig,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    for name in ("in.txt", "out.txt"):
        (tmp_path / name).write_text("a b c\n", encoding="utf-8")
    kinds = iter(same_bleu.KINDS)

    def bleu_and_chrf(*_: object, **__: object) -> Any:
        score = 30.0 - 0.11 * (next(kinds) == worse)
        return SimpleNamespace(score=score), SimpleNamespace(score=50.0)

    def translators(*_: object) -> Any:
        return ((kind, Wavering(set())) for kind in same_bleu.KINDS)

    monkeypatch.setattr(same_bleu, "bleu_and_chrf", bleu_and_chrf)
    monkeypatch.setattr(same_bleu, "translators", translators)
    monkeypatch.setattr(Wavering, "translate", lambda *_, **__: [[SimpleNamespace(text="ja")]])
    words = [trained.folder, str(tmp_path / "in.txt"), str(tmp_path / "out.txt")]
    assert same_bleu.main(words) == code


# How cost grows

points = st.lists(st.integers(1, 2000), min_size=2, max_size=2, unique=True)


@given(points, st.floats(0.01, 1000), st.floats(-1, 3))
def test_the_exponent_of_a_power_is_found(x: list[int], scale: float, exponent: float) -> None:
    found = growth.exponent(x, [scale * n**exponent for n in x])
    assert found == pytest.approx(exponent, abs=1e-6)


def test_each_round_visits_every_point_once_and_the_warm_up_does_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(growth, "LEAST_SECONDS", 0)
    calls: Counter[int] = Counter()

    def work(n: int) -> Any:
        return growth.Work(lambda: calls.update([n]), 10 * n)

    curve = growth.Curve("beam", "work", "thing", (1, 2, 4), work)
    order = [(number, point) for number, _, point in growth.visits([curve], rounds=2)]
    assert order == [(0, 1), (0, 2), (0, 4), (1, 4), (1, 2), (1, 1), (2, 1), (2, 2), (2, 4)]
    growth.measure([curve], rounds=3)
    assert calls == {1: 4, 2: 4, 4: 4}
    assert {n: len(costs) for n, costs in curve.milliseconds.items()} == {1: 3, 2: 3, 4: 3}


def test_a_timed_step_is_the_trainers_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growth, "VOCABULARY", 40)
    training, same = (growth.Training(MODEL, "float32", CPU) for _ in range(2))
    monkeypatch.setattr(same.task, "batch_count", lambda epoch: 100)
    trainer = Trainer(
        same.task,
        same.model,
        RunConfig(seed=1, model=MODEL, training=TrainingConfig(max_steps=100_000)),
        keeper=cast(Keeper, None),  # which no step needs
        observers=[],
    )
    before = [parameter.clone() for parameter in training.model.parameters()]
    batch = growth.random_batch(3, 7)
    for _ in range(3):
        training.step(batch)
        trainer.step([batch], 1)
    after = list(training.model.parameters())
    assert not any(map(torch.equal, before, after))
    assert all(map(torch.equal, after, same.model.parameters()))


@pytest.mark.parametrize("beam_size", [1, 3])
def test_outputs_have_the_given_length(beam_size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growth, "VOCABULARY", 12)
    decoding = growth.Decoding(MODEL, CPU)
    for length in (1, 9, 100):
        work = decoding.work(5, length, beam_size)
        found = work.call()
        assert work.units == len(found) == 5
        assert [len(hypotheses[0].tokens) for hypotheses in found] == [length] * 5


@pytest.mark.slow
@pytest.mark.parametrize(("what", "curves"), [("all", 5), ("training", 2), ("beam", 1)])
def test_curves_are_measured_and_recorded(
    what: str, curves: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(growth, "ModelConfig", SimpleNamespace(of_size=lambda size: MODEL))
    small = dict(VOCABULARY=40, SOURCE_LENGTH=4, LEAST_SECONDS=0, TOKENS=32, TRAINING_LENGTH=4)
    small |= dict(OUTPUT_LENGTH=4, SENTENCES=2)
    few = dict(LENGTHS=(4, 8, 16), BEAMS=(1, 2, 4), BATCHES=(1, 2, 4), OUTPUT_LENGTHS=(2, 4, 8))
    for name, value in {**small, **few}.items():
        monkeypatch.setattr(growth, name, value)
    assert growth.main([what, "--rounds", "2"]) == 0
    found = records(folder, "growth")
    claimed = [record["claim"] for record in found if record["claim"]]
    assert len(claimed) == len(set(claimed)) == curves
    assert len(found) == curves * (3 + 1)


# Several processes


def test_what_the_model_says_of_one_and_of_many_processes() -> None:
    one = {engine: scaling.plan_of("tiny", 100, engine, 1, seconds=3) for engine in scaling.ENGINES}
    for plan in one.values():
        assert (plan.traffic, plan.slowest, plan.fastest) == (0, 3, 3)
    many = {e: scaling.plan_of("tiny", 100, e, 64, seconds=3, bandwidth=1e9) for e in one}
    copy = 4 * one["ddp"].weights
    assert (many["ddp"].resting, many["fsdp"].resting) == (4 * copy, 3 * copy / 64)
    assert many["ddp"].traffic == pytest.approx(2 * copy, rel=0.02)
    assert 2.5 * copy < many["fsdp"].traffic < 3 * copy
    assert 3 < many["ddp"].slowest == 3 + many["ddp"].traffic / 1e9
    assert many["ddp"].fastest == 3


# Beside busy processes


@pytest.mark.slow
def test_every_setting_works_alone_and_beside_a_busy_process(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOMP_SPINCOUNT", "7")  # of the user; each process has its own
    for name, value in dict(LEAST_S=0.0, VOCABULARY=60, LENGTH=4, PAIRS=8).items():
        monkeypatch.setattr(beside, name, value)
    own, usual = str(beside.SPIN_COUNT), str(beside.USUAL)
    words = ["--works", "training", "ctranslate2", "--sizes", "tiny", "--searches", "greedy1"]
    words += ["--counts", own, usual, "--busy", "1", "--rounds", "1", "--minutes", "1"]
    monkeypatch.setattr(beside.Pace, "next_s", lambda pace: 0.0)
    assert beside.main(words) == 0
    found = records(folder, "beside")
    settings = [f"GOMP_SPINCOUNT={own}", f"GOMP_SPINCOUNT={usual}", "1 thread"]
    assert [r["subject"] for r in found if not r["claim"]] == 2 * settings
    assert all(r["median"] > 0 and r["more"]["beside 1"] > 0 for r in found if not r["claim"])
    assert [r["claim"] for r in found if r["claim"]] == 2 * ["beside-alone", "beside-1"]


def test_a_share_is_that_of_the_worst_search_with_clearheads_own_count(folder: Path) -> None:
    group = []
    for search, alone in (("greedy1", 8.0), ("beam16", 5.0)):
        rows = [
            beside.Row(beside.Setting(2, str(beside.SPIN_COUNT)), {0: [alone, alone], 1: [4.0]}),
            beside.Row(beside.Setting(2, beside.PASSIVE), {0: [9.0], 1: [1.0]}),
            beside.Row(beside.Setting(1), error="beside 0: took more than 90 s"),
        ]
        group.append(beside.Measurement("torch", "base", beside.SEARCHES[search], rows))
    found = results.Results("beside", [])
    beside.record(group, found)
    shares = {r["claim"]: r for r in found.records if r["claim"]}
    assert (shares["beside-1"]["median"], shares["beside-1"]["met"]) == (0.5, True)
    assert group[0].name in shares["beside-1"]["note"]
    failed = [r for r in found.records if r["note"] and not r["claim"]]
    assert [r["median"] for r in failed] == [None, None]
    found.write()
    assert len(records(folder, "beside")) == len(found.records)


# Terms


def test_terms_are_those_that_references_have(
    trained: RunConfig, folder: Path, tmp_path: Path
) -> None:
    files = [str(tmp_path / name) for name in ("source", "reference")]
    for path, words in zip(files, (("printer", "papers"), ("Drucker", "Papiere")), strict=True):
        lines = (" ".join(words[: 1 + n % 2]) for n in range(12))
        Path(path).write_text("".join(f"{n} {line}\n" for n, line in enumerate(lines)))
    options = ["--name", "letters", "--rounds", "1", "--train", *files, "--test", *files]
    assert glossary.main([trained.folder, *options]) == 0
    found = records(folder, "glossary")
    assert {each["more"]["terms"] for each in found} == {18}
    assert {each["more"]["entries"] for each in found} == {2}
    assert {each["claim"] for each in found} == {None, "glossary-placed", "glossary-rest"}
    assert len([each for each in found if each["measure"].startswith("speed")]) == 2


def test_forms_begin_alike() -> None:
    sources = ["the printer"] * 7 + ["a dog"] * 6
    targets = ["der Drucker"] * 5 + ["des Druckers"] * 2 + ["ein Hund"] * 6
    assert glossary.glossary_of(sources, targets) == {"printer": "Drucker"}
    assert glossary.glossary_of(sources * 3, targets * 3) == {"printer": "Drucker|Druckers"}


# Confidence


@pytest.mark.parametrize("stored", [True, False])
def test_orders_of_translations_are_compared_with_their_quality(
    trained: RunConfig, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stored: bool
) -> None:
    estimate = Confidence(0.0, 0.0, (1.0, 1.0, -1.0))
    fits: list[int] = []

    def fit(sources: Sequence[str], *_: object) -> Confidence:
        fits.append(len(sources))
        return estimate

    monkeypatch.setattr(Confidence, "of", lambda _: estimate if stored else None)
    monkeypatch.setattr(Confidence, "fit", fit)
    files = [str(tmp_path / name) for name in ("source", "reference")]
    for path, line in zip(files, ("a b", "b a"), strict=True):
        Path(path).write_text("".join(f"{n} {line}\n" for n in range(10)))
    options = ["--validation", *files, "--test", *files]
    assert confidence.main([trained.folder, "--name", "letters", *options]) == 0
    assert fits == ([] if stored else [10])
    found = records(folder, "confidence")
    assert all((each["note"] is None) == stored for each in found if "Spearman" in each["measure"])
    shares = {
        each["subject"]: each["median"] for each in found if each["measure"].startswith("error in")
    }
    best = shares["letters, quality itself"]
    assert 20 <= best == max(shares.values()) <= 100
    mended = [each for each in found if each["measure"].startswith("BLEU")]
    assert min(mended, key=lambda each: each["median"])["measure"] == "BLEU"


def test_few_validation_pairs_are_not_enough(
    trained: RunConfig, folder: Path, tmp_path: Path
) -> None:
    path = tmp_path / "pairs"
    path.write_text("1 a\n")
    files = ["--validation", *[str(path)] * 2, "--test", *[str(path)] * 2]
    assert confidence.main([trained.folder, "--name", "letters", *files]) == DataError.exit_code
    assert not (folder / "confidence.jsonl").exists()


@given(st.lists(st.integers(0, 5), min_size=1))
def test_equal_values_share_their_mean_rank(values: list[int]) -> None:
    expected = [
        sum(other < value for other in values) + sum(other == value for other in values) / 2
        for value in values
    ]
    assert confidence.ranks(values) == expected
