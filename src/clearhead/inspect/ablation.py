"""Switch heads off for good: a model without them that runs at full speed.

A head is off if its rows of W^O are zero. Its mean output over a sample may replace it: W^O of the
mean is then added to the bias.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from clearhead.errors import ConfigError, ModelFolderError
from clearhead.folder.model_folder import ModelFolder
from clearhead.inspect.findings import read_means
from clearhead.inspect.heads import Head
from clearhead.inspect.replay import Means
from clearhead.inspect.view import attentions_of, second_view
from clearhead.model.attention import Mask, MultiHeadAttention, attention
from clearhead.model.dropout import Dropout

_Model = TypeVar("_Model", bound=nn.Module)


@torch.no_grad()
def without_heads(model: _Model, heads: Iterable[Head], means: Means | None = None) -> _Model:
    """A model with these heads switched off. It shares all other weights with the model.

    Args:
        model: does not change.
        heads: of the model.
        means: replace the outputs of the heads; by default zero does.
    """
    view = second_view(model)
    numbers: dict[str, list[int]] = {}
    for head in heads:
        numbers.setdefault(head.attention, []).append(head.number - 1)
    found = attentions_of(view)
    for name, off in numbers.items():
        output = found[name].output
        weight = output.weight.clone()
        by_head = weight.unflatten(1, (found[name].n_heads, -1))  # (d_model, heads, d_v)
        if means is not None:
            mean = means[name][off].to(weight)
            added = torch.einsum("dhv,hv->d", by_head[:, off], mean)
            output.bias = nn.Parameter(added if output.bias is None else output.bias + added)
        by_head[:, off] = 0
        output.weight = nn.Parameter(weight)
    return view


def replacements(ablate_by: str, model: nn.Module, folder: ModelFolder) -> Means | None:
    """What replaces the outputs of heads that are off; None for zero.

    Args:
        ablate_by: `zero`, or `mean` for the means that `clearhead study` kept.
        model: of that folder.
        folder: where the means are.

    Raises:
        ConfigError: there is no such replacement.
        ModelFolderError: the means are missing, or of another model.
    """
    if ablate_by not in ("zero", "mean"):
        raise ConfigError(
            f"ablate_by = {ablate_by!r} is no replacement for a head", todo="choose zero or mean"
        )
    if ablate_by == "zero":
        return None
    means = read_means(folder)
    if not all(
        name in means
        and means[name].shape == (found.n_heads, found.widths[2] // found.n_heads)
        and bool(means[name].isfinite().all())
        for name, found in attentions_of(model).items()
    ):
        raise ModelFolderError(
            "the mean outputs of the heads are not those of this model",
            where=folder.path,
            todo=f"compute them: clearhead study {folder.path}",
        )
    return means


@torch.no_grad()
def mean_outputs(model: nn.Module, inputs: Iterable[Sequence[Tensor]]) -> Means:
    """The mean output (heads, d_v) of the heads of each attention, over all positions.

    Args:
        model: does not change.
        inputs: for each sentence the arguments of the model, batches of one without padding.
    """
    view: Any = second_view(model)
    sums: dict[str, Tensor] = {}
    counts: Counter[str] = Counter()

    def watch(name: str, watched: MultiHeadAttention) -> None:
        def attend(
            queries: Tensor, keys: Tensor, values: Tensor, mask: Mask | None, dropout: Dropout
        ) -> Tensor:
            context = attention(queries, keys, values, mask, dropout)
            sums[name] = sums.get(name, 0) + context.sum(dim=(0, 2), dtype=torch.float64)
            counts[name] += context.size(2)
            return context

        watched.attend = attend

    for name, found in attentions_of(view).items():
        watch(name, found)
    for each in inputs:
        view(*each)
    return {name: total / counts[name] for name, total in sums.items()}
