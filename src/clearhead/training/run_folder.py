"""Where weights come from: data, versions, machine."""

from __future__ import annotations

import fcntl
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import sentencepiece
import torch

from clearhead import __version__
from clearhead.checkpoint import read_folder_config, read_json, write_json
from clearhead.errors import ConfigError, ModelFolderError, TrainingError
from clearhead.settings import RunConfig, config_to_dict


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
        "clearhead": __version__,
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


# ---- training.run_files
# The files of a run: which they are, whether those in a folder are, and how they are removed.

LOCK = "training/.lock"
"""What every run has before it writes anything else."""

REMOVED_CONFIG = "training/.config.json.removed"
"""The config.json of a run while its other files are being removed."""

WEIGHED = ("weights.safetensors", "scores.json", "provenance.json")
"""What a run writes beside its config.json when a model was found good."""

PARTS = tuple(
    f"{name}.{ending}"
    for name in ("tokenizer", "source", "target", "labels", "normaliser")
    for ending in ("json", "model")
)
"""What it writes there before: the vocabularies, labels and scale."""

KEPT = ("corpus", Path(LOCK).name, Path(REMOVED_CONFIG).name)
"""What may be in `training/` where there is no run: of a restart that went no further."""

WRITTEN = (
    *("data.json", "log.jsonl", "state.safetensors", "checkpoints/step-*.safetensors"),
    *("checkpoints/best.safetensors", "checkpoints/average.safetensors"),
    # Of a run that was killed while it wrote.
    *(".data.json.unfinished", ".state.safetensors.unfinished"),
    "checkpoints/.step-*.safetensors.unfinished",
    *("checkpoints/.best.safetensors.unfinished", "checkpoints/.average.safetensors.unfinished"),
    "tensorboard/events.out.tfevents.*",
)
"""What else a run writes to `training/`."""


def forget_run(folder: Path) -> None:
    """Remove a run and its model, and no file but those that a run writes.

    The corpora stay: the run that begins now has made its own already.

    Raises:
        TrainingError: a file cannot be removed.
    """
    config, removed = folder / "config.json", folder / REMOVED_CONFIG
    try:
        # First what says that there is a run, so that none is half there; and it stays, under
        # another name, to say that the rest may go too, should this end before its end.
        if config.exists():
            os.replace(config, removed)
        for name in WEIGHED:
            (folder / name).unlink(missing_ok=True)
        for path in _written(folder / "training"):
            path.unlink()
        removed.unlink(missing_ok=True)
    except OSError as error:
        raise TrainingError(
            "the old run cannot be removed",
            where=folder,
            why=str(error),
            todo="choose another folder: --set folder=runs/other",
        ) from None
    for name in ("checkpoints", "tensorboard"):
        with suppress(OSError):  # it is not there, or not empty
            (folder / "training" / name).rmdir()


def refuse_other_files(folder: Path, restart: bool) -> None:
    """Find, where there is no config.json, nothing that a new run would remove or write over.

    Raises:
        TrainingError: there are files that no run has written, or a model whose config.json is
            lost, unless the run is to begin anew.
    """
    if not (folder / LOCK).exists():
        for name in (*WEIGHED, *PARTS):
            if (folder / name).exists():
                raise TrainingError(
                    f"it holds a {name} that is not a run's, or whose config.json is lost",
                    where=folder,
                    todo="choose another folder: --set folder=runs/other, or move it away",
                )
    if (other := next(_files_of_others(folder), None)) is not None:
        raise TrainingError(
            "its folder training/ holds files that are not a run's",
            where=folder,
            why=f"one is {other.relative_to(folder)}, and there is no config.json",
            todo="choose another folder: --set folder=runs/other, or move them away",
        )
    if not restart and not (folder / REMOVED_CONFIG).exists():
        _refuse_lost_config(folder)


def _refuse_lost_config(folder: Path) -> None:
    for name in (*WEIGHED, "training/state.safetensors"):
        if (folder / name).exists():
            raise TrainingError(
                "it holds a run whose config.json is lost",
                where=folder,
                why=f"its {name} is there",
                todo="bring config.json back, choose another folder, or begin anew: --restart",
            )


def _files_of_others(folder: Path) -> Iterator[Path]:
    """The files in `training/` that are not a run's: all of them where none has locked it."""
    training = folder / "training"
    locked = (folder / LOCK).exists()
    own = set(_written(training))
    for path in training.rglob("*"):
        kept = path in own or path.relative_to(training).parts[0] in KEPT
        if path.is_file() and not (locked and kept):
            yield path


def _written(training: Path) -> list[Path]:
    return [path for pattern in WRITTEN for path in training.glob(pattern) if path.is_file()]


def refuse_other_config(path: Path) -> None:
    """Find that a config.json is a run's; a damaged one may go, for a run may have left it.

    Raises:
        TrainingError: it reads well, and is another program's.
    """
    try:
        ours = "format" in read_json(path)
    except ModelFolderError:
        return
    if not ours:
        raise TrainingError(
            "its config.json is not a run's",
            where=path,
            why='it has no "format"',
            todo="choose another folder: --set folder=runs/other, or move it away",
        )


# ---- training.continuation
# Whether a run may go on in a folder that holds one already.


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
