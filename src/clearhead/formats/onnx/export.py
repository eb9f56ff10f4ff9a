"""Export a classifier to ONNX."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from clearhead.errors import ClearheadError, ExportError
from clearhead.folder.exports import write_export
from clearhead.folder.model_folder import ModelFolder, read_temperature

if TYPE_CHECKING:
    from clearhead.data.inputs import Inputs
    from clearhead.data.labels import Labels
    from clearhead.data.reading.labelled import Labelled

NAME = "onnx"
"""The name of the format, and of an export's folder within its model folder."""

MODEL, INT8 = "model.onnx", "model-int8.onnx"

TOLERANCE = 1e-4
"""The largest allowed difference between probabilities of a label."""

COMPARED = 1000
"""Maximum number of examples on which an export is compared with its model."""

RANDOM_LENGTHS = (0, 1, 2, 3, 5, 8, 13, 21, 34) * 4


@dataclass(frozen=True)
class Examples:
    """The examples on which an export is compared with its model.

    Attributes:
        kind: `validation` or `random`.
        inputs: texts, or features.
        truth: the correct labels, bool (examples, labels); None for random ones.
    """

    kind: str
    inputs: Sequence[Labelled]
    truth: np.ndarray | None


def export_onnx(found: ModelFolder, output: Path, *, int8: bool = False) -> list[str]:
    """Write a classifier for onnxruntime; returns sentences about the comparison with the model.

    Both run on the validation data, or on random inputs if these cannot be read. The labels must
    be the same, except for ties, and probabilities within 0.0001.

    Args:
        found: the classifier.
        output: the folder of the export.
        int8: also write the model with 8-bit weights, and measure its accuracy.

    Raises:
        ExportError: a package is not installed, the model cannot be converted, the export differs
            from the model, or as in `write_export`.
        ModelFolderError: the model folder is damaged.
    """
    _check_installed()
    description = write_export(found, NAME, output, partial(_build, found, int8))
    return [*_lines(description)]


def _check_installed() -> None:
    missing = [name for name in ("onnx", "onnxruntime", "onnxscript") if find_spec(name) is None]
    if missing:
        raise ExportError(
            f"the export to ONNX needs the package{'s' * (len(missing) > 1)} {', '.join(missing)}",
            todo=f"pip install {' '.join(missing)}",
        )


def _build(found: ModelFolder, int8: bool, folder: Path) -> dict[str, Any]:
    """Write all files of the export, and compare it with the model."""
    import torch

    from clearhead.data.inputs import read_inputs
    from clearhead.data.labels import Labels
    from clearhead.decoding.torch_engine import ClassifierEngine, with_weights
    from clearhead.evaluation.calibration import probabilities
    from clearhead.formats.onnx import classifier as program
    from clearhead.formats.onnx.graph import write_graph
    from clearhead.model.attention import attention, explicit_attention
    from clearhead.model.build import build_classifier

    config, device = found.config, torch.device("cpu")
    features, several = config.input == "features", config.classifier.multi_label
    inputs, labels = read_inputs(found), Labels.of(found)
    temperature = read_temperature(found)
    exported, model = (
        with_weights(
            partial(
                build_classifier,
                *(config.model, config.classifier, inputs.width, len(labels), features, attend),
            ),
            found,
            device,
        )
        for attend in (explicit_attention, attention)
    )
    facts = _facts(found, inputs, labels, temperature)
    write_graph(exported, inputs, folder / MODEL, list(facts["inputs"]))
    text = json.dumps(facts, indent=2, ensure_ascii=False) + "\n"
    (folder / "classifier.json").write_text(text, encoding="utf-8")
    shutil.copyfile(program.__file__, folder / "classifier.py")
    for name in ("tokenizer.json", "tokenizer.model"):
        if not features and (found.path / name).exists():
            shutil.copyfile(found.path / name, folder / name)

    examples = _examples(found, inputs, labels)
    compared = examples.inputs[:COMPARED]
    logits = ClassifierEngine(model).logits(inputs.rows(compared), inputs.collate)
    expected = probabilities(logits, temperature, several)
    given = [example.input for example in examples.inputs]
    found_probabilities = program.Classifier(folder).probabilities(given)
    equality = check_equal(expected, found_probabilities[:COMPARED], several)
    results: dict[str, Any] = {"equality": {"examples": examples.kind, **equality}}
    if int8:
        _quantise(folder)
        small = program.Classifier(folder, INT8).probabilities(given)
        results["int8"] = _quality(small, found_probabilities, examples.truth, several)
    return results


