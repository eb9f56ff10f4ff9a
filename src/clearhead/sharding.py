"""Tensors of which each process holds a part, as PyTorch's FSDP2 makes them of parameters.

The functions take plain tensors too, which every process holds whole.
"""

from __future__ import annotations

from torch import Tensor
from torch.distributed.tensor import DTensor, distribute_tensor


def is_shared(tensor: Tensor) -> bool:
    """Whether each process holds a part."""
    return isinstance(tensor, DTensor)


def own_part(tensor: Tensor) -> Tensor:
    """The part of this process; a change of it changes the tensor."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def whole(tensor: Tensor) -> Tensor:
    """The tensor from the parts of all processes, all of which must call this."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def shared_like(tensor: Tensor, other: Tensor) -> Tensor:
    """A tensor, shared out over the processes as another one is; none communicates."""
    if isinstance(tensor, DTensor) or not isinstance(other, DTensor):
        return tensor
    tensor = tensor.to(other.device, other.dtype)
    return distribute_tensor(tensor, other.device_mesh, other.placements, src_data_rank=None)
