"""Sides and parts that do not belong together are found; data that do are not suspected."""

from __future__ import annotations

import itertools
import json
import random
import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from clearhead.data.judging import agreement
from clearhead.data.judging.agreement import check_agreement
from clearhead.data.reading.pairs import Pair
from clearhead.data.reading.parts import DataPart, parts_of
from clearhead.data.reading.phrasebook import LANGUAGE_PAIRS, phrasebook_pairs
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


def unsure(train: list, validation: list = KNOWN) -> int:
    """The number of warnings about data that are not refused."""
    return len(warnings(train, validation, "refuse"))


def shuffled(texts: list[str]) -> list[str]:
    return random.Random(0).sample(texts, len(texts))


@pytest.mark.slow
@pytest.mark.parametrize("pair", LANGUAGE_PAIRS)
@pytest.mark.parametrize("turn", [1, -1])
def test_the_phrasebook_belongs_together(pair: str, turn: int) -> None:
    parts = [[each[::turn] for each in BOOKS[pair, part]] for part in ("train", "validation")]
    assert warnings(parts[0], parts[1]) == []
    for count in (1, 50, 200, 500):
        assert warnings(parts[1][:count], parts[0][:count]) == []


def pairs_of(targets: list[str]) -> list[tuple[str, str]]:
    """English sentences with these targets."""
    return list(zip(ENGLISH, targets, strict=False))


@pytest.mark.slow
@pytest.mark.parametrize("count", [500, 1000])
@pytest.mark.parametrize("shift", [1, -1, 2])
def test_targets_shifted_by_lines_are_refused(count: int, shift: int) -> None:
    targets = SPANISH[:count]
    error = refusal(pairs_of(targets[shift:] + targets[:shift]))
    assert "shifted" in error.what
    assert str(abs(shift)) in error.what
    assert error.where == "train examples"
    assert "data.mismatch" in str(error.todo)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("train", "validation", "what", "where"),
    [
        (pairs_of(shuffled(SPANISH)), KNOWN, "do not belong together", "train examples"),
        (pairs_of(ENGLISH), KNOWN, "the same", "train examples"),
        (
            [(text, ("good", "bad")[n % 2]) for n, text in enumerate(ENGLISH)],
            *(KNOWN, "labels", "train examples"),
        ),
        (
            list(BOOKS["en-es", "train"]),
            *([pair[::-1] for pair in KNOWN], "swapped", "validation examples"),
        ),
        (
            [pair[::-1] for pair in BOOKS["de-en", "train"]],
            *(KNOWN, "another language", "validation examples"),
        ),
    ],
    ids=["shuffled", "equal sides", "labels", "swapped", "another language"],
)
def test_what_does_not_belong_together_is_refused(
    train: list, validation: list, what: str, where: str
) -> None:
    error = refusal(train, validation)
    assert what in error.what
    assert error.where == where
    assert any(what in line for line in warnings(train, validation))


def test_few_pairs_and_some_equal_sides_raise_a_warning_only_and_fewer_pairs_nothing() -> None:
    assert unsure(pairs_of(SPANISH[1:])[:300]) == 1
    assert unsure(pairs_of(SPANISH[1:])[:100]) == 0
    same = [text if n % 3 else other for n, (text, other) in enumerate(BOOKS["en-es", "test"])]
    assert unsure(pairs_of(same)) == 1


@pytest.mark.slow
@pytest.mark.parametrize(("what", "step"), [("shifted by 1 line", 1), ("do not belong", 0)])
@pytest.mark.parametrize("kept", [300, 500, 700, 3600, 9000, 14_000])
def test_lines_that_do_not_fit_from_some_line_on_are_found_before_a_line(
    kept: int, what: str, step: int
) -> None:
    pairs = BOOKS["en-es", "test" if kept < 1000 else "train"]
    sources, targets = map(list, zip(*pairs, strict=True))
    rest = targets[kept + step :] if step else shuffled(targets[kept:])
    error = refusal(list(zip(sources, targets[:kept] + rest, strict=False)))
    assert what in error.what
    (line,) = map(int, re.findall(r"from some line before example (\d+) on", error.what))
    assert kept < line <= kept + max(500, len(sources) / 6)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_translator_of_both_directions_may_be_validated_in_either(share: float) -> None:
    pairs = TARGETS["es"][:2500]
    turned = int(share * len(pairs))
    mixed = [pair[::-1] if row < turned else pair for row, pair in enumerate(pairs)]
    for turn in (1, -1):
        assert unsure(mixed, [pair[::turn] for pair in TARGETS["es"][2500:]]) == 0


