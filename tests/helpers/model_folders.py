"""Model folders as training leaves them behind, whose weights are random."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from clearhead import api
from clearhead.data.labels import Labels
from clearhead.data.normaliser import Normaliser
from clearhead.folder.files import Saveable, write_json
from clearhead.folder.manifest import MANIFEST
from clearhead.folder.model_folder import tokenizer_files, write_folder
from clearhead.folder.tensors import parameters_of, write_tensors
from clearhead.model.build import build_classifier, build_model
from clearhead.settings import (
    ClassifierConfig,
    DataConfig,
    RunConfig,
    SearchConfig,
    TokenizerConfig,
)
from clearhead.tokenizer import WordTokenizer
from small_models import small_config

MODEL = small_config(encoder_layers=1, decoder_layers=1)
WORDS = WordTokenizer("a b c d".split())
SEARCH = SearchConfig(method="sampling", temperature=2.0, max_length=5)
LABELS = ("yes", "no", "perhaps")
LONGEST = 8  # tokens or frames that a classifier reads


def without_manifest(folder: Path) -> Path:
    """The folder, whose files may be changed now; like one of an early version."""
    (folder / MANIFEST).unlink()
    return folder


def write_models(folder: Path) -> None:
    """`translator`, the classifiers `texts`, `rival`, `several`, and `features`."""
    torch.manual_seed(2)
    words = TokenizerConfig(kind="words", joint=True)
    config = RunConfig(model=MODEL, tokenizer=words, search=SEARCH)
    write_folder(folder / "translator", config, tokenizer_files(WORDS, WORDS, config))
    write_weights(folder / "translator", build_model(MODEL, len(WORDS), len(WORDS)))
    config = replace(config, task="classification", data=DataConfig(max_length=LONGEST))
    write_classifier(folder / "texts", config)
    write_classifier(folder / "rival", config)
    write_classifier(folder / "several", replace(config, classifier=SEVERAL))
    write_classifier(folder / "features", replace(config, input="features"))


SEVERAL = ClassifierConfig(multi_label=True)


def write_classifier(folder: Path, config: RunConfig, labels: tuple[str, ...] = LABELS) -> None:
    features = config.input == "features"
    part: dict[str, Saveable] = {"normaliser": normaliser()} if features else {"tokenizer": WORDS}
    write_folder(folder, config, {**part, "labels": Labels(labels)})
    width = 3 if features else len(WORDS)
    model = build_classifier(MODEL, config.classifier, width, len(labels), features=features)
    write_weights(folder, model)


def write_weights(folder: Path, model: nn.Module) -> None:
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.4)
    write_tensors(folder / "weights.safetensors", parameters_of(model), {})
    write_json(folder / "scores.json", {"scores": {"temperature": 1.0}})


def normaliser() -> Normaliser:
    return Normaliser(np.zeros(3), np.ones(3))


TEXTS = ["a b", "c", "d d a c", "b", "a c d b a", "d"]
LONG = "a b c d " * LONGEST
TRUTH = ["yes", "no", "perhaps", "yes", "no", "no"]


def labelled(rows: Any) -> str:
    return "".join(f"{label}\t{text}\n" for label, text in rows)


def probabilities(folder: Path, inputs: list[Any]) -> np.ndarray:
    classifier = api.load_classifier(folder, device="cpu")
    assert classifier.labels == LABELS
    return classifier.probabilities(inputs)
