"""The folder of a run: whether a run may start or resume in it, its lock, its files, provenance.

A run removes and replaces only files that a run has written. `config.json` marks a folder as that
of a run.
"""

from __future__ import annotations

import fcntl
import os
import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy
import sentencepiece
import torch

from clearhead.errors import ConfigError, ModelFolderError, TrainingError, reason, what_helps
from clearhead.folder.files import make_folder, open_to_append, read_json, refuse_links, write_json
from clearhead.folder.manifest import MANIFEST, read_entries
from clearhead.folder.model_folder import (
    CARD,
    PREPARED,
    PROVENANCE,
    SCORES,
    WEIGHTS,
    folder_of,
    is_imported,
    open_folder,
)
from clearhead.settings import RunConfig
from clearhead.settings.data import HUB
from clearhead.settings.declare import as_toml, values_by_path
from clearhead.version import __version__

LOCK = "training/.lock"
"""Created by every run before it writes anything else."""

DATA = "training/data.json"
"""The content hashes of the data that the run started with."""

SELECTED_FILES = (WEIGHTS, SCORES, PROVENANCE, MANIFEST, CARD)
"""Files of a model that a validation has selected, and its card."""

TRAINING_FILES = re.compile(
    r"data\.json|log\.jsonl|state(\.previous)?\.safetensors"
    r"|shards/\d{6,}/shard-\d{5,}-model-\d{5}-of-\d{5}\.safetensors"
    r"|checkpoints/(step-\d{8,}|best|average)\.safetensors"
    r"|tensorboard/events\.out\.tfevents\.[^/]+"
    r"|attention/step-\d+-\d+\.npz"
)
"""The paths in `training/` that a restart removes."""

MAY_CHANGE = {
    # The content of the files is compared.
    *("data.train", "data.validation", "data.test", "data.replay"),
    *("folder", "training.max_steps", "training.max_epochs", "training.max_minutes"),
    *("training.patience", "training.checkpoint_minutes", "training.threads", "training.device"),
    "training.parallel",
    *("training.tensorboard", "training.report_every", "training.export"),
    "training.watch_attention",
    # The data are checked before the first step only.
    "data.mismatch",
}
"""Settings that may differ when a run is resumed."""

ELSEWHERE = "choose another folder: --set folder=runs/other"


def settle_run(folder: Path) -> None:
    """Put the files into place that a run was replacing when it was killed."""
    # If there is no such run, or its manifest cannot be read, the checks that follow raise the
    # error.
    refuse_links(folder, folder, TrainingError)
    with suppress(OSError, ModelFolderError):
        read_entries(folder)


def run_folder(config: RunConfig, restart: bool) -> Path:
    """The folder of a run: a new one, or one with the same run to resume."""
    if not config.folder:
        raise ConfigError("folder is empty", todo='name the model folder: folder = "runs/my-model"')
    folder = Path(config.folder)
    try:
        if not (folder / "config.json").exists():
            _refuse_other_files(folder)
        elif is_imported(folder):
            raise _imported(folder)
        elif restart:
            _refuse_other_config(folder / "config.json")
        else:
            _refuse_other_settings(open_folder(folder, trained=False).config, config)
        make_folder(folder / "training")
    except (OSError, ValueError) as error:  # a NUL in the name is a ValueError
        what, todo = "the folder cannot be used", what_helps(error, ELSEWHERE)
        raise TrainingError(what, where=folder, why=reason(error), todo=todo) from None
    return folder


def _refuse_other_files(folder: Path) -> None:
    """Check that a folder without a config.json has no files that a new run would replace."""
    training = folder / "training"
    # A run that is killed before it has a config.json leaves its lock, its corpus and its log.
    begun = (folder / LOCK).exists()
    own = {folder / LOCK, *_written(training)} if begun else set[Path]()
    found = [folder / name for name in (*SELECTED_FILES, *PREPARED) if (folder / name).exists()]
    for path in training.rglob("*"):
        is_own = path in own or (begun and training / "corpus" in path.parents)
        if path.is_file() and not is_own:
            found.append(path)
    if found:
        raise TrainingError(
            f"the folder has the file {found[0].relative_to(folder)}, but no config.json of a run",
            where=folder,
            why="the file belongs to another program, or the config.json of its run is lost",
            todo=f"{ELSEWHERE}, restore config.json, or move the file away",
        )


def _imported(folder: Path) -> TrainingError:
    return TrainingError(
        "the folder has an imported model, which the run would replace",
        where=folder,
        why="a model from Hugging Face was imported into it, and no run has trained it",
        todo=f'{ELSEWHERE}; to train this model further, set start_from = "{folder}" there',
    )


def _refuse_other_config(path: Path) -> None:
    """Check that a config.json was written by a run. A damaged one may have been."""
    try:
        ours = "format" in read_json(path)
    except ModelFolderError:
        return
    if not ours:
        raise TrainingError(
            "this config.json was written by another program",
            where=path,
            why='it has no "format"',
            todo=f"{ELSEWHERE}, or move it away",
        )


