"""In which precisions a device can be compared. PyTorch is imported only when it is asked for."""

from __future__ import annotations

from collections.abc import Sequence

from .machine import processor


def multiplies_bf16(device: str) -> bool:
    """Whether `cpu` or `cuda` has instructions for products of bf16 numbers."""
    import torch

    from clearhead.training.step import multiplies_bf16

    return multiplies_bf16(torch.device(device))


def name_of(device: str) -> str:
    """What `cpu` or `cuda` is called by its maker."""
    if device == "cpu":
        return processor()
    import torch

    return torch.cuda.get_device_name()


def possible_precisions(wanted: Sequence[str], device: str, bf16: bool) -> list[str]:
    """Those that are wanted and that the device multiplies at full speed; float32 if none is left.

    Args:
        wanted: of `float32` and `bf16`.
        device: its name, for people.
        bf16: whether it multiplies bf16 numbers at full speed.
    """
    if "bf16" not in wanted or bf16:
        return list(wanted)
    print(f"bf16 is left out: {device} has no instructions for it")
    return [precision for precision in wanted if precision != "bf16"] or ["float32"]
