"""The survey and the proposal of `clearhead init --task classification`."""

from __future__ import annotations

import csv
import dataclasses
import json
import os
import random
import shlex
import tomllib
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from clearhead import api
from clearhead.data.judging.report import IMBALANCE, imbalance
from clearhead.data.order import expected_batches
from clearhead.data.proposing import classification as proposing
from clearhead.data.proposing.classification import (
    EXAMPLES_A_STEP,
    FEW,
    FEWEST_EPOCHS,
    KEPT,
    PIECE_RECIPES,
    SEQUENCE_RECIPES,
    WORD_RECIPES,
    InputKind,
    propose_classification,
    read_by_words,
    recipe_for,
)
from clearhead.data.proposing.settings import MOST_WEIGHTS, Recipe
from clearhead.data.proposing.survey import (
    NONE,
    Survey,
    survey_sequences,
    survey_texts,
)
from clearhead.data.proposing.translation import propose_translation
from clearhead.errors import ConfigError, DataError
from clearhead.settings import RunConfig, TokenizerConfig, TrainingConfig, read_config
from clearhead.settings.commented import SEQUENCES, TEXTS, TRANSLATION, Form
from clearhead.tokenizer import learn_tokenizer
from clearhead.tokenizer.normal_form import LABEL
from fake_translator import run
from proposals import EXAMPLES, LATIN, read_back, write_lines

WORDS = "the a cat dog sees Finds green Tree , . where who is was running".split()
same_folder = settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
any_label = st.text(st.characters(exclude_categories=["Cs", "Cc"]))
label = any_label.map(LABEL).filter(bool)


def texts(count: int, longest: int = 9) -> list[str]:
    chance = random.Random(count)
    return [" ".join(chance.choices(WORDS, k=chance.randint(1, longest))) for _ in range(count)]


def write_tsv(path: Path, count: int = 60, labels: Sequence[str] = ("cold", "warm")) -> str:
    rows = enumerate(texts(count))
    return write_lines(path, [f"{labels[i % len(labels)]}\t{text} {i}" for i, text in rows])


def write_csv(path: Path, rows: Sequence[Sequence[str]]) -> str:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)
    return str(path)


def write_jsonl(path: Path, records: Sequence[dict[str, Any]]) -> str:
    return write_lines(path, [json.dumps(record) for record in records])


def write_sequences(path: Path, lengths: Sequence[int], missing: int = 0) -> str:
    """Sequences of three features, in two alternating classes; the last ones lack a value."""
    rng = np.random.default_rng(1)
    frames = [rng.normal(size=(length, 3)) for length in lengths]
    for sequence in frames[len(frames) - missing :]:
        sequence[0, 0] = np.nan
    labels = np.array(["cold", "warm"] * len(lengths))[: len(lengths)]
    np.savez(path, x=np.concatenate(frames), lengths=np.array(lengths), y=labels)
    return str(path)


def proposed(folder: Path, kind: InputKind = "text", *parts: str, **columns: str) -> RunConfig:
    """The proposed configuration for files of these parts, read from its file."""
    files = [(part,) for part in parts]
    return read_back(propose_classification(kind, *files, **columns).to_toml("my-model"), folder)


def test_texts_and_labels_of_the_same_column_are_rejected(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "train.csv", [("text", "label"), *[("a b", "x"), ("c", "y")] * 30])
    for columns in (("label", None), (None, "text")):
        with pytest.raises(ConfigError) as caught:
            propose_classification("text", (path,), text_column=columns[0], label_column=columns[1])
        assert caught.value.setting == "data.label_column"
        assert "--text-column" in str(caught.value.todo)
    propose_classification("features", label_column="text")


# What is seen.


@same_folder
@given(rows=st.lists(st.tuples(st.text("ab c", max_size=20), label), min_size=1, max_size=30))
def test_texts_are_counted_measured_and_parted_into_their_classes(
    rows: list[tuple[str, str]], tmp_path: Path
) -> None:
    records = [{"text": text, "label": name} for text, name in rows]
    found = survey_texts([write_jsonl(tmp_path / "train.jsonl", records)])
    assert dict(found.classes) == Counter(name for _, name in rows)
    assert found.lengths.tolist() == [len(text) for text, _ in rows]
    assert found.sides[0].words == sum(len(text.split()) for text, _ in rows)
    counts = [count for _, count in found.classes]
    assert imbalance(found.classes) == max(counts) / min(counts)
    assert not found.several
    assert not found.without