def _refuse_other_settings(old: RunConfig, new: RunConfig) -> None:
    before, after = (values_by_path(asdict(config)) for config in (old, new))
    if _was_moved(old.start_from, new.start_from):
        before["start_from"] = new.start_from
    changed = sorted(
        name
        for name in before.keys() | after.keys()
        if before.get(name) != after.get(name) and name not in MAY_CHANGE
    )
    if changed:
        raise TrainingError(
            "the folder has a run with other settings",
            where=new.folder,
            why=", ".join(
                f"{n} was {as_toml(before.get(n))}, now {as_toml(after.get(n))}" for n in changed
            ),
            todo="use the old settings, choose another folder, or start over: --restart",
        )


def _was_moved(old: str, new: str) -> bool:
    """Whether a model to start from is gone from its old path, and the new one has its name."""
    # Its absolute path changes if the model is moved together with the run.
    if any(source.startswith(HUB) for source in (old, new)) or folder_of(old).exists():
        return False
    return folder_of(old).name == folder_of(new).name and Path(old).name == Path(new).name


@contextmanager
def only_run_in(folder: Path) -> Iterator[None]:
    """Lock the folder for one run, and remove what a killed run left half-written."""
    # The lock ends with the process, however it ends.
    try:
        lock = open_to_append(folder / LOCK)
    except OSError as error:
        raise _not_lockable(folder, error) from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise TrainingError(
                "another run uses this folder",
                where=folder,
                todo=f"wait for its end, or {ELSEWHERE}",
            ) from None
        except OSError as error:
            raise _not_lockable(folder, error) from None
        _remove_leftovers(folder)
        yield


def _not_lockable(folder: Path, error: OSError) -> TrainingError:
    return TrainingError(
        "the folder cannot be locked for this run",
        where=folder,
        why=reason(error),
        todo=what_helps(error, "choose a folder on a local disk: --set folder=runs/other"),
    )


def _remove_leftovers(folder: Path) -> None:
    """Remove what safetensors had half-written when the run was killed, or its disk failed."""
    # The caller has the lock of the folder.
    for place in ("training", "training/checkpoints"):
        for path in (folder / place).glob(".tmp??????"):
            with suppress(OSError):
                path.unlink()


def note_data(folder: Path, hashes: Mapping[str, Mapping[str, str]]) -> None:
    """Record the data of a run for `refuse_other_data`."""
    write_json(folder / DATA, _contents(hashes))


def refuse_other_data(folder: Path, hashes: Mapping[str, Mapping[str, str]]) -> None:
    """Check that the data are those that the run started with. The files may have moved."""
    if not (folder / DATA).exists():
        raise TrainingError(
            "this run cannot be resumed",
            where=folder,
            why=f"{DATA} is missing",
            todo="restore the folder training/, or start over: --restart",
        )
    before, now = read_json(folder / DATA), _contents(hashes)
    changed = [part for part in now if before.get(part, []) != now[part]]
    if changed:
        raise TrainingError(
            f"the {' and '.join(changed)} data have changed since the run started",
            where=folder,
            why="the content of the files is different",
            todo="restore the old files, choose another folder, or start over: --restart",
        )


def _contents(hashes: Mapping[str, Mapping[str, str]]) -> dict[str, list[str]]:
    return {part: list(files.values()) for part, files in hashes.items()}


def forget_run(folder: Path) -> None:
    """Remove a run and its model, but no file that a run does not write."""
    # The encoded corpora stay, because the new run has already made its own. The new config.json
    # replaces the old one. Without DATA, which comes first, no half-removed run is resumed.
    names = [folder / name for name in (DATA, *SELECTED_FILES)]
    try:
        for path in (*names, *_written(folder / "training")):
            path.unlink(missing_ok=True)
    except OSError as error:
        raise TrainingError(
            "the old run cannot be removed",
            where=error.filename or folder,
            why=reason(error),
            todo=what_helps(error, ELSEWHERE),
        ) from None
    training = folder / "training"
    made = ("checkpoints", "tensorboard", "attention", "shards")
    for path in [*training.glob("shards/*/"), *(training / name for name in made)]:
        with suppress(OSError):  # it does not exist, or is not empty
            path.rmdir()


def _written(training: Path) -> list[Path]:
    """The files of `TRAINING_FILES`, and those that a killed run left half-written."""

    def is_written(path: Path) -> bool:
        unfinished = re.fullmatch(r"\.(.+)\.(unfinished|[0-9a-f]{16})", path.name)
        whole = path.with_name(unfinished[1]) if unfinished else path
        return TRAINING_FILES.fullmatch(whole.relative_to(training).as_posix()) is not None

    return [path for path in training.rglob("*") if path.is_file() and is_written(path)]


def _hardware(device: torch.device) -> str:
    """The name of the GPU, or the instructions that PyTorch uses on the processor."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return torch.backends.cpu.get_cpu_capability()


def provenance(
    seed: int,
    device: torch.device,
    precision: str,
    data: Mapping[str, Mapping[str, str]],
    reports: Sequence[Mapping[str, Any]],
    processes: int = 1,
) -> dict[str, Any]:
    """The facts that are written beside the weights."""
    return {
        "clearhead": __version__,
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "sentencepiece": sentencepiece.__version__,
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "processes": processes,
        "device": str(device),
        "hardware": _hardware(device),
        "precision": precision,
        "seed": seed,
        "data": data,
        "reports": list(reports),
    }
