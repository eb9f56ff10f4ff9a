"""OptimizerConfig -> optimizer."""

from __future__ import annotations

import torch
from torch import nn

from clearhead.config import OptimizerConfig


def make_optimizer(model: nn.Module, config: OptimizerConfig) -> torch.optim.Optimizer:
    """The optimizer of a model's parameters; the learning rate is set at each step."""
    parameters = list(model.parameters())
    if config.kind == "sgd":
        return torch.optim.SGD(
            parameters, lr=0.0, momentum=config.momentum, weight_decay=config.weight_decay
        )
    # AdamW is Adam where there is no decay, and decays as one expects where there is.
    return torch.optim.AdamW(
        parameters,
        lr=0.0,
        betas=(config.beta1, config.beta2),
        eps=config.epsilon,
        weight_decay=config.weight_decay,
        fused=True,
    )
