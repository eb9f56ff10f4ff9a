"""Whether a run may go on in a folder that holds one already, and how to begin anew there."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from clearhead.checkpoint import read_folder_config
from clearhead.config import RunConfig, config_to_dict
from clearhead.errors import ConfigError, TrainingError


def run_folder(config: RunConfig, restart: bool) -> Path:
    """The folder of a run, made, or found to hold the same run where that is to go on.

    Raises:
        ConfigError: the configuration names no folder.
        TrainingError: the folder holds a run with other settings, or cannot be made.
    """
    if not config.folder:
        raise ConfigError("folder is empty", todo='name the model folder: folder = "runs/my-model"')
    folder = Path(config.folder)
    if (folder / "config.json").exists() and not restart:
        _refuse_other_settings(read_folder_config(folder), config)
    try:
        (folder / "training").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TrainingError("the folder cannot be made", where=folder, why=str(error)) from None
    return folder


def forget_run(folder: Path) -> None:
    """Remove a run and its model; the corpora stay, since their names tell what is in them."""
    # First what says that there is a run, so that none is half there.
    for name in ("config.json", "weights.safetensors", "scores.json", "provenance.json"):
        (folder / name).unlink(missing_ok=True)
    for path in (folder / "training").iterdir():
        if path.name == "corpus":
            continue
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


MAY_CHANGE = {
    *("folder", "training.max_steps", "training.max_epochs", "training.max_minutes"),
    *("training.patience", "training.checkpoint_minutes", "training.threads", "training.device"),
    "training.tensorboard",
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
