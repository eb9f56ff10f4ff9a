"""`clearhead score` on a small random translator."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clearhead import api
from exported_models import random_folder
from fake_translator import run
from small_models import small_config


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A translator, 2,000 pairs as two files and as one, and their scores."""
    path = random_folder(tmp_path_factory.mktemp("model") / "m", small_config())
    pairs = [(f"s{n % 9} s{n % 5}", " ".join(["t1", "t2", "t3"][: n % 4])) for n in range(2000)]
    for side, name in enumerate("st"):
        (path.parent / name).write_text("".join(f"{pair[side]}\n" for pair in pairs))
    (path.parent / "pairs.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in pairs[:50]))
    return path


def lines(folder: Path, *words: str | Path) -> list[list[str]]:
    code, out, err = run("score", str(folder), "--device", "cpu", *map(str, words))
    assert code == 0, err
    return [line.split("\t") for line in out.splitlines()]


def test_each_pair_has_its_score_first(folder: Path) -> None:
    files = "--source", folder.parent / "s", "--target", folder.parent / "t"
    found = lines(folder, *files)
    sources, targets = ((folder.parent / name).read_text().splitlines() for name in "st")
    assert [(s, t) for _, s, t in found] == list(zip(sources, targets, strict=True))
    scored = api.load_translator(folder, device="cpu").score(sources, targets)
    assert [float(score) for score, *_ in found] == pytest.approx(
        [each.score for each in scored], abs=1e-4
    )
    for (score, *_), each in zip(lines(folder, *files, "--per-token"), scored, strict=True):
        mean = each.score / len(each.token_scores)
        assert float(score) == pytest.approx(mean, abs=1e-4)


def test_the_worst_come_first_with_their_lines(folder: Path) -> None:
    data = "--data", folder.parent / "pairs.tsv"
    every = [float(score) for score, *_ in lines(folder, *data, "--per-token")]
    worst = lines(folder, *data, "--worst", "7")
    assert [float(score) for score, *_ in worst] == sorted(every)[:7]
    for score, line, *_ in worst:
        assert every[int(line) - 1] == float(score)


def test_json_has_the_score_of_each_token(folder: Path) -> None:
    code, out, _ = run("score", str(folder), "--data", str(folder.parent / "pairs.tsv"), "--json")
    assert code == 0
    for number, record in enumerate(map(json.loads, out.splitlines()), start=1):
        assert record["line"] == number
        assert sum(record["token_scores"]) == pytest.approx(record["score"], abs=1e-4)
        assert len(record["tokens"]) + 1 == len(record["token_scores"])


def test_an_ensemble_has_a_name_with_a_plus(folder: Path, tmp_path: Path) -> None:
    other = random_folder(tmp_path / "other", small_config(), seed=7)
    data = "--data", folder.parent / "pairs.tsv"
    both = lines(Path(f"{folder}+{other}"), *data)
    assert both not in (lines(folder, *data), lines(other, *data))
    named = tmp_path / "a+b"
    other.rename(named)
    assert lines(named, *data) != both


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ((), "--source"),
        (("--source", "s"), "--target"),
        (("--data", "pairs.tsv", "--source", "s"), "--source"),
        (("--source", "s", "--target", "pairs.txt"), "pairs.txt"),
        (("--data", "pairs.tsv", "--worst", "0"), "--worst"),
    ],
)
def test_mistakes(
    folder: Path, words: tuple[str, ...], named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder.parent)
    code, out, err = run("score", str(folder), *words)
    assert code != 0
    assert out == ""
    assert named in err


def test_a_folder_without_a_model_scores_no_pairs(tmp_path: Path, folder: Path) -> None:
    code, _, err = run("score", str(tmp_path), "--data", str(folder.parent / "pairs.tsv"))
    assert code != 0
    assert str(tmp_path) in err
