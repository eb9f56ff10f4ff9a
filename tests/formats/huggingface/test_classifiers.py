"""Exported classifiers give the probabilities of `classify` in `transformers`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import clearhead
from clearhead import api
from clearhead.errors import ExportError
from clearhead.formats.huggingface.reading import import_model
from clearhead.settings import ClassifierConfig, RunConfig, TokenizerConfig
from huggingface_models import TOKENS, written
from model_folders import change_tree, write_classifier
from small_models import small_config

transformers = pytest.importorskip("transformers")

pytestmark = pytest.mark.slow

TEXTS = ["the red ball", "How many people lived here in 1987?", "red", "Straße, 中文 🙂 blue"]


def probabilities(folder: Path, several: bool = False) -> np.ndarray:
    """Those of `transformers` (texts, labels), each text by itself."""
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    tokens = transformers.AutoTokenizer.from_pretrained(folder)
    with torch.inference_mode():
        logits = [model(**tokens(text, return_tensors="pt")).logits[0] for text in TEXTS]
    stacked = torch.stack(logits)
    return (stacked.sigmoid() if several else stacked.softmax(1)).numpy()


@pytest.mark.parametrize("kind", TOKENS)
@pytest.mark.parametrize("several", [False, True])
def test_an_imported_classifier_is_exported_and_imported_again(
    tmp_path: Path, kind: str, several: bool
) -> None:
    problem = f"{'multi' if several else 'single'}_label_classification"
    names = {0: "zero", 1: "one"}
    written(tmp_path / "hf", kind, head=True, id2label=names, problem_type=problem)
    ours = import_model(tmp_path / "hf", tmp_path / "ours")
    theirs = probabilities(tmp_path / "hf", several)
    np.testing.assert_allclose(api.load_classifier(ours).probabilities(TEXTS), theirs, atol=1e-5)
    # As after training.
    change_tree(ours, "scores.json", lambda tree: tree["scores"].update(temperature=1.7))
    classifier = api.load_classifier(ours)
    expected = classifier.probabilities(TEXTS)
    folder = clearhead.export_model(ours, "huggingface")
    np.testing.assert_allclose(probabilities(folder, several), expected, atol=1e-5)
    pipeline = transformers.pipeline("text-classification", str(folder))
    best = [classifier.labels[row.argmax()] for row in expected]
    assert [found["label"] for found in pipeline(TEXTS)] == best
    again = api.load_classifier(import_model(folder, tmp_path / "again"))
    assert again.labels == classifier.labels == ("zero", "one")
    np.testing.assert_allclose(again.probabilities(TEXTS), expected, atol=1e-5)


@pytest.mark.parametrize(
    "choices",
    [
        {"tokenizer": "bpe"},
        *({"embedding_norm": False}, {"d_k": 3}, {"pooling": ("mean",)}, {"hidden": "none"}),
        {"hidden": "relu", "norm_epsilon": 1e-5},
    ],
    ids=str,
)
def test_another_shape_is_refused_by_the_name_of_the_setting(
    tmp_path: Path, choices: dict[str, Any]
) -> None:
    head: dict[str, Any] = {"pooling": ("first",), "hidden": "tanh"}
    model = {k: v for k, v in choices.items() if k not in {*head, "tokenizer"}}
    config = RunConfig(
        task="classification",
        start_from="hf:bert",
        tokenizer=TokenizerConfig(kind=choices.get("tokenizer", "pretrained")),
        model=small_config(**{"norm": "post", "embedding_norm": True, **model}),
        classifier=ClassifierConfig(**head | {k: v for k, v in choices.items() if k in head}),
    )
    write_classifier(tmp_path, config)
    with pytest.raises(ExportError) as raised:
        clearhead.export_model(tmp_path, "huggingface")
    assert list(choices)[-1] in raised.value.what
    assert not (tmp_path / "huggingface").exists()
