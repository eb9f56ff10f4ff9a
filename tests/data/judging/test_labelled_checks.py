"""The check of labelled examples, compared with a simple implementation of its rules."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.data import trainable
from clearhead.data.judging.checks import LABELLED, Rule, input_hash
from clearhead.data.preparation import learn_inputs, prepare_labelled
from clearhead.data.reading.labelled import Labelled, LabelledSequence, LabelledText
from clearhead.data.reading.parts import DataPart, Parts, parts_of
from clearhead.data.trainable import check_classes, check_labelled, read_labelled
from clearhead.errors import DataError
from clearhead.settings import DataConfig, RunConfig, TokenizerConfig
from small_data import Row, labels, numbered

TRAIN, VALIDATION = DataPart("train", ("train.csv",)), DataPart("validation", ("train.csv",))
WORDS = TokenizerConfig(kind="words", max_vocabulary=0)
CONFIG = DataConfig(max_length=3, smallest_class=1)
texts = st.lists(st.sampled_from("ab"), max_size=5).map(" ".join)
rows_of_examples = st.lists(st.tuples(texts, labels), max_size=25)
TWO_CLASSES: list[Row] = [("one", ("x",)), ("two", ("y",))]


def of(part: DataPart, examples: Sequence[Labelled]) -> DataPart:
    return dataclasses.replace(part, examples=tuple(examples))


def judged_plainly(
    rows: list[Row], held_out: list[Row], config: DataConfig, lengths: list[int]
) -> list[str | None]:
    """For each example the first rule that it breaks: a simple implementation."""
    verdicts: list[str | None] = []
    for at, (text, names) in enumerate(rows):
        before = rows[:at]
        is_held_out, repeated = (
            any(text == other and set(names) == set(more) for other, more in others)
            for others in (held_out, before)
        )
        verdict = None
        if not text:
            verdict = "empty"
        elif config.drop_held_out and is_held_out:
            verdict = "held_out"
        elif config.drop_duplicates and repeated:
            verdict = "duplicate"
        elif lengths[at] > config.max_length:
            verdict = "long"
        elif is_held_out:
            verdict = "held_out"
        elif repeated:
            verdict = "duplicate"
        elif any(text == other for other, _ in before):
            verdict = "contradiction"
        elif text in {other for other, _ in held_out}:
            verdict = "held_out_input"
        verdicts.append(verdict)
    return verdicts


@pytest.mark.slow
@given(rows_of_examples, rows_of_examples, st.booleans(), st.booleans())
def test_examples_are_judged_as_the_rules_say(
    rows: list[Row], held_out: list[Row], drop: bool, drop_held_out: bool
) -> None:
    rows = TWO_CLASSES + rows
    config = DataConfig(
        max_length=3, drop_duplicates=drop, drop_held_out=drop_held_out, smallest_class=1
    )
    examples, lengths = numbered(rows), [len(text.split()) for text, _ in rows]
    asked: list[list[LabelledText]] = []

    def count(left: Sequence[LabelledText]) -> list[int]:
        asked.append(list(left))
        return [len(example.input.split()) for example in left]

    kept, report = check_labelled(of(TRAIN, examples), config, numbered(held_out), count)
    verdicts = judged_plainly(rows, held_out, config, lengths)
    stay = [None, "contradiction", "held_out_input", "long"]
    stay += ["duplicate"] * (not drop) + ["held_out"] * (not drop_held_out)
    expected = [row for row, verdict in zip(examples, verdicts, strict=True) if verdict in stay]
    assert list(kept) == expected
    assert asked == [expected]  # whoever counts can learn how from them
    assert (report.read, report.kept) == (len(rows), len(expected))
    assert dict(report.classes) == Counter(name for row in expected for name in row.labels)
    for finding in report.findings:
        found = [line for line, verdict in enumerate(verdicts, 2) if verdict == finding.rule]
        assert finding.count == len(found) > 0
        assert finding.places == tuple(f"train.csv:{line}" for line in found[:5])
        assert finding.left_out == (finding.rule not in stay)
    assert {finding.rule for finding in report.findings} == set(verdicts) - {None}


def test_spaces_at_the_ends_do_not_hide_a_duplicate_or_a_held_out_example() -> None:
    rows: list[Row] = [*TWO_CLASSES, (" one ", ("x",)), ("three", ("x",)), (" \u3000", ("y",))]
    kept, report = check_labelled(of(TRAIN, numbered(rows)), CONFIG, numbered([("three ", ("x",))]))
    assert [example.input for example in kept] == ["one", "two"]
    assert [finding.rule for finding in report.findings] == ["empty", "held_out", "duplicate"]


def test_the_order_of_labels_does_not_hide_a_duplicate() -> None:
    rows: list[Row] = [("a", ("x", "y")), ("a", ("y", "x"))]
    assert len(check_labelled(of(TRAIN, numbered(rows)), CONFIG)[0]) == 1
    assert check_labelled(of(TRAIN, []), CONFIG)[1].kept == 0


def test_features_are_the_same_when_all_values_are() -> None:
    values = np.array([[0.0, np.nan], [1.0, 2.0]], dtype=np.float32)
    negative = np.array([[-0.0, -np.nan], [1.0, 2.0]], dtype=np.float32)
    other = [values.reshape(4, 1), values[:1], values[::-1], np.nan_to_num(values)]
    assert input_hash(values) == input_hash(negative)
    assert len({input_hash(array) for array in [values, *other]}) == 5
    examples = [
        LabelledSequence(array, (label,), f"a.ts:{line}")
        for line, (array, label) in enumerate(
            [(values, "x"), (negative, "x"), (values, "y"), *((array, "y") for array in other)]
        )
    ]
    kept, report = check_labelled(of(TRAIN, examples), CONFIG)
    assert [example.place for example in kept] == [f"a.ts:{line}" for line in (0, 2, 3, 4, 5, 6)]
    assert {finding.rule: finding.count for finding in report.findings} == {
        "duplicate": 1,
        "contradiction": 1,
    }


# Classes


def refusal(rows: list[Row], config: DataConfig, held_out: list[Row] | None = None) -> DataError:
    examples = numbered(rows)
    _, report = check_labelled(of(TRAIN, examples), config, numbered(held_out or []))
    with pytest.raises(DataError) as raised:
        check_classes(examples, report, config.smallest_class)
    return raised.value


def test_a_class_that_is_too_small_is_rejected_with_its_count_and_place() -> None:
    rows: list[Row] = [("a", ("x",)), ("b", ("x",)), ("c", ("lonely",)), ("d", ("y",))]
    error = refusal([*rows, ("e", ("y",))], DataConfig())
    assert error.what == "the class 'lonely' has 1 training example, and 2 are needed"
    assert error.where == "/data/train.csv:4"
    assert "data.smallest_class = 1" in str(error.todo)
    kept, _ = check_labelled(of(TRAIN, numbered(rows)), CONFIG)
    assert len(kept) == 4


def test_a_class_that_loses_its_examples_to_the_rules_is_rejected() -> None:
    rows: list[Row] = [*TWO_CLASSES, ("three", ("z",)), ("", ("z",))]
    error = refusal(rows, CONFIG, [("three", ("z",))])
    assert "'z' has 0 training examples" in error.what
    assert error.why == "2 more were left out"
    assert "smallest_class" not in str(error.todo)


def test_one_class_is_none() -> None:
    assert "only one class: 'x'" in refusal([("a", ("x",)), ("b", ("x",))], CONFIG).what
    assert "no label" in refusal([("a", ()), ("b", ())], CONFIG).what


def prepared(
    examples: list[tuple[str, str]], validation: list[tuple[str, str]] | None = None
) -> None:
    config = RunConfig(task="classification", data=CONFIG, tokenizer=WORDS)
    parts = parts_of(config, examples, validation)
    read = read_labelled(config, parts)
    prepare_labelled(config, read, lambda train: learn_inputs(config, train))


def test_no_example_left_is_rejected_with_the_reasons() -> None:
    with pytest.raises(DataError, match="no example is left") as raised:
        prepared([("", "x"), ("", "y")], [("a", "x")])
    assert "2 left out: the text is empty" in str(raised.value.why)
    assert "[data]" in str(raised.value.todo)


@pytest.mark.parametrize(("large", "reported"), [(20, False), (21, True)])
def test_imbalance_of_training_data_is_reported(large: int, reported: bool) -> None:
    rows: list[Row] = [(f"text {number}", ("many",)) for number in range(large)]
    rows += [("a", ("few",)), ("b", ("few",))]
    _, report = check_labelled(of(TRAIN, numbered(rows)), CONFIG)
    assert any('class_weights = "balanced"' in line for line in report.lines()) is reported
    _, kept = check_labelled(of(VALIDATION, numbered(rows)), CONFIG)
    assert len(kept.lines()) == 1


# The report


def test_the_report_reads_as_counts_classes_reasons_and_places() -> None:
    rows: list[Row] = [*TWO_CLASSES, ("", ("x",)), *[("one", ("x",))] * 6, ("one", ("y",))]
    _, report = check_labelled(of(TRAIN, numbered(rows)), CONFIG)
    assert report.lines() == [
        "train: 10 examples, 3 kept; 2 classes: y 2, x 1",
        "train: 1 left out: the text is empty (train.csv:4)",
        "train: 6 left out: the same example came before (train.csv:5, train.csv:6, train.csv:7, "
        "train.csv:8, train.csv:9, …)",
        "train: 1 kept: the same input came before with another label (train.csv:11)",
    ]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ((), "30 features"),
        (tuple(f"f{n}" for n in range(1, 31)), "30 features: f1, f2, f3, "),
    ],
)
def test_features_and_filled_values_are_reported(names: tuple[str, ...], expected: str) -> None:
    frames = np.arange(90.0, dtype=np.float32).reshape(3, 30)
    frames[1, 4] = frames[2, 5] = np.nan
    examples = [
        LabelledSequence(array, ("xy"[n % 2],), f"a.csv:{n}", names)
        for n, array in enumerate([frames, frames + 1, np.nan_to_num(frames)])
    ]
    config = DataConfig(max_length=3, smallest_class=1, missing="mean")
    _, report = check_labelled(of(TRAIN, examples), config)
    _, features, filled = report.lines()
    assert features.startswith(f"train: {expected}")
    assert features.endswith("f20 and 10 more") is bool(names)
    assert filled == 'train: 4 of 270 values are missing and filled: data.missing = "mean"'
    # The others have the same features, or the report lists what differs.
    _, kept = check_labelled(of(VALIDATION, examples), config)
    assert kept.lines()[1:] == [filled.replace("train", "validation")]
    _, refused = check_labelled(
        of(VALIDATION, examples), dataclasses.replace(config, missing="refuse")
    )
    assert len(refused.lines()) == 1


def test_rows_belong_to_their_examples_whichever_rule_drops_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = Rule("first", "it is the first", lambda block: np.arange(len(block.examples)) == 0)
    kind = dataclasses.replace(LABELLED, rules=(*LABELLED.rules, first))
    monkeypatch.setattr(trainable, "LABELLED", kind)
    rows: list[Row] = [(f"{n} " * n, ("x" if n % 2 else "y",)) for n in range(1, 6)]
    data = dataclasses.replace(CONFIG, drop_held_out=False)
    config = RunConfig(task="classification", tokenizer=WORDS, data=data)
    parts = Parts(of(TRAIN, numbered(rows)), of(VALIDATION, numbered(rows)), DataPart("test", ()))
    found = prepare_labelled(config, parts, lambda train: learn_inputs(config, train))
    assert [len(example.input.split()) for example in found.train] == [2, 3, 4, 5]
    assert [len(row) for row in found.rows] == [2, 3, 4, 5]  # cut when they become a batch
