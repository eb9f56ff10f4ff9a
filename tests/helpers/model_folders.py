"""Model folders as training leaves them behind, whose weights are random."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from clearhead import api
from clearhead.data.labels import Labels
from clearhead.data.normaliser import Normaliser
from clearhead.folder.files import json_bytes
from clearhead.folder.manifest import MANIFEST
from clearhead.folder.model_folder import (
    SCORES,
    WEIGHTS,
    ModelFolder,
    Stored,
    open_folder,
    replace_files,
    write_folder,
    written,
)
from clearhead.folder.tensors import parameters_of, save_tensors
from clearhead.model.build import build_classifier, build_model
from clearhead.settings import (
    ClassifierConfig,
    DataConfig,
    RunConfig,
    SearchConfig,
    TokenizerConfig,
)
from clearhead.tokenizer import Tokenizer, WordTokenizer, read_tokenizers, tokenizer_files
from small_models import small_config

MODEL = small_config(encoder_layers=1, decoder_layers=1)
WORDS = WordTokenizer("a b c d".split())
SEARCH = SearchConfig(method="sampling", temperature=2.0, max_length=5)
LABELS = ("yes", "no", "perhaps")
LONGEST = 8  # tokens or frames that a classifier reads


def without_manifest(folder: Path) -> Path:
    """The folder, whose files may be changed now: nothing is compared."""
    (folder / MANIFEST).unlink(missing_ok=True)
    return folder


def folder_with(
    path: Path, parts: Mapping[str, Stored], config: RunConfig | None = None
) -> ModelFolder:
    """A model folder without weights, written and opened."""
    write_folder(path, config or RunConfig(), parts)
    return open_folder(path, trained=False)


def reread(tokenizer: Tokenizer, path: Path) -> Tokenizer:
    """A tokenizer, written into a classifier's folder and read again."""
    config = RunConfig(task="classification")
    return read_tokenizers(folder_with(path, {"tokenizer": tokenizer}, config))[0]


def replace_tensors(
    folder: Path, name: str, tensors: Mapping[str, torch.Tensor], facts: Mapping[str, Any]
) -> None:
    """Replace a file of tensors and its entry in the manifest."""
    replace_files(folder, {name: partial(save_tensors, tensors=tensors, facts=facts)})


def change_tree(folder: Path, name: str, change: Callable[[Any], object]) -> None:
    """Change a JSON file and its entry in the manifest."""
    tree = json.loads((folder / name).read_bytes())
    change(tree)
    replace_files(folder, {name: written(json.dumps(tree).encode())})


def write_models(folder: Path) -> None:
    """`translator`, the classifiers `texts`, `rival`, `several` and `features`, and `encoder`."""
    torch.manual_seed(2)
    words = TokenizerConfig(kind="words", joint=True)
    config = RunConfig(model=MODEL, tokenizer=words, search=SEARCH)
    write_folder(folder / "translator", config, tokenizer_files(WORDS, WORDS, joint=True))
    write_weights(folder / "translator", build_model(MODEL, len(WORDS), len(WORDS)))
    config = replace(config, task="classification", data=DataConfig(max_length=LONGEST))
    write_classifier(folder / "texts", config)
    write_classifier(folder / "rival", config)
    write_classifier(folder / "several", replace(config, classifier=SEVERAL))
    write_classifier(folder / "features", replace(config, input="features"))
    write_classifier(folder / "encoder", config, ())


SEVERAL = ClassifierConfig(multi_label=True)


def write_classifier(folder: Path, config: RunConfig, labels: tuple[str, ...] = LABELS) -> None:
    features = config.input == "features"
    part: dict[str, Stored] = {"normaliser": normaliser()} if features else {"tokenizer": WORDS}
    write_folder(folder, config, {**part, "labels": Labels(labels)})
    width = 3 if features else len(WORDS)
    write_weights(folder, build_classifier(config, width, len(labels)))


def write_weights(folder: Path, model: nn.Module) -> None:
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.4)
    weights = partial(save_tensors, tensors=parameters_of(model), facts={})
    scores = json_bytes({"scores": {"temperature": 1.0}})
    replace_files(folder, {WEIGHTS: weights, SCORES: written(scores)})


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
