"""Validation examples split off the training data."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from clearhead.data.reading.labelled import LabelledText
from clearhead.data.validation_split import fold_numbers, split_validation
from small_data import Row, labels, numbered


@given(
    st.lists(st.tuples(st.integers(0, 30).map(str), labels), max_size=60),
    st.floats(0.0, 0.9),
    st.integers(0, 5),
    st.integers(1, 4),
)
def test_a_split_parts_nothing_that_belongs_together(
    rows: list[Row], share: float, seed: int, smallest: int
) -> None:
    examples = numbered(rows)
    training, validation = split_validation(examples, share, seed, smallest)
    assert sorted([*training, *validation], key=lambda one: examples.index(one)) == examples
    assert list(training) == [example for example in examples if example in training]
    assert list(validation) == [example for example in examples if example in validation]
    assert not {one.input for one in training} & {one.input for one in validation}
    assert len(validation) <= round(share * len(examples))
    for label in "xyz":
        inputs, kept = (
            {example.input for example in part if label in example.labels}
            for part in (examples, training)
        )
        assert len(kept) >= min(len(inputs), smallest)
    assert (training, validation) == split_validation(examples, share, seed, smallest)


sizes_of_classes = st.lists(st.integers(1, 40), min_size=1, max_size=5)


@given(sizes_of_classes, st.floats(0.0, 0.5), st.integers(0, 5), st.integers(1, 3))
def test_different_examples_are_split_class_by_class(
    sizes: list[int], share: float, seed: int, smallest: int
) -> None:
    rows: list[Row] = [
        (f"{label} {number}", (str(label),))
        for label, size in enumerate(sizes)
        for number in range(size)
    ]
    _, validation = split_validation(numbered(rows), share, seed, smallest)
    found = Counter(example.labels[0] for example in validation)
    total = round(share * len(rows))
    divisible = [size for size in sizes if size > smallest]
    assert len(validation) == min(total, sum(size - smallest for size in divisible))
    if total >= len(divisible):
        assert len(found) == len(divisible)
    taken = [(size, found[str(label)]) for label, size in enumerate(sizes) if size > smallest]
    # No example would be better placed in another class: the rule of odd divisors.
    for size, count in taken:
        for other, more in taken:
            if count < size - smallest and more > 1:
                assert size / (2 * count + 1) <= other / (2 * more - 1) + 1e-9


def test_another_seed_gives_another_split_and_more_data_hardly_change_it() -> None:
    rows: list[Row] = [(str(number), ("ab"[number % 2],)) for number in range(200)]
    examples = numbered(rows)
    one, other = (
        {example.input for example in split_validation(examples, 0.2, seed)[1]} for seed in (1, 2)
    )
    assert len(one & other) < 20 < len(one)
    fewer = {example.input for example in split_validation(examples[:190], 0.2, 1)[1]}
    assert len(one & fewer) >= 30


def test_examples_without_a_label_are_a_class_of_their_own() -> None:
    rows: list[Row] = [(str(number), ()) for number in range(50)]
    assert len(split_validation(numbered(rows), 0.1, 1)[1]) == 5


def in_groups(rows: list[Row], names: list[str]) -> list[LabelledText]:
    return [one._replace(group=name) for one, name in zip(numbered(rows), names, strict=True)]


grouped_rows = st.lists(
    st.tuples(st.integers(0, 30).map(str), labels, st.sampled_from(["", "a", "b", "c", "d"])),
    max_size=40,
)


@given(grouped_rows, st.floats(0.05, 0.9), st.integers(0, 5), st.integers(1, 3))
def test_a_split_parts_no_group_and_no_equal_inputs(
    rows: list[tuple[str, tuple[str, ...], str]], share: float, seed: int, smallest: int
) -> None:
    examples = in_groups([row[:2] for row in rows], [row[2] for row in rows])
    found = split_validation(examples, share, seed, smallest)
    assert sorted([*found[0], *found[1]], key=lambda one: examples.index(one)) == examples
    trained, validated = ({one.group for one in part} - {""} for part in found)
    assert not trained & validated
    assert not {one.input for one in found[0]} & {one.input for one in found[1]}
    learned = {name for example in found[0] for name in example.labels}
    assert learned >= {name for example in found[1] for name in example.labels}
    assert found == split_validation(examples, share, seed, smallest)


def test_groups_are_held_out_in_proportion_to_the_labels() -> None:
    # 20 persons, each with 10 examples: of half of them mostly x, of the others mostly y.
    rows: list[Row] = []
    names = []
    for person in range(20):
        for number in range(10):
            mostly, seldom = ("x", "y") if person % 2 else ("y", "x")
            rows.append((f"{person} {number}", (mostly if number < 8 else seldom,)))
            names.append(f"person {person}")
    _, validation = split_validation(in_groups(rows, names), 0.2, 1, 2)
    assert len(validation) == 40
    assert Counter(example.labels[0] for example in validation) == {"x": 20, "y": 20}


def test_a_group_with_all_examples_of_a_label_is_trained_on() -> None:
    rows: list[Row] = [(str(n), ("x" if n < 5 else "y",)) for n in range(20)]
    names = ["one" if n < 5 else f"{n // 2}" for n in range(20)]
    training, validation = split_validation(in_groups(rows, names), 0.2, 1, 1)
    assert {example.labels[0] for example in validation} == {"y"}
    assert len(training) > len(validation) > 0


@given(
    st.lists(st.tuples(st.integers(0, 30).map(str), labels), max_size=60),
    st.integers(2, 6),
    st.integers(0, 5),
)
def test_folds_part_nothing_that_belongs_together(rows: list[Row], folds: int, seed: int) -> None:
    examples = numbered(rows)
    examples = [each._replace(group=str(n % 20)) for n, each in enumerate(examples)]
    found = fold_numbers(examples, folds, seed).tolist()
    assert len(found) == len(examples)
    assert set(found) <= set(range(folds))
    for key in ("input", "group"):
        pairs = {(getattr(each, key), n) for each, n in zip(examples, found, strict=True)}
        assert len(pairs) == len({value for value, _ in pairs})
    assert found == fold_numbers(examples, folds, seed).tolist()


@given(sizes_of_classes, st.integers(2, 6), st.integers(0, 5))
def test_folds_have_as_many_of_each_label(sizes: list[int], folds: int, seed: int) -> None:
    rows: list[Row] = [
        (f"{label} {number}", (str(label),))
        for label, size in enumerate(sizes)
        for number in range(size)
    ]
    found = fold_numbers(numbered(rows), folds, seed)
    counts = Counter((row[1][0], int(n)) for row, n in zip(rows, found, strict=True))
    for label, size in enumerate(sizes):
        of_each = [counts[str(label), n] for n in range(folds)]
        assert max(of_each) - min(of_each) <= 1
        assert sum(of_each) == size
    of_fold = Counter(found.tolist())
    assert max(of_fold.values()) - min(of_fold[n] for n in range(folds)) <= len(sizes)