def test_sequences_are_counted_measured_and_searched_for_missing_values(tmp_path: Path) -> None:
    found = survey_sequences([write_sequences(tmp_path / "train.npz", [4, 9, 2, 5], missing=2)])
    assert found.lengths.tolist() == [4, 9, 2, 5]
    assert found.width == 3
    assert found.missing == 2
    assert found.missing_place.endswith("train.npz:3")
    assert found.classes == (("cold", 2), ("warm", 2))
    assert survey_sequences([write_sequences(tmp_path / "whole.npz", [3])]).missing_place == ""


@pytest.mark.parametrize(
    ("name", "write", "several"),
    [
        ("plain.csv", lambda path: write_csv(path, [("text", "label"), ("t", "a")]), False),
        ("cell.csv", lambda path: write_csv(path, [("text", "label"), ("t", "a|b")]), True),
        ("name.csv", lambda path: write_csv(path, [("text", "label"), ("t", "C|")]), False),
        (
            "rare.csv",
            lambda path: write_csv(path, [("text", "label"), ("t", ""), ("u", "a|b")]),
            True,
        ),
        ("one.jsonl", lambda path: write_jsonl(path, [{"text": "t", "label": ["a"]}]), False),
        ("two.jsonl", lambda path: write_jsonl(path, [{"text": "t", "labels": ["a", "b"]}]), True),
        ("none.jsonl", lambda path: write_jsonl(path, [{"text": "t", "labels": []}]), True),
        ("bar.jsonl", lambda path: write_jsonl(path, [{"text": "t", "label": "a|b"}]), False),
    ],
)
def test_several_labels_are_seen_where_they_are_meant(
    tmp_path: Path, name: str, write: Callable[[Path], str], several: bool
) -> None:
    path = write(tmp_path / name)
    assert proposed(tmp_path, "text", path).classifier.multi_label is several
    plain = write_tsv(tmp_path / "plain.tsv")
    assert proposed(tmp_path, "text", plain, path).classifier.multi_label is several


