"""`clearhead figures`: pictures of real model folders, whose weights are random."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from clearhead import api
from clearhead.checkpoint import (
    parameters_of,
    tokenizer_parts,
    write_json,
    write_model_folder,
    write_tensors,
)
from clearhead.config import RunConfig, SearchConfig, TokenizerConfig
from clearhead.data.labels import Labels
from clearhead.data.normaliser import Normaliser
from clearhead.inspect.figures import figures_of
from clearhead.inspect.recording import record
from clearhead.model.build import build_classifier, build_model
from clearhead.tokenizer import WordTokenizer
from fake_translator import run
from small_models import small_config

MODEL = small_config(encoder_layers=1, decoder_layers=1)
WORDS = WordTokenizer("a b c d".split())
SEARCH = SearchConfig(method="sampling", temperature=2.0, max_length=5)


def write_weights(folder: Path, model: nn.Module) -> None:
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.4)
    write_tensors(folder / "weights.safetensors", parameters_of(model), {})
    write_json(folder / "scores.json", {"scores": {"temperature": 1.0}})


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a translator, a classifier of texts and one of features."""
    folder = tmp_path_factory.mktemp("models")
    torch.manual_seed(2)
    words = TokenizerConfig(kind="words", joint=True)
    config = RunConfig(model=MODEL, tokenizer=words, search=SEARCH)
    write_model_folder(folder / "translator", config, tokenizer_parts(WORDS, WORDS, config))
    write_weights(folder / "translator", build_model(MODEL, len(WORDS), len(WORDS)))
    labels = Labels(("yes", "no"))
    config = replace(config, task="classification")
    write_model_folder(folder / "texts", config, {"tokenizer": WORDS, "labels": labels})
    write_weights(folder / "texts", build_classifier(MODEL, config.classifier, len(WORDS), 2))
    config = replace(config, input="features")
    normaliser = Normaliser(np.zeros(3), np.ones(3))
    write_model_folder(folder / "features", config, {"normaliser": normaliser, "labels": labels})
    model = build_classifier(MODEL, config.classifier, 3, 2, features=True)
    write_weights(folder / "features", model)
    return folder


def drawn(*words: str | Path) -> list[Path]:
    """The paths that the command printed; they are all there."""
    code, out, err = run("figures", *map(str, words))
    assert code == 0, err
    paths = [Path(line) for line in out.splitlines()]
    assert all(path.is_file() for path in paths)
    return paths


def texts_of(folder: Path) -> str:
    return "".join(path.read_text(encoding="utf-8") for path in folder.glob("*.svg"))


def test_a_translator_is_looked_at_with_what_it_said(models: Path, tmp_path: Path) -> None:
    code, out, err = run(
        *("figures", str(models / "translator"), "--input", "b a c", "-o", str(tmp_path / "p"))
    )
    assert code == 0, err
    translator = api.load_translator(models / "translator", device="cpu")
    said = translator.translate(["b a c"], method="beam")[0][0]
    assert err == f"clearhead: translation: {said.text}\n"
    stems = [name for name, _ in figures_of(record(translator, "b a c", said))]
    names = [f"{stem}.{ending}" for stem in stems for ending in ("png", "svg")]
    assert [Path(line) for line in out.splitlines()] == [tmp_path / "p" / name for name in names]
    assert all((tmp_path / "p" / name).stat().st_size for name in names)


def test_a_translator_is_looked_at_with_what_it_is_told(models: Path, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("a\nb b\nc\n")
    words = ("--input-file", tmp_path / "in.txt", "--line", "2", "--target", "d c")
    drawn(models / "translator", *words, "--format", "svg", "-o", tmp_path / "p")
    shown = (tmp_path / "p" / "cross-attention.svg").read_text(encoding="utf-8")
    assert [shown.count(f">{word}<") for word in ("a", "b", "c", "d")] == [0, 2, 1, 1]


def test_a_classifier_of_texts_is_looked_at(models: Path, tmp_path: Path) -> None:
    words = ("--input", "c d", "--format", "svg", "-o", tmp_path / "p")
    paths = drawn(models / "texts", *words)
    assert {path.suffix for path in paths} == {".svg"}
    assert not any(path.name.startswith(("decoder", "cross")) for path in paths)
    assert all(f">{word}<" in texts_of(tmp_path / "p") for word in ("c", "d"))


@pytest.mark.parametrize("option", ["--input", "--input-file"])
def test_a_classifier_of_features_reads_one_sequence_of_a_file(
    models: Path, tmp_path: Path, option: str
) -> None:
    sequences = np.random.default_rng(1).normal(size=(2, 4, 3))
    np.savez(tmp_path / "x.npz", x=sequences)
    words = (option, tmp_path / "x.npz", "--line", "2", "--format", "svg", "-o", tmp_path / "p")
    drawn(models / "features", *words)
    found = record(api.load_classifier(models / "features", device="cpu"), sequences[1])
    assert found.source == ("1", "2", "3", "4")
    np.testing.assert_allclose(found.input, sequences[1], atol=1e-6)
    code, _, err = run(
        *("figures", str(models / "features"), option, str(tmp_path / "x.npz")),
        *("--line", "3", "-o", str(tmp_path / "q")),
    )
    assert (code, "no sequence 3" in err) == (3, True)


@pytest.mark.parametrize(
    ("model", "words", "code", "said"),
    [
        ("translator", [], 2, "give one input"),
        ("translator", ["--input", "a", "--input-file", "f"], 2, "are two"),
        ("translator", ["--input", "a", "--line", "2"], 2, "--line 2 means nothing"),
        ("translator", ["--input", " "], 3, "the input is empty"),
        ("translator", ["--input", "", "--target", "a"], 3, "the source is empty"),
        ("texts", ["--input", ""], 3, "the source is empty"),
        ("translator", ["--input-file", "missing.txt"], 3, "missing.txt: there is no such file"),
        ("translator", ["--input-file", "in.txt", "--line", "2"], 3, "in.txt: there is no line 2"),
        ("translator", ["--input", "a " * 2000, "--target", "a"], 3, "too long to look into"),
        ("translator", ["--input", "a", "--format", "jpg"], 2, "'jpg'"),
        ("texts", ["--input", "a", "--target", "b"], 2, "a classifier has no target"),
        ("features", ["--input", "missing.ts"], 3, "missing.ts"),
        ("nothing", ["--input", "a"], 4, "no such model folder"),
    ],
)
def test_a_mistake_is_said_and_draws_nothing(
    models: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    model: str,
    words: list[str],
    code: int,
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in.txt").write_text("a\n")
    found, out, err = run("figures", str(models / model), *words, "-o", "pictures")
    assert (found, out) == (code, "")
    assert said in err
    assert not Path("pictures").exists()


def test_a_folder_that_cannot_be_made_is_said(models: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    words = ("--input", "a", "-o", str(tmp_path / "file"))
    code, out, err = run("figures", str(models / "texts"), *words)
    assert (code, out) == (3, "")
    assert "cannot be written" in err
