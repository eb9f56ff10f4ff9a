"""Scores equal those of sacreBLEU's command and of a BLEU written out here."""

from __future__ import annotations

import json
import math
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from clearhead.errors import ConfigError
from clearhead.evaluation.scores import (
    bleu_and_chrf,
    compare,
    exact_match,
    scores_by_length,
    wilson_interval,
)


def score_translations(outputs: list[str], references: list[str], *args: Any, **more: Any) -> Any:
    """The scores of one system."""
    return compare({"": outputs}, references, *args, **more)[""]


WORDS = "the a man woman dog rides walks sees red blue bicycle street in on with and".split()


def sentences(count: int, seed: int) -> list[str]:
    chance = random.Random(seed)
    return [" ".join(chance.choices(WORDS, k=chance.randint(4, 18))) + " ." for _ in range(count)]


def damaged(lines: list[str], share: float, seed: int) -> list[str]:
    chance = random.Random(seed)
    return [
        " ".join(chance.choice(WORDS) if chance.random() < share else w for w in line.split())
        for line in lines
    ]


REFERENCES = sentences(150, seed=1)
HYPOTHESES = damaged(REFERENCES, share=0.3, seed=2)


def written_out_bleu(hypotheses: list[str], references: list[str]) -> float:
    """BLEU by Papineni et al. 2002, section 2.3, on words between spaces."""
    logs, lengths = [], [0, 0]
    for n in (1, 2, 3, 4):
        matched = total = 0
        for hypothesis, reference in zip(hypotheses, references, strict=True):
            ours, theirs = hypothesis.split(), reference.split()
            grams = Counter(tuple(ours[i : i + n]) for i in range(len(ours) - n + 1))
            known = Counter(tuple(theirs[i : i + n]) for i in range(len(theirs) - n + 1))
            matched += sum(min(count, known[gram]) for gram, count in grams.items())
            total += sum(grams.values())
            if n == 1:
                lengths = [lengths[0] + len(ours), lengths[1] + len(theirs)]
        logs.append(math.log(matched / total))
    brevity = min(1.0, math.exp(1 - lengths[1] / lengths[0]))
    return 100 * brevity * math.exp(sum(logs) / 4)


def test_bleu_is_that_of_the_paper() -> None:
    shortened = [line.removesuffix(" .") for line in HYPOTHESES]
    for hypotheses in (HYPOTHESES, shortened):
        bleu, _ = bleu_and_chrf(hypotheses, REFERENCES, tokenize="none")
        assert bleu.score == pytest.approx(written_out_bleu(hypotheses, REFERENCES), abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tokenize", "lowercase"), [("13a", False), ("none", False), ("char", False), ("13a", True)]
)
def test_scores_intervals_and_signatures_are_those_of_the_sacrebleu_command(
    tokenize: str, lowercase: bool, tmp_path: Path
) -> None:
    hypotheses = [line.title() if n % 3 else line for n, line in enumerate(HYPOTHESES)]
    (tmp_path / "hypotheses").write_text("\n".join(hypotheses) + "\n", encoding="utf-8")
    (tmp_path / "references").write_text("\n".join(REFERENCES) + "\n", encoding="utf-8")
    arguments = ["references", "-i", "hypotheses", "-m", "bleu", "chrf", "ter", "-w", "6"]
    arguments += ["--tokenize", tokenize, "--confidence", "--confidence-n", "200"]
    # The command has an option for BLEU, and another for chrF.
    arguments += ["--lowercase", "--chrf-lowercase"] * lowercase
    environment = {k: v for k, v in os.environ.items() if k != "SACREBLEU_SEED"}
    finished = subprocess.run(
        [sys.executable, "-m", "sacrebleu", *arguments],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        check=True,
        text=True,
    )
    expected = json.loads(finished.stdout)

    scores = score_translations(
        hypotheses, REFERENCES, tokenize, bootstrap=200, lowercase=lowercase
    )
    for measure, oracle in zip((scores.bleu, scores.chrf, scores.ter), expected, strict=True):
        assert measure.name == oracle["name"]
        assert measure.signature == oracle["signature"]
        assert measure.score == pytest.approx(oracle["score"], abs=1e-5)
        assert measure.low is not None
        assert measure.high is not None
        mean, half = oracle["confidence_mean"], oracle["confidence_var"]
        assert measure.low == pytest.approx(mean - half, abs=1e-4)
        assert measure.high == pytest.approx(mean + half, abs=1e-4)


def test_the_quick_scores_are_those_of_the_full_ones() -> None:
    full = score_translations(HYPOTHESES, REFERENCES, bootstrap=10)
    bleu, chrf = bleu_and_chrf(HYPOTHESES, REFERENCES)
    assert (bleu.name, bleu.score) == (full.bleu.name, full.bleu.score)
    assert (chrf.name, chrf.score) == (full.chrf.name, full.chrf.score)
    assert bleu.low is bleu.high is bleu.p_value is None


@pytest.mark.slow
def test_ignoring_case_texts_that_differ_only_in_case_are_perfect() -> None:
    cased = [line.title() for line in REFERENCES]
    for lowercase, perfect in ((True, True), (False, False)):
        scores = score_translations(REFERENCES, cased, bootstrap=20, lowercase=lowercase)
        quick = bleu_and_chrf(REFERENCES, cased, lowercase=lowercase)
        table = scores_by_length(cased, REFERENCES, cased, lowercase=lowercase)
        bleus = [scores.bleu.score, quick[0].score, *(row.bleu for row in table)]
        chrfs = [scores.chrf.score, quick[1].score, *(row.chrf for row in table)]
        for score in (*bleus, *chrfs, exact_match(REFERENCES, cased, lowercase=lowercase)):
            assert (score > 99.999) == perfect
        for measure in (scores.bleu, scores.chrf, *quick):
            assert ("case:lc" in measure.signature) == lowercase
        # By sacreBLEU's default it ignores case.
        assert scores.ter.score == 0
        assert "case:lc" in scores.ter.signature
    compared = compare({"a": REFERENCES, "b": cased}, cased, bootstrap=20, lowercase=True)
    assert compared["b"].bleu.p_value == compared["b"].chrf.p_value == 1.0