@pytest.mark.parametrize(
    ("bars", "asked", "several"),
    [(1, None, False), (4, None, False), (30, None, True), (1, True, True), (30, False, False)],
)
def test_a_few_bars_do_not_make_several_labels(
    tmp_path: Path, bars: int, asked: bool | None, several: bool
) -> None:
    labels = ["a|b"] * bars + ["a", "b"] * (50 - bars // 2)
    path = write_csv(
        tmp_path / "a.csv", [("text", "label"), *((f"t{n}", name) for n, name in enumerate(labels))]
    )
    proposal = propose_classification("text", (path,), multi_label=asked)
    assert read_back(proposal.to_toml("m"), tmp_path).classifier.multi_label is several
    (*notes, _, _) = proposal.seen
    assert len(notes) == (asked is None or several)
    assert all(f"{path}:2" in note for note in notes)


def test_a_forgotten_label_and_one_bar_are_an_error(tmp_path: Path) -> None:
    rows = [("t", "a"), ("u", "b")] * 20
    path = write_csv(tmp_path / "a.csv", [("text", "label"), *rows, ("v", ""), ("w", "a|b")])
    with pytest.raises(DataError) as raised:
        propose_classification("text", (path,))
    assert raised.value.where == f"{path}:42"


# What is proposed.


@pytest.mark.parametrize(
    ("kind", "form"), [("text", TEXTS), ("features", SEQUENCES), ("pairs", TRANSLATION)]
)
def test_without_files_the_defaults_are_written(tmp_path: Path, kind: Any, form: Form) -> None:
    pairs = kind == "pairs"
    text = (propose_translation() if pairs else propose_classification(kind)).to_toml("my-model")
    expected = RunConfig(folder="runs/my-model")
    if not pairs:
        expected = RunConfig(task="classification", input=kind, folder="runs/my-model")
    if kind != "features":
        expected = dataclasses.replace(expected, tokenizer=TokenizerConfig(normal_form="sources"))
    assert read_back(text, tmp_path) == expected
    for part in ("train", "validation", "test"):
        assert f"\n# {part} = [" in text
    tree = tomllib.loads(text)
    for path in form.optional:
        section, _, setting = path.rpartition(".")
        assert setting not in tree.get(section, {})


@pytest.mark.parametrize("kind", ["text", "features", "pairs"])
def test_every_setting_is_written_with_the_value_proposed_and_a_comment(
    tmp_path: Path, kind: Any
) -> None:
    if kind == "pairs":
        path, text_column = write_lines(tmp_path / "train.tsv", ["a b\tc d"] * 3), None
    elif kind == "text":
        rows = [("words", "topic"), *((f"word {i}", "a|b" if i else "b") for i in range(9))]
        path = write_csv(tmp_path / "train.csv", rows)
        text_column = "words"
    else:
        rows = [("sequence", "topic", "x"), ("1", "a", ""), ("2", "b", "1")]
        path = write_csv(tmp_path / "train.csv", rows)
        text_column = None
    files = (path,), (path,), (path,)
    columns: Any = {"text_column": text_column, "label_column": "topic"}
    proposal = (
        propose_translation(*files)
        if kind == "pairs"
        else propose_classification(kind, *files, **columns)
    )
    text = proposal.to_toml("my-model")
    tree = tomllib.loads(text)
    for setting, meaning in proposal.form.meanings.items():
        if setting in proposal.form.optional and (
            proposal.values[setting] == proposal.form.default(setting)
        ):
            continue
        value = tree
        for name in setting.split("."):
            value = value[name]
        expected = proposal.values[setting]
        assert value == (list(expected) if isinstance(expected, tuple) else expected)
        assert meaning in text
    assert set(proposal.values) == set(proposal.form.meanings) >= set(proposal.reasons)


def fake_texts(examples: int, width: int = 50) -> Survey:
    lengths = np.full(examples, width)
    side = dataclasses.replace(LATIN, words=10 * examples, characters=width * examples)
    classes = (("a", examples), ("b", examples))
    words = np.full(examples, 10)
    some = ["a man rides a red bicycle in the street ."] * 3
    found = "texts", "train.tsv", examples, (side,), lengths, lengths / 2, words, classes
    return Survey(*found, sample=(some,))


def fake_sequences(examples: int, frames: int = 16) -> Survey:
    lengths, classes = np.full(examples, frames), (("a", examples), ("b", examples))
    return Survey(
        *("sequences", "train.ts", examples, (), lengths, lengths, NONE), classes=classes, width=12
    )


def proposed_for(
    examples: int, folder: Path, patch: pytest.MonkeyPatch, kind: InputKind
) -> RunConfig:
    patch.setattr(proposing, "survey_texts", lambda *_: fake_texts(examples))
    patch.setattr(proposing, "survey_sequences", lambda *_: fake_sequences(examples))
    return proposed(folder, kind, "train")


def steps_of(training: TrainingConfig, examples: int, kind: InputKind) -> int:
    """The steps of a run on the fake data, of which a tenth is held out."""
    lengths = np.full(3, 10 if kind == "text" else 16)
    return training.max_epochs * expected_batches(lengths, 0.9 * examples, training.batch_tokens)


@pytest.mark.parametrize("kind", ["text", "features"])
@pytest.mark.parametrize("examples", [1, 270, 999, 1_000, 19_999, 20_000, 200_000, 5_000_000])
def test_each_amount_of_data_gets_a_valid_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, examples: int, kind: InputKind
) -> None:
    config = proposed_for(examples, tmp_path, monkeypatch, kind)
    words = kind == "text" and examples < 20_000
    recipe, training = (
        recipe_for(fake_texts(examples) if kind == "text" else fake_sequences(examples)),
        config.training,
    )
    assert examples < recipe.below
    assert (config.task, config.input) == ("classification", kind)
    assert config.model.encoder_layers == recipe.layers
    assert config.model.dropout.attention == recipe.dropout
    assert config.classifier.dropout == recipe.head
    assert training.max_epochs == recipe.epochs
    assert training.schedule.kind == "linear"
    assert (config.tokenizer.kind == "words") == words
    steps = steps_of(training, examples, kind)
    assert 1 <= training.schedule.warmup <= max(1, min(recipe.warmup, steps / proposing.RISE))


@pytest.mark.parametrize(
    ("name", "kind", "examples", "besides"),
    [
        ("japanese-vowels.toml", "features", 270, ("validate_every", "schedule")),
        ("trec.toml", "text", 5_452, ()),
    ],
)
def test_the_recipe_of_an_example_has_its_settings(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    kind: InputKind,
    examples: int,
    besides: tuple[str, ...],
) -> None:
    monkeypatch.setenv("CLEARHEAD_DATA", "data")
    example = read_config(EXAMPLES / name)
    config = proposed_for(examples, tmp_path, monkeypatch, kind)
    assert config.model == example.model
    # Surveyed sequences of other lengths.
    reach = example.classifier.kernel_reach
    assert dataclasses.replace(config.classifier, kernel_reach=reach) == example.classifier
    assert config.evaluation.measure == example.evaluation.measure
    assert (config.tokenizer.kind, config.tokenizer.lower) == (
        example.tokenizer.kind,
        example.tokenizer.lower,
    )
    for name in (
        *("batch_tokens", "word_dropout", "label_smoothing", "max_epochs", "average_last"),
        *("keep", *besides),
    ):
        assert getattr(config.training, name) == getattr(example.training, name), name
    assert config.training.schedule.kind == example.training.schedule.kind
    assert config.training.schedule.peak == example.training.schedule.peak


