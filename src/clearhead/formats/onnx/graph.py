"""From a classifier to an ONNX graph: ids or features and a mask in, logits out."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn

from clearhead.data.inputs import Inputs
from clearhead.errors import ExportError, reason
from clearhead.model.inputs import SpelledEmbedding
from clearhead.model.positions import SinusoidalPositions
from clearhead.model.transformer import EncoderClassifier
from clearhead.tokenizer import PAD

LARGEST_FILE = 2**31 - 2**24
"""Bytes of parameters that fit into one ONNX file; larger models have a second file."""


class MaskedClassifier(nn.Module):
    """A classifier that reads a mask, because other programs do not know its padding."""

    def __init__(self, model: EncoderClassifier) -> None:
        super().__init__()
        self.model = model

    def forward(self, inputs: Tensor, mask: Tensor) -> Tensor:
        """The logits (batch, labels); the mask (batch, length) is False at padding."""
        padding = float("nan") if inputs.is_floating_point() else PAD
        hidden = ~mask if inputs.dim() == 2 else ~mask[..., None]
        return self.model(inputs.masked_fill(hidden, padding))


class MeanEmbedding(nn.Module):
    """`EmbeddingBag` with the mean and index 0 as padding, made of operations that ONNX has."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight.detach().clone())

    def forward(self, numbers: Tensor) -> Tensor:
        """The mean of the vectors of each row (rows, numbers) without 0; zero if there are none."""
        real = (numbers != 0)[..., None]
        vectors = nn.functional.embedding(numbers, self.weight).masked_fill(~real, 0.0)
        return vectors.sum(dim=1) / real.sum(dim=1).clamp(min=1)


def write_graph(model: EncoderClassifier, inputs: Inputs, file: Path, names: list[str]) -> None:
    """Write a classifier as ONNX, for batches of any size and inputs of any length.

    The model has explicit attention, and is changed. `names` are those of the two inputs.

    Raises:
        ExportError: PyTorch cannot convert the model.
    """
    # `collate` puts some tokens before the input. A dimension that can only be 1 is not dynamic.
    longest = max(2, inputs.max_length + inputs.prepended)
    for module in list(model.modules()):
        if isinstance(module, SinusoidalPositions):
            module.table = module.vectors(0, longest).clone()
        if isinstance(module, SpelledEmbedding):
            module.ngrams = MeanEmbedding(module.ngrams.weight)  # pyright: ignore[reportAttributeAccessIssue]
    length, mask = min(7, longest), torch.ones(2, min(7, longest), dtype=torch.bool)
    batch_size, any_length = torch.export.Dim("batch"), torch.export.Dim("length", max=longest)
    dynamic = {0: batch_size, 1: any_length}
    of_inputs = dict(dynamic)
    # Without the convolutions over it.
    if isinstance(getattr(model.input, "input", model.input), SpelledEmbedding):
        example = torch.ones(2, length, 5, dtype=torch.int64)
        of_inputs[2] = torch.export.Dim("columns")
    elif names[0] == "features":
        example = torch.zeros(2, length, inputs.width)
    else:
        example = torch.ones(2, length, dtype=torch.int64)
    parameters = sum(parameter.nbytes for parameter in model.parameters())
    with quiet():
        try:
            program = torch.onnx.export(
                MaskedClassifier(model).eval(),
                (example, mask),
                input_names=names,
                output_names=["logits"],
                dynamic_shapes=(of_inputs, dynamic),
                dynamo=True,
                verbose=False,
            )
        except torch.onnx.OnnxExporterError as error:
            cause: BaseException = error  # whose own text is advice for PyTorch
            while cause.__cause__ is not None:
                cause = cause.__cause__
            raise ExportError(
                "PyTorch cannot convert this model to ONNX",
                why=next(iter(reason(cause).strip().splitlines()), None),
                todo="use it as it is: clearhead classify",
            ) from None
        assert program is not None
        # Stack traces, with the paths of this machine.
        for part in (program.model, program.model.graph, *program.model.graph.all_nodes()):
            part.metadata_props.clear()
        program.save(file, external_data=parameters > LARGEST_FILE)


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress the log messages and warnings of PyTorch and of onnxruntime."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
