"""`clearhead classify`, and `clearhead evaluate` on classifiers, as they are run."""

from __future__ import annotations

import csv
import gzip
import importlib
import io
import itertools
import json
import math
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO, get_args

import numpy as np
import pytest
import torch
from PIL import Image

from clearhead import api
from clearhead.checkpoint.folder import read_folder_config
from clearhead.cli.options import BatchSize
from clearhead.cli.streams import INTERVAL_S, PATIENCE_S, Counter
from clearhead.data.normaliser import Normaliser
from fake_translator import run
from model_folders import LABELS, LONGEST, write_classifier, write_models

TEXTS = ["a b", "c", "d d a c", "b", "a c d b a", "d"]
LONG = "a b c d " * LONGEST
TRUTH = ["yes", "no", "perhaps", "yes", "no", "no"]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    write_models(folder)
    return folder


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("test.tsv").write_text(labelled(zip(TRUTH, TEXTS, strict=True)))


def labelled(rows: Any) -> str:
    return "".join(f"{label}\t{text}\n" for label, text in rows)


def probabilities(folder: Path, inputs: list[Any]) -> np.ndarray:
    classifier = api.load_classifier(folder, device="cpu")
    assert classifier.labels == LABELS
    return classifier.probabilities(inputs)


def ranked(row: np.ndarray) -> list[tuple[str, float]]:
    return sorted(zip(LABELS, row.tolist(), strict=True), key=lambda pair: -pair[1])


def read_line(line: str) -> list[tuple[str, float]]:
    cells = line.split("\t")
    return [(cells[i], float(cells[i + 1])) for i in range(0, len(cells) - 1, 2)]


def agree(found: list[tuple[str, float]], expected: list[tuple[str, float]]) -> bool:
    """The same labels, and their probabilities as far as they are written."""
    return [name for name, _ in found] == [name for name, _ in expected] and all(
        abs(a - b) < 1e-4 for (_, a), (_, b) in zip(found, expected, strict=True)
    )


# Classifying.


@pytest.mark.parametrize(("options", "count"), [([], 1), (["--top", "2"], 2), (["--top", "9"], 3)])
def test_each_line_gives_its_labels_best_first(
    models: Path, options: list[str], count: int
) -> None:
    stdin = "\n".join(TEXTS) + "\n"
    code, out, err = run("classify", str(models / "texts"), *options, stdin=stdin)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    for line, row in zip(lines, probabilities(models / "texts", TEXTS), strict=True):
        assert agree(read_line(line), ranked(row)[:count])


