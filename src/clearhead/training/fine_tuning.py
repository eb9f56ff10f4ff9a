"""Fine-tuning: the learning rate of each layer of a model that starts from trained weights.

The lower layers of a pretrained model change less than its upper layers and its new output layer
(Howard and Ruder 2018, section 3.2).
"""

from __future__ import annotations

import re
from typing import Any

from torch import nn

from clearhead.errors import ConfigError
from clearhead.settings.training import FineTuningConfig

HEAD = ("pooling.", "hidden.", "output.")
"""Prefixes of the parameters of a classifier that follow the encoder."""


def freeze(model: nn.Module, layers: int) -> None:
    """Exclude the inputs and the lowest layers of each stack from training; 0: nothing."""
    if layers == 0:
        return
    for name, parameter in model.named_parameters():
        stack, layer = _place(name)
        if stack and layer < layers:
            parameter.requires_grad_(False)
    most = min(_heights(model).values())
    why = f"the model has {most} layer{'s' * (most != 1)}"
    if layers <= most:
        if any(parameter.requires_grad for parameter in model.parameters()):
            return
        most, why = layers - 1, "the model has no other parameters, so nothing would be trained"
    raise ConfigError(
        f"training.fine_tuning.frozen_layers = {layers} is too high",
        setting="training.fine_tuning.frozen_layers",
        why=why,
        todo=f"set it to at most {most}",
    )


def parameter_groups(model: nn.Module, config: FineTuningConfig) -> list[dict[str, Any]]:
    """The parameters to train, grouped by the `factor` of their learning rate."""
    # The top layer of a stack has the factor 1, each layer below `layer_decay` times that of the
    # layer above it, and the input has one more power of `layer_decay`. The head of a classifier
    # has `head_rate`.
    heights = _heights(model)
    is_classifier = len(heights) == 1
    groups: dict[float, dict[str, Any]] = {}
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        factor = config.head_rate if is_classifier and name.startswith(HEAD) else 1.0
        stack, layer = _place(name)
        if stack:
            factor *= config.layer_decay ** (heights[stack] - 1 - layer)
        groups.setdefault(factor, {"params": [], "factor": factor})["params"].append(parameter)
    return list(groups.values())


def _heights(model: nn.Module) -> dict[str, int]:
    """The number of layers of each stack."""
    heights: dict[str, int] = {}
    for name, _ in model.named_parameters():
        stack, layer = _place(name)
        if stack:
            heights[stack] = max(heights.get(stack, 0), layer + 1)
    return heights


def _place(name: str) -> tuple[str, int]:
    """The stack and the layer of a parameter, −1 for the input of the stack; "" for neither."""
    if found := re.match(r"(encoder|decoder)\.layers\.(\d+)\.", name):
        return found[1], int(found[2])
    if name.startswith(("input.", "source_input.")):
        return "encoder", -1
    return ("decoder", -1) if name.startswith("target_input.") else ("", 0)
