"""`clearhead classify` on model folders with random weights."""

from __future__ import annotations

import gzip
import json
import math
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from clearhead.api import loading
from clearhead.data.judging.text_style import TEXT_STYLE, TextStyle, TextStyles
from clearhead.data.normaliser import Normaliser
from clearhead.errors import DataError
from clearhead.folder.model_folder import open_folder, write_folder
from fake_translator import run
from model_folders import (
    LABELS,
    LONG,
    LONGEST,
    TEXTS,
    TRUTH,
    labelled,
    probabilities,
)


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("test.tsv").write_text(labelled(zip(TRUTH, TEXTS, strict=True)))


def ranked(row: np.ndarray) -> list[tuple[str, float]]:
    return sorted(zip(LABELS, row.tolist(), strict=True), key=lambda pair: -pair[1])


def read_line(line: str) -> list[tuple[str, float]]:
    cells = line.split("\t")
    return [(cells[i], float(cells[i + 1])) for i in range(0, len(cells) - 1, 2)]


def agree(found: list[tuple[str, float]], expected: list[tuple[str, float]]) -> bool:
    """Whether labels are equal and probabilities equal to the digits that are written."""
    return [name for name, _ in found] == [name for name, _ in expected] and all(
        abs(a - b) < 1e-4 for (_, a), (_, b) in zip(found, expected, strict=True)
    )


def test_texts_that_look_different_are_warned_of_once_and_can_be_normalised(
    models: Path, tmp_path: Path
) -> None:
    trained = shutil.copytree(models / "texts", tmp_path / "model")
    styles = TextStyles({"text": TextStyle.of(["a b , c d ."])})
    write_folder(trained, open_folder(trained).config, {TEXT_STYLE: styles})
    prepared, ordinary = "a b , c .\n", "A b, c.\n"
    code, expected, err = run("classify", str(trained), stdin=prepared * 2)
    assert (code, err) == (0, "")
    code, _, err = run("classify", str(trained), stdin=ordinary * 2)
    assert code == 0
    assert len(err.splitlines()) == 1
    assert "--normalise" in err
    found = run("classify", str(trained), "--normalise", stdin=ordinary * 2)
    assert found == (0, expected, "")
    features = run("classify", str(models / "features"), "--normalise", "-i", "x.ts")
    assert features[0] == 2


# Classifying.


@pytest.mark.parametrize(("options", "count"), [([], 1), (["--top", "2"], 2), (["--top", "9"], 3)])
def test_each_line_gives_its_labels_best_first(
    models: Path, options: list[str], count: int
) -> None:
    stdin = "".join(f"{text}\n \n" for text in TEXTS)
    code, out, err = run("classify", str(models / "texts"), *options, stdin=stdin)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert not any(lines[1::2])
    for line, row in zip(lines[::2], probabilities(models / "texts", TEXTS), strict=True):
        assert agree(read_line(line), ranked(row)[:count])


def test_the_probabilities_of_all_labels_are_columns(models: Path) -> None:
    stdin = "".join(f"{text}\n \n" for text in TEXTS)
    code, out, err = run("classify", str(models / "texts"), "--columns", stdin=stdin)
    assert (code, err) == (0, "")
    head, *lines = out.splitlines()
    assert head.split("\t") == list(LABELS)
    assert set(lines[1::2]) == {"\t" * (len(LABELS) - 1)}
    found = [[float(cell) for cell in line.split("\t")] for line in lines[::2]]
    np.testing.assert_allclose(found, probabilities(models / "texts", TEXTS), atol=1e-4)
    for option in (["--top", "2"], ["--json"]):
        assert run("classify", str(models / "texts"), "--columns", *option, stdin="a")[0] == 2


def test_the_texts_of_a_table_are_classified_without_its_other_columns(models: Path) -> None:
    Path("in.txt").write_text("".join(f"{text}\n" for text in TEXTS))
    expected = run("classify", str(models / "texts"), "-i", "in.txt")
    assert expected[0] == 0
    tables = {
        "labelled.tsv": labelled(zip(TRUTH, TEXTS, strict=True)),
        "header.tsv": "".join(f"{row}\n" for row in ("id\ttext", *(f"1\t{t}" for t in TEXTS))),
        "texts.tsv": "".join(f"{text}\n" for text in TEXTS),
        "broken.CSV": "text,id\n" + "".join(f'"{t.replace(" ", chr(10), 1)}",1\n' for t in TEXTS),
        "keys.jsonl": "".join(json.dumps({"text": t, "other": 1}) + "\n" for t in TEXTS),
    }
    for name, content in tables.items():
        Path(name).write_text(content)
        Path(f"{name}.gz").write_bytes(gzip.compress(content.encode()))
        for file in (name, f"{name}.gz"):
            assert run("classify", str(models / "texts"), "-i", file) == expected, file


