"""ONNX: a classifier becomes a graph, and beside it the program that runs it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from onnxruntime.quantization import QuantType, quantize_dynamic

from clearhead.data.inputs import (
    LONGEST_WORD,
    FeatureInputs,
    Inputs,
    SpelledInputs,
    TextInputs,
    read_inputs,
)
from clearhead.data.judging.text_style import longest_text
from clearhead.data.labels import Labels
from clearhead.data.reading.labelled import Labelled
from clearhead.data.reading.parts import parts_of_run
from clearhead.data.trainable import read_labelled
from clearhead.decoding.torch_engine import ClassifierEngine, trained_classifier
from clearhead.errors import ClearheadError
from clearhead.evaluation.calibration import decisions, probabilities
from clearhead.evaluation.class_scores import truth_of
from clearhead.folder.model_folder import ModelFolder, read_temperature, read_thresholds
from clearhead.formats.equality import UNEQUAL_EXPORT, Comparison
from clearhead.formats.onnx import classifier as program
from clearhead.formats.onnx.graph import quiet, write_graph
from clearhead.model.attention import attention, explicit_attention

MODEL, INT8 = "model.onnx", "model-int8.onnx"

TOLERANCE = 1e-4
"""The largest difference between probabilities of a label that is rounding."""

COMPARED = 1000
"""Maximum number of examples on which an export is compared with its model."""

RANDOM_LENGTHS = (0, 1, 2, 3, 5, 8, 13, 21, 34) * 4


class Examples(NamedTuple):
    """The examples on which an export is compared with its model.

    Attributes:
        kind: `validation` or `random`.
        inputs: texts, or features.
        truth: the correct labels, bool (examples, labels); None for random ones.
    """

    kind: str
    inputs: Sequence[Labelled]
    truth: np.ndarray | None


def check(found: ModelFolder) -> None:
    """Every classifier can be exported; see `Exporter`."""


def build(found: ModelFolder, folder: Path, *, int8: bool = False) -> list[str]:
    """Write the files of the export, and compare it with the model; see `Exporter`.

    Both run on the validation data, or on random inputs if these cannot be read. The labels must
    be the same, except for ties. With `int8`, the model with 8-bit weights is measured too.
    """
    config, device = found.config, torch.device("cpu")
    several = config.classifier.multi_label
    inputs, labels = read_inputs(found), Labels.of(found)
    temperature = read_temperature(found)
    exported, model = (
        trained_classifier(found, device, inputs.width, len(labels), attend)
        for attend in (explicit_attention, attention)
    )
    facts = _facts(found, inputs, labels, temperature)
    write_graph(exported, inputs, folder / MODEL, list(facts["inputs"]))
    text = json.dumps(facts, indent=2, ensure_ascii=False) + "\n"
    (folder / "classifier.json").write_text(text, encoding="utf-8")
    shutil.copyfile(program.__file__, folder / "classifier.py")
    for name in ("tokenizer.json", "tokenizer.model"):
        if "text" in facts and (found.path / name).exists():
            shutil.copyfile(found.path / name, folder / name)

    examples = examples_of(found, inputs, labels)
    compared = examples.inputs[:COMPARED]
    logits = ClassifierEngine(model).logits(inputs.rows(compared), inputs)
    expected = probabilities(logits, temperature, several)
    given = [example.input for example in examples.inputs]
    full = program.Classifier(folder).probabilities(given)
    what = f"{len(compared):,} {examples.kind} examples"
    decide = partial(decisions, multi_label=several, thresholds=np.array(facts["thresholds"]))
    sentences = [compare(expected, full[:COMPARED], decide, what)]
    if int8:
        with quiet():
            quantize_dynamic(folder / MODEL, folder / INT8, weight_type=QuantType.QInt8)
        small = program.Classifier(folder, INT8).probabilities(given)
        quality = _quality(decide(small), decide(full), examples.truth)
        size, before = ((folder / name).stat().st_size / 1e6 for name in (INT8, MODEL))
        sentences.append(f"int8: {quality}; {size:.1f} MB instead of {before:.1f} MB")
    return sentences


def _facts(
    found: ModelFolder, inputs: Inputs, labels: Labels, temperature: float
) -> dict[str, Any]:
    """What a program needs to know to use the model."""
    config, several = found.config, found.config.classifier.multi_label
    formula = "1 / (1 + exp(-logits / temperature))" if several else "softmax(logits / temperature)"
    facts: dict[str, Any] = {
        "inputs": {},
        "output": {"logits": "float32 (batch, labels)"},
        "probabilities": formula,
        "temperature": temperature,
        "labels": list(labels.names),
        "multi_label": several,
        "thresholds": read_thresholds(found, len(labels)),
        "longest": inputs.max_length,
    }
    mask = "bool (batch, length): true where there is no padding"
    if isinstance(inputs, FeatureInputs):
        normaliser = inputs.normaliser
        shape = f"float32 (batch, length, {inputs.width}): frames after normalisation"
        facts["inputs"] = {"features": shape, "mask": mask}
        facts["features"] = {
            "names": list(normaliser.names),
            "mean": normaliser.mean.tolist(),
            "deviation": normaliser.deviation.tolist(),
            "normalised": normaliser.enabled,
            "missing": config.data.missing,
        }
        return facts
    assert isinstance(inputs, TextInputs)
    ids, ngrams = "int64 (batch, length): token ids, 0 for padding", None
    if isinstance(inputs, SpelledInputs):
        ids = "int64 (batch, length, columns): the id of a word, then its n-grams, padded with 0"
        lengths, vectors = inputs.ngrams
        ngrams = {"lengths": list(lengths), "vectors": vectors, "longest_word": LONGEST_WORD}
    facts["inputs"] = {"ids": ids, "mask": mask}
    facts["text"] = {
        "start": inputs.prepended,
        "boundaries": inputs.tokenizer.boundaries,
        "ngrams": ngrams,
        "longest": longest_text(inputs.max_length),
    }
    return facts


def examples_of(found: ModelFolder, inputs: Inputs, labels: Labels) -> Examples:
    """The validation data, or random inputs if they cannot be read or have changed."""
    try:
        parts = parts_of_run(found.path, found.config)
        validation = read_labelled(found.config, parts).validation.examples
        return Examples("validation", validation, truth_of(validation, labels))
    except ClearheadError:
        return Examples("random", _random_inputs(found, inputs), None)


def _random_inputs(found: ModelFolder, inputs: Inputs) -> list[Labelled]:
    """Random inputs of several lengths, the same at every call."""
    draw = np.random.default_rng(1)
    lengths = [min(length, found.config.data.max_length) for length in RANDOM_LENGTHS]
    if isinstance(inputs, FeatureInputs):
        mean, deviation = inputs.normaliser.mean, inputs.normaliser.deviation
        frames = (draw.normal(mean, deviation, (max(1, n), inputs.width)) for n in lengths)
        return [
            Labelled(each.astype(np.float32), (), "random", inputs.normaliser.names)
            for each in frames
        ]
    assert isinstance(inputs, TextInputs)
    ids = (draw.integers(3, inputs.width, n).tolist() for n in lengths)
    return [Labelled(inputs.tokenizer.decode(each), (), "random") for each in ids]


def compare(
    expected: np.ndarray, found: np.ndarray, decide: Callable[[np.ndarray], np.ndarray], what: str
) -> str:
    """Compare the probabilities (examples, labels) of both; returns a sentence."""
    comparison = Comparison(UNEQUAL_EXPORT, TOLERANCE)
    comparison.near("probabilities of a label", expected, found)
    # Probabilities within the tolerance have other labels only if two are within it, too.
    same = (decide(expected) == decide(found)).all(axis=1)
    ties = f" ({(~same).sum()} ties)" if not same.all() else ""
    return (
        f"labels of {what} are the same{ties}; "
        f"probabilities differ by {comparison.largest:.1e} at most"
    )


def _quality(small: np.ndarray, full: np.ndarray, truth: np.ndarray | None) -> str:
    """How good the labels of the 8-bit model are, bool (examples, labels)."""

    def share(first: np.ndarray, second: np.ndarray) -> float:
        return 100 * float((first == second).all(axis=1).mean())

    if truth is None:
        return f"the labels of {share(small, full):.1f} % of the inputs are the same"
    return (
        f"accuracy {share(small, truth):.2f} % on the validation data, "
        f"float32 {share(full, truth):.2f} %"
    )
