"""An export for CTranslate2 on disk, and the translators of CTranslate2 that run it.

Imports no torch.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from clearhead.decoding.engine import ONE_THREAD
from clearhead.device import (
    after_fork,
    imported,
    intel,
    processors,
    real_cores,
    warn_of_long_waits,
)
from clearhead.errors import ClearheadError, ConfigError, ExportError, ModelFolderError, reason
from clearhead.folder.exports import read_export
from clearhead.folder.files import parse_json, read_bounded, read_json
from clearhead.folder.model_folder import ModelFolder
from clearhead.settings import Learned, ModelConfig
from clearhead.tokenizer import BOS, EOS, PAD

if TYPE_CHECKING:
    import ctranslate2

NAME = "ctranslate2"
"""The name of the format, and of an export's folder within its model folder."""

MODEL = "model.bin"
"""The file of an export that has its weights."""

SPECIALS = {PAD: "<pad>", BOS: "<s>", EOS: "</s>"}
"""The names of the special tokens in an export, by their ids."""

UNKNOWN = "<unk>"
"""The name of the token for unknown words."""

TOKENS = {
    "bos_token": SPECIALS[BOS],
    "decoder_start_token": SPECIALS[BOS],
    "eos_token": SPECIALS[EOS],
    "unk_token": UNKNOWN,
    # The encoder reads the tokens of the source and nothing else.
    "add_source_bos": False,
    "add_source_eos": False,
}
"""The values about special tokens in `config.json` of an export."""

TABLE_POSITIONS = 4096
"""Positions of an export whose model has no limit. By default 1,024 source tokens need 2,068."""

NARROW = 256
"""The largest d_model that is fastest with workers of one thread each."""

SHARING = 2
"""Maximum number of threads that compute a single sentence; more were not measured."""

FAILURES = (RuntimeError, MemoryError)
"""Raised by CTranslate2 if the device fails, e.g. for lack of a GPU library or of memory."""

OF_DEVICES = ("CUDA", "cuBLAS", "cuDNN", "libcu", "out of memory")
"""Words of the errors that are about a device, not about the export."""


@dataclass(frozen=True)
class ExportedModel:
    """An export on disk; its weights are not loaded.

    Attributes:
        path: its folder.
        d_model: the width of the model.
        positions: the model's number of trained positions; None: it has no limit.
    """

    path: Path
    d_model: int
    positions: int | None

    @classmethod
    def of(cls, path: Path, config: ModelConfig) -> ExportedModel:
        """The export of a model with these settings."""
        positions = config.positions.max_length if isinstance(config.positions, Learned) else None
        return cls(path, config.d_model, positions)

    @property
    def longest_output(self) -> int:
        """The maximum number of tokens of an output, the end symbol included."""
        return self.positions or TABLE_POSITIONS

    def vocabularies(self) -> tuple[list[str], list[str]]:
        """The name of each source id and of each target id.

        Raises:
            ExportError: a file is missing or damaged.
        """
        shared = (self.path / "shared_vocabulary.json").exists()
        found = []
        for side in ("shared", "shared") if shared else ("source", "target"):
            path = self.path / f"{side}_vocabulary.json"
            try:
                names = [str(token) for token in parse_json(read_bounded(path))]
                if any(names[i : i + 1] != [name] for i, name in SPECIALS.items()):
                    raise ValueError("it does not begin with the special tokens")
                found.append(names)
            except (OSError, ValueError, TypeError, RecursionError) as error:
                raise ExportError("the export is damaged", where=path, why=reason(error)) from None
        return found[0], found[1]


def read_ctranslate2(path: Path, found: ModelFolder) -> ExportedModel:
    """The export in a folder, checked to be complete and of the model as it is now.

    Raises:
        ExportError: there is none, it is damaged, or it is of another model.
        ModelFolderError: the model folder cannot be read.
    """
    read_export(path, NAME, found)
    config = path / "config.json"
    try:
        tree = read_json(config)
    except ModelFolderError as error:
        raise ExportError(error.what, where=error.where, why=error.why) from None
    for name, value in TOKENS.items():
        if tree.get(name) != value:
            why = f"its {name} is {tree.get(name)!r}, not {value!r}"
            raise ExportError("the export is damaged", where=config, why=why)
    return ExportedModel.of(path, found.config.model)