@pytest.mark.slow
def test_only_a_system_that_differs_from_the_baseline_is_significant() -> None:
    better = damaged(REFERENCES, share=0.1, seed=3)
    nearly = [REFERENCES[0], *HYPOTHESES[1:]]
    assert nearly != HYPOTHESES
    systems = {"baseline": HYPOTHESES, "twin": list(HYPOTHESES), "nearly": nearly, "better": better}
    compared = compare(systems, REFERENCES, bootstrap=300)

    assert list(compared) == list(systems)
    assert compared["baseline"].bleu.p_value is None
    for name in ("bleu", "chrf", "ter"):
        twin, near, far = (
            getattr(compared[system], name).p_value for system in ("twin", "nearly", "better")
        )
        assert twin == 1.0
        assert near > 0.05
        assert far < 0.05
    assert compared["better"].bleu.score > compared["twin"].bleu.score
    assert compared["better"].ter.score < compared["twin"].ter.score
    assert compared["twin"].bleu.score == compared["baseline"].bleu.score


def test_the_table_by_length_counts_every_sentence_once_in_its_class() -> None:
    sources = [" ".join(["x"] * n) for n in (0, 1, 5, 6, 10, 11, 40, 41, 300)]
    lines = sentences(len(sources), seed=4)
    table = scores_by_length(sources, lines, lines)
    counts = {row.words: row.sentences for row in table}
    assert counts == {"0-5": 3, "6-10": 2, "11-15": 1, "31-40": 1, "41+": 2}
    assert all(row.bleu == pytest.approx(100) for row in table)


def test_each_class_of_the_table_is_scored_by_itself() -> None:
    sources = ["short one" if i % 3 else "quite a long source sentence" for i in range(150)]
    table = scores_by_length(sources, HYPOTHESES, REFERENCES, "none", word_counts=(3,))
    for row, keep in zip(table, ((1, 2), (0,)), strict=True):
        numbers = [i for i in range(150) if i % 3 in keep]
        expected = written_out_bleu(
            [HYPOTHESES[i] for i in numbers], [REFERENCES[i] for i in numbers]
        )
        assert row.sentences == len(numbers)
        assert row.bleu == pytest.approx(expected, abs=1e-9)


def test_an_unknown_tokenizer_is_rejected() -> None:
    for function in (score_translations, bleu_and_chrf):
        with pytest.raises(ConfigError) as caught:
            function(HYPOTHESES, REFERENCES, tokenize="13b")
        assert caught.value.where == "evaluation.tokenize"
        assert "intl" in str(caught.value.todo)


def test_tokenised_text_is_scored_without_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    assert sum(line.endswith(" .") for line in REFERENCES) > 100
    bleu_and_chrf(REFERENCES, REFERENCES, tokenize="none")
    score_translations(REFERENCES, REFERENCES, tokenize="none", bootstrap=2)
    assert caplog.records == []


@pytest.mark.parametrize(
    ("references", "tokenize", "order"),
    [
        (["gato", "perro", "casa"], "13a", 1),
        (["el gato", "perro", "la casa"], "13a", 2),
        (["el gato.", "perro", "la casa"], "13a", 3),
        (["猫", "犬です"], "char", 3),
        (["a b c d", "e"], "none", None),
        (["el gato negro duerme", "perro", "casa"], "13a", None),
    ],
)
def test_perfect_outputs_score_100_however_short_the_references_are(
    references: list[str], tokenize: str, order: int | None
) -> None:
    scores = score_translations(references, references, tokenize)
    assert scores.bleu.score == pytest.approx(100)
    assert scores.bleu.order == order
    assert scores.bleu.signature.endswith("" if order is None else f"|order:{order}")
    assert "order" not in scores.chrf.signature
    quick, _ = bleu_and_chrf(references, references, tokenize)
    assert (quick.score, quick.order) == (pytest.approx(100), order)


def test_outputs_that_are_longer_than_short_references_do_not_change_the_order() -> None:
    outputs = ["gato"] * 99 + ["uno dos tres cuatro"]
    bleu, _ = bleu_and_chrf(outputs, ["gato"] * 100)
    assert bleu.order == 1
    assert bleu.score == pytest.approx(100 * 99 / 103)


def test_each_length_class_has_its_order() -> None:
    references = ["gato", "el gato negro duerme en la casa"]
    short, long = scores_by_length(["cat", "a b c d e f"], references, references)
    assert (short.bleu, short.order) == (pytest.approx(100), 1)
    assert (long.bleu, long.order) == (pytest.approx(100), None)


@pytest.mark.parametrize(
    ("hits", "number", "low", "high"),
    [(40, 40, 91.24, 100.0), (0, 40, 0.0, 8.76), (5, 10, 23.66, 76.34), (1, 1, 20.65, 100.0)],
)
def test_the_interval_of_a_share_has_a_width(
    hits: int, number: int, low: float, high: float
) -> None:
    assert wilson_interval(hits, number) == pytest.approx((low, high), abs=0.005)
