"""y = xWᵀ + b for decoding: the weights laid out once, as they are multiplied fastest."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.backends import mkldnn
from torch.nn import functional as F

from clearhead.engines.cores import intel
from clearhead.errors import ConfigError

Product = Callable[[Tensor], Tensor]
"""(rows, inputs) -> (rows, outputs), a tensor of its own, of the type of the input."""

LayOut = Callable[[Tensor, Tensor | None], Product]
"""(weight (outputs, inputs), bias (outputs,)) -> their product."""


PACKED_FROM = 2**17
"""Numbers in a float32 weight from which the layout of oneDNN is the faster one on a processor that
is not Intel's; below, calling it takes longer than its products save (docs/decisions/0010)."""


def plain_product(weight: Tensor, bias: Tensor | None) -> Product:
    """In the weights' own precision.

    A GPU takes the weights as they are. On a CPU they are laid out once: as oneDNN has them, or as
    (inputs, outputs), which PyTorch multiplies with few rows up to twice as fast.
    """
    weight = weight.detach()
    bias = None if bias is None else bias.detach()
    if weight.is_cuda:
        return lambda x: F.linear(x, weight, bias)
    if _packs(weight):
        return _packed_product(weight, bias)
    laid_out = weight.t().contiguous()
    if bias is None:
        return lambda x: torch.mm(x, laid_out)
    addend = bias.clone()
    return lambda x: torch.addmm(addend, x, laid_out)


def bfloat16_product(weight: Tensor, bias: Tensor | None) -> Product:
    """In bfloat16; what lies between two products stays in the precision of the model."""
    rounded = weight.detach().bfloat16()
    addend = None if bias is None else bias.detach().bfloat16()
    if _packs(rounded):
        multiply = _packed_product(rounded, addend)
        return lambda x: multiply(x.bfloat16()).to(x.dtype)
    return lambda x: F.linear(x.bfloat16(), rounded, addend).to(x.dtype)


def _packs(weight: Tensor) -> bool:
    """Whether products with a weight are made by oneDNN, in a layout of its own."""
    if weight.is_cuda or not mkldnn.is_available():
        return False
    if weight.dtype == torch.bfloat16:
        return torch.ops.mkldnn._is_mkldnn_bf16_supported()
    # On Intel's processors PyTorch multiplies float32 by a library of Intel's for them.
    return weight.dtype == torch.float32 and weight.numel() >= PACKED_FROM and not intel()


def _packed_product(weight: Tensor, bias: Tensor | None) -> Product:
    packed = torch.ops.mkldnn._reorder_linear_weight(weight)
    addend = None if bias is None else bias.clone()
    return lambda x: torch.ops.mkldnn._linear_pointwise(x, packed, addend, "none", [], "")


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
        # The integers of inputs are unsigned there: 0 lies in the middle.
        integers = (x / row_scales).round_().add_(largest).to(torch.uint8)
        y = torch.ops.onednn.qlinear_pointwise(
            *(integers, 1.0, largest, packed, column_scales, zero_points, None),
            *(1.0, 0, torch.float32, "none", [], ""),
        )
        y = y.to(x.dtype).mul_(row_scales)
        return y if addend is None else y.add_(addend)

    return product


def _scales(rows: Tensor, integer: int) -> Tensor:
    """(rows, 1) what makes each row's largest number `integer`; 1 for a row of zeros."""
    largest = rows.abs().amax(dim=1, keepdim=True)
    # NaN stays NaN, so that damaged weights are noticed.
    return torch.where(largest == 0, 1.0, largest / integer)


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