def _facts(
    found: ModelFolder, inputs: Inputs, labels: Labels, temperature: float
) -> dict[str, Any]:
    """What a program needs to know to use the model."""
    from clearhead.data.inputs import LONGEST_WORD, FeatureInputs, SpelledInputs, TextInputs
    from clearhead.data.judging.text_style import longest_text

    config, several = found.config, found.config.classifier.multi_label
    formula = "1 / (1 + exp(-logits / temperature))" if several else "softmax(logits / temperature)"
    facts: dict[str, Any] = {
        "inputs": {},
        "output": {"logits": "float32 (batch, labels)"},
        "probabilities": formula,
        "temperature": temperature,
        "labels": list(labels.names),
        "multi_label": several,
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


def _examples(found: ModelFolder, inputs: Inputs, labels: Labels) -> Examples:
    """The validation data, or random inputs if they cannot be read or have changed."""
    from clearhead.data.reading.parts import parts_of_run
    from clearhead.data.trainable import read_labelled
    from clearhead.evaluation.class_scores import truth_of

    try:
        parts = parts_of_run(found.path, found.config)
        validation = read_labelled(found.config, parts).validation.examples
        return Examples("validation", validation, truth_of(validation, labels))
    except ClearheadError:
        return Examples("random", _random_inputs(found, inputs), None)


def _random_inputs(found: ModelFolder, inputs: Inputs) -> list[Labelled]:
    """Random inputs of several lengths, the same at every call."""
    from clearhead.data.inputs import FeatureInputs, TextInputs
    from clearhead.data.reading.labelled import Labelled

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


def check_equal(expected: np.ndarray, found: np.ndarray, several: bool) -> dict[str, Any]:
    """Compare the probabilities of a model and of its export, (examples, labels).

    Returns:
        The number of examples, the largest difference, and the number of labels that differ
        because two were equally probable.

    Raises:
        ExportError: they differ by more than rounding.
    """
    from clearhead.evaluation.calibration import decisions

    differences = np.abs(expected - found)
    largest = float(differences.max(initial=0.0))
    # Written so that NaN is an error too.
    if not (differences <= TOLERANCE).all():
        raise ExportError(
            "the exported model differs from the model, so it was discarded",
            why=f"probabilities of a label differ by {largest:.2g}",
            todo="use the model as it is: clearhead classify",
        )
    # Probabilities within the tolerance have other labels only if two are within it, too.
    same = (decisions(expected, several) == decisions(found, several)).all(axis=1)
    return {"count": len(expected), "largest_difference": largest, "ties": int((~same).sum())}


def _quantise(folder: Path) -> None:
    """Write the model with 8-bit weights."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    from clearhead.formats.onnx.graph import quiet

    with quiet():
        quantize_dynamic(folder / MODEL, folder / INT8, weight_type=QuantType.QInt8)


def _quality(
    small: np.ndarray, full: np.ndarray, truth: np.ndarray | None, several: bool
) -> dict[str, Any]:
    """How good the 8-bit model is: percentages, of all examples."""
    from clearhead.evaluation.calibration import decisions

    quality: dict[str, Any] = {"examples": len(small)}
    if truth is not None:
        for name, each in (("accuracy", small), ("float32_accuracy", full)):
            quality[name] = _share(decisions(each, several), truth)
    quality["agreement"] = _share(decisions(small, several), decisions(full, several))
    return quality


def _share(first: np.ndarray, second: np.ndarray) -> float:
    """The percentage of examples with the same labels in both."""
    return 100 * float((first == second).all(axis=1).mean())


def _lines(description: dict[str, Any]) -> list[str]:
    """What a person needs to know about a new export."""
    equality, files = description["equality"], description["files"]
    ties = f" ({equality['ties']} ties)" if equality["ties"] else ""
    kind = f"{equality['count']:,} {equality['examples']} examples"
    lines = [
        f"labels of {kind} are the same{ties}; probabilities differ by "
        f"{equality['largest_difference']:.1e} at most"
    ]
    if quality := description.get("int8"):
        small, large = (files[name]["size"] / 1e6 for name in (INT8, MODEL))
        sizes = f"{small:.1f} MB instead of {large:.1f} MB"
        if "accuracy" in quality:
            measured = (
                f"accuracy {quality['accuracy']:.2f} % on the validation data, "
                f"float32 {quality['float32_accuracy']:.2f} %"
            )
        else:
            measured = f"the labels of {quality['agreement']:.1f} % of the inputs are the same"
        lines.append(f"int8: {measured}; {sizes}")
    return lines
