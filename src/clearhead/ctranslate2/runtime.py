"""What CTranslate2's own errors say to a person: what failed, and how to go round it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING

from clearhead.ctranslate2.folder import ExportedModel
from clearhead.decoding.cores import intel, processors, real_cores
from clearhead.errors import ClearheadError, ConfigError, ExportError

if TYPE_CHECKING:
    import ctranslate2


FAILURES = (RuntimeError, MemoryError)
"""What it raises where the device fails it: a library of the GPU, or memory, that is not there."""


def failure(error: Exception, todo: str) -> ClearheadError:
    """The device failed, as CTranslate2 says it."""
    return ClearheadError(
        "CTranslate2 failed on this device", why=str(error) or type(error).__name__, todo=todo
    )


@contextmanager
def failures_said() -> Iterator[None]:
    """What fails within while CTranslate2 computes is said as an error that a user can mend.

    Raises:
        ClearheadError: CTranslate2 failed.
    """
    try:
        yield
    except FAILURES as error:
        raise failure(error, "use --device cpu or a smaller --batch-size") from None


# ---- engines.ctranslate2.loading
# CTranslate2 itself, with an export loaded.

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


# ---- engines.ctranslate2.translators
# Which threads of a CPU translate what: workers for many sentences, or all for one.

NARROW = 256
"""The largest d_model for which many sentences are translated soonest by workers of one thread."""

SHARING = 2
"""The most threads that share the products of a sentence alone: more were not measured."""

SMALLEST_PART = 8
"""Sentences that a worker takes at a time, at least, where there are so many."""


class Translators:
    """CTranslate2's translators of one export (docs/decisions/0012); arguments as for its engine.

    On a CPU a narrow model has as many workers as threads, else one worker with all of them. A
    sentence alone would leave all workers but one idle: in float32 as many threads as have cores
    of their own, and at most `SHARING`, share its products in place of that. For this the weights
    of a narrow model, which are small, are loaded twice. On Intel's processors, where CTranslate2
    takes other libraries, threads that share a product lose by it: workers for every width there.

    Raises:
        ExportError: CTranslate2 is not installed, or cannot read the export.
        ConfigError: the device is not there, or cannot multiply such numbers.
        ClearheadError: the device failed, e.g. because its memory is full.
    """

    def __init__(
        self, exported: ExportedModel, device: str, threads: int, compute_type: str
    ) -> None:
        gpu = device == "cuda" or (device == "auto" and installed().get_cuda_device_count() > 0)
        apart = exported.d_model <= NARROW or intel()
        workers = threads or _usual_threads() if apart and not gpu else 1
        load = partial(loaded, exported, device, compute_type)
        self._many = load(workers, 1 if workers > 1 else threads)
        shares = compute_type == "float32" and not intel()
        sharing = min(workers, SHARING, real_cores()) if shares else 1
        # Not only when it is needed: then another export might have taken this one's place.
        self._alone = load(1, sharing) if sharing > 1 else self._many

    def of(self, sentences: int) -> ctranslate2.Translator:
        """That which has so many sentences translated the soonest."""
        return self._alone if sentences == 1 else self._many


def part_size(translator: ctranslate2.Translator, sentences: int) -> int:
    """How many of the sentences a worker takes at a time; 0: all of them.

    Of few sentences there are fewer parts than workers.
    """
    workers = translator.num_translators
    return 0 if workers == 1 else max(SMALLEST_PART, -(-sentences // workers))


def _usual_threads() -> int:
    """As many as CTranslate2 takes where none are asked for; no more than may run."""
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return int(asked) if asked.isdecimal() and int(asked) else min(4, processors())
