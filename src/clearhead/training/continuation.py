"""Whether a run may go on in a folder that holds one already."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from clearhead.checkpoint import read_folder_config, read_json, write_json
from clearhead.config import RunConfig, config_to_dict
from clearhead.errors import ConfigError, TrainingError
from clearhead.training.run_files import LOCK, refuse_other_config, refuse_other_files


def run_folder(config: RunConfig, restart: bool) -> Path:
    """The folder of a run, made, or found to hold the same run where that is to go on.

    Raises:
        ConfigError: the configuration names no folder.
        TrainingError: the folder holds a run with other settings, or one whose config.json is lost,
            or files that no run has written where those of a run belong, or can be neither read
            nor made.
    """
    if not config.folder:
        raise ConfigError("folder is empty", todo='name the model folder: folder = "runs/my-model"')
    folder = Path(config.folder)
    try:
        if not (folder / "config.json").exists():
            refuse_other_files(folder, restart)
        elif restart:
            refuse_other_config(folder / "config.json")
        else:
            _refuse_other_settings(read_folder_config(folder), config)
        (folder / "training").mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:  # of a NUL in the name it is a ValueError
        raise TrainingError(
            "the folder cannot be used",
            where=folder,
            why=str(error),
            todo="choose another folder: --set folder=runs/other",
        ) from None
    return folder


@contextmanager
def only_run_in(folder: Path) -> Iterator[None]:
    """Hold the folder for one run; the lock ends with the process, however it ends.

    Raises:
        TrainingError: another process trains in this folder, or it cannot be locked.
    """
    try:
        lock = (folder / LOCK).open("a")
    except OSError as error:
        raise _not_lockable(folder, error) from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise TrainingError(
                "another run is going on in this folder",
                where=folder,
                todo="wait for its end, or choose another folder: --set folder=runs/other",
            ) from None
        except OSError as error:
            raise _not_lockable(folder, error) from None
        yield


def _not_lockable(folder: Path, error: OSError) -> TrainingError:
    return TrainingError(
        "the folder cannot be locked for this run",
        where=folder,
        why=str(error),
        todo="choose a folder on a disk of this machine: --set folder=runs/other",
    )


def refuse_other_data(folder: Path, hashes: Mapping[str, Mapping[str, str]]) -> None:
    """Find that the data are the same as when the run began; files may have moved.

    Args:
        folder: of the run.
        hashes: for each part (train, validation, test) the content hash of each file.

    Raises:
        TrainingError: the run began with other data, or its folder `training/` is not there.
    """
    if not (folder / DATA).exists():
        raise TrainingError(
            "this model cannot be trained on",
            where=folder,
            why=f"{DATA} is missing, which a run goes on from",
            todo="bring its folder training/ back, or begin anew: --restart",
        )
    before = read_json(folder / DATA)
    found = _contents(hashes)
    changed = [part for part in found if before.get(part) != found[part]]
    if changed:
        raise TrainingError(
            f"the {' and '.join(changed)} data are not those the run began with",
            where=folder,
            why="the content of the files has changed",
            todo="bring the old files back, choose another folder, or begin anew: --restart",
        )


def note_data(folder: Path, hashes: Mapping[str, Mapping[str, str]]) -> None:
    """Write down what the data of a run are, for those who go on with it."""
    write_json(folder / DATA, _contents(hashes))


def _contents(hashes: Mapping[str, Mapping[str, str]]) -> dict[str, list[str]]:
    return {part: list(files.values()) for part, files in hashes.items()}


DATA = "training/data.json"

MAY_CHANGE = {
    *("data.train", "data.validation", "data.test"),  # their content is compared instead
    *("folder", "training.max_steps", "training.max_epochs", "training.max_minutes"),
    *("training.patience", "training.checkpoint_minutes", "training.threads", "training.device"),
    *("training.tensorboard", "training.report_every"),
}
"""Settings that a run may go on with though they are not those it began with."""


def _refuse_other_settings(old: RunConfig, new: RunConfig) -> None:
    before, after = (_flat(config_to_dict(config)) for config in (old, new))
    changed = sorted(
        name
        for name in before.keys() | after.keys()
        if before.get(name) != after.get(name) and name not in MAY_CHANGE
    )
    if changed:
        differences = ", ".join(f"{n} was {before.get(n)}, now {after.get(n)}" for n in changed)
        raise TrainingError(
            "the folder holds a run with other settings",
            where=new.folder,
            why=differences,
            todo="take the old settings back, choose another folder, or begin anew: --restart",
        )


def _flat(tree: dict[str, Any], path: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        flat |= _flat(value, f"{path}{key}.") if isinstance(value, dict) else {path + key: value}
    return {k: list(v) if isinstance(v, tuple) else v for k, v in flat.items()}
