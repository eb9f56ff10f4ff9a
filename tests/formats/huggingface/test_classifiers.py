"""Exported classifiers give the probabilities of `classify` in `transformers`."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import clearhead
from clearhead import api
from clearhead.errors import ExportError
from clearhead.formats.huggingface.reading import import_model
from clearhead.settings import ClassifierConfig, RunConfig, TokenizerConfig, config_from
from huggingface_models import TOKENS, written
from model_folders import write_classifier
from small_models import small_config
from small_runs import text_run

transformers = pytest.importorskip("transformers")

pytestmark = [
    pytest.mark.filterwarnings("ignore:the input looks different"),
    pytest.mark.slow,
]

TEXTS = ["the red ball", "How many people lived here in 1987?", "red", "Straße, 中文 🙂 blue"]
SHAPE: dict[str, Any] = {
    **{"norm": "post", "embedding_norm": True, "activation": "gelu"},
    **{"encoder_layers": 2, "d_model": 16, "d_ff": 24, "n_heads": 2},
}
OTHERS = ("pooling", "hidden", "kind")


def trained(folder: Path, positions: str, hidden: str, kind: str, several: bool) -> RunConfig:
    """A trained classifier of the shape of BERT."""
    first = text_run(folder, "run", training={"max_steps": 4, "validate_every": 4})
    tree: dict[str, Any] = dataclasses.asdict(first)
    tree["model"] = {**SHAPE, "positions": {"kind": positions}}
    tree["model"]["norm_epsilon"] = 1e-12
    tree["data"] |= {"max_length": 60, "validation_share": 0.5}  # enough for a temperature
    tree["tokenizer"] = {"kind": kind, "max_vocabulary": 300}
    tree["classifier"] = {"pooling": "first", "hidden": hidden, "multi_label": several}
    if several:
        tree["evaluation"] = {"measure": "loss"}
    config = config_from(tree)
    api.train(config, observers=())
    return config


def probabilities(folder: Path, several: bool = False) -> np.ndarray:
    """Those of `transformers` (texts, labels), each text by itself."""
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    tokens = transformers.AutoTokenizer.from_pretrained(folder)
    with torch.inference_mode():
        logits = [model(**tokens(text, return_tensors="pt")).logits[0] for text in TEXTS]
    stacked = torch.stack(logits)
    return (stacked.sigmoid() if several else stacked.softmax(1)).numpy()


@pytest.mark.parametrize(
    ("positions", "hidden", "kind", "several"),
    [
        ("sinusoidal", "tanh", "bpe", False),
        ("learned", "relu", "unigram", False),
        ("none", "tanh", "bpe", True),
    ],
)
def test_a_trained_classifier_has_the_same_probabilities_in_transformers(
    tmp_path: Path, positions: str, hidden: str, kind: str, several: bool
) -> None:
    config = trained(tmp_path, positions, hidden, kind, several)
    folder = clearhead.export_model(config.folder, "huggingface")
    classifier = api.load_classifier(config.folder)
    assert classifier.temperature != 1.0
    expected = classifier.probabilities(TEXTS)
    np.testing.assert_allclose(probabilities(folder, several), expected, atol=1e-5)
    pipeline = transformers.pipeline("text-classification", str(folder))
    best = [classifier.labels[row.argmax()] for row in expected]
    assert [found["label"] for found in pipeline(TEXTS)] == best


@pytest.mark.parametrize("kind", TOKENS)
def test_an_imported_classifier_is_exported_and_imported_again(tmp_path: Path, kind: str) -> None:
    written(tmp_path / "hf", kind, head=True, id2label={0: "zero", 1: "one"})
    import_model(tmp_path / "hf", tmp_path / "ours")
    folder = clearhead.export_model(tmp_path / "ours", "huggingface")
    np.testing.assert_allclose(probabilities(folder), probabilities(tmp_path / "hf"), atol=1e-5)
    import_model(folder, tmp_path / "again")
    ours, again = (api.load_classifier(tmp_path / name) for name in ("ours", "again"))
    assert again.labels == ours.labels == ("zero", "one")
    np.testing.assert_allclose(again.logits(TEXTS), ours.logits(TEXTS), atol=1e-5)


@pytest.mark.parametrize(
    "choices",
    [
        *({"norm": "pre"}, {"embedding_norm": False}, {"attention_bias": False}, {"d_k": 3}),
        *({"pooling": ("mean",)}, {"hidden": "none"}, {"hidden": "relu", "norm_epsilon": 1e-5}),
        {"kind": "words"},
    ],
    ids=str,
)
def test_another_shape_is_refused_by_the_name_of_the_setting(
    tmp_path: Path, choices: dict[str, Any]
) -> None:
    head: dict[str, Any] = {"pooling": ("first",), "hidden": "tanh"}
    config = RunConfig(
        task="classification",
        tokenizer=TokenizerConfig(kind=choices.get("kind", "bpe"), joint=True),
        model=small_config(**{**SHAPE, **{k: v for k, v in choices.items() if k not in OTHERS}}),
        classifier=ClassifierConfig(**head | {k: v for k, v in choices.items() if k in head}),
    )
    write_classifier(tmp_path, config)
    with pytest.raises(ExportError) as raised:
        clearhead.export_model(tmp_path, "huggingface")
    assert list(choices)[-1] in raised.value.what
    assert not (tmp_path / "huggingface").exists()