@pytest.mark.parametrize("name", ["test.tsv", "test.CSV", "test.jsonl", "test.tsv.gz"])
def test_a_table_is_read_line_by_line_and_that_is_said_once(models: Path, name: str) -> None:
    content = Path("test.tsv").read_bytes()
    Path(name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    code, out, err = run("classify", str(models / "texts"), "-i", name)
    assert code == 0
    assert len(out.splitlines()) == len(TEXTS)
    (said,) = err.splitlines()
    assert said.startswith(f"clearhead: warning: each line of {name} is read as one text")
    assert "evaluate --data" in said
    Path("test.txt").write_bytes(content)
    assert run("classify", str(models / "texts"), "-i", "test.txt") == (0, out, "")


def test_an_empty_line_gives_an_empty_line(models: Path) -> None:
    _, out, _ = run("classify", str(models / "texts"), stdin="a\n\n \nb\n")
    assert [bool(line) for line in out.split("\n")] == [True, False, False, True, False]
    _, out, _ = run("classify", str(models / "texts"), "--json", stdin="\n")
    assert json.loads(out) == {"input": "", "labels": []}


def test_json_has_an_object_for_each_line(models: Path) -> None:
    Path("in.txt").write_text("\n".join(TEXTS) + "\n")
    code, out, _ = run(
        *("classify", str(models / "texts"), "-i", "in.txt", "-o", "out.jsonl"),
        *("--top", "3", "--json"),
    )
    assert (code, out) == (0, "")
    objects = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
    assert [found["input"] for found in objects] == TEXTS
    for found, row in zip(objects, probabilities(models / "texts", TEXTS), strict=True):
        assert agree([(o["label"], o["probability"]) for o in found["labels"]], ranked(row))


def test_sequences_of_features_are_classified_by_their_place(models: Path) -> None:
    sequences = np.random.default_rng(1).normal(size=(3, 4, 3))
    np.savez("x.npz", x=sequences)
    code, out, err = run("classify", str(models / "features"), "-i", "x.npz", "--json")
    assert (code, err) == (0, "")
    objects = [json.loads(line) for line in out.splitlines()]
    assert [found["input"] for found in objects] == ["x.npz:1", "x.npz:2", "x.npz:3"]
    for found, row in zip(objects, probabilities(models / "features", [*sequences]), strict=True):
        assert [one["label"] for one in found["labels"]] == [ranked(row)[0][0]]
    code, out, err = run("classify", str(models / "features"), stdin="1,2,3\n")
    assert (code, out) == (3, "")
    assert "--input sequences.ts" in err


def test_where_several_labels_may_be_right_all_from_one_half_come(models: Path) -> None:
    stdin = "\n".join(TEXTS) + "\n"
    _, out, _ = run("classify", str(models / "several"), stdin=stdin)
    rows = probabilities(models / "several", TEXTS)
    counts = set()
    for line, row in zip(out.splitlines(), rows, strict=True):
        expected = [pair for pair in ranked(row) if pair[1] >= 0.5]
        assert agree(read_line(line), expected)
        counts.add(len(expected))
    assert len(counts) > 1
    for top in (1, 2):
        _, out, _ = run("classify", str(models / "several"), "--top", str(top), stdin=stdin)
        for line, row in zip(out.splitlines(), rows, strict=True):
            assert agree(read_line(line), ranked(row)[:top])


def test_a_text_that_is_cut_is_said_with_its_line(models: Path) -> None:
    code, out, err = run("classify", str(models / "texts"), stdin=f"a\n{LONG}\n")
    assert (code, len(out.splitlines())) == (0, 2)
    assert err.startswith("clearhead: warning: input 2 has ")
    assert err.endswith(f"cut to {LONGEST}\n")


class Terminal(io.StringIO):
    """What is written to a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("model", "noun"), [("texts", "texts"), ("features", "sequences")])
def test_what_is_counted_is_called_what_it_is(
    models: Path, monkeypatch: pytest.MonkeyPatch, model: str, noun: str
) -> None:
    def counter(stream: TextIO, *given: Any) -> Counter:
        """As on a terminal, and as if each input took a while."""
        return Counter(terminal, *given, clock=lambda: next(moments))

    np.savez("x.npz", x=np.ones((6, 4, 3)), y=np.array(TRUTH))
    Path("in.txt").write_text("\n".join(TEXTS) + "\n")
    plain, labelled = ("in.txt", "test.tsv") if model == "texts" else ("x.npz", "x.npz")
    for module, *words in (
        ("classify", "classify", str(models / model), "-i", plain, "-o", "out.txt"),
        ("evaluate_classes", "evaluate", str(models / model), "--data", labelled),
    ):
        terminal, moments = Terminal(), itertools.count(step=PATIENCE_S + INTERVAL_S)
        monkeypatch.setattr(importlib.import_module(f"clearhead.cli.{module}"), "Counter", counter)
        assert run(*words)[0] == 0
        assert f"6 of 6 {noun}, " in terminal.getvalue()


def test_batches_are_not_of_sentences_alone() -> None:
    _, option = get_args(BatchSize)
    assert option.help.startswith("Inputs that are computed together")


# Evaluating.


def by_hand(folder: Path) -> tuple[float, list[list[int]]]:
    """Accuracy in percent and the confusion matrix, counted one by one."""
    confusion = [[0] * len(LABELS) for _ in LABELS]
    for row, right in zip(probabilities(folder, TEXTS), TRUTH, strict=True):
        confusion[LABELS.index(right)][int(row.argmax())] += 1
    hits = sum(confusion[i][i] for i in range(len(LABELS)))
    return 100 * hits / len(TEXTS), confusion


def test_a_classifier_is_scored_for_programs_and_for_people(models: Path) -> None:
    code, out, err = run("evaluate", str(models / "texts"), "--data", "test.tsv", "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found["data"] == "test.tsv"
    scores = found["systems"][str(models / "texts")]["scores"]
    accuracy, confusion = by_hand(models / "texts")
    assert (scores["examples"], scores["confusion"]) == (len(TEXTS), confusion)
    assert scores["accuracy"] == pytest.approx(accuracy)
    low, high = scores["accuracy_interval"]
    assert low <= accuracy <= high
    code, out, _ = run("evaluate", str(models / "texts"), "--data", "test.tsv")
    lines = [line.split() for line in out.splitlines()]
    assert ["test.tsv"] in lines
    assert ["accuracy", f"{accuracy:.2f}", "%"] in [line[:3] for line in lines]
    assert [[*map(int, line[1:])] for line in lines[-3:]] == confusion


def test_two_classifiers_are_compared_by_mcnemars_test(models: Path) -> None:
    names = str(models / "texts"), str(models / "rival")
    code, out, _ = run("evaluate", *names, "--data", "test.tsv", "--json")
    assert code == 0
    systems = json.loads(out)["systems"]
    assert "comparison" not in systems[names[0]]
    right = [
        [LABELS[int(row.argmax())] == label for row, label in zip(rows, TRUTH, strict=True)]
        for rows in (probabilities(Path(name), TEXTS) for name in names)
    ]
    first = sum(a and not b for a, b in zip(*right, strict=True))
    second = sum(b and not a for a, b in zip(*right, strict=True))
    few, number = min(first, second), first + second
    assert number > 0
    p = min(1.0, 2 * sum(math.comb(number, k) for k in range(few + 1)) / 2**number)
    comparison = systems[names[1]]["comparison"]
    assert (comparison["first_only"], comparison["second_only"]) == (first, second)
    assert comparison["p_value"] == pytest.approx(p)
    _, out, _ = run("evaluate", *names, "--data", "test.tsv")
    assert out.splitlines()[-1] == (
        f"against {names[0]}: {second} right that it has wrong, {first} wrong that it has right, "
        f"p = {p:.4f} (McNemar's exact test)"
    )


def test_classifiers_are_compared_though_one_knows_more_labels(
    models: Path, tmp_path: Path
) -> None:
    wider = tmp_path / "wider"
    config = read_folder_config(models / "rival")
    torch.manual_seed(3)
    write_classifier(wider, config, labels=("maybe", *reversed(LABELS)))
    names = str(models / "texts"), str(wider)
    code, out, _ = run("evaluate", *names, "--data", "test.tsv", "--json")
    assert code == 0
    systems = json.loads(out)["systems"]
    right = []
    for name in names:
        said = api.load_classifier(name, device="cpu").classify(TEXTS)
        right.append([one.label == label for (one,), label in zip(said, TRUTH, strict=True)])
        assert systems[name]["scores"]["accuracy"] == pytest.approx(100 * np.mean(right[-1]))
    first, second = np.array(right)
    found = systems[names[1]]["comparison"]
    assert (found["first_only"], found["second_only"]) == (
        (first & ~second).sum(),
        (second & ~first).sum(),
    )


@pytest.mark.parametrize(
    ("labels", "column", "said"),
    [
        (LABELS, "other", "reads other examples, or other labels of theirs, than"),
        (("yes", "no"), "label", "the label 'perhaps' is not among those of the training data"),
    ],
)
def test_what_cannot_be_compared_is_said_before_anything_is_computed(
    models: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    labels: tuple[str, ...],
    column: str,
    said: str,
) -> None:
    def computed(*given: Any, **options: Any) -> None:
        pytest.fail("probabilities were computed")

    monkeypatch.setattr(api.Classifier, "probabilities", computed)
    config = read_folder_config(models / "texts")
    config = replace(config, data=replace(config.data, label_column=column))
    write_classifier(tmp_path / "rival", config, labels)
    Path("test.csv").write_text("text,label,other\na b,yes,no\nc,perhaps,no\n")
    names = str(models / "texts"), str(tmp_path / "rival")
    code, out, err = run("evaluate", *names, "--data", "test.csv")
    assert (code, out) == (3, "")
    assert "test.csv" in err
    assert said in err


def test_features_are_scored_with_the_labels_of_their_file(models: Path) -> None:
    sequences = np.random.default_rng(1).normal(size=(4, 5, 3))
    rows = probabilities(models / "features", [*sequences])
    best = [LABELS[int(row.argmax())] for row in rows]
    np.savez("x.npz", x=sequences, y=np.array(best))
    _, out, _ = run("evaluate", str(models / "features"), "--data", "x.npz", "--json")
    scores = json.loads(out)["systems"][str(models / "features")]["scores"]
    assert (scores["accuracy"], scores["examples"]) == (100.0, 4)


def test_where_several_labels_may_be_right_all_of_them_have_to_be(models: Path) -> None:
    rows = probabilities(models / "several", TEXTS)
    given = [[name for name, p in zip(LABELS, row, strict=True) if p >= 0.5] for row in rows]
    one_wrong = [*given[:-1], [name for name in LABELS if name not in given[-1]]]
    lines = (
        json.dumps({"text": text, "labels": labels})
        for text, labels in zip(TEXTS, one_wrong, strict=True)
    )
    Path("test.jsonl").write_text("".join(f"{line}\n" for line in lines))
    code, out, _ = run("evaluate", str(models / "several"), "--data", "test.jsonl", "--json")
    assert code == 0
    scores = json.loads(out)["systems"][str(models / "several")]["scores"]
    assert scores["accuracy"] == pytest.approx(100 * (len(TEXTS) - 1) / len(TEXTS))
    assert scores["confusion"] is None
    _, out, _ = run("evaluate", str(models / "several"), "--data", "test.jsonl")
    assert "subset accuracy" in out
    assert "confusion" not in out


def test_empty_texts_are_scored_and_said_once(models: Path) -> None:
    Path("holes.tsv").write_text(labelled([("yes", "a"), ("no", " "), ("yes", "")]))
    code, out, err = run("evaluate", str(models / "texts"), "--data", "holes.tsv", "--json")
    assert code == 0
    assert err.startswith("clearhead: warning: holes.tsv:2 has no text")
    assert err.endswith("(and 1 more like it)\n")
    (found,) = json.loads(out)["systems"].values()
    assert found["scores"]["examples"] == 3


def test_texts_that_are_cut_are_said_once_and_counted(models: Path) -> None:
    Path("long.tsv").write_text(labelled([("yes", "a"), ("no", LONG), ("no", f"c {LONG}")] * 2))
    code, _, err = run("evaluate", str(models / "texts"), "--data", "long.tsv", "--json")
    assert code == 0
    assert err.startswith("clearhead: warning: long.tsv:2 has ")
    assert err.endswith(f"cut to {LONGEST} (and 3 more like it)\n")
    assert err.count("\n") == 1


def test_the_columns_of_features_go_by_their_names(models: Path) -> None:
    """A model that knows names finds them in whatever order a file has them."""
    shutil.copytree(models / "features", "named")
    Normaliser(np.zeros(3), np.ones(3), names=("x", "y", "z")).save(Path("named"), "normaliser")
    frames = np.random.default_rng(2).normal(size=(4, 3))
    best = ranked(probabilities(models / "features", [frames])[0])
    for name, order in (("straight", (0, 1, 2)), ("turned", (2, 0, 1))):
        header = ",".join(["sequence", *("xyz"[i] for i in order), "label"])
        rows = (",".join(["s", *(repr(float(f[i])) for i in order), best[0][0]]) for f in frames)
        Path(f"{name}.csv").write_text("\n".join([header, *rows]) + "\n")
        code, out, err = run("classify", "named", "-i", f"{name}.csv", "--top", "3")
        assert code == 0, err
        assert agree(read_line(out.strip()), best)
        _, out, _ = run("evaluate", "named", "--data", f"{name}.csv", "--json")
        found = json.loads(out)["systems"]["named"]["scores"]["negative_log_likelihood"]
        assert found == pytest.approx(-math.log(best[0][1]), abs=1e-5)


def test_an_evaluation_can_name_the_columns_of_its_file(models: Path) -> None:
    rows = [line.split("\t") for line in Path("test.tsv").read_text().splitlines()]
    with Path("other.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("kind", "question"), *rows])
    model = str(models / "texts")
    code, expected, err = run("evaluate", model, "--data", "test.tsv", "--json")
    assert code == 0, err
    names = ("--text-column", "question", "--label-column", "kind")
    code, out, err = run("evaluate", model, "--data", "other.csv", *names, "--json")
    assert code == 0, err
    assert json.loads(out)["systems"] == json.loads(expected)["systems"]
    code, _, err = run("evaluate", model, "--data", "other.csv")
    assert code == 3
    assert "--text-column" in err


# Pictures of what is confused.


def test_confusion_matrices_are_drawn_into_files_named_after_the_models(models: Path) -> None:
    names = str(models / "texts"), str(models / "rival")
    code, _, err = run("evaluate", *names, "--data", "test.tsv", "--figures", "p")
    assert code == 0
    pictures = [f"confusion-{n}.{form}" for n in ("texts", "rival") for form in ("png", "svg")]
    assert err.splitlines() == [f"clearhead: {Path('p') / picture}" for picture in pictures]
    for picture in Path("p").glob("*.png"):
        with Image.open(picture) as image:
            image.load()
    shown = (Path("p") / "confusion-texts.svg").read_text(encoding="utf-8")
    assert all(f">{label}<" in shown for label in LABELS)


def test_models_of_one_name_have_pictures_of_their_own(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The last one is called as the picture of the one before would be.
    for name in ("old/trec", "new/trec", "new/trec-2"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).symlink_to(models / "texts")
    names = ["old/trec", "new/trec", "new/trec-2"]
    code, _, err = run("evaluate", *names, "--data", "test.tsv", "--figures", "p")
    assert code == 0, err
    titles = ["confusion-trec", "confusion-trec-2", "confusion-trec-2-2"]
    said = [f"clearhead: {Path('p') / title}.{form}" for title in titles for form in ("png", "svg")]
    assert err.splitlines() == said
    monkeypatch.chdir(models / "texts")
    data, pictures = str(tmp_path / "test.tsv"), tmp_path / "q"
    code, _, err = run("evaluate", ".", "--data", data, "--figures", str(pictures))
    assert code == 0, err
    assert {path.stem for path in pictures.iterdir()} == {"confusion-texts"}


# What is refused.


def test_a_label_that_the_model_does_not_know_is_said_with_its_line(models: Path) -> None:
    Path("test.tsv").write_text("yes\ta\nmaybe\tb\n")
    code, out, err = run("evaluate", str(models / "texts"), "--data", "test.tsv")
    assert (code, out) == (3, "")
    assert "test.tsv:2: the label 'maybe' is not among those" in err
    assert f"Why: {models / 'texts'} does not know it; these are " in err
    assert "header" not in err


def test_a_header_that_was_read_as_an_example_is_thought_of(models: Path) -> None:
    Path("test.tsv").write_text("topic\tquestion\nyes\ta\n")
    code, _, err = run("evaluate", str(models / "texts"), "--data", "test.tsv")
    assert code == 3
    assert "test.tsv:1: the label 'topic' is not among those" in err
    assert "if line 1 is a header, name its columns: data.text_column" in err


@pytest.mark.parametrize(
    ("model", "words", "code", "said"),
    [
        ("texts", [], 3, "--data names no file"),
        ("texts", ["--data", "missing.tsv"], 3, "missing.tsv"),
        ("texts", ["--data", "test.tsv", "--source", "s"], 2, "--source means nothing for a c"),
        ("texts", ["--data", "test.tsv", "--reference", "r"], 2, "--reference means nothing"),
        ("texts", ["--data", "test.tsv", "--tokenize", "none"], 2, "--tokenize means nothing"),
        ("texts", ["--data", "test.tsv", "--lowercase"], 2, "--lowercase means nothing"),
        ("texts", ["--data", "test.tsv", "--no-lowercase"], 2, "--no-lowercase means nothing"),
        ("texts", ["--data", "test.tsv", "--beam-size", "3"], 2, "--beam-size means nothing"),
        ("texts", ["--data", "test.tsv", "--temperature", "0"], 2, "--temperature means nothing"),
        ("texts", ["--data", "test.tsv", "--sample"], 2, "--sample means nothing"),
        ("texts", ["--data", "test.tsv", "--engine", "ctranslate2"], 2, "--engine ctranslate2 me"),
        ("texts", ["--data", "test.tsv", "--compute-type", "int8"], 2, "--compute-type means"),
        ("translator", ["--data", "test.tsv"], 2, "--data means nothing for a translator"),
        ("translator", ["--text-column", "q"], 2, "--text-column means nothing for a translator"),
        ("features", ["--data", "x.npz", "--text-column", "q"], 2, "means nothing for features"),
        ("features", ["--data", "x.ts.gz", "--label-column", "q"], 2, "no columns with names"),
        ("translator", ["--source", "s", "--figures", "p"], 2, "--figures means nothing for a t"),
        ("translator", ["--reference", "r"], 3, "--source names no file"),
        ("several", ["--data", "test.tsv", "--figures", "p"], 2, "there is no confusion matrix"),
    ],
)
def test_a_mistake_is_said_before_anything_is_computed(
    models: Path,
    monkeypatch: pytest.MonkeyPatch,
    model: str,
    words: list[str],
    code: int,
    said: str,
) -> None:
    def computed(*given: Any, **options: Any) -> None:
        pytest.fail("probabilities were computed")

    monkeypatch.setattr(api.Classifier, "probabilities", computed)
    found, out, err = run("evaluate", str(models / model), *words)
    assert (found, out) == (code, "")
    assert said in err
    assert not Path("p").exists()


def test_translators_and_classifiers_are_not_scored_together(models: Path) -> None:
    names = str(models / "texts"), str(models / "translator")
    code, out, err = run("evaluate", *names, "--data", "test.tsv")
    assert (code, out) == (2, "")
    assert "translators and classifiers" in err


@pytest.mark.parametrize("names", [("texts", "several"), ("several", "texts")])
def test_an_answer_right_by_one_rule_is_not_compared_with_one_right_by_another(
    models: Path, names: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def computed(*given: Any, **options: Any) -> None:
        pytest.fail("probabilities were computed")

    monkeypatch.setattr(api.Classifier, "probabilities", computed)
    folders = [str(models / name) for name in names]
    code, out, err = run("evaluate", *folders, "--data", "test.tsv")
    assert (code, out) == (2, "")
    one, several = str(models / "texts"), str(models / "several")
    assert f"for {several} an example may have several labels, for {one} it has one" in err


def test_a_checkpoint_classifies_and_says_in_a_line_that_it_is_not_calibrated(
    models: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(models / "texts", tmp_path / "texts")
    checkpoint = folder / "training" / "checkpoints" / "best.safetensors"
    checkpoint.parent.mkdir(parents=True)
    shutil.copy(folder / "weights.safetensors", checkpoint)
    said = f"warning: {checkpoint} is a checkpoint, for which no temperature was fitted: its prob"
    for words in (["classify"], ["evaluate", "--data", "test.tsv"]):
        command, *options = words
        code, out, err = run(command, str(checkpoint), *options, stdin="a\n")
        assert code == 0
        assert out
        (line,) = [line for line in err.splitlines() if "warning" in line.lower()]
        assert line.removeprefix("clearhead: ").startswith(said)
    code, _, err = run("figures", str(checkpoint), "--input", "a b", "-o", str(tmp_path / "p"))
    assert code == 0
    assert said in err
    assert "UserWarning" not in err


def test_a_translator_is_not_a_classifier(models: Path) -> None:
    code, out, err = run("classify", str(models / "translator"), stdin="a\n")
    assert (code, out) == (4, "")
    assert "clearhead translate" in err
