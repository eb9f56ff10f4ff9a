"""The check of sentence pairs, compared with a simple implementation of its rules."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.data.judging.checks import PAIRS, Block, Checker, HashSet, Rule, text_hash
from clearhead.data.judging.report import DataReport
from clearhead.data.reading.pairs import Pair, place
from clearhead.data.reading.parts import DataPart
from clearhead.settings import DataConfig

FILES = ("/data/train.en", "/data/train.de")
TRAIN = DataPart("train", FILES)
CONFIG = DataConfig(max_length=4, max_length_ratio=2.0)
words = st.lists(st.sampled_from("ab"), max_size=6).map(" ".join)
pairs_of_words = st.lists(st.tuples(words, words), max_size=30)


def lengths(pairs: list[Pair]) -> np.ndarray:
    return np.array([[len(text.split()) for text in pair[:2]] for pair in pairs], dtype=np.int64)


def numbered(rows: list[tuple[str, str]]) -> list[Pair]:
    return [Pair(*row, line) for line, row in enumerate(rows, start=1)]


def checked(
    rows: list[tuple[str, str]],
    held_out: Sequence[tuple[str, str]] = (),
    config: DataConfig = CONFIG,
    block: int = 7,
) -> tuple[list[bool], DataReport]:
    checker = Checker(TRAIN, PAIRS, config, numbered(list(held_out)))
    pairs, keep = numbered(rows), []
    for start in range(0, len(pairs), block):
        part = pairs[start : start + block]
        keep += checker.check(part, lengths(part)).tolist()
    return keep, checker.report()


def judged_plainly(
    rows: list[tuple[str, str]], held_out: list[tuple[str, str]], config: DataConfig
) -> list[tuple[str | None, str]]:
    """For each pair the first rule that it breaks, and the place: a simple implementation."""
    verdicts: list[tuple[str | None, str]] = []
    for line, (source, target) in enumerate(rows, start=1):
        in_source, in_target = f"train.en:{line}", f"train.de:{line}"
        sides = len(source.split()), len(target.split())
        repeated = (source, target) in rows[: line - 1]
        if not sides[0]:
            verdict = "empty", in_source
        elif not sides[1]:
            verdict = "empty", in_target
        elif config.drop_held_out and (source, target) in held_out:
            verdict = "held_out", in_source
        elif config.drop_duplicates and repeated:
            verdict = "duplicate", in_source
        elif sides[0] > config.max_length:
            verdict = "long", in_source
        elif sides[1] > config.max_length:
            verdict = "long", in_target
        elif sides[0] / sides[1] > config.max_length_ratio:
            verdict = "ratio", in_source
        elif sides[1] / sides[0] > config.max_length_ratio:
            verdict = "ratio", in_target
        elif (source, target) in held_out:
            verdict = "held_out", in_source
        elif repeated:
            verdict = "duplicate", in_source
        elif source in {pair[0] for pair in held_out}:
            verdict = "held_out_source", in_source
        elif target in {pair[1] for pair in held_out}:
            verdict = "held_out_target", in_target
        else:
            verdict = None, ""
        verdicts.append(verdict)
    return verdicts


@given(pairs_of_words, pairs_of_words, st.booleans(), st.booleans(), st.integers(1, 9))
def test_pairs_are_judged_as_the_rules_say(
    rows: list[tuple[str, str]],
    held_out: list[tuple[str, str]],
    drop: bool,
    drop_held_out: bool,
    block: int,
) -> None:
    config = DataConfig(
        max_length=4, max_length_ratio=2.0, drop_duplicates=drop, drop_held_out=drop_held_out
    )
    may_stay = {None, "held_out_source", "held_out_target"}
    may_stay |= set() if drop_held_out else {"held_out"}
    may_stay |= set() if drop else {"duplicate"}
    keep, report = checked(rows, held_out, config, block)
    verdicts = judged_plainly(rows, held_out, config)
    assert keep == [rule in may_stay for rule, _ in verdicts]
    assert (report.read, report.kept) == (len(rows), sum(keep))
    kept = [row for row, kept in zip(rows, keep, strict=True) if kept]
    assert report.tokens == tuple(sum(len(pair[side].split()) for pair in kept) for side in (0, 1))
    for finding in report.findings:
        places = [where for rule, where in verdicts if rule == finding.rule]
        assert finding.count == len(places) > 0
        assert finding.places == tuple(places[:5])
        assert finding.left_out == (finding.rule not in may_stay)
    assert {finding.rule for finding in report.findings} == {rule for rule, _ in verdicts} - {None}


def test_spaces_at_the_ends_do_not_hide_a_duplicate_or_a_held_out_pair() -> None:
    keep, _ = checked([("a", "b"), (" a", "b "), ("c", "d ")], held_out=[("c ", "d")])
    assert keep == [True, False, False]


@pytest.mark.parametrize("blank", ["   ", "\t", "\u3000"])
def test_a_side_of_white_space_is_empty_though_a_tokenizer_has_a_token_for_it(blank: str) -> None:
    checker = Checker(TRAIN, PAIRS, CONFIG)
    ones = np.ones((3, 2), dtype=np.int64)
    pairs = numbered([(blank, "b"), ("a", blank), ("a", "b")])
    assert checker.check(pairs, ones).tolist() == [False, False, True]
    [finding] = checker.report().findings
    assert (finding.rule, finding.places) == ("empty", ("train.en:1", "train.de:2"))


@pytest.mark.parametrize(
    ("files", "source", "target"),
    [
        (("/data/train.en", "/data/train.de"), "train.en", "train.de"),
        (("/data/en/train.txt", "/data/de/train.txt"), "en/train.txt", "de/train.txt"),
        (("/en/a/train.txt", "/de/a/train.txt"), "en/a/train.txt", "de/a/train.txt"),
        (("train.txt", "de/train.txt"), "train.txt", "de/train.txt"),
        (("/train.txt", "train.txt"), "/train.txt", "train.txt"),
        (("a/copy.txt", "a/copy.txt"), "copy.txt", "copy.txt"),
        (("data/train.tsv",), "train.tsv", "train.tsv"),
        (("phrasebook:en-es",), "phrasebook:en-es", "phrasebook:en-es"),
    ],
)
def test_a_place_has_as_much_of_the_path_as_distinguishes_the_files(
    files: tuple[str, ...], source: str, target: str
) -> None:
    assert place(files, 17) == f"{source}:17"
    assert place(files, 17, in_target=True) == f"{target}:17"


@pytest.mark.parametrize("drop", [True, False, "drop_duplicates"])
def test_a_new_rule_needs_no_more_than_its_entry(drop: bool | str) -> None:
    def copied(block: Block) -> np.ndarray:
        return np.array([pair.source == pair.target for pair in block.examples])

    rule = Rule("copied", "the target is the source, of at most {max_length}", copied, drop)
    kind = replace(PAIRS, rules=(*PAIRS.rules, rule))
    config = replace(CONFIG, drop_duplicates=False)
    checker = Checker(TRAIN, kind, config)
    pairs = numbered([("a", "b"), ("c", "c"), ("", "")])
    assert checker.check(pairs, lengths(pairs)).tolist() == [True, drop is not True, False]
    found = {finding.rule: finding for finding in checker.report().findings}["copied"]
    assert found.places == ("train.en:2",)
    assert found.text.endswith("of at most 4")
    assert checker.rules != Checker(TRAIN, PAIRS, config).rules  # so there is a new corpus, too


def test_the_report_reads_as_counts_reasons_and_places() -> None:
    _, report = checked([("a", "b"), ("", "b"), *[("a", "b")] * 6])
    assert report.lines() == [
        "train: 8 pairs, 1 kept; 1 source and 1 target tokens",
        "train: 1 left out: a side is empty (train.en:2)",
        "train: 6 left out: the same pair came before "
        "(train.en:3, train.en:4, train.en:5, train.en:6, train.en:7, …)",
    ]


def test_a_report_survives_json() -> None:
    _, report = checked([("a", "b"), ("", "b"), ("a a a a a", "b")])
    assert DataReport.from_dict(json.loads(json.dumps(report.to_dict()))) == report


def test_text_does_not_move_from_one_text_to_the_next_unnoticed() -> None:
    assert text_hash("a b", "c") != text_hash("a", "b c")
    assert text_hash(" a", "b ") == text_hash("a", "b")


@given(st.lists(st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 30))))
def test_a_hash_set_knows_what_came_before(blocks: list[list[int]]) -> None:
    hashes, expected = HashSet(), list[int]()
    for block in blocks:
        asked = np.array(block, dtype=np.uint64)
        assert hashes.contains(asked).tolist() == [value in expected for value in block]
        for value, before in zip(block, hashes.add(asked).tolist(), strict=True):
            assert before == (value in expected)
            expected.append(value)
    assert len(hashes) == len(set(expected))
    assert hashes.sorted.tolist() == sorted(set(expected))


def test_the_runs_of_a_hash_set_stay_few() -> None:
    hashes = HashSet()
    for start in range(0, 3000, 3):
        hashes.add(np.arange(start, start + 3, dtype=np.uint64))
    assert len(hashes._runs) <= np.log2(3000)
    assert hashes.contains(np.arange(3001, dtype=np.uint64)).tolist() == [True] * 3000 + [False]
