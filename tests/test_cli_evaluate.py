"""`clearhead evaluate`: scores for people and for programs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from clearhead.settings import RunConfig
from fake_translator import Backwards, run


@pytest.fixture
def test_set(tmp_path: Path) -> tuple[str, ...]:
    words = "the cat sees a big red dog on its way home".split()
    sources = [" ".join(words[: 3 + n % 8]) for n in range(40)]
    (tmp_path / "s").write_text("".join(f"{line}\n" for line in sources))
    references = (" ".join(reversed(line.split())) for line in sources)
    (tmp_path / "r").write_text("".join(f"{line}\n" for line in references))
    return "--source", str(tmp_path / "s"), "--reference", str(tmp_path / "r")


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch) -> dict[str, Backwards]:
    """Two perfect models and one that gets every third word wrong."""
    tokenised = replace(RunConfig(), evaluation=replace(RunConfig().evaluation, tokenize="none"))

    def spoil(text: str) -> str:
        return " ".join("x" if n % 3 == 2 else word for n, word in enumerate(text.split()))

    found = {"good": Backwards(), "bad": Backwards(mend=spoil), "other": Backwards(tokenised)}
    load = "clearhead.api.loading.load_translator"
    monkeypatch.setattr(load, lambda folder, **choices: found[str(folder)])
    monkeypatch.setattr("clearhead.checkpoint.read_model_folder", lambda folder: found[str(folder)])
    return found


def test_evaluate_scores_a_model_for_people_and_for_programs(
    models: dict[str, Backwards], test_set: tuple[str, ...]
) -> None:
    code, out, _ = run("evaluate", "good", *test_set)
    assert code == 0
    for part in ("BLEU  100.00", "chrF2 100.00", "TER     0.00", "exact 100.00 %", "tok:13a"):
        assert part in out
    assert models["good"].calls[0]["search"].n_best == 1
    code, out, _ = run("evaluate", "bad", *test_set, "--json", "--tokenize", "char")
    result = json.loads(out)
    assert (code, result["sentences"], result["tokenize"]) == (0, 40, "char")
    bleu = result["systems"]["bad"]["scores"]["bleu"]
    assert bleu["low"] < bleu["score"] < bleu["high"] < 100
    assert "tok:char" in bleu["signature"]
    assert sum(row["sentences"] for row in result["systems"]["bad"]["by_length"]) == 40


def test_evaluate_compares_each_model_with_the_first(
    models: dict[str, Backwards], test_set: tuple[str, ...]
) -> None:
    _, out, _ = run("evaluate", "good", "bad", *test_set, "--json")
    systems = json.loads(out)["systems"]
    assert systems["good"]["scores"]["bleu"]["p_value"] is None
    assert systems["bad"]["scores"]["bleu"]["p_value"] < 0.05
    assert systems["bad"]["exact"] < systems["good"]["exact"] == 100
    _, text, _ = run("evaluate", "good", "bad", *test_set)
    assert text.index("\ngood\n") < text.index("\nbad\n") < text.index("p = ")


def lowering() -> Backwards:
    """A model that is perfect, but for the case that it never saw."""
    config = RunConfig()
    lowers = replace(config, tokenizer=replace(config.tokenizer, lower=True))
    return Backwards(lowers, mend=str.lower)


def test_evaluate_minds_no_case_where_the_model_lower_cases_unless_it_is_told_to(
    models: dict[str, Backwards], test_set: tuple[str, ...], tmp_path: Path
) -> None:
    models["lower"] = lowering()
    for name in "sr":
        (tmp_path / name).write_text((tmp_path / name).read_text().title())
    code, out, _ = run("evaluate", "lower", *test_set)
    assert code == 0
    for part in ("BLEU  100.00", "chrF2 100.00", "exact 100.00 %", "case:lc|eff:no|tok:13a"):
        assert part in out
    assert "without regard to case" in out
    code, out, _ = run("evaluate", "lower", *test_set, "--no-lowercase", "--json")
    cased = json.loads(out)
    bleu = cased["systems"]["lower"]["scores"]["bleu"]
    assert (code, cased["lowercase"], cased["systems"]["lower"]["exact"]) == (0, False, 0)
    assert bleu["score"] < 1
    assert "case:mixed" in bleu["signature"]
    assert "without regard to case" not in run("evaluate", "good", *test_set)[1]


def test_evaluate_compares_no_model_that_minds_case_with_one_that_does_not(
    models: dict[str, Backwards], test_set: tuple[str, ...]
) -> None:
    models["lower"] = lowering()
    code, _, err = run("evaluate", "good", "lower", *test_set)
    assert code == 2
    for part in ("evaluation.lowercase", "good has false, lower has true", "--no-lowercase"):
        assert part in err
    code, out, _ = run("evaluate", "good", "lower", *test_set, "--lowercase", "--json")
    assert (code, json.loads(out)["lowercase"]) == (0, True)


def test_evaluate_refuses_what_cannot_be_compared(
    models: dict[str, Backwards], test_set: tuple[str, ...], tmp_path: Path
) -> None:
    assert run("evaluate", "good", "good", *test_set)[0] == 3
    code, _, err = run("evaluate", "good", "other", *test_set)
    assert code == 2
    assert "--tokenize" in err
    assert run("evaluate", "good", "other", *test_set, "--tokenize", "none")[0] == 0
    # Before any folder is looked at; one of them may well come from there.
    code, _, err = run("evaluate", "nowhere", "--source", "-", "--reference", "-", stdin="a\n")
    assert code == 3
    assert "cannot both come from the standard input" in err
    sources = (tmp_path / "s").read_text()
    piped = ("--source", "-", "--reference", str(tmp_path / "r"))
    code, out, _ = run("evaluate", "good", *piped, stdin=sources)
    assert code == 0
    assert "BLEU  100.00" in out
    (tmp_path / "r").write_text("one line\n")
    code, _, err = run("evaluate", "good", *test_set)
    assert code == 3
    assert "40 lines and 1 lines" in err
