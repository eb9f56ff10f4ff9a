"""Products y = xWᵀ + b for decoding. Weights are converted once to the fastest layout."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor
from torch.backends import mkldnn
from torch.nn import functional as F

from clearhead.device import intel, multiplies_bf16, processor_has
from clearhead.errors import ConfigError

Product = Callable[[Tensor], Tensor]
"""(rows, inputs) -> (rows, outputs), a new tensor with the type of the input."""

MakeProduct = Callable[[Tensor, Tensor | None], Product]
"""(weight (outputs, inputs), bias (outputs,)) -> the product with this weight and bias."""

PACKED_FROM = 2**17
"""Elements of a float32 weight from which the layout of oneDNN can be faster (decision 10)."""


def plain_product(weight: Tensor, bias: Tensor | None) -> Product:
    """In the precision of the weights; on a GPU in their own layout."""
    if weight.is_cuda:
        weight, bias = weight.detach(), None if bias is None else bias.detach()
        return lambda x: F.linear(x, weight, bias)
    wide = weight.dtype == torch.float32 and weight.numel() >= PACKED_FROM
    return (packed_product if wide and packs_float32() else transposed_product)(weight, bias)


def bfloat16_product(weight: Tensor, bias: Tensor | None) -> Product:
    """In bfloat16; operations between products keep the precision of the model."""
    rounded = weight.detach().bfloat16()
    addend = None if bias is None else bias.detach().bfloat16()
    if not weight.is_cuda and packs_bfloat16():
        multiply = packed_product(rounded, addend)
        return lambda x: multiply(x.bfloat16()).to(x.dtype)
    return lambda x: F.linear(x.bfloat16(), rounded, addend).to(x.dtype)


def transposed_product(weight: Tensor, bias: Tensor | None) -> Product:
    """Weights as (inputs, outputs): with few rows up to twice as fast on a CPU."""
    transposed = weight.detach().t().contiguous()
    if bias is None:
        return lambda x: torch.mm(x, transposed)
    addend = bias.detach().clone()
    return lambda x: torch.addmm(addend, x, transposed)


def packed_product(weight: Tensor, bias: Tensor | None) -> Product:
    """Weights in the blocked layout of oneDNN, which would otherwise convert them at each call."""
    packed = torch.ops.mkldnn._reorder_linear_weight(weight.detach())
    addend = None if bias is None else bias.detach().clone()
    return lambda x: torch.ops.mkldnn._linear_pointwise(x, packed, addend, "none", [], "")


@cache
def packs_float32() -> bool:
    """Whether large float32 weights multiply faster in the layout of oneDNN.

    PyTorch multiplies them with MKL, which is fastest on Intel processors. Of other processors only
    those with AVX-512 were measured.
    """
    return packs() and processor_has("avx512_f") and not intel()


@cache
def packs_bfloat16() -> bool:
    """Whether oneDNN multiplies bfloat16 on this processor."""
    return packs() and torch.ops.mkldnn._is_mkldnn_bf16_supported()


def packs() -> bool:
    """Whether this PyTorch has the undocumented operations of `packed_product`."""
    names = ("_reorder_linear_weight", "_linear_pointwise", "_is_mkldnn_bf16_supported")
    return mkldnn.is_available() and all(hasattr(torch.ops.mkldnn, name) for name in names)


def int8_product(weight: Tensor, bias: Tensor | None) -> Product:
    """In 8-bit integers, summed in 32 bits; on a CPU only.

    There is one scale for the weights of each output and one for the inputs of each row, so the
    result for a row does not depend on other rows. Inputs have 7 bits on processors that sum two
    products in 16 bits, which would overflow with 8.
    """
    # VNNI instructions sum products of 8-bit integers in 32 bits.
    largest = 127 if processor_has("avx512_vnni", "avx_vnni", "amx_int8") else 63
    scales = _scales(weight.detach(), 127)
    quantised = (weight.detach() / scales).round_().to(torch.int8)
    packed = torch.ops.onednn.qlinear_prepack(quantised, None)
    column_scales, zero_points = scales[:, 0].float(), torch.zeros(len(weight), dtype=torch.int32)
    addend = None if bias is None else bias.detach().clone()
    multiply = torch.ops.onednn.qlinear_pointwise
    result = 1.0, 0, torch.float32, "none", [], ""  # scale, zero point, type, and no more to do

    def product(x: Tensor) -> Tensor:
        row_scales = _scales(x, largest)
        # oneDNN takes unsigned inputs, with 0 in the middle. Half a unit makes truncation round.
        integers = (x / row_scales).add_(largest + 0.5).to(torch.uint8)
        y = multiply(integers, 1.0, largest, packed, column_scales, zero_points, None, *result)
        y = y.to(x.dtype).mul_(row_scales)
        return y if addend is None else y.add_(addend)

    return product


def _scales(rows: Tensor, integer: int) -> Tensor:
    """(rows, 1) the scale at which the largest number of each row becomes `integer`."""
    # The lower bound is for rows of zeros. NaN stays NaN, so damaged weights are noticed.
    return rows.abs().amax(dim=1, keepdim=True).clamp_min_(1e-30).div_(integer)


def choose_product(compute_type: str, device: torch.device) -> MakeProduct:
    """The function that makes the products of a compute type; a `ConfigError` if there is none."""
    kinds: dict[str, MakeProduct] = {
        "float32": plain_product,
        "bfloat16": bfloat16_product,
        "int8": int8_product,
    }
    if compute_type not in kinds:
        raise ConfigError(
            f"the torch engine does not compute in {compute_type}",
            todo=f"choose one of {', '.join(kinds)}, or use --engine ctranslate2",
        )
    if compute_type == "int8" and not (device.type == "cpu" and mkldnn.is_available()):
        raise ConfigError(
            "the torch engine computes in int8 only on a CPU and with oneDNN",
            todo="use bfloat16 on a GPU, and float32 elsewhere",
        )
    if compute_type == "bfloat16" and not multiplies_bf16(device):
        raise ConfigError(
            "this device has no instructions for bfloat16, without which it is many times slower",
            todo="use float32, or int8 on a CPU",
        )
    return kinds[compute_type]
