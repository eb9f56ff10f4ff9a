"""The files of a run: which they are, whether those in a folder are, and how they are removed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from clearhead.checkpoint import read_json
from clearhead.errors import ModelFolderError, TrainingError

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
