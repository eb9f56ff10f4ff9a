"""CTranslate2 itself, with an export loaded."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

from clearhead.engines.ctranslate2.failures import FAILURES, failure
from clearhead.engines.ctranslate2.folder import ExportedModel
from clearhead.errors import ClearheadError, ConfigError, ExportError

if TYPE_CHECKING:
    import ctranslate2

OF_A_GPU = ("CUDA", "cuBLAS", "cuDNN", "libcu")
"""Words of its messages about a GPU or the libraries of one."""


def loaded(
    exported: ExportedModel, device: str, compute_type: str, workers: int, threads: int
) -> ctranslate2.Translator:
    """CTranslate2's translator of an export.

    Args:
        exported: the model.
        device: `cpu`, `cuda`, or `auto` for the GPU where there is one.
        compute_type: the numbers that it multiplies: `float32`, `int8`, …
        workers: that translate at the same time.
        threads: of each worker (0: as many as CTranslate2 chooses).

    Raises:
        ExportError: CTranslate2 is not installed, or cannot read the export.
        ConfigError: the device is not there, or cannot multiply such numbers.
        ClearheadError: the device failed, e.g. because its memory is full.
    """
    ctranslate2 = installed()
    try:
        return ctranslate2.Translator(
            str(exported.path),
            device=device,
            compute_type=compute_type,
            inter_threads=workers,
            intra_threads=threads,
        )
    except (ValueError, *FAILURES) as error:
        raise _unloadable(error, exported, device, compute_type) from None


def installed() -> ModuleType:
    """The package.

    Raises:
        ExportError: it is not installed.
    """
    try:
        import ctranslate2
    except ImportError as error:
        raise ExportError(
            "the package ctranslate2 is not installed",
            why=str(error),
            todo="install it: pip install ctranslate2; or use --engine torch",
        ) from None
    return ctranslate2


def _unloadable(
    error: Exception, exported: ExportedModel, device: str, compute_type: str
) -> ClearheadError:
    """What CTranslate2 said, as far as a person can mend it."""
    # The path of the export may hold any word.
    message = str(error).replace(str(exported.path), "")
    out_of_memory = isinstance(error, MemoryError) or "out of memory" in message
    of_a_gpu = any(word in message for word in OF_A_GPU)
    if of_a_gpu and not out_of_memory and not installed().get_cuda_device_count():
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