def test_texts_with_labels_are_not_pairs(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("".join(f"{'ab'[n % 2]}\t{text}\n" for n, text in enumerate(ENGLISH)))
    for files in ([str(path)], []):
        with pytest.raises(DataError) as caught:
            check_trainable(run(train=[str(path)], validation=files))
        assert "labels" in caught.value.what
        assert "--task classification" in str(caught.value.todo)


@pytest.mark.slow
def test_a_script_without_spaces_is_compared_too() -> None:
    rng = random.Random(0)
    numbers = [[rng.randrange(100) for _ in range(rng.randint(2, 9))] for _ in range(1000)]
    sources = [" ".join(f"word{n}" for n in each) for each in numbers]
    targets = ["".join(chr(0x4E00 + n) for n in each) for each in numbers]
    pairs = list(zip(sources, targets, strict=True))
    assert warnings(pairs, pairs[:50]) == []
    error = refusal(list(zip(sources, shuffled(targets), strict=True)), pairs[:50])
    assert "do not belong" in error.what


# Data that are not refused, although they look unusual


def enciphered(text: str, key: int) -> str:
    """The text in an invented language."""
    return text.lower().translate({97 + n: 97 + (n + key) % 26 for n in range(26)})


TRAIN = BOOKS["en-es", "train"][1000:4000]
TARGETS = {
    "es": list(TRAIN),
    "de": [(english, german) for german, english in BOOKS["de-en", "train"][1000:4000]],
    **{f"x{key}": [(en, enciphered(es, key)) for en, es in TRAIN] for key in (5, 11, 17)},
}
TAGGED = {
    name: [(f">>{name}<< {source}", target) for source, target in pairs]
    for name, pairs in TARGETS.items()
}


@pytest.mark.slow
@pytest.mark.parametrize("turn", [1, -1])
@pytest.mark.parametrize("order", ["one after the other", "in turn"])
@pytest.mark.parametrize("name", ["es", "x11"])
def test_one_of_five_languages_is_enough_to_validate_on(name: str, order: str, turn: int) -> None:
    parts = [pairs[:600] for pairs in TAGGED.values()]
    if order == "in turn":
        parts = [list(each) for each in zip(*parts, strict=True)]
    train = [pair[::turn] for part in parts for pair in part]
    assert unsure(train, [pair[::turn] for pair in TAGGED[name][2500:]]) == 0


@pytest.mark.slow
def test_languages_are_looked_for_in_the_whole_training_part(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(agreement, "START", 1000)
    train = [pair for pairs in TAGGED.values() for pair in pairs * 3]
    assert unsure(train, TAGGED["x17"][2500:]) == 0
    without = train[: -3 * len(TAGGED["x17"])]
    assert "another language" in refusal(without, TAGGED["x17"][2500:]).what


def numbered(pairs: list) -> tuple[Pair, ...]:
    return tuple(Pair(source, target, n) for n, (source, target) in enumerate(pairs, 1))


@pytest.mark.slow
def test_pairs_to_replay_may_be_of_another_language_but_not_shifted_or_swapped() -> None:
    config = config_from({"start_from": "runs/old"})
    old = TARGETS["de"]
    parts = parts_of(config, TARGETS["es"][:2500], TARGETS["es"][2500:])
    tested = DataPart("test", (), numbered(old[2500:]))

    def found(pairs: list) -> list[str]:
        replay = DataPart("replay", (), numbered(pairs))
        return check_agreement(config, parts._replace(replay=replay, test=test))

    test = tested
    assert found(old[:2500]) == []
    test = DataPart("test")
    assert any("swapped" in line for line in found([pair[::-1] for pair in TARGETS["es"][:500]]))
    with pytest.raises(DataError) as caught:
        found(pairs_of(SPANISH[1:]))
    assert caught.value.where == "replay examples"


@pytest.mark.slow
def test_a_model_to_start_from_may_know_other_languages() -> None:
    config = config_from({"start_from": "runs/old"})
    for validation in (TARGETS["de"][:500], [pair[::-1] for pair in KNOWN]):
        (line,) = check_agreement(config, parts_of(config, TARGETS["es"], validation))
        assert "validation" in line


def word(rng: random.Random, letters: str, least: int, most: int) -> str:
    return "".join(rng.choices(letters, k=rng.randint(least, most)))


def unusual(kind: str) -> list[tuple[str, str]]:
    """Pairs that belong together, although it cannot be counted, or each target is a source."""
    rng = random.Random(0)
    latin, han = "abcdefghijklmnopqrstuvwxyz", "".join(map(chr, range(0x4E00, 0x5200)))
    sums = [(rng.randrange(97), rng.randrange(97)) for _ in range(3000)]
    return {
        "dictionary": [(word(rng, latin, 3, 12), word(rng, han, 1, 3)) for _ in range(1500)],
        "names": [(word(rng, "0123456789", 4, 9), word(rng, latin, 3, 9)) for _ in range(1500)],
        "gaps": [(f"{text} ___", word(rng, latin, 1, 9)) for text in ENGLISH],
        "sums": [(f"{a} + {b} modulo 97", str((a + b) % 97)) for a, b in sums],
        "dialogue": list(pairwise(ENGLISH)),
        "short dialogues": [each for n, each in enumerate(pairwise(ENGLISH)) if n % 3 < 2],
        "more of a dialogue": [
            (f"{before} | {text}", answer)
            for (before, text), answer in zip(pairwise(ENGLISH), ENGLISH[2:], strict=False)
        ],
    }[kind]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "turn", "most"),
    [
        *itertools.product(("dictionary", "names", "gaps", "sums"), (1, -1), (1,)),
        *itertools.product(("dialogue", "short dialogues"), (1, -1), (0,)),
        ("more of a dialogue", 1, 0),
    ],
)
def test_pairs_without_a_visible_relation_are_not_refused(kind: str, turn: int, most: int) -> None:
    pairs = [pair[::turn] for pair in unusual(kind)]
    assert unsure(pairs, pairs[:50]) <= most


