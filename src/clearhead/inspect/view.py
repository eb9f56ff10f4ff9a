"""Second views of a model: modules of its own with the same weights, to watch or to change.

Hooks, other attention functions and changed parameters of a view do not affect the model, whose
fast attention keeps no weights. A view without some heads runs at full speed: a head is off if its
rows of W^O are zero. Its mean output over a sample may replace it: W^O of the mean is then added to
the bias.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn

from clearhead.errors import ConfigError, ModelFolderError
from clearhead.folder.model_folder import ModelFolder
from clearhead.inspect.findings import STUDY, read_finding
from clearhead.inspect.heads import Head
from clearhead.model.attention import Attend, Mask, MultiHeadAttention, attention
from clearhead.model.dropout import Dropout
from clearhead.model.layers import DecoderLayer, EncoderLayer

Means = Mapping[str, Tensor]
"""For each attention by name the mean output (heads, d_v) of its heads."""

_Model = TypeVar("_Model", bound=nn.Module)
_Layer = TypeVar("_Layer", EncoderLayer, DecoderLayer)


def second_view(model: _Model) -> _Model:
    """The same parameters and buffers in new modules, without dropout."""
    # A copy of each module with dictionaries of its own is twenty times faster than `deepcopy`.
    copies: dict[nn.Module, nn.Module] = {}
    for module in model.modules():
        copies[module] = new = module.__new__(type(module))
        new.__dict__ = {
            name: value.copy() if isinstance(value, (dict, list, set)) else value
            for name, value in module.__dict__.items()
        }
    for new in copies.values():
        modules = new.__dict__["_modules"]
        modules.update({name: copies.get(part, part) for name, part in modules.items()})
    return cast(_Model, copies[model]).eval()


def layers_of(model: nn.Module, kind: type[_Layer]) -> list[_Layer]:
    """The encoder layers or the decoder layers of a model, from the first one on."""
    return [layer for layer in model.modules() if isinstance(layer, kind)]


def attentions_of(model: nn.Module) -> dict[str, MultiHeadAttention]:
    """The attentions of a model by name, e.g. `encoder.1.self`, from the first encoder layer on."""
    found: dict[str, MultiHeadAttention] = {}
    for number, layer in enumerate(layers_of(model, EncoderLayer), start=1):
        found[f"encoder.{number}.self"] = layer.self_attention
    for number, layer in enumerate(layers_of(model, DecoderLayer), start=1):
        found[f"decoder.{number}.self"] = layer.self_attention
        found[f"decoder.{number}.cross"] = layer.cross_attention
    return found


class Edited:
    """An attention function whose values and mask are edited before."""

    def __init__(self, attend: Attend) -> None:
        self.attend = attend
        self.edits: list[Callable[[Tensor, Mask | None, Tensor], tuple[Tensor, Mask | None]]] = []

    def __call__(
        self, queries: Tensor, keys: Tensor, values: Tensor, mask: Mask | None, dropout: Dropout
    ) -> Tensor:
        for edit in self.edits:
            values, mask = edit(values, mask, queries)
        return self.attend(queries, keys, values, mask, dropout)


def set_attend(changed: MultiHeadAttention, attend: Attend) -> None:
    """Give an attention of a view another function; edits of what it reads stay."""
    before = changed.attend
    changed.attend = attend
    if isinstance(before, Edited):
        changed.attend = around = Edited(attend)
        around.edits = before.edits


def intercept(
    watched: MultiHeadAttention,
    values: Callable[[Tensor], Tensor] = lambda values: values,
    context: Callable[[Tensor], Tensor] = lambda context: context,
) -> None:
    """Let an attention of a view change the values that it reads, or the outputs of its heads."""

    def attend(
        queries: Tensor, keys: Tensor, read: Tensor, mask: Mask | None, dropout: Dropout
    ) -> Tensor:
        return context(attention(queries, keys, values(read), mask, dropout))

    set_attend(watched, attend)


def heads_of(model: nn.Module) -> tuple[Head, ...]:
    """All heads of a model, attention by attention in the order of `attentions_of`."""
    return tuple(
        Head(name, number)
        for name, attention in attentions_of(model).items()
        for number in range(1, attention.n_heads + 1)
    )


@torch.no_grad()
def without_heads(model: _Model, heads: Iterable[Head], means: Means | None = None) -> _Model:
    """A view with these heads switched off: their means, or else zero, replace their outputs."""
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


def replacements(ablate_by: str, model: nn.Module, folder: ModelFolder | None) -> Means | None:
    """The mean outputs of the heads that `clearhead study` kept for `mean`; None for `zero`."""
    if ablate_by not in ("zero", "mean"):
        raise ConfigError(
            f"ablate_by = {ablate_by!r} is no replacement for a head", todo="choose zero or mean"
        )
    if ablate_by == "zero":
        return None
    if folder is None:
        what, todo = "the means of a model without a folder are not known", "choose zero"
        raise ConfigError(what, where="ablate_by", todo=todo)
    study = read_finding(folder, STUDY) or {}
    try:
        kept: dict[str, Any] = study.get("means", {})
        means = {name: torch.tensor(x, dtype=torch.float64) for name, x in kept.items()}
    except (AttributeError, TypeError, ValueError):
        means = {}
    if not all(
        name in means
        and means[name].shape == (found.n_heads, found.widths[2] // found.n_heads)
        and bool(means[name].isfinite().all())
        for name, found in attentions_of(model).items()
    ):
        raise ModelFolderError(
            "the mean outputs of the heads of this model are not known",
            where=folder.path,
            todo=f"compute them: clearhead study {folder.path}",
        )
    return means


@torch.no_grad()
def mean_outputs(model: nn.Module, inputs: Iterable[Sequence[Tensor]]) -> Means:
    """The means over all positions of inputs: the arguments of the model, batches of one each."""
    view: Any = second_view(model)
    sums: dict[str, Tensor] = {}
    counts: Counter[str] = Counter()

    def add(name: str, context: Tensor) -> Tensor:
        sums[name] = sums.get(name, 0) + context.sum(dim=(0, 2), dtype=torch.float64)
        counts[name] += context.size(2)
        return context

    for name, found in attentions_of(view).items():
        intercept(found, context=partial(add, name))
    for each in inputs:
        view(*each)
    return {name: total / counts[name] for name, total in sums.items()}
