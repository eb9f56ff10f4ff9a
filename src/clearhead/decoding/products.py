"""y = xWᵀ + b for decoding: the weights laid out once, as they are multiplied fastest."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor
from torch.backends import mkldnn
from torch.nn import functional as F

from clearhead.decoding.cores import intel
from clearhead.errors import ConfigError

Product = Callable[[Tensor], Tensor]
"""(rows, inputs) -> (rows, outputs), a tensor of its own, of the type of the input."""

LayOut = Callable[[Tensor, Tensor | None], Product]
"""(weight (outputs, inputs), bias (outputs,)) -> their product."""


LEAST_LARGEST = 1e-30
"""What a row's largest number is taken for where it is less, so that zeros stay zeros."""

PACKED_FROM = 2**17
"""Numbers in a float32 weight from which oneDNN's layout is the faster one, where it is at all;
below, to call it takes longer than it saves (docs/decisions/0010)."""


def plain_product(weight: Tensor, bias: Tensor | None) -> Product:
    """In the weights' own precision; a GPU takes them as they are."""
    if weight.is_cuda:
        weight, bias = weight.detach(), None if bias is None else bias.detach()
        return lambda x: F.linear(x, weight, bias)
    wide = weight.dtype == torch.float32 and weight.numel() >= PACKED_FROM
    return (packed_product if wide and packs_float32() else transposed_product)(weight, bias)


def bfloat16_product(weight: Tensor, bias: Tensor | None) -> Product:
    """In bfloat16; what lies between two products stays in the precision of the model."""
    rounded = weight.detach().bfloat16()
    addend = None if bias is None else bias.detach().bfloat16()
    if not weight.is_cuda and packs_bfloat16():
        multiply = packed_product(rounded, addend)
        return lambda x: multiply(x.bfloat16()).to(x.dtype)
    return lambda x: F.linear(x.bfloat16(), rounded, addend).to(x.dtype)


def transposed_product(weight: Tensor, bias: Tensor | None) -> Product:
    """Weights as (inputs, outputs), which a CPU multiplies with few rows up to twice as fast."""
    laid_out = weight.detach().t().contiguous()
    if bias is None:
        return lambda x: torch.mm(x, laid_out)
    addend = bias.detach().clone()
    return lambda x: torch.addmm(addend, x, laid_out)


def packed_product(weight: Tensor, bias: Tensor | None) -> Product:
    """Weights in blocks, as oneDNN would lay them out anew at each call."""
    packed = torch.ops.mkldnn._reorder_linear_weight(weight.detach())
    addend = None if bias is None else bias.detach().clone()
    return lambda x: torch.ops.mkldnn._linear_pointwise(x, packed, addend, "none", [], "")


@cache
def packs_float32() -> bool:
    """Whether wide weights in float32 are multiplied faster as oneDNN lays them out.

    PyTorch takes MKL for them, which is at its fastest on Intel's processors alone. Others were
    measured with AVX-512 only.
    """
    return packs() and _processor_has("avx512_f") and not intel()


@cache
def packs_bfloat16() -> bool:
    """Whether oneDNN multiplies bfloat16 on this processor in a layout of its own."""
    return packs() and torch.ops.mkldnn._is_mkldnn_bf16_supported()


def packs() -> bool:
    """Whether this PyTorch has the operations of `packed_product`, which it does not document."""
    names = ("_reorder_linear_weight", "_linear_pointwise", "_is_mkldnn_bf16_supported")
    return mkldnn.is_available() and all(hasattr(torch.ops.mkldnn, name) for name in names)


def int8_product(weight: Tensor, bias: Tensor | None) -> Product:
    """In 8-bit integers, summed in 32 bits; on a CPU alone.

    Each output has a scale of its own for its weights, each row for its inputs: so a row's result
    does not depend on its neighbours. Inputs have 7 bits where the processor sums two products in
    16 bits, which would overflow with 8.
    """
    largest = 127 if _sums_in_32_bits() else 63
    scales = _scales(weight.detach(), 127)
    quantised = (weight.detach() / scales).round_().to(torch.int8)
    packed = torch.ops.onednn.qlinear_prepack(quantised, None)
    column_scales, zero_points = scales[:, 0].float(), torch.zeros(len(weight), dtype=torch.int32)
    addend = None if bias is None else bias.detach().clone()

    def product(x: Tensor) -> Tensor:
        row_scales = _scales(x, largest)
        # The integers of inputs are unsigned there: 0 lies in the middle. Half a unit is added, so
        # that cutting off the fraction rounds.
        integers = (x / row_scales).add_(largest + 0.5).to(torch.uint8)
        y = torch.ops.onednn.qlinear_pointwise(
            *(integers, 1.0, largest, packed, column_scales, zero_points, None),
            *(1.0, 0, torch.float32, "none", [], ""),
        )
        y = y.to(x.dtype).mul_(row_scales)
        return y if addend is None else y.add_(addend)

    return product


def _scales(rows: Tensor, integer: int) -> Tensor:
    """(rows, 1) what makes each row's largest number `integer`."""
    # NaN stays NaN, so that damaged weights are noticed.
    return rows.abs().amax(dim=1, keepdim=True).clamp_min_(LEAST_LARGEST).div_(integer)


def _sums_in_32_bits() -> bool:
    """Whether the processor has instructions for sums of products of 8-bit integers (VNNI)."""
    return _processor_has("avx512_vnni", "avx_vnni", "amx_int8")


def _processor_has(*instructions: str) -> bool:
    has = torch.cpu.get_capabilities()
    return any(has.get(name, False) for name in instructions)


def _multiplies_bfloat16(device: torch.device) -> bool:
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return _processor_has("avx512_bf16", "amx_bf16")


def lay_out(compute_type: str, device: torch.device) -> LayOut:
    """How weights are laid out to be multiplied in a type: `float32`, `bfloat16` or `int8`.

    Raises:
        ConfigError: there is no such type, or not on this device.
    """
    kinds: dict[str, LayOut] = {
        "float32": plain_product,
        "bfloat16": bfloat16_product,
        "int8": int8_product,
    }
    if compute_type not in kinds:
        raise ConfigError(
            f"the torch engine does not multiply in {compute_type}",
            todo=f"choose one of {', '.join(kinds)}, or --engine ctranslate2",
        )
    if compute_type == "int8" and not (device.type == "cpu" and mkldnn.is_available()):
        raise ConfigError(
            "the torch engine multiplies in int8 on a CPU alone, by oneDNN, which is not here",
            todo="use bfloat16 on a GPU, float32 elsewhere",
        )
    if compute_type == "bfloat16" and not _multiplies_bfloat16(device):
        raise ConfigError(
            "this device has no instructions for bfloat16, and is many times slower without",
            todo="use float32, or int8 on a CPU",
        )
    return kinds[compute_type]