def test_a_text_of_many_marks_is_within_the_limit(tmp_path: Path) -> None:
    lines = [f"{i % 2}\tnumber {i}" + "!" * (60 + i) for i in range(40)]
    config = proposed(tmp_path, "text", write_lines(tmp_path / "train.txt", lines))
    assert config.data.max_length == 128  # 2 words and up to 99 marks
    assert any("all kept" in line for line in api.dry_run(config).data)


def test_few_texts_of_words_are_read_word_by_word(tmp_path: Path) -> None:
    lines = {
        "words": [f"{i % 2}\tnumber {i}" for i in range(40)],
        "bpe": [f"{i % 2}\t" + chr(0x4E00 + i) * 5 for i in range(40)],
    }
    for kind, some in lines.items():
        path = write_lines(tmp_path / "train.txt", some)
        assert proposed(tmp_path, "text", path).tokenizer.kind == kind
    assert read_by_words(dataclasses.replace(LATIN, words=100 * 19_999), 19_999)
    assert not read_by_words(dataclasses.replace(LATIN, words=10 * 20_000), 20_000)
    assert read_by_words(dataclasses.replace(LATIN, words=1_000 * 50), 50)
    assert not read_by_words(dataclasses.replace(LATIN, words=2_000_001), 19_999)


@pytest.mark.parametrize(("words", "epochs"), [(10, 1.0), (100, 1.0), (400, 0.25), (5_000, 0.0)])
def test_long_texts_are_read_less_often(tmp_path: Path, words: int, epochs: float) -> None:
    lines = [f"{i % 2}\t" + f"word{i} text " * (words // 2) for i in range(30)]
    config = proposed(tmp_path, "text", write_lines(tmp_path / "train.txt", lines))
    usual = WORD_RECIPES[0].epochs
    assert config.training.max_epochs == max(FEWEST_EPOCHS, epochs * usual)


@pytest.mark.parametrize("kind", ["text", "features"])
def test_a_short_run_validates_half_as_often_and_averages_the_same_share(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: InputKind
) -> None:
    seen = {"short": 0, "long": 0}
    for examples in (10, 40, 100, 270, 500, 1_000, 2_000, 5_000, 15_000):
        training = proposed_for(examples, tmp_path, monkeypatch, kind).training
        steps = steps_of(training, examples, kind)
        # Validations of the loop, one of them at the end.
        validations = len({*range(0, int(steps), training.validate_every), steps}) - 1
        length = "short" if steps < 200 else "long"
        seen[length] += 1
        # Long intervals are round figures.
        least, most = (12, 16) if length == "short" else (17, 36)
        assert least <= validations <= most, (examples, steps)
        averaged = training.average_last * training.validate_every / steps
        assert 0.12 <= averaged <= 0.3, (examples, steps)
    assert all(seen.values())


@pytest.mark.parametrize("recipes", [WORD_RECIPES, PIECE_RECIPES, SEQUENCE_RECIPES])
def test_within_a_table_more_data_never_gets_a_smaller_model_or_more_regularisation(
    recipes: Sequence[Recipe],
) -> None:
    rising = ("below", "layers", "d_model", "d_ff", "batch_tokens", "warmup", "vocabulary")
    for name in (*rising, "dropout", "head", "epochs", "peak", "sampling", "word_dropout"):
        values = [getattr(recipe, name) for recipe in recipes]
        assert values == sorted(values, reverse=name not in rising), name
    assert len({recipe.below for recipe in recipes}) == len(recipes)


@pytest.mark.parametrize(
    ("largest", "validated", "weights", "measure"),
    [
        (10, 1000, "none", "auto"),
        (11, 1000, "balanced", "macro_f1"),
        (10, 999, "none", "loss"),
        (11, 999, "balanced", "loss"),
        (11, 0, "balanced", "loss"),
    ],
)
def test_classes_are_weighed_and_counted_alike_where_one_is_more_than_ten_times_another(
    tmp_path: Path, largest: int, validated: int, weights: str, measure: str
) -> None:
    assert (IMBALANCE, FEW) == (10, 1000)
    rows = [f"common\ttext {i}" for i in range(2 * largest)] + ["rare\tone", "rare\ttwo"]
    path = write_lines(tmp_path / "train.txt", rows)
    held_out = (write_tsv(tmp_path / "val.tsv", validated),) if validated else ()
    text = propose_classification("text", (path,), held_out).to_toml("my-model")
    config = read_back(text, tmp_path)
    assert config.classifier.class_weights == weights
    assert config.evaluation.measure == measure
    assert f"common ({2 * largest}), has {largest}.0 times the examples" in text
    assert f"# training: 2 classes: common ({2 * largest}), rare (2)" in text


def test_one_class_is_left_for_the_training_to_refuse(tmp_path: Path) -> None:
    config = proposed(tmp_path, "text", write_tsv(tmp_path / "train.tsv", labels=["only"]))
    assert config.classifier.class_weights == "none"
    with pytest.raises(DataError, match="only one class"):
        api.dry_run(config)


@pytest.mark.parametrize("missing", [0, 2])
def test_missing_values_are_filled_only_where_there_are_any(tmp_path: Path, missing: int) -> None:
    train = write_sequences(tmp_path / "train.npz", [5] * 6)
    test = write_sequences(tmp_path / "test.npz", [5] * 4, missing)
    text = propose_classification("features", (train,), (), (test,)).to_toml("my-model")
    expected = "interpolate" if missing else "refuse"
    assert read_back(text, tmp_path).data.missing == expected
    assert ("missing = " in text) == bool(missing)
    assert f"# 2 of {(6 + 4) * 5 * 3} values are missing" in text or not missing


# Whether training takes it.


def labelled_texts(folder: Path) -> str:
    return write_tsv(folder / "train.tsv")


def several_labels(folder: Path) -> str:
    labels = [["cold"], ["cold", "warm"], [], ["warm"]]
    records = [{"sentence": f"{t} {i}", "tags": labels[i % 4]} for i, t in enumerate(texts(60))]
    return write_jsonl(folder / "train.jsonl", records)


def many_characters(folder: Path) -> str:
    """More characters than a vocabulary of the usual size has pieces."""
    characters = [chr(0x4E00 + i) for i in range(2_500)]
    rows = ["".join(characters[i : i + 10]) for i in range(0, 2_500, 10)]
    return write_lines(folder / "train.txt", [f"{i % 2}\t{row}" for i, row in enumerate(rows)])


def incomplete_sequences(folder: Path) -> str:
    return write_sequences(folder / "train.npz", [3, 8, 5, 6] * 10, missing=3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("write", "kind", "columns"),
    [
        (labelled_texts, "text", {}),
        (several_labels, "text", {"text_column": "sentence", "label_column": "tags"}),
        (many_characters, "text", {}),
        (incomplete_sequences, "features", {}),
    ],
)
def test_training_takes_what_is_proposed_as_it_is(
    tmp_path: Path, write: Callable[[Path], str], kind: InputKind, columns: dict[str, str]
) -> None:
    path = write(tmp_path)
    config = proposed(tmp_path, kind, path, **columns)
    done = api.dry_run(config)
    used = [line for line in done.data if " examples, " in line]
    assert all("all kept" in line for line in used), done.data
    text, label = columns.get("text_column", "text"), columns.get("label_column", "label")
    survey = survey_texts([path], text, label) if kind == "text" else survey_sequences([path])
    examples = survey.examples
    assert sum(int(line.split()[1].replace(",", "")) for line in used) == examples


@same_folder
@given(
    rows=st.lists(
        st.one_of(
            st.lists(st.sampled_from(WORDS), min_size=1, max_size=200).map(" ".join),
            st.lists(st.integers(0x4E00, 0x4E40), min_size=1, max_size=200).map(
                lambda points: "".join(map(chr, points))
            ),
        ),
        min_size=2,
        max_size=20,
    )
)
def test_the_limit_of_the_length_leaves_no_ordinary_text_out(
    rows: list[str], tmp_path: Path
) -> None:
    path = write_lines(tmp_path / "train.txt", [f"a\t{row}" for row in rows])
    config = proposed(tmp_path, "text", path)
    tokenizer = learn_tokenizer(rows, config.tokenizer)
    assert max(map(len, tokenizer.encode_batch(rows))) <= config.data.max_length


@pytest.mark.parametrize("kind", ["text", "features"])
def test_a_few_giants_do_not_make_the_limit(tmp_path: Path, kind: InputKind) -> None:
    if kind == "text":
        rows = [f"a\t{text}" for text in texts(300)] + ["b\t" + "word " * 50_000]
        path = write_lines(tmp_path / "train.txt", rows)
    else:
        path = write_sequences(tmp_path / "train.npz", [5] * 300 + [100_000])
    text = propose_classification(kind, (path,)).to_toml("my-model")
    config = read_back(text, tmp_path)
    survey = survey_texts if kind == "text" else survey_sequences
    lengths = survey([path]).most_tokens
    kept = lengths <= config.data.max_length
    assert KEPT <= kept.mean() < 1
    assert f"# {np.sum(~kept)} may be longer" in text


@given(length=st.integers(1, 3_000), examples=st.integers(1, 500))
def test_a_step_sees_at_least_sixteen_examples_of_mean_length(length: int, examples: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(proposing, "survey_sequences", lambda *_: fake_sequences(examples, length))
        values = propose_classification("features", ("train",)).values
    batch, accumulate = values["training.batch_tokens"], values["training.accumulate"]
    assert batch * accumulate >= EXAMPLES_A_STEP * length
    # The memory grows with the square of the length.
    assert batch * length <= MOST_WEIGHTS or batch < 2 * length


# The file, and the command.


@same_folder
@given(names=st.lists(any_label, min_size=2, max_size=2, unique=True), file=label)
def test_labels_and_files_of_any_name_come_back_or_do_no_harm(
    names: list[str], file: str, tmp_path: Path
) -> None:
    assume(os.path.normpath(file) == file)  # `a/` is written as `a`
    classes = tuple((name, 20 - 19 * place) for place, name in enumerate(names))
    found = dataclasses.replace(fake_texts(21), where=file, classes=classes, several=file)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(proposing, "survey_texts", lambda *_: found)
        text = propose_classification("text", (file,), label_column=file).to_toml("my-model")
    tree = tomllib.loads(text)
    assert tree["data"]["train"] == [file]
    assert tree["classifier"]["class_weights"] == "balanced"


def test_init_writes_a_classification_that_can_be_read(tmp_path: Path) -> None:
    rows = [(f"a b {n}", "xy"[n % 2]) for n in range(20)]
    train = write_csv(tmp_path / "train.csv", [("sentence", "label"), *rows])
    name = str(tmp_path / "topics")
    options = ("--task", "classification", "--text-column", "sentence")
    code, out, err = run("init", name, *options, "--train", train)
    assert (code, out) == (0, "")
    assert "training: 20 texts, 110 characters, 5 to 6 each" in err
    assert "training: 2 classes: x (10), y (10)" in err
    config = read_config(f"{name}.toml")
    assert config.data.train == (train,)
    assert config.data.text_column == "sentence"
    assert config.folder == "runs/topics"


def test_init_says_which_columns_are_features(tmp_path: Path) -> None:
    header = ("sequence", "subject_id", "label", "time", "pitch")
    rows = [(f"s{n}", "7", "xy"[n % 2], "0", str(7 * n % 37)) for n in range(36)]
    files = [
        write_csv(tmp_path / "train.csv", [header, *rows[:30]]),
        write_csv(tmp_path / "test.csv", [header, *rows[30:]]),
    ]
    name = str(tmp_path / "voices")
    options = ("--task", "classification", "--input", "features")
    code, _, err = run("init", name, *options, "--train", files[0], "--test", files[1])
    assert code == 0
    assert "training: 2 features: subject_id, pitch\n" in err
    assert err.count("features:") == 1


@pytest.mark.parametrize(
    ("kind", "rest"), [("text", ["<", "in.txt"]), ("features", ["--input", "in.ts"])]
)
def test_the_commands_that_init_writes_can_be_copied(
    tmp_path: Path, kind: str, rest: list[str]
) -> None:
    path = tmp_path / "my labels.toml"
    assert run("init", str(path), "--task=classification", f"--input={kind}")[0] == 0
    commands = [
        shlex.split(line.removeprefix("#"))
        for line in path.read_text().splitlines()
        if line.startswith("#   clearhead")
    ]
    assert [words[1] for words in commands] == ["train", "train", "classify"]
    assert commands[-1] == ["clearhead", "classify", "runs/my labels", *rest]
