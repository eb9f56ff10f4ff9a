"""Where weights come from: data, versions, machine."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from typing import Any

import sentencepiece
import torch

import clearhead


def provenance(
    seed: int,
    device: torch.device,
    precision: str,
    data: Mapping[str, Mapping[str, str]],
    reports: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """The facts that are written beside the weights.

    Args:
        seed: of the run.
        device: what it runs on.
        precision: in which it multiplies.
        data: for each part (train, validation, test) the content hash of each file.
        reports: what was found in the data.
    """
    return {
        "clearhead": clearhead.__version__,
        "torch": torch.__version__,
        "sentencepiece": sentencepiece.__version__,
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "device": str(device),
        "precision": precision,
        "seed": seed,
        "data": data,
        "reports": list(reports),
    }