class Translators:
    """CTranslate2's translators of one export (docs/decisions/0012).

    On a CPU a narrow model has one worker for each thread; a wide model has one worker with all
    threads. For a single sentence all workers but one would be idle. So a narrow model in float32
    that is wider than `ONE_THREAD` is loaded a second time, with one worker of up to `SHARING`
    threads, if each thread has a core of its own. On Intel processors, where CTranslate2 uses other
    libraries, threads that share a product are slower: there every model has one worker for each
    thread.

    Arguments and errors are those of `CTranslate2Engine`.
    """

    def __init__(
        self, exported: ExportedModel, device: str, threads: int, compute_type: str
    ) -> None:
        self._options = exported, device, threads, compute_type
        self._path = exported.path / MODEL
        self._stamp = _stamp(self._path)
        self._loaded = _load(*self._options)
        after_fork(self.forget)

    def of(self, sentences: int) -> ctranslate2.Translator:
        """The translator that is fastest for a number of sentences."""
        if self._loaded is None:
            if _stamp(self._path) != self._stamp:
                raise ExportError(
                    "this process was forked, and the export has changed since it was loaded",
                    where=self._path.parent,
                    todo="load the model in the new process, after the fork",
                )
            self._loaded = _load(*self._options)
        many, single = self._loaded
        return single if sentences == 1 else many

    def forget(self) -> None:
        """Load the export again when it is needed: a fork copies no threads of CTranslate2.

        The old objects are kept for ever, because their destructors wait for these threads.
        """
        for translator in self._loaded or ():
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(translator))
        self._loaded = None


def _stamp(path: Path) -> tuple[int, ...] | None:
    """What identifies the file that has a name now; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _load(
    exported: ExportedModel, device: str, threads: int, compute_type: str
) -> tuple[ctranslate2.Translator, ctranslate2.Translator]:
    """The translator for several sentences, and the one for a single sentence."""
    gpu = device == "cuda" or (device == "auto" and installed().get_cuda_device_count() > 0)
    one_thread_each = (exported.d_model <= NARROW or intel()) and not gpu
    workers = (threads or _default_threads()) if one_thread_each else 1
    each = 1 if workers > 1 else threads
    many = open_translator(exported, device, compute_type, workers, each)
    is_narrowest = exported.d_model <= ONE_THREAD
    may_share = compute_type == "float32" and not intel() and not is_narrowest
    sharing = min(workers, SHARING, real_cores()) if may_share else 1
    if not gpu and (sharing if workers > 1 else each or _default_threads()) > 1:
        warn_of_long_waits("ctranslate2")
    if sharing == 1:
        return many, many
    # Loaded now, not when needed: by then another export may have replaced this one.
    return many, open_translator(exported, device, compute_type, 1, sharing)


def part_size(translator: ctranslate2.Translator, sentences: int) -> int:
    """The number of sentences that a worker gets at a time; 0: all of them."""
    workers = translator.num_translators
    return 0 if workers == 1 else -(-sentences // workers)


def _default_threads() -> int:
    """CTranslate2's default, but no more than the process may use."""
    requested = os.environ.get("OMP_NUM_THREADS", "")
    return int(requested) if requested.isdecimal() and int(requested) else min(4, processors())


def installed() -> ModuleType:
    """The package ctranslate2; an `ExportError` if it is not installed."""
    try:
        return imported("ctranslate2")
    except ImportError as error:
        raise ExportError(
            "the package ctranslate2 is not installed",
            why=str(error),
            todo="install it: pip install ctranslate2; or use --engine torch",
        ) from None


def open_translator(
    exported: ExportedModel, device: str, compute_type: str, workers: int, threads: int
) -> ctranslate2.Translator:
    """CTranslate2's translator of an export; each worker translates a part of a batch."""
    ctranslate2 = installed()
    if device == "cuda" and not ctranslate2.get_cuda_device_count():
        what = "the device is 'cuda', but CTranslate2 finds no GPU that it can use"
        raise ConfigError(what, todo="use the device 'cpu'")
    try:
        return ctranslate2.Translator(
            str(exported.path),
            device=device,
            compute_type=compute_type,
            inter_threads=workers,
            intra_threads=threads,
        )
    except ValueError as error:
        raise ConfigError(
            f"CTranslate2 cannot compute {compute_type!r} on the device {device!r} of this machine",
            why=str(error),
            todo="use the compute type 'float32', or the device 'cpu'",
        ) from None
    except FAILURES as error:
        # The path of the export may contain any word.
        message = str(error).replace(str(exported.path), "")
        if isinstance(error, MemoryError) or any(word in message for word in OF_DEVICES):
            raise _device_error(error, "use --device cpu, or free some memory") from None
        raise ExportError(
            "CTranslate2 cannot read the export",
            where=exported.path,
            why=str(error),
            todo="export the model again: clearhead export",
        ) from None


@contextmanager
def explain_failures() -> Iterator[None]:
    """Turn CTranslate2's errors while it computes into a `ClearheadError` with advice."""
    try:
        yield
    except FAILURES as error:
        raise _device_error(error, "use --device cpu or a smaller --batch-size") from None


def _device_error(error: Exception, todo: str) -> ClearheadError:
    return ClearheadError(
        "CTranslate2 failed on this device", why=str(error) or type(error).__name__, todo=todo
    )
