"""The nearest neighbour: what it is compared with, and when there is none."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from clearhead import api
from clearhead.data.reading.pairs import read_pairs
from clearhead.errors import ClearheadError, DataError
from clearhead.evaluation import neighbour
from clearhead.evaluation.neighbour import NeighbourScores, score_neighbours, training_memory
from clearhead.evaluation.scores import bleu_and_chrf
from clearhead.settings import config_from
from clearhead.text.memory import Match, Memory
from clearhead.tokenizer.normal_form import NormalForm
from fake_translator import run
from small_runs import small_run

PAIRS = [
    ("the cat is black today", "le chat est noir aujourd'hui"),
    ("a dog is white now", "un chien est blanc maintenant"),
]
SOURCES = ["the cat is black", "a dog is white", "the cat is back today"]
REFERENCES = ["le chat est noir", "un chien est blanc", "le chat est noir aujourd'hui"]


def test_a_sentence_gets_the_translation_of_the_most_similar_one() -> None:
    outputs = [PAIRS[0][1], PAIRS[1][1], PAIRS[0][1]]
    done: list[int] = []
    found = score_neighbours(Memory(PAIRS), SOURCES, REFERENCES, progress=done.append)
    bleu, chrf = bleu_and_chrf(outputs, REFERENCES)
    assert found == NeighbourScores(bleu.score, chrf.score, 3, 3, 2)
    assert done == [1, 2, 3]
    assert str(found).endswith(f"BLEU {bleu.score:.2f}, chrF {chrf.score:.2f}")
    assert "among 2 training sentences" in str(found)
    assert score_neighbours(Memory([]), SOURCES, REFERENCES).chrf == 0


def test_case_and_normal_form_are_those_of_the_scores() -> None:
    memory = Memory([("a", "CAFE\u0301 ici pour toi")])
    for form, lowercase, exact in (
        (NormalForm("NFC", lower=True), True, True),
        (NormalForm(""), True, False),
        (NormalForm("NFC"), False, False),
    ):
        options = {"lowercase": lowercase, "form": form}
        found = score_neighbours(memory, ["a"], ["caf\xe9 ici pour toi"], **options)
        assert (found.bleu > 99.9) == exact


def test_the_work_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbour, "MOST_COMPARISONS", 5)
    found = score_neighbours(Memory(PAIRS), SOURCES, REFERENCES)
    assert (found.sentences, found.of) == (2, 3)
    assert str(found).endswith("of the first 2 sentences")
    assert found == NeighbourScores(
        **asdict(score_neighbours(Memory(PAIRS), SOURCES[:2], REFERENCES[:2])) | {"of": 3}
    )


def files(folder: Path) -> dict[str, list[str]]:
    """Training pairs, one of which is held out; the others have the phrases of the validation."""
    held_out = ("the dog is here", "le chien est la")
    parts = {"train": [*PAIRS, held_out], "validation": [held_out, *PAIRS[:1]]}
    for part, pairs in parts.items():
        lines = [f"{source}\t{target}\n" for source, target in pairs]
        (folder / f"{part}.tsv").write_text("".join(lines), encoding="utf-8")
    return {part: [str(folder / f"{part}.tsv")] for part in parts}


def test_the_memory_has_the_training_pairs_that_are_not_held_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_from({"data": files(tmp_path), "tokenizer": {"lower": True}})
    memory = training_memory(config)
    # The first validation pair is also held out.
    assert len(memory) == 1
    assert memory.exact("A dog is  WHITE now") == Match(1.0, PAIRS[1][1])
    done: list[int] = []
    monkeypatch.setattr(neighbour, "MOST_PAIRS", 1)
    (tmp_path / "train.tsv").write_text("a\tb\nc\td\n")
    first = training_memory(config, progress=done.append)
    assert (len(first), first.exact("a"), done) == (1, Match(1.0, "b"), [1])


def test_init_prints_the_scores_on_the_validation_data(tmp_path: Path) -> None:
    named = files(tmp_path)
    words = ["init", str(tmp_path / "run"), "--train", *named["train"]]
    words += ["--validation", *named["validation"], "--mismatch", "warn"]
    code, _, err = run(*words)
    assert code == 0, err
    pairs = [line.split("\t") for line in Path(named["validation"][0]).read_text().splitlines()]
    texts = [source for source, _ in pairs], [target for _, target in pairs]
    expected = score_neighbours(Memory(PAIRS[1:]), *texts)
    (line,) = (line for line in err.splitlines() if "neighbour" in line)
    assert str(expected) in line


def test_init_prints_why_there_are_no_scores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise DataError("too bad", where="train.tsv")

    monkeypatch.setattr(neighbour, "training_memory", fail)
    named = files(tmp_path)
    words = ["init", str(tmp_path / "run"), "--train", *named["train"]]
    code, _, err = run(*words, "--validation", *named["validation"], "--mismatch", "warn")
    assert code == 0
    assert "no nearest neighbour: train.tsv: too bad" in err


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = small_run(tmp_path_factory.mktemp("run"), max_steps=2)
    api.train(config, observers=())
    return Path(config.folder)


def test_an_evaluation_has_the_scores_if_the_data_are_unchanged(trained: Path) -> None:
    data = api.load_translator(trained, engine="torch").config.data
    words = ["evaluate", str(trained), "--data", *data.validation]
    words += ["--engine", "torch", "--device", "cpu", "--beam-size", "1"]
    _, out, err = run(*words)
    assert "no nearest neighbour" not in err
    pairs = list(read_pairs(data.validation))
    texts = [pair.source for pair in pairs], [pair.target for pair in pairs]
    memory = training_memory(api.load_translator(trained, engine="torch").config, trained)
    expected = score_neighbours(memory, *texts)
    assert out.splitlines()[1] == str(expected)
    _, out, _ = run(*words, "--json")
    assert json.loads(out)["nearest_neighbour"] == asdict(expected)
    with Path(data.train[0]).open("a") as stream:
        stream.write(" ")
    with pytest.raises(ClearheadError):
        training_memory(api.load_translator(trained, engine="torch").config, trained)
    code, out, err = run(*words)
    assert code == 0
    assert err.count("no nearest neighbour: ") == 1
    assert data.train[0] in err
    assert "neighbour" not in out