def test_the_text_column_is_named_or_a_position(models: Path) -> None:
    Path("in.csv").write_text("id,review\n" + "".join(f"1,{text}\n" for text in TEXTS))
    Path("bare.csv").write_text("".join(f"1,{text}\n" for text in TEXTS))
    Path("in.txt").write_text("".join(f"{text}\n" for text in TEXTS))
    words = ("classify", str(models / "texts"), "-i")
    expected = run(*words, "in.txt")
    assert run(*words, "in.csv", "--text-column", "review") == expected
    assert run(*words, "bare.csv", "--text-column", "2") == expected
    assert run(*words, "in.csv")[0] == 3
    assert run(*words, "bare.csv", "--text-column", "3")[0] == 3
    assert run(*words, "in.txt", "--text-column", "review")[0] == 2
    assert run(*words, "-", "--text-column", "review")[0] == 2
    assert run(*words, "-", "--text-column", "1")[0] == 2
    features = ("classify", str(models / "features"), "-i", "x.npz", "--text-column", "a")
    assert run(*features)[0] == 2


@pytest.mark.parametrize("count", [1, 12])
def test_a_known_label_in_line_1_shows_the_columns(models: Path, count: int) -> None:
    rows = [(f"text number {n}", "yes" if n % 3 else "no") for n in range(count)]
    words = ("classify", str(models / "texts"), "--json", "-i")
    for name in ("last.tsv", "last.txt", "first.tsv", "first.txt"):
        turn = 1 if "last" in name else -1
        Path(name).write_text("".join("\t".join(row[::turn]) + "\n" for row in rows))
        code, out, err = run(*words, name)
        assert (code, err) == (0, "")
        assert [json.loads(line)["input"] for line in out.splitlines()] == [row[0] for row in rows]
    Path("names.tsv").write_text("says\tis\n" + "".join("\t".join(row) + "\n" for row in rows))
    assert run(*words, "names.tsv")[:2] == (3, "")
    assert run(*words, "names.tsv", "--text-column", "says")[1] == out


@pytest.mark.parametrize("name", ["reviews.csv", "bare.csv", "ids.tsv", "keys.jsonl", "few.csv"])
def test_the_advice_about_the_text_column_is_right(models: Path, name: str) -> None:
    texts = [f"{text} {n}" for n in range(2) for text in TEXTS]
    rows = list(zip(texts, TRUTH * 2, strict=True))
    Path(name).write_text(
        {
            "reviews.csv": "review,rating\n" + "".join(f"{row[0]},{row[1]}\n" for row in rows),
            "bare.csv": "".join(f"{text},{label}\n" for text, label in rows),
            "ids.tsv": "id\tText\tnote\n" + "".join(f"1\t{text}\tx\n" for text in texts),
            "keys.jsonl": "".join(json.dumps({"texts": text}) + "\n" for text in texts),
            "few.csv": "a,b\n" + "".join(f"{text},1\n" for text in texts),
        }[name]
    )
    words = ("classify", str(models / "texts"), "-i")
    code, out, err = run(*words, name)
    assert (code, out) == (3, "")
    assert name in err
    assert "label" not in err.split("What to do")[1]
    column = re.findall(r'--text-column "?(\w+)', err)[0].replace("NAME", "a")
    Path("in.txt").write_text("".join(f"{text}\n" for text in texts))
    assert run(*words, name, "--text-column", column) == run(*words, "in.txt")


def test_a_text_file_without_a_label_in_line_1_has_a_text_per_line(models: Path) -> None:
    words = ("classify", str(models / "texts"), "--json", "-i", "other.txt")
    rows = labelled(zip(TRUTH, TEXTS, strict=True))
    for other in ("a\n", "maybe\ta\n", "a\tb\tc\n"):
        Path("other.txt").write_text(other + rows)
        code, out, err = run(*words)
        assert (code, err) == (0, "")
        inputs = [json.loads(line)["input"] for line in out.splitlines()]
        assert inputs == (other + rows).splitlines()
        Path("other.txt").write_text(rows + other)
        if other != "maybe\ta\n":
            assert run(*words)[0] == 3  # the row has not two cells


