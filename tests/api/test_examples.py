"""Tests of the examples in the docstrings of the public API: each object has one, and it runs."""

from __future__ import annotations

import dataclasses
import inspect
import textwrap
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clearhead
from clearhead.folder.model_folder import open_folder
from clearhead.inspect.findings import STUDY, write_finding
from clearhead.inspect.study import study_model
from clearhead.tokenizer import WordTokenizer
from exported_models import random_folder
from marian_models import write_marian
from small_models import small_config
from small_runs import text_run, write_pairs

NAMES = [name for name in clearhead.__all__ if not name.startswith("__") and name != "nn"]
PAIR = ("A man sleeps.", "Ein Mann schläft.")
SECTIONS = ("Args:", "Attributes:", "Returns:", "Raises:", "Warns:")
OTHER_WORDS = "A dog sleeps. rides a bicycle. the cat is black el gato es negro".split()
HUB = "hf:Helsinki-NLP/opus-mt-en-de"


def example(name: str) -> str:
    """The code in the docstring of a public object; "" if there is none."""
    lines: list[str] = []
    for line in (inspect.getdoc(getattr(clearhead, name)) or "").splitlines()[1:]:
        if line in SECTIONS or (lines and line and not line.startswith("    ")):
            break
        if line.startswith("    ") or (lines and not line):
            lines.append(line)
    return textwrap.dedent("\n".join(lines))


EXAMPLES = {name: code for name in NAMES if (code := example(name))}


def test_each_public_object_has_an_example_or_is_in_one() -> None:
    documents = "\n".join(inspect.getdoc(getattr(clearhead, name)) or "" for name in EXAMPLES)
    assert [
        name for name in NAMES if name not in EXAMPLES and f"clearhead.{name}(" not in documents
    ] == []


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all that the examples name."""
    folder = tmp_path_factory.mktemp("examples")
    words = WordTokenizer(sorted({*" ".join(PAIR).split(), *OTHER_WORDS}))
    shape = small_config(
        encoder_layers=3, decoder_layers=3, d_model=20, n_heads=5, share_embeddings="all"
    )
    for seed, name in enumerate(("my-model", "seed-1", "seed-2", "x")):
        random_folder(folder / "runs" / name, shape, seed=seed, tokenizers=(words, words))
    study, _ = study_model(clearhead.load(folder / "runs" / "x", engine="torch"), [PAIR], 1)
    write_finding(open_folder(folder / "runs" / "x"), STUDY, study)
    clearhead.train(text_run(folder, "runs/my-classifier", training={"max_steps": 2}), observers=())
    write_marian(folder / "opus")
    write_pairs(folder)
    (folder / "my.toml").write_text(
        '[data]\ntrain = ["train.tsv"]\nvalidation = ["validation.tsv"]\n'
        "[tokenizer]\nmax_vocabulary = 300\n"
        '[model]\nsize = "tiny"\n[training]\nmax_steps = 2\n'
    )
    return folder


@pytest.fixture
def names(place: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    """What the examples take as given; they run in a folder with links to `place`."""
    (tmp_path / "runs").mkdir()
    for each in [*place.iterdir(), *(place / "runs").iterdir()]:
        if each.name != "runs":
            (tmp_path / each.relative_to(place)).symlink_to(each)
    monkeypatch.chdir(tmp_path)
    pairs = [line.split("\t") for line in (place / "train.tsv").read_text().splitlines()]
    config = clearhead.read_config("my.toml")
    texts, labels = zip(*[(source, source[-1]) for source, _ in pairs], strict=True)
    return {
        "clearhead": clearhead,
        "model": clearhead.nn.Transformer(9, 11, d_model=8, heads=2),
        "dataclasses": dataclasses,
        "warnings": warnings,
        "np": np,
        "config": config,
        "texts": texts,
        "labels": labels,
        "examples": list(zip(texts, labels, strict=True)),
        "sequences": [np.random.default_rng(n).normal(size=(9, 3)) for n in range(len(texts))],
        "translator": clearhead.load("runs/my-model", engine="torch"),
        "classifier": clearhead.load("runs/my-classifier"),
    }


# The small models have seen other text than that of the examples.
@pytest.mark.filterwarnings("ignore:the input looks different")
@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_runs(name: str, names: dict[str, Any]) -> None:
    code = EXAMPLES[name].replace(HUB, "opus")
    if name.endswith("Error") and "Raised, for" in (getattr(clearhead, name).__doc__ or ""):
        with pytest.raises(getattr(clearhead, name)):
            exec(code, names)
    else:
        exec(code, names)
