"""`clearhead figures`: pictures of real model folders, whose weights are random."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clearhead import api
from clearhead.folder.model_folder import open_folder
from clearhead.inspect import explanation
from clearhead.inspect.attention_watch import small
from clearhead.inspect.findings import ALIGNMENT, STUDY, write_finding
from clearhead.inspect.pictures import OF_TRANSLATION
from clearhead.inspect.recording import record
from fake_translator import run
from made_records import made_record
from model_folders import LABELS, LONGEST

pytestmark = pytest.mark.slow


ONE = ("--only", "encoder.1.self", "--format", "svg")
"""Where it does not matter which pictures are drawn: each takes a fifth of a second."""


def drawn(*words: str | Path) -> list[Path]:
    """The paths that the command printed; all files exist."""
    code, out, err = run("figures", *map(str, words))
    assert code == 0, err
    paths = [Path(line) for line in out.splitlines()]
    assert all(path.is_file() for path in paths)
    return paths


def texts_of(folder: Path) -> str:
    return "".join(path.read_text(encoding="utf-8") for path in folder.glob("*.svg"))


def test_a_translator_is_drawn_with_its_own_translation(models: Path, tmp_path: Path) -> None:
    code, out, err = run(
        *("figures", str(models / "translator"), "b a c", "-o", str(tmp_path / "p"))
    )
    assert code == 0, err
    translator = api.load_translator(models / "translator", device="cpu")
    best = translator.translate(["b a c"], method="beam")[0][0]
    assert err.splitlines()[0] == f"clearhead: translation: {best.text}"
    names = [f"{name}.png" for name in OF_TRANSLATION]
    assert [Path(line) for line in out.splitlines()] == [tmp_path / "p" / name for name in names]
    assert all((tmp_path / "p" / name).stat().st_size for name in names)


def test_pictures_are_written_to_a_folder_named_after_the_model_by_default(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = shutil.copytree(models / "texts", tmp_path / "runs" / "my-model")
    checkpoint = folder / "training" / "checkpoints" / "step-7.safetensors"
    checkpoint.parent.mkdir(parents=True)
    shutil.copy(folder / "weights.safetensors", checkpoint)
    for model, expected in (
        ("runs/my-model", "my-model-figures"),
        (checkpoint, "my-model-step-7-figures"),
    ):
        words = (str(model), "a b", "--format", "svg")
        code, out, err = run("figures", *words)
        assert code == 0, err
        assert {Path(line).parent for line in out.splitlines()} == {Path(expected)}
        assert all(Path(line).is_file() for line in out.splitlines())
        assert expected in err
    monkeypatch.chdir(folder)
    assert run("figures", ".", "a b", "--format", "svg")[0] == 0
    assert (folder / "my-model-figures").is_dir()


STUDIED: dict[str, Any] = {
    "sentences": 2,
    "loss": 1.0,
    "ablate_by": "mean",
    "importance": [
        {"head": "encoder.1.self.1", "loss": [1, 0, 2], "gradient": 1.0, "chrf": None},
    ],
    "roles": {},
    "belief": {
        "text": "Believe “Removal”.",
        "believed": ["rollout"],
        "completeness_error": 0.0,
        "sentences": 2,
        "rows": [
            {
                "measure": name,
                "title": name,
                "comprehensiveness": [0.5, 0.4, 0.6],
                "sufficiency": [0.5, 0.4, 0.6],
            }
            for name in ("rollout", "random")
        ],
        "grid": [0.0, 1.0],
        "curves": {"rollout": [1.0, 0.0], "random": [1.0, 0.0]},
    },
}


def test_a_study_is_drawn_with_what_replaced_the_heads(models: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(models / "texts", tmp_path / "run")
    write_finding(open_folder(folder), STUDY, STUDIED)
    drawn(folder, "--only", "importance", "--format", "svg", "-o", tmp_path / "p")
    assert "mean output" in texts_of(tmp_path / "p")
    write_finding(open_folder(folder), STUDY, {**STUDIED, "importance": [{"head": 1}]})
    code, _, err = run("figures", str(folder), "-o", str(tmp_path / "p"))
    assert code != 0
    assert "study" in err
    assert "Traceback" not in err


def test_a_long_input_is_drawn_without_its_effects(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(explanation, "LONGEST_EXPLAINED", 3)
    words = ("-o", str(tmp_path / "p"), "a b a b")
    code, out, err = run("figures", str(models / "texts"), *words)
    assert code == 0, err
    assert "effects" in err
    assert [Path(line).name for line in out.splitlines()] == [
        "encoder-heads.png",
        "encoder.1.self.png",
    ]


def test_a_run_is_drawn_without_an_input(models: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(models / "texts", tmp_path / "run")
    (folder / "training").mkdir()
    events = [
        {"event": "RunStarted", "step": 0},
        {"event": "Progress", "step": 5, "loss": 2.0, "learning_rate": 0.1},
        {"event": "Progress", "step": 9, "loss": 1.0, "learning_rate": 0.1},
    ]
    log = "".join(f"{json.dumps(event)}\n" for event in events)
    (folder / "training" / "log.jsonl").write_text(log)
    paths = drawn(folder, "-o", tmp_path / "p")
    assert [path.name for path in paths] == ["learning-curves.png"]
    of_run = ["learning-curves.png", "importance.png", "faithfulness.png"]
    write_finding(open_folder(folder), STUDY, STUDIED)
    paths = drawn(folder, "-o", tmp_path / "p")
    assert [path.name for path in paths] == of_run
    mixed = "a b", "--only", "importance,encoder.1", "-o", tmp_path / "p"
    assert [path.name for path in drawn(folder, *mixed)] == ["importance.png", "encoder.1.png"]
    for step, number in ((5, 1), (9, 1), (5, 2)):
        kept = folder / "training" / "attention" / f"step-{step}-{number}.npz"
        small(made_record(target=())).save(kept)
    paths = drawn(folder, "-o", tmp_path / "p")
    assert [path.name for path in paths] == [
        *("learning-curves.png", "training-strip.png"),
        *of_run[1:],
    ]
    second = drawn(folder, "--only", "training-strip.2", "-o", tmp_path / "p")
    assert [path.name for path in second] == ["training-strip.2.png"]
    shutil.rmtree(folder / "training" / "attention")
    # What was measured with other weights is not shown.
    shutil.copy(models / "rival" / "weights.safetensors", folder)
    shutil.copy(models / "rival" / "manifest.json", folder)
    assert [path.name for path in drawn(folder, "-o", tmp_path / "p")] == ["learning-curves.png"]


def test_an_alignment_uses_the_measure_that_was_chosen(models: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(models / "translator", tmp_path / "model")
    words = "b a c", "--target", "d a", "--only", "alignment", "--format", "svg"
    words = (*words, "-o", str(tmp_path / "p"))
    drawn(folder, *words)
    assert "By mean of all layers, where the decoder predicts" in texts_of(tmp_path / "p")
    aligner = {
        "measure": "decoder.1.cross.1",
        "shift": 1,
        "rule": "both",
        "criterion": "x",
        "score": 0.0,
    }
    write_finding(open_folder(folder), ALIGNMENT, {**aligner, "sentences": 1})
    drawn(folder, *words)
    assert "By decoder.1.cross.1, where the decoder reads" in texts_of(tmp_path / "p")


def test_a_translator_is_drawn_with_a_given_target(models: Path, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("a\nb b\nc\n")
    words = ("--input", tmp_path / "in.txt", "--lines", "2", "--target", "d c")
    paths = drawn(models / "translator", *words, "-o", tmp_path / "five")
    assert [path.name for path in paths] == [f"{name}.png" for name in OF_TRANSLATION]
    assert len(paths) == 5
    options = "--only", "decoder.1.cross, head-effects", "--format", "pdf,svg", "-o", tmp_path / "p"
    pdf, path, *others = drawn(models / "translator", *words, *options)
    assert [each.name for each in others] == ["head-effects.pdf", "head-effects.svg"]
    assert pdf.read_bytes().startswith(b"%PDF")
    svg = path.read_text(encoding="utf-8")
    assert [svg.count(f">{word}<") for word in ("a", "b", "c", "d")] == [0, 2, 0, 0]
    *rows, _ = re.findall(r">([^<]+ → [^<]+)<", svg)  # and the title of the rows
    assert rows == ["&lt;sos&gt; → d", "d → c", "c → &lt;eos&gt;"]


def test_a_classifier_of_texts_is_drawn(models: Path, tmp_path: Path) -> None:
    words = ("c d", "--format", "svg", "-o", tmp_path / "p")
    paths = drawn(models / "texts", *words)
    assert [path.name for path in paths] == [
        *("word-effects.svg", "head-effects.svg", "encoder-heads.svg"),
        "encoder.1.self.svg",
    ]
    svg = texts_of(tmp_path / "p")
    assert all(f">{word}<" in svg for word in ("c", "d", "query: token", "key: token"))
    assert "source position" not in svg


def test_the_pictures_of_independent_labels_show_those_that_are_given(
    models: Path, tmp_path: Path
) -> None:
    (given,) = api.load_classifier(models / "several", device="cpu").classify(["c d"])
    names = {prediction.label for prediction in given}
    assert 0 < len(names) < len(LABELS)
    drawn(models / "several", "c d", "--format", "svg", "-o", tmp_path / "p")
    for picture in ("word-effects", "head-effects"):
        svg = (tmp_path / "p" / f"{picture}.svg").read_text(encoding="utf-8")
        assert {label for label in LABELS if f">{label}<" in svg} == names


@pytest.mark.parametrize(
    ("name", "content", "options"),
    [
        ("in.txt", "a b\nc d\n", []),
        ("in.tsv", "yes\ta b\nno\tc d\n", []),
        ("in.csv", "text,label\na b,yes\nc d,no\n", []),
        ("in.csv", "review,label\na b,yes\nc d,no\n", ["--text-column", "review"]),
        ("in.csv", "1,a b\n2,c d\n", ["--text-column", "2"]),
        ("in.jsonl", '{"text": "a b", "label": "x"}\n{"text": "c d", "label": "y"}\n', []),
    ],
)
def test_a_file_is_read_as_classify_reads_it(
    models: Path, tmp_path: Path, name: str, content: str, options: list[str]
) -> None:
    (tmp_path / name).write_text(content)
    words, options_of_one = ("figures", str(models / "texts")), (*ONE, "-o", str(tmp_path / "p"))
    expected = run(*words, "c d", *options_of_one)
    shutil.rmtree(tmp_path / "p")
    given = ("--input", str(tmp_path / name), *options)
    assert run(*words, *given, "--lines", "2", *options_of_one) == expected
    svg = texts_of(tmp_path / "p")
    assert [f">{word}<" in svg for word in "abcd"] == [False, False, True, True]
    code, _, err = run(
        *("figures", str(models / "texts"), *given, "--lines", "3"),
        *("-o", str(tmp_path / "q")),
    )
    assert (code, "no line 3" in err) == (3, True)


@pytest.mark.parametrize("kind", ["features", "several"])
def test_the_labels_of_a_classifier_are_printed(models: Path, tmp_path: Path, kind: str) -> None:
    (tmp_path / "x.csv").write_text("sequence,x,y,z\ns,1,2,3\ns,3,2,0\n")
    file = ("--input", str(tmp_path / "x.csv")), np.array([[1, 2, 3], [3, 2, 0]])
    given, content = file if kind == "features" else (("c d",), "c d")
    code, _, err = run(*("figures", str(models / kind), *given, *ONE, "-o", str(tmp_path / "p")))
    assert code == 0
    (found,) = api.load_classifier(models / kind, device="cpu").classify([content])
    labels = ", ".join(f"{one.label} ({one.probability:.4f})" for one in found)
    first = err.splitlines()[0]
    assert first == f"clearhead: label: {labels or 'none, all probabilities are below 0.5'}"


@pytest.mark.parametrize("kind", ["texts", "features"])
def test_a_cut_input_gives_a_warning(models: Path, tmp_path: Path, kind: str) -> None:
    times = [n / 10 for n in range(LONGEST + 3)]
    rows = (f"s,{time},1,2,3" for time in times)
    (tmp_path / "x.csv").write_text("sequence,time,x,y,z\n" + "\n".join(rows) + "\n")
    given = ("a b " * LONGEST,) if kind == "texts" else ("--input", str(tmp_path / "x.csv"))
    unit, length = ("tokens", 2 * LONGEST) if kind == "texts" else ("frames", LONGEST + 3)
    words = (*given, *ONE, "-o", str(tmp_path / "p"))
    code, _, err = run("figures", str(models / kind), *words)
    assert code == 0
    warning, label, _ = err.splitlines()
    assert warning.startswith("clearhead: warning: ")
    assert warning.endswith(f"has {length} {unit} and was cut to {LONGEST}")
    assert label.startswith("clearhead: label: ")


def test_a_classifier_of_features_reads_one_sequence_of_a_file(
    models: Path, tmp_path: Path
) -> None:
    sequences = np.random.default_rng(1).normal(size=(2, 4, 3))
    np.savez(tmp_path / "x.npz", x=sequences)
    words = ("--input", tmp_path / "x.npz", "--lines", "2", *ONE, "-o", tmp_path / "p")
    drawn(models / "features", *words)
    found = record(api.load_classifier(models / "features", device="cpu"), sequences[1])
    assert found.source == ("1", "2", "3", "4")
    np.testing.assert_allclose(found.input, sequences[1], atol=1e-6)
    code, _, err = run(
        *("figures", str(models / "features"), "--input", str(tmp_path / "x.npz")),
        *("--lines", "3", "-o", str(tmp_path / "q")),
    )
    assert (code, "no sequence 3" in err) == (3, True)


@pytest.mark.parametrize(
    ("model", "words", "code", "part"),
    [
        ("translator", [], 2, "--input"),
        ("translator", ["a", "--input", "f"], 2, "--input"),
        ("translator", ["a", "--lines", "2"], 2, "--lines has no effect"),
        ("translator", [" "], 3, "the input is empty"),
        ("texts", ["a", "b"], 2, "at most 1"),
        ("features", ["a"], 2, "--input"),
        ("features", ["--input", "-"], 3, "which are read from a file"),
        ("translator", ["--input", "missing.txt"], 3, "missing.txt: there is no such file"),
        ("translator", ["--input", "in.txt", "--lines", "2"], 3, "in.txt: there is no line 2"),
        ("translator", ["a " * 2000, "--target", "a"], 3, "too long"),
        ("translator", ["a", "--format", "jpg"], 2, "'jpg'"),
        ("translator", ["a", "--target", "b", "--only", "alignmant"], 2, "alignment?"),
        ("translator", ["a", "--only", "decoder.2.cross"], 2, "decoder.1.cross"),
        ("translator", ["a", "--only", "cross-heads,importance"], 3, "clearhead study"),
        ("translator", ["--only", "importance"], 3, "clearhead study"),
        ("translator", ["--only", "learning-curves"], 3, "log.jsonl"),
        ("translator", ["--only", "training-strip"], 3, "training.watch_attention"),
        ("translator", ["a", "--only", "learning-curves"], 2, "a text has no effect"),
        ("translator", ["--target", "a"], 2, "--target has no effect"),
        ("texts", ["a", "--only", "alignment"], 2, "'alignment'"),
        ("texts", ["a", "--target", "b"], 2, "--target has no effect"),
        ("translator", ["a", "--text-column", "b"], 2, "--text-column has no effect"),
        ("features", ["--input", "a.ts", "--text-column", "b"], 2, "--text-column has no effect"),
        ("texts", ["a", "-o", "in.txt"], 3, "in.txt"),
    ],
)
def test_a_mistake_gives_an_error_and_draws_nothing(
    models: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    model: str,
    words: list[str],
    code: int,
    part: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in.txt").write_text("a\n")
    output = () if "-o" in words else ("-o", "pictures")
    found, out, err = run("figures", str(models / model), *words, *output)
    assert (found, out) == (code, "")
    assert part in err
    assert not Path("pictures").exists()


def test_a_text_that_is_the_name_of_a_file_gives_a_warning(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("one.en").write_text("a b\n")
    words, options = ("figures", str(models / "texts")), ("-o", "pictures", *ONE)
    assert "warning: " not in run(*words, "--input", "one.en", *options)[2]
    code, _, err = run(*words, "one.en", *options)
    assert code == 0
    assert "'one.en'" in err
    assert "--input one.en" in err
