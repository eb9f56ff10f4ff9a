"""CTranslate2 itself, with a model loaded."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from clearhead.engines.ctranslate2.failures import FAILURES, failure
from clearhead.engines.ctranslate2.folder import ExportedModel
from clearhead.errors import ClearheadError, ConfigError, ExportError

if TYPE_CHECKING:
    import ctranslate2

OF_A_GPU = ("CUDA", "cuBLAS", "cuDNN", "libcu")
"""Words of its messages about a GPU or the libraries of one."""

NARROW = 256
"""The largest d_model for which sharing a product among threads does not pay: there each thread is
a worker with sentences of its own."""

SMALLEST_PART = 8
"""Sentences that a worker takes at a time, at least, where there are so many."""


def loaded(
    exported: ExportedModel, device: str, threads: int, compute_type: str
) -> ctranslate2.Translator:
    """CTranslate2's translator of an export; arguments as for `CTranslate2Engine`.

    Where the model is narrow it has as many workers as threads, else one worker with all of them.

    Raises:
        ExportError: CTranslate2 is not installed, or cannot read the export.
        ConfigError: the device is not there, or cannot multiply such numbers.
        ClearheadError: the device failed, e.g. because its memory is full.
    """
    try:
        import ctranslate2
    except ImportError as error:
        raise ExportError(
            "the package ctranslate2 is not installed",
            why=str(error),
            todo="install it: pip install ctranslate2; or use --engine torch",
        ) from None
    on_cpu = device == "cpu" or (device == "auto" and not ctranslate2.get_cuda_device_count())
    workers = (threads or _usual_threads()) if on_cpu and exported.d_model <= NARROW else 1
    try:
        return ctranslate2.Translator(
            str(exported.path),
            device=device,
            compute_type=compute_type,
            inter_threads=workers,
            intra_threads=1 if workers > 1 else threads,
        )
    except (ValueError, *FAILURES) as error:
        raise _unloadable(error, exported, device, compute_type) from None


def part_size(translator: ctranslate2.Translator, sentences: int) -> int:
    """How many of the sentences a worker takes at a time; 0: all of them.

    Of few sentences there are fewer parts than workers.
    """
    workers = translator.num_translators
    return 0 if workers == 1 else max(SMALLEST_PART, -(-sentences // workers))


def _usual_threads() -> int:
    """As many as CTranslate2 takes where none are asked for."""
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return int(asked) if asked.isdecimal() and int(asked) else min(4, os.cpu_count() or 1)


def _unloadable(
    error: Exception, exported: ExportedModel, device: str, compute_type: str
) -> ClearheadError:
    """What CTranslate2 said, as far as a person can mend it."""
    from ctranslate2 import get_cuda_device_count

    # The path of the export may hold any word.
    message = str(error).replace(str(exported.path), "")
    out_of_memory = isinstance(error, MemoryError) or "out of memory" in message
    of_a_gpu = any(word in message for word in OF_A_GPU)
    if of_a_gpu and not out_of_memory and not get_cuda_device_count():
        return ConfigError(
            f"device = {device!r}, but CTranslate2 finds no GPU that it can use",
            why=str(error),
            todo="use device = 'cpu'",
        )
    if of_a_gpu or out_of_memory:
        return failure(error, "use --device cpu, or free some of the device's memory")
    if isinstance(error, ValueError):
        return ConfigError(
            f"compute_type = {compute_type!r} is not for CTranslate2 on device = {device!r} here",
            why=str(error),
            todo="use compute_type = 'float32'",
        )
    return ExportError(
        "CTranslate2 cannot read the export",
        where=exported.path,
        why=str(error),
        todo="export the model again: clearhead export",
    )
