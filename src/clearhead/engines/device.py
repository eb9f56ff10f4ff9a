"""Where tensors live and how many threads work on them."""

from __future__ import annotations

import torch

from clearhead.errors import ConfigError

DEVICES = ("cpu", "cuda", "auto")


def set_up_torch(device: str, threads: int) -> torch.device:
    """The device by name; threads and the treatment of denormal numbers are set once, here.

    Args:
        device: `cpu`, `cuda`, or `auto` for the GPU where there is one.
        threads: of the CPU (0: as PyTorch chooses).

    Raises:
        ConfigError: the name is none of these, or the device is not there.
    """
    if device not in DEVICES:
        raise ConfigError(
            f"device = {device!r} is not the name of a device",
            todo=f"choose one of {', '.join(DEVICES)}",
        )
    if threads > 0:
        torch.set_num_threads(threads)
    # Denormal numbers make a CPU many times slower and mean nothing here.
    torch.set_flush_denormal(True)
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise ConfigError(
            "device = 'cuda', but PyTorch finds no GPU here", todo="use device = 'cpu' or 'auto'"
        )
    return torch.device(device)
