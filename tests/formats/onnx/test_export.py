"""Tests that an ONNX export equals its classifier, by the program that it contains."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clearhead import api
from clearhead.data.inputs import read_inputs, text_inputs
from clearhead.data.judging.text_style import longest_text
from clearhead.data.labels import Labels
from clearhead.data.reading.labelled import Labelled
from clearhead.data.reading.parts import file_hash
from clearhead.errors import ExportError
from clearhead.evaluation.calibration import decisions
from clearhead.folder.exports import read_export
from clearhead.folder.files import write_json
from clearhead.folder.model_folder import open_folder, write_folder
from clearhead.formats.onnx import classifier as program
from clearhead.formats.onnx.export import compare, examples_of
from clearhead.model.build import build_classifier
from clearhead.settings import (
    ClassifierConfig,
    DataConfig,
    Learned,
    NoPositions,
    RunConfig,
    TokenizerConfig,
)
from clearhead.tokenizer import NormalForm, Tokenizer, WordTokenizer, learn_tokenizer, words
from clearhead.tokenizer.normal_form import FULL_WIDTH, INVISIBLE, SPACES, is_blank
from fake_translator import run
from model_folders import LABELS, change_tree, normaliser, write_weights
from small_models import small_config

TEXTS = [
    "",
    "a",
    "b c, \u2018d\u2019 what's (a) new\nline",
    "unseen words only",
    "d c b a " * 9,
    "A \u2581 \ud800 é!",
]


def word_tokenizer() -> Tokenizer:
    return WordTokenizer(
        [*"abcd", "what", "'s", "(", ")"], form=NormalForm(lower=True), split_punctuation=True
    )


def piece_tokenizer() -> Tokenizer:
    config = TokenizerConfig(kind="unigram", max_vocabulary=60, byte_fallback=False)
    return learn_tokenizer(["a b c d", "what's new", "words d c b a line"] * 5, config)


def text_folder(
    path: Path, tokenizer: Tokenizer, model: dict[str, Any], head: dict[str, Any], longest: int = 8
) -> Path:
    config = RunConfig(
        task="classification",
        data=DataConfig(max_length=longest),
        tokenizer=TokenizerConfig(kind="words", joint=True),
        model=small_config(**model),
        classifier=ClassifierConfig(**head),
    )
    write_folder(path, config, {"tokenizer": tokenizer, "labels": Labels(LABELS)})
    built = build_classifier(config, len(tokenizer), len(LABELS))
    if built.linear is not None:
        examples = [Labelled(text, (), "") for text in TEXTS if isinstance(text, str)]
        rows = text_inputs(config, tokenizer).rows(examples)
        texts = [torch.from_numpy(row.astype(np.int64))[None] for row in rows if len(row)]
        truth = torch.eye(len(LABELS)).repeat(len(texts), 1)[: len(texts)]
        built.linear.fit(texts, truth, torch.ones(len(texts)))
        assert built.linear.weight.any()
    write_weights(path, built)
    set_temperature(path, 1.7)
    return path


def set_temperature(path: Path, temperature: float) -> None:
    change_tree(path, "scores.json", lambda tree: tree["scores"].update(temperature=temperature))


def export(folder: Path, *options: str) -> tuple[int, str, str]:
    """The exit code, the output and the messages of the command, in this process."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's own; the next function looks for them
        return run("export", str(folder), *options)