def test_labels_in_the_standard_input_get_a_warning(models: Path) -> None:
    words = ("classify", str(models / "texts"), "--json")
    code, out, err = run(*words, stdin=labelled(zip(TRUTH, TEXTS, strict=True)))
    assert code == 0
    assert json.loads(out.splitlines()[0])["input"] == f"{TRUTH[0]}\t{TEXTS[0]}"
    assert err.count("warning") == 1
    assert ".tsv" in err
    for stdin in ("a\tb\n", "yes\n", "a\nyes\ta\n"):
        assert run(*words, stdin=stdin)[2] == ""


def test_json_has_an_object_for_each_line(models: Path) -> None:
    Path("in.txt").write_text("\n".join(TEXTS) + "\n\n")
    words = ("-i", "in.txt", "-o", "out.jsonl", "--top", "3", "--json")
    assert run("classify", str(models / "texts"), *words)[:2] == (0, "")
    *objects, last = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
    assert last == {"input": "", "labels": [], "warnings": []}
    assert [found["input"] for found in objects] == TEXTS
    for found, row in zip(objects, probabilities(models / "texts", TEXTS), strict=True):
        assert agree([(o["label"], o["probability"]) for o in found["labels"]], ranked(row))


def test_an_output_in_a_folder_that_is_an_input_is_rejected(models: Path) -> None:
    Path("inputs").mkdir()
    np.save("inputs/x.npy", np.ones((4, 3)))
    before = Path("inputs/x.npy").read_bytes()
    words = ("-i", "inputs", "-o", "inputs/x.npy")
    code, out, err = run("classify", str(models / "features"), *words)
    assert (code, out, "overwrite" in err) == (DataError.exit_code, "", True)
    assert Path("inputs/x.npy").read_bytes() == before


def test_sequences_of_features_are_classified_under_the_name_of_their_file(models: Path) -> None:
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


def test_a_multi_label_classifier_gives_all_labels_of_at_least_one_half(models: Path) -> None:
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


def test_a_warning_of_a_cut_text_has_its_line(models: Path) -> None:
    code, out, err = run("classify", str(models / "texts"), stdin=f"a\n{LONG}\n")
    assert (code, len(out.splitlines())) == (0, 2)
    (cut,) = [line for line in err.splitlines() if "cut" in line]
    assert cut.startswith("clearhead: warning: input 2 has ")
    assert cut.endswith(f"cut to {LONGEST}")
    _, out, _ = run("classify", str(models / "texts"), "--json", stdin=f"a\n{LONG}\n")
    short, long = (json.loads(line)["warnings"] for line in out.splitlines())
    assert short == []
    assert "cut" in [each["kind"] for each in long]


def test_a_text_unlike_the_training_text_is_warned_of(models: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(models / "texts", tmp_path / "texts")
    style = replace(TextStyle.of(["a b"]), characters=" abc", longest=2)
    write_folder(folder, open_folder(folder).config, {TEXT_STYLE: TextStyles({"text": style})})
    code, _, err = run("classify", str(folder), stdin="a b\na ж\nb ж\na b c a\n")
    assert code == 0
    characters, long, more = err.splitlines()
    assert ("input 2 " in characters, "input 4 " in long) == (True, True)
    assert more.endswith(": 1")
    classifier = loading.load_classifier(folder, device="cpu")
    found = classifier.classify(["a b", "a ж", "a b c a"])
    kinds = [[each.kind for each in best.warnings] for best, *_ in found]
    assert kinds == [[], ["characters"], ["long"]]


def test_columns_of_features_are_found_by_name(models: Path) -> None:
    """Columns may be in another order than in the training data if they have names."""
    named = shutil.copytree(models / "features", "named")
    normaliser = Normaliser(np.zeros(3), np.ones(3), names=("x", "y", "z"))
    write_folder(Path(named), open_folder(named).config, {"normaliser": normaliser})
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


@pytest.mark.slow
def test_a_checkpoint_classifies_with_one_warning_that_it_is_not_calibrated(
    models: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(models / "texts", tmp_path / "texts")
    checkpoint = folder / "training" / "checkpoints" / "best.safetensors"
    checkpoint.parent.mkdir(parents=True)
    shutil.copy(folder / "weights.safetensors", checkpoint)
    warning = f"warning: {checkpoint} is a checkpoint, for which no temperature was fitted"
    for words in (["classify"], ["evaluate", "--data", "test.tsv"]):
        command, *options = words
        code, out, err = run(command, str(checkpoint), *options, stdin="a\n")
        assert code == 0
        assert out
        (line,) = [line for line in err.splitlines() if "warning" in line.lower()]
        assert line.removeprefix("clearhead: ").startswith(warning)
    code, _, err = run("figures", str(checkpoint), "a b", "-o", str(tmp_path / "p"))
    assert code == 0
    assert warning in err
    assert "UserWarning" not in err
