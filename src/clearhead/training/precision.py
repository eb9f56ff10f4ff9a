"""In which precision the products of a step are made; weights and sums stay float32."""

from __future__ import annotations

from contextlib import AbstractContextManager

import torch

CPU_BF16 = ("avx512_bf16", "amx_bf16")
"""Instructions without which a CPU makes bf16 products some twenty times slower than float32."""


def multiplies_bf16(device: torch.device) -> bool:
    """Whether the device has instructions for products of bf16 numbers."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    has = torch.cpu.get_capabilities()
    return any(has.get(name, False) for name in CPU_BF16)


def choose_precision(wanted: str, device: torch.device) -> str:
    """`float32` or `bf16`: what `auto` means on the device, or what is wanted."""
    if wanted != "auto":
        return wanted
    return "bf16" if multiplies_bf16(device) else "float32"


def slow_precision(wanted: str, device: torch.device) -> str | None:
    """What is to be said of a precision in which the device would crawl; None: nothing."""
    if wanted != "bf16" or multiplies_bf16(device):
        return None
    return (
        "warning: this device has no instructions for bf16 that are known, and without them it is "
        "many times slower in it than in float32; set training.precision to auto or float32"
    )


def in_precision(precision: str, device: torch.device) -> AbstractContextManager[object]:
    """The context of a forward pass in `float32` or `bf16`."""
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16")