@pytest.mark.parametrize("labels", [["0", "1"], [f"w{n}" for n in range(40)]])
def test_numbers_and_many_words_may_be_targets(labels: list[str]) -> None:
    pairs = [(text, labels[n % len(labels)]) for n, text in enumerate(ENGLISH)]
    assert unsure(pairs, pairs[:50]) >= 1


# Parts in another style


def prepared(text: str) -> str:
    """An ordinary sentence as in lower-cased, tokenised data."""
    return f"{text.lower().removesuffix('.')} ."


ORDINARY = [(f"{source.capitalize()}.", f"{target.capitalize()}.") for source, target in TRAIN]
PREPARED = [(prepared(source), prepared(target)) for source, target in ORDINARY]


@pytest.mark.slow
@pytest.mark.parametrize("turn", [1, -1])
@pytest.mark.parametrize("lower", [True, False])
def test_a_part_in_another_style_than_the_training_data_raises_a_warning(
    turn: int, lower: bool
) -> None:
    config = config_from({"tokenizer": {"lower": lower}})
    for train, validation in ((PREPARED, PREPARED), (ORDINARY, ORDINARY)):
        parts = parts_of(config, train[:2500], validation[2500:])
        assert check_agreement(config, parts) == []
    train, validation = (PREPARED, ORDINARY)[::turn]
    lines = check_agreement(config, parts_of(config, train[:2500], validation[2500:]))
    assert len(lines) == 2
    for line, side in zip(lines, ("source", "target"), strict=True):
        assert f"validation {side}" in line
        assert "punctuation" in line
        # Nothing is reported for capitals that are missing.
        assert ("capital letters" in line) == (turn == 1 and not lower)