def export_alone(folder: Path) -> tuple[int, str, str]:
    """The same in a process of its own, as a user exports."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("COVERAGE")}
    command = [sys.executable, "-m", "clearhead", "export", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    return done.returncode, done.stdout, done.stderr


def assert_equal_to_the_model(folder: Path, inputs: list[Any]) -> None:
    """Compare the program in the export, as it is there, with the model."""
    ours = api.load_classifier(folder, device="cpu")
    spec = importlib.util.spec_from_file_location("exported", folder / "onnx" / "classifier.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    theirs = module.Classifier(folder / "onnx")
    with pytest.warns(UserWarning, match="was cut"):
        expected = ours.probabilities(inputs)
    np.testing.assert_allclose(theirs.probabilities(inputs), expected, atol=1e-5)
    np.testing.assert_allclose(theirs.probabilities(inputs, batch_size=1), expected, atol=1e-5)
    for top in (None, 2):
        with pytest.warns(UserWarning, match="was cut"):
            labels = [[each.label for each in row] for row in ours.classify(inputs, top=top)]
        found = theirs.classify(inputs, top=top)
        assert [[label for label, _ in row] for row in found] == labels


TEXT_MODELS: dict[str, tuple[Any, dict[str, Any], dict[str, Any]]] = {
    "words": (word_tokenizer, {}, {}),
    "pieces": (
        piece_tokenizer,
        {"norm": "post", "norm_form": "std_plus_epsilon", "positions": Learned(max_length=9)},
        {"pooling": ("first", "attention"), "hidden": "tanh", "ngrams": 5},
    ),
    "n-grams": (
        word_tokenizer,
        {"character_ngrams": (2, 3), "ngram_vectors": 30, "input_convolution": (2, 3)},
        {"pooling": ("first", "maximum"), "multi_label": True, "ngrams": 40},
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", TEXT_MODELS)
def test_an_exported_text_classifier_gives_the_same(tmp_path: Path, kind: str) -> None:
    tokenizer, model, head = TEXT_MODELS[kind]
    folder = text_folder(tmp_path / "model", tokenizer(), model, head)
    code, out, err = (export_alone if kind == "pieces" else export)(folder)
    assert (code, out) == (0, f"{folder / 'onnx'}\n"), err
    assert len(err.splitlines()) == 1, err
    assert "differ by" in read_export(folder / "onnx", "onnx", open_folder(folder))["comparison"][0]
    assert_equal_to_the_model(folder, TEXTS)
    model = (folder / "onnx" / "model.onnx").read_bytes()
    again = api.export_model(folder, output=tmp_path / "again") / "model.onnx"
    assert again.read_bytes() == model
    assert b".py" not in model  # as in the stack traces that PyTorch would keep


@pytest.mark.slow
def test_an_exported_classifier_of_features_gives_the_same(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    data = DataConfig(max_length=8, missing="interpolate")
    config = RunConfig(
        task="classification",
        input="features",
        data=data,
        model=small_config(positions=NoPositions()),
        classifier=ClassifierConfig(kernels=10, kernel_reach=30),
    )
    scale = replace(normaliser(), mean=np.arange(3.0), deviation=np.array([1.0, 2.0, 0.5]))
    write_folder(folder, config, {"normaliser": scale, "labels": Labels(LABELS)})
    model = build_classifier(config, 3, 3)
    assert model.linear is not None
    x = torch.randn(6, 20, 3)
    model.linear.fit([x], torch.eye(3).repeat(2, 1), torch.ones(6))
    write_weights(folder, model)
    code, _, err = export(folder, "--int8")
    assert code == 0, err
    draw = np.random.default_rng(1)
    inputs = [draw.normal(size=(length, 3)).astype(np.float32) for length in (1, 5, 12)]
    inputs[1][2:4, 1] = np.nan
    inputs.append(np.concatenate((inputs[1], np.full((2, 3), np.nan, np.float32))))  # padded
    assert_equal_to_the_model(folder, inputs)
    assert "random examples" in err
    (agreement,) = re.findall(r"int8: the labels of ([\d.]+) % of the inputs are the same", err)
    assert float(agreement) > 50
    small = program.Classifier(folder / "onnx", "model-int8.onnx").probabilities(inputs)
    assert small.shape == (4, 3)
    np.testing.assert_array_equal(small[3], small[1])


@pytest.mark.slow
def test_the_validation_data_are_compared_and_scored(tmp_path: Path) -> None:
    folder = text_folder(tmp_path / "model", word_tokenizer(), {}, {})
    classifier = api.load_classifier(folder, device="cpu")
    texts = ["a b", "c", "d d a c", "b", "a c d b a", "d what's"]
    predicted = [row[0].label for row in classifier.classify(texts)]
    wrong = next(label for label in LABELS if label != predicted[0])
    rows = zip([wrong, *predicted[1:]], texts, strict=True)
    file = tmp_path / "validation.txt"
    file.write_text("".join(f"{label}\t{text}\n" for label, text in rows))
    config = replace(
        classifier.config,
        data=DataConfig(train=(str(file),), validation=(str(file),), max_length=8),
    )
    write_folder(folder, config, {})
    record = {str(file): file_hash(str(file)).hex()}
    write_json(folder / "provenance.json", {"data": {"train": record, "validation": record}})
    _, _, err = export(folder, "--int8")
    assert "6 validation examples" in err
    assert len(err.splitlines()) == 2, err
    (small, full) = re.findall(r"accuracy ([\d.]+) % .* float32 ([\d.]+) %", err)[0]
    assert full == f"{100 * 5 / 6:.2f}"
    assert 0 <= float(small) <= 100
    # A pipe that the folder names is not opened, which would never end.
    file.unlink()
    os.mkfifo(file)
    labels = Labels(LABELS)
    found = open_folder(folder)
    assert examples_of(found, read_inputs(found), labels).kind == "random"


@pytest.mark.slow
def test_the_examples_in_the_documentation_run_without_clearhead(tmp_path: Path) -> None:
    folder = text_folder(tmp_path / "runs" / "my-classifier", piece_tokenizer(), {}, {}, longest=40)
    assert export(folder)[0] == 0
    page = (Path(__file__).parents[3] / "docs/how-to/export.md").read_text("utf-8")
    examples = re.findall(r"^```python\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)
    assert len(examples) == 2
    labels = []
    for example in examples:
        code = f"import sys\nsys.path.insert(0, 'runs/my-classifier/onnx')\n{example}\n"
        code += "assert not {'clearhead', 'torch'} & sys.modules.keys()"
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False
        )
        assert done.returncode == 0, done.stderr
        labels.append(next(label for label in LABELS if label in done.stdout))
    (expected,) = api.load_classifier(folder, device="cpu").classify([QUESTION])
    assert labels == [expected[0].label] * 2


QUESTION = "What is the capital of Spain?"


def test_probabilities_that_differ_are_an_error_and_ties_are_not() -> None:
    ours = np.array([[0.50001, 0.49999], [0.9, 0.1]])
    assert " ties)" not in compare(ours, ours, decisions, "2 examples")
    tied = np.array([[0.49999, 0.50001], [0.9, 0.1]])
    assert "(1 ties)" in compare(ours, tied, decisions, "2 examples")
    for other in (0.899, float("nan")):
        with pytest.raises(ExportError):
            compare(ours, np.array([[0.50001, 0.49999], [other, 0.1]]), decisions, "")


def test_a_translator_has_no_onnx_and_int8_is_for_onnx(tmp_path: Path) -> None:
    from exported_models import random_folder

    folder = random_folder(tmp_path / "translator")
    with pytest.raises(ExportError) as caught:
        api.export_model(folder, "onnx")
    assert "ctranslate2" in str(caught.value.todo)
    with pytest.raises(ExportError) as caught:
        api.export_model(folder, int8=True)
    assert "int8" in caught.value.what


def test_without_the_packages_the_export_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = text_folder(tmp_path / "model", word_tokenizer(), {}, {})
    for name in [name for name in sys.modules if name.split(".")[0] in ("onnx", "onnxruntime")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ExportError) as caught:
        api.export_model(folder)
    assert caught.value.todo == "pip install onnx onnxruntime onnxscript"
    assert not (folder / "onnx").exists()


@given(st.text(alphabet="ab.,'\u2019\"(!)\ufe0f\u00ad\u20ac -"))
def test_the_program_splits_words_as_the_tokenizer_does(word: str) -> None:
    assert program.split_punctuation(word) == words.split_punctuation(word)


@pytest.mark.parametrize("module", [program, words])
def test_only_short_words_are_cached(module: Any) -> None:
    module._cached_parts.cache_clear()
    for length in (1, module.LONGEST_CACHED, module.LONGEST_CACHED + 1, 10_000):
        assert module.split_punctuation("(" + "a" * (length - 1))[:1] == ("(",)
    assert module._cached_parts.cache_info().currsize == 2


def test_the_program_reads_of_a_long_text_what_the_model_reads(tmp_path: Path) -> None:
    folder = text_folder(tmp_path / "model", word_tokenizer(), {}, {})
    assert export(folder)[0] == 0
    most = longest_text(8)
    long = f"a{' ' * (most - 2)}b c"  # the model would read the c
    ours, theirs = api.load_classifier(folder, device="cpu"), program.Classifier(folder / "onnx")
    bounded = ours.probabilities([long[:most]])
    for classifier in (ours, theirs):
        with pytest.warns(UserWarning, match=f"{most:,}"):
            np.testing.assert_allclose(classifier.probabilities([long]), bounded, atol=1e-5)
    assert abs(ours.probabilities(["a b c"]) - bounded).max() > 1e-5


TRICKY = "Iİi\u0307e\u0301\xa0\xad\uff21\t Σ"
FORMS = (
    NormalForm("NFC", SPACES, INVISIBLE, FULL_WIDTH),
    NormalForm("NFKC", SPACES, INVISIBLE, lower=True),
    NormalForm("NFC", SPACES, INVISIBLE, lower=True, language="tr"),
    NormalForm(lower=True),
    NormalForm(),
)


@given(form=st.sampled_from(FORMS), text=st.text() | st.text(TRICKY))
def test_the_program_reads_texts_in_the_form_of_the_tokenizer(form: NormalForm, text: str) -> None:
    assert program.normal_form(form.to_tree(), text) == form(text)
    assert (program.BLANK.fullmatch(text) is not None) == is_blank(text)
