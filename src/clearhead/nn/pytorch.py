"""The bridge to PyTorch's `nn.Transformer` and its parts, both ways.

PyTorch's modules have the same parameters under other names. Their masks have the opposite meaning:
True hides.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, overload

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from clearhead.errors import ConfigError
from clearhead.model import layers, transformer
from clearhead.model.dropout import DroppedReLU
from clearhead.nn.modules import Activation, Decoder, Encoder

NAMES = (
    ("self_attention.packed.", "self_attn.in_proj_"),
    ("cross_attention.packed.", "multihead_attn.in_proj_"),
    ("self_attention.output.", "self_attn.out_proj."),
    ("cross_attention.output.", "multihead_attn.out_proj."),
    ("feed_forward.hidden.", "linear1."),
    ("feed_forward.output.", "linear2."),
    ("residuals.0.norm.", "norm1."),
    ("residuals.1.norm.", "norm2."),
    ("residuals.2.norm.", "norm3."),
)
"""Parts of the names of our parameters and of PyTorch's."""


@overload
def from_torch(module: nn.Transformer) -> tuple[Encoder, Decoder]: ...
@overload
def from_torch(module: nn.TransformerEncoder) -> Encoder: ...
@overload
def from_torch(module: nn.TransformerDecoder) -> Decoder: ...
def from_torch(module: nn.Module) -> Any:
    """PyTorch's Transformer as clearhead's stacks, with copies of the weights, in the same mode.

        encoder, decoder = nn.from_torch(torch.nn.Transformer(512, 8))
        model = nn.Transformer(1000, 1000, d_model=512, heads=8, norm="post")
        model.encoder, model.decoder = encoder, decoder  # of the same width

    Args:
        module: `torch.nn.Transformer`, `TransformerEncoder` or `TransformerDecoder`, whether it is
            `batch_first` or not. The result is: inputs are (batch, length, d_model).

    Raises:
        ConfigError: it is another module, or has parts that clearhead lacks.
    """
    match module:
        case nn.Transformer():
            return from_torch(module.encoder), from_torch(module.decoder)
        case nn.TransformerEncoder():
            stack = Encoder
        case nn.TransformerDecoder():
            stack = Decoder
        case _:
            what = f"{type(module).__name__} is no Transformer of PyTorch"
            todo = "give torch.nn.Transformer, TransformerEncoder or TransformerDecoder"
            raise ConfigError(what, where="from_torch", todo=todo)
    first: Any = module.layers[0]
    activations: dict[Any, Activation] = {F.relu: "relu", F.gelu: "gelu"}
    if first.activation not in activations:
        raise _other("from_torch", f"the activation {first.activation} is not F.relu or F.gelu")
    found = stack(
        first.linear1.in_features,
        first.self_attn.num_heads,
        len(module.layers),
        first.linear1.out_features,
        dropout=first.dropout.p,
        bias=first.linear1.bias is not None,
        norm="pre" if first.norm_first else "post",
        activation=activations[first.activation],
    )
    found.norm = nn.Identity() if module.norm is None else nn.LayerNorm(first.linear1.in_features)
    for norm in found.modules():
        if isinstance(norm, nn.LayerNorm):
            norm.eps = first.norm1.eps
    found.to(first.linear1.weight)
    _copy({_renamed(name): x for name, x in module.state_dict().items()}, found)
    return found.train(module.training)


@overload
def to_torch(module: transformer.EncoderDecoder) -> nn.Transformer: ...
@overload
def to_torch(module: transformer.Encoder) -> nn.TransformerEncoder: ...
@overload
def to_torch(module: transformer.Decoder) -> nn.TransformerDecoder: ...
def to_torch(module: nn.Module) -> Any:
    """The stacks of a Transformer as PyTorch's, with copies of the weights, in the same mode.

        theirs = nn.to_torch(model)
        future = ~nn.causal_mask(target.size(1))[0, 0]  # True hides
        states = theirs(model.source_input(source), model.target_input(target), tgt_mask=future)

    They are `batch_first`, and have no embeddings, no positions and no output layer.

    Args:
        module: a `Transformer`, an `Encoder` or a `Decoder`.

    Raises:
        ConfigError: it is another module, or PyTorch lacks one of its parts.
    """
    match module:
        case transformer.EncoderDecoder():
            encoder: Any = to_torch(module.encoder)
            attend = encoder.layers[0].self_attn
            # Without layers at first, because its constructor draws the weights of all layers.
            found = nn.Transformer(attend.embed_dim, attend.num_heads, 0, 0, batch_first=True)
            found.encoder, found.decoder = encoder, to_torch(module.decoder)
            return found.train(module.training)
        case transformer.Encoder():
            make: Any = nn.TransformerEncoderLayer
            stack: Any = partial(nn.TransformerEncoder, enable_nested_tensor=False)
        case transformer.Decoder():
            make, stack = nn.TransformerDecoderLayer, nn.TransformerDecoder
        case _:
            what = f"{type(module).__name__} is no stack of layers"
            raise ConfigError(what, where="to_torch", todo="give a Transformer of clearhead.nn")
    layer: Any = module.layers[0]
    attention, network = layer.self_attention, layer.feed_forward
    d_model, norms = network.hidden.in_features, list(filter(_is_norm, module.modules()))
    if attention.widths != (d_model,) * 3:
        raise _other("to_torch", "d_k or d_v is not d_model / heads")
    if not isinstance(norms[0], nn.LayerNorm):
        raise _other("to_torch", "norm_form is not the standard one")
    epsilon = norms[0].eps
    made = make(
        d_model,
        attention.n_heads,
        network.hidden.out_features,
        layer.residuals[0].dropout.rate,
        _activation(network.activation),
        epsilon,
        batch_first=True,
        norm_first=isinstance(layer.residuals[0], layers.PreNorm),
    )
    last = nn.LayerNorm(d_model, epsilon) if _is_norm(module.norm) else None
    found = stack(made, len(module.layers), last)
    found.to(network.hidden.weight)
    own = {_renamed(name): name for name in found.state_dict()}
    _copy({own[name]: x for name, x in module.state_dict().items()}, found)
    return found.train(module.training)


def _activation(module: nn.Module) -> str:
    kind = module if isinstance(module, DroppedReLU) else next(module.children())
    if isinstance(kind, DroppedReLU):
        return "relu"
    if isinstance(kind, nn.GELU) and kind.approximate == "none":
        return "gelu"
    raise _other("to_torch", f"the activation {kind} is not ReLU or GELU")


def _is_norm(module: nn.Module) -> bool:
    return isinstance(module, nn.LayerNorm | layers.StdPlusEpsilonNorm)


def _renamed(name: str) -> str:
    """PyTorch's name of a parameter as ours."""
    for ours, theirs in NAMES:
        name = name.replace(theirs, ours)
    return name


def _copy(state: Mapping[str, Tensor], module: nn.Module) -> None:
    """Load a state; biases that it lacks are zero."""
    zeros = {
        name: torch.zeros_like(x)
        for name, x in module.state_dict().items()
        if name.endswith("bias")
    }
    module.load_state_dict({**zeros, **state})


def _other(where: str, why: str) -> ConfigError:
    return ConfigError("the other library lacks a part of this module", where=where, why=why)