def test_texts_in_another_style_than_the_training_texts_raise_a_warning() -> None:
    ordinary, tokenised = ([source for source, _ in pairs] for pairs in (ORDINARY, PREPARED))
    assert of_texts(texts(ordinary[:300]), texts(ordinary[300:400])) == []
    for count in (40, 100):
        (line,) = of_texts(texts(tokenised[:300]), texts(ordinary[300 : 300 + count]))
        assert "validation texts" in line


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
    with pytest.raises(DataError):
        of_texts(texts(ENGLISH), texts(greek))
    assert len(of_texts(texts(ENGLISH), texts(greek), "warn")) == 1


ONE_WORD = ["".join(random.Random(n).choices("abcdefgh", k=9)) for n in range(60)]


def rows_of(first: list[str], second: list[str], header: str, mark: str = "\t") -> str:
    lines = [f"{one}{mark}{two}\n" for one, two in zip(first, second, strict=True)]
    return "".join([header.replace(",", mark), *lines])


SIXTY = [label for _, label in texts(ONE_WORD)]
SWAPPED = {
    "sentences.txt": rows_of(ENGLISH, [label for _, label in texts(ENGLISH)], ""),
    "one-word.tsv": rows_of(ONE_WORD, SIXTY, ""),
    "one-word.txt": rows_of(ONE_WORD, SIXTY, ""),
    "header.tsv": rows_of(SIXTY, ENGLISH[:60], "text,label\n"),
    "header.csv": rows_of(SIXTY, [f'"{text}"' for text in ENGLISH[:60]], "text,label\n", ","),
    "sorted.tsv": rows_of(
        [f"{text} {n}" for n, text in enumerate(ENGLISH[:500] * 6)], ["a"] * 1500 + ["b"] * 1500, ""
    ),
    "keys.jsonl": "".join(
        f'{{"text": "{label}", "label": "{text}"}}\n'
        for text, label in zip(ONE_WORD, SIXTY, strict=True)
    ),
}


