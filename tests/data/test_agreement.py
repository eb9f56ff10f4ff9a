"""Sides and parts that do not belong together are found; data that do are not suspected."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from clearhead.data.agreement import check_agreement
from clearhead.data.parts import DataPart, Parts, parts_of
from clearhead.data.phrasebook import LANGUAGE_PAIRS, phrasebook_pairs
from clearhead.data.readers import Pair
from clearhead.data.trainable import check_trainable, read_labelled
from clearhead.errors import ClearheadError, ConfigError, DataError
from clearhead.settings import RunConfig, config_from

BOOKS = {
    (pair, part): phrasebook_pairs(f"phrasebook:{pair}", part)
    for pair in LANGUAGE_PAIRS
    for part in ("train", "validation", "test")
}
ENGLISH, SPANISH = (list(side) for side in zip(*BOOKS["en-es", "test"], strict=True))
GERMAN = [source for source, _ in BOOKS["de-en", "test"]]
KNOWN = list(BOOKS["en-es", "validation"])


def run(**data: object) -> RunConfig:
    return config_from({"data": data})


def warnings(train: list, validation: list = KNOWN, mismatch: str = "warn") -> list[str]:
    config = run(mismatch=mismatch)
    return check_agreement(config, parts_of(config, train, validation))


def refusal(train: list, validation: list = KNOWN) -> DataError:
    with pytest.raises(DataError) as caught:
        warnings(train, validation, "refuse")
    return caught.value


def shuffled(texts: list[str]) -> list[str]:
    return random.Random(0).sample(texts, len(texts))


@pytest.mark.parametrize("pair", LANGUAGE_PAIRS)
@pytest.mark.parametrize("turn", [1, -1])
def test_the_phrasebook_belongs_together(pair: str, turn: int) -> None:
    parts = [[each[::turn] for each in BOOKS[pair, part]] for part in ("train", "validation")]
    assert warnings(parts[0], parts[1]) == []
    for count in (1, 50, 200, 500):
        assert warnings(parts[1][:count], parts[0][:count]) == []


@pytest.mark.parametrize("count", [500, 1000])
@pytest.mark.parametrize("shift", [1, -1, 2])
def test_targets_shifted_by_lines_are_refused(count: int, shift: int) -> None:
    targets = SPANISH[:count]
    error = refusal(list(zip(ENGLISH, targets[shift:] + targets[:shift], strict=False)))
    assert "shifted" in error.what
    assert str(abs(shift)) in error.what
    assert error.where == "train examples"
    assert "data.mismatch" in str(error.todo)


def test_shifted_pairs_to_replay_are_refused() -> None:
    parts = parts_of(run(), KNOWN, KNOWN)
    pairs = tuple(
        Pair(source, target, line)
        for line, (source, target) in enumerate(zip(ENGLISH, SPANISH[1:], strict=False), start=1)
    )
    with pytest.raises(DataError, match="shifted") as caught:
        check_agreement(run(), parts._replace(replay=DataPart("replay", (), pairs)))
    assert caught.value.where == "replay examples"


def test_shuffled_targets_are_refused() -> None:
    pairs = list(zip(ENGLISH, shuffled(SPANISH), strict=True))
    assert "do not belong together" in refusal(pairs).what
    (line,) = warnings(pairs)
    assert "do not belong together" in line


def test_few_pairs_raise_a_warning_only_and_fewer_nothing() -> None:
    pairs = list(zip(ENGLISH, SPANISH[1:], strict=False))
    (line,) = warnings(pairs[:300], mismatch="refuse")
    assert "shifted" in line
    assert warnings(pairs[:100], mismatch="refuse") == []


def test_a_line_that_is_missing_in_the_middle_is_found() -> None:
    half = len(SPANISH) // 2
    targets = SPANISH[:half] + SPANISH[half + 1 :]
    error = refusal(list(zip(ENGLISH, targets, strict=False)))
    assert "shifted by 1 line" in error.what
    assert "from about line" in error.what


def test_equal_sides_are_refused() -> None:
    assert "the same" in refusal([(text, text) for text in ENGLISH]).what
    some = [
        (text, text if n % 3 else other) for n, (text, other) in enumerate(BOOKS["en-es", "test"])
    ]
    (line,) = warnings(some, mismatch="refuse")
    assert "(67 %)" in line


def test_swapped_sides_of_the_validation_part_are_refused() -> None:
    error = refusal(list(BOOKS["en-es", "train"]), [pair[::-1] for pair in KNOWN])
    assert "swapped" in error.what
    assert error.where == "validation examples"


def test_a_side_of_the_validation_part_in_another_language_is_refused() -> None:
    train = [(target, source) for source, target in BOOKS["de-en", "train"]]
    assert "another language" in refusal(train, KNOWN).what


def test_texts_with_labels_are_not_pairs(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("".join(f"{'ab'[n % 2]}\t{text}\n" for n, text in enumerate(ENGLISH)))
    for files in ([str(path)], []):
        with pytest.raises(DataError, match="labels") as caught:
            check_trainable(run(train=[str(path)], validation=files))
        assert "--task classification" in str(caught.value.todo)


def test_a_script_without_spaces_is_compared_too() -> None:
    rng = random.Random(0)
    numbers = [[rng.randrange(100) for _ in range(rng.randint(2, 9))] for _ in range(1000)]
    sources = [" ".join(f"word{n}" for n in each) for each in numbers]
    targets = ["".join(chr(0x4E00 + n) for n in each) for each in numbers]
    pairs = list(zip(sources, targets, strict=True))
    assert warnings(pairs, pairs[:50]) == []
    assert (
        "do not belong"
        in refusal(list(zip(sources, shuffled(targets), strict=True)), pairs[:50]).what
    )


# Texts with labels


def texts(given: list[str]) -> list[tuple[str, str]]:
    return [(text, "ab"[n % 2]) for n, text in enumerate(given)]


def of_texts(train: list, validation: list | None, mismatch: str = "refuse") -> list[str]:
    config = config_from({"task": "classification", "data": {"mismatch": mismatch}})
    return check_agreement(config, read_labelled(config, parts_of(config, train, validation)))


def test_validation_texts_in_another_language_raise_a_warning() -> None:
    assert of_texts(texts(ENGLISH[:500]), texts(ENGLISH[500:])) == []
    assert of_texts(texts(ENGLISH), None) == []
    (line,) = of_texts(texts(ENGLISH), texts(GERMAN))
    assert "another language" in line


def test_validation_texts_in_another_script_are_refused() -> None:
    greek = [text.lower().translate({97 + n: 0x3B1 + n for n in range(26)}) for text in ENGLISH]
    with pytest.raises(DataError, match="another language"):
        of_texts(texts(ENGLISH), texts(greek))
    assert len(of_texts(texts(ENGLISH), texts(greek), "warn")) == 1


def test_columns_that_look_swapped_are_refused_with_the_right_ones(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("".join(f"{text}\t{label}\n" for text, label in texts(ENGLISH)))
    config = config_from({"task": "classification", "data": {"train": [str(path)]}})
    with pytest.raises(DataError, match="swapped") as caught:
        check_agreement(config, parts_read(config))
    assert "data.text_column = 1 and data.label_column = 2" in str(caught.value.todo)


def test_labels_that_are_all_different_are_refused() -> None:
    with pytest.raises(DataError, match="labels"):
        of_texts([(text, f"{n}") for n, text in enumerate(ENGLISH)], texts(ENGLISH))


def test_two_columns_of_texts_are_perhaps_for_a_translator(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("".join(f"{source}\t{target}\n" for source, target in BOOKS["en-es", "test"]))
    config = config_from({"task": "classification", "data": {"train": [str(path)]}})
    with pytest.raises(DataError, match="labels") as caught:
        check_agreement(config, parts_read(config))
    assert 'task = "translation"' in str(caught.value.todo)


def parts_read(config: RunConfig) -> Parts:
    return read_labelled(config, parts_of(config))


# What `init` refuses because training would


def labelled(path: Path, labels: str, count: int = 40) -> str:
    lines = (f"{labels[n % len(labels)]}\ttext number {n}\n" for n in range(count))
    path.write_text("".join(lines))
    return str(path)


@pytest.mark.parametrize(
    ("train", "validation", "message"),
    [("a", "", "only one class"), ("ab", "abc", "'c'"), ("aab", "", None)],
)
def test_classes_that_cannot_be_learned_are_refused(
    tmp_path: Path, train: str, validation: str, message: str | None
) -> None:
    data = {"train": [labelled(tmp_path / "train.tsv", train)]}
    if validation:
        data["validation"] = [labelled(tmp_path / "validation.tsv", validation, 50)]
    config = config_from({"task": "classification", "data": data})
    if message is None:
        assert check_trainable(config) == []
        return
    with pytest.raises(ClearheadError, match=message):
        check_trainable(config)


def test_a_label_that_only_the_test_data_have_raises_a_warning(tmp_path: Path) -> None:
    data = {
        part: [labelled(tmp_path / f"{part}.tsv", labels)]
        for part, labels in (("train", "ab"), ("test", "abc"))
    }
    data["test"] = [labelled(tmp_path / "test.tsv", "abc", 41)]
    (line,) = check_trainable(config_from({"task": "classification", "data": data}))
    assert "'c'" in line


def test_pairs_need_validation_data_that_are_not_the_training_data() -> None:
    with pytest.raises(ConfigError):
        check_trainable(run(train=["phrasebook:en-es"]))
    name = ["phrasebook:en-es:test"]
    with pytest.raises(DataError, match="no pair is left"):
        check_trainable(run(train=name, validation=name))
    assert check_trainable(run(train=["phrasebook:en-es"], validation=["phrasebook:en-es"])) == []