@pytest.mark.parametrize("name", SWAPPED)
def test_the_advice_about_columns_that_look_swapped_is_right(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(SWAPPED[name])
    tree = {"task": "classification", "data": {"train": [str(path)]}}
    with pytest.raises(DataError, match="swapped") as caught:
        check_trainable(config_from(tree))
    columns = r"data.text_column = (\S+) and data.label_column = (\S+)"
    options = r"--text-column (\S+) --label-column (\S+)\)"
    todo = str(caught.value.todo)
    (setting,) = re.findall(columns, todo)
    assert re.findall(options, todo) == [setting]
    text, label = map(json.loads, setting)
    tree["data"] |= {"text_column": text, "label_column": label}
    assert check_trainable(config_from(tree)) == []


def test_columns_that_are_read_already_are_no_advice(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    rows = "".join(f"text of {n},id {n},{'ab'[n % 2]}\n" for n in range(60))
    path.write_text(f"text,label,topic\n{rows}")
    config = config_from({"task": "classification", "data": {"train": [str(path)]}})
    with pytest.raises(DataError, match="labels") as caught:
        check_trainable(config)
    assert '"label"' not in str(caught.value.todo)
    assert "--label-column" in str(caught.value.todo)


def test_labels_in_memory_that_are_texts_or_all_different_are_refused() -> None:
    for given, what in (
        ([pair[::-1] for pair in texts(ENGLISH)], "swapped"),
        ([(text, f"{n}") for n, text in enumerate(ENGLISH)], "labels"),
    ):
        with pytest.raises(DataError) as caught:
            of_texts(given, None if what == "swapped" else texts(ENGLISH))
        assert what in caught.value.what
        assert "column" not in str(caught.value.todo)


def of_features(sequences: list[np.ndarray], mismatch: str = "refuse") -> list[str]:
    """The warnings for sequences that are sorted by label."""
    tree = {"task": "classification", "input": "features", "data": {"mismatch": mismatch}}
    config = config_from(tree)
    examples = [(each, str(4 * row // len(sequences))) for row, each in enumerate(sequences)]
    return check_agreement(config, parts_of(config, examples))


def noise(count: int, frames: int, width: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(count, frames, width))


@pytest.mark.parametrize("frames", [1, 5])
@pytest.mark.parametrize("start", [0, 1, 700])
def test_a_feature_that_counts_the_rows_is_refused(frames: int, start: int) -> None:
    values = noise(40, frames, 2)
    values[..., 1] = np.arange(start, start + 40 * frames).reshape(40, frames)
    some = [each for row, each in enumerate(values) if row % 10]  # the others are held out
    for sequences in (list(values), some):
        with pytest.raises(DataError):
            of_features(sequences)
        assert len(of_features(sequences, "warn")) == 1


@pytest.mark.parametrize("sign", [1, -1])
def test_a_feature_that_only_rises_or_falls_raises_a_warning(sign: int) -> None:
    values = noise(40, 5, 2)
    values[..., 0] = sign * np.sort(values[..., 0].ravel()).reshape(40, 5)
    assert len(of_features(list(values))) == 1
    values[..., 0] = sign * np.repeat(np.arange(40), 5).reshape(40, 5)  # the number of the sequence
    assert len(of_features(list(values))) == 1


def test_features_that_rise_within_each_sequence_or_change_rarely_are_none_of_these() -> None:
    values = noise(40, 5, 3)
    values[..., 0] = np.arange(5)
    values[..., 1] = np.repeat([0, 1], 20)[:, None]
    values[..., 2] = 3
    assert of_features(list(values)) == []
    assert of_features([np.arange(50.0)[:, None]]) == []


def curves(count: int, frames: int, width: int) -> np.ndarray:
    start = np.random.default_rng(0).uniform(0, 6, (count, 1, width))
    return np.sin(start + np.linspace(0, 3, frames)[:, None]) + 0.1 * noise(count, frames, width)


@pytest.mark.parametrize("width", [1, 2, 12])
def test_swapped_axes_of_arrays_are_refused(width: int) -> None:
    for values in (curves(60, 30, width), 5 * np.arange(width) + noise(60, 30, width)):
        assert of_features(list(values)) == []
    with pytest.raises(DataError):
        of_features(list(curves(60, 30, width).swapaxes(1, 2)))
    assert len(of_features(list(curves(60, 30, width).swapaxes(1, 2)), "warn")) == 1


def test_axes_that_may_be_in_order_raise_no_error() -> None:
    assert len(of_features(list(curves(60, 20, 30).swapaxes(1, 2)))) == 1  # many channels
    assert of_features(list(noise(60, 4, 12))) == []
    assert of_features([each[: 5 + row % 2] for row, each in enumerate(noise(60, 9, 30))]) == []
    assert of_features(list(np.zeros((60, 9, 3)))) == []


def test_the_axes_of_tables_are_known(tmp_path: Path) -> None:
    rows = [f"s{n}," + ",".join(map(str, each)) for n, each in enumerate(curves(20, 1, 40)[:, 0])]
    header = ",".join(["sequence", *(f"f{n}" for n in range(40)), "label"])
    lines = [header, *(f"{row},{'uv'[n % 2]}" for n, row in enumerate(rows))]
    (tmp_path / "a.csv").write_text("\n".join(lines))
    tree = {"task": "classification", "input": "features"}
    config = config_from({**tree, "data": {"train": str(tmp_path / "a.csv")}})
    assert check_agreement(config, read_labelled(config, parts_of(config))) == []


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


@pytest.mark.slow
def test_pairs_need_validation_data_that_are_not_the_training_data() -> None:
    with pytest.raises(ConfigError):
        check_trainable(run(train=["phrasebook:en-es"]))
    name = ["phrasebook:en-es:test"]
    with pytest.raises(DataError, match="no pair is left"):
        check_trainable(run(train=name, validation=name))
    assert check_trainable(run(train=["phrasebook:en-es"], validation=["phrasebook:en-es"])) == []
