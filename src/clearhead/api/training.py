"""Train, or see what training would need."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from clearhead.api.encoder import with_encoders_settings
from clearhead.checkpoint import write_model_folder
from clearhead.settings import DataConfig, RunConfig, TrainingConfig, read_config

if TYPE_CHECKING:
    import torch

    from clearhead.training.dry_run import DryRun
    from clearhead.training.events import Observer, RunEnded


def train(
    config: RunConfig | str | Path,
    *,
    restart: bool = False,
    observers: Sequence[Observer] | None = None,
) -> RunEnded:
    """Train, or go on with a run that was interrupted; the result is the folder `config.folder`.

    The first Ctrl-C ends it after the step, with a checkpoint; a second one at once. What is
    returned then has `finished = False`, and the same call, without `restart`, goes on.

    Args:
        config: the whole run, or the TOML file that describes it.
        restart: begin anew; a run in the folder is removed once the new data are found good and
            the new model is made.
        observers: told what happens; by default a live screen on the standard error, or plain
            lines where that is no terminal; `()` for silence. The log in the folder is written
            in any case.

    Raises:
        ConfigError: settings do not go together.
        DataError: the data cannot be used.
        ModelFolderError: the folder of `classifier.encoder_from` cannot be used.
        TrainingError: the folder holds a run with other settings or data, or one that is going
            on, or files that no run has written; or TensorBoard is asked for and not installed;
            or training diverged.
    """
    from clearhead.training.display import displays
    from clearhead.training.run_folder import only_run_in, run_folder

    config = config if isinstance(config, RunConfig) else read_config(config)
    config = _ready(config, restart)
    folder = run_folder(config, restart)
    watchers = displays(sys.stderr) if observers is None else list(observers)
    try:
        with only_run_in(folder):
            ended = _train(config, folder, restart, watchers)
    finally:
        for watcher in watchers:
            watcher.close()
    if observers is None and not ended.finished:
        _say_how_to_go_on(restart)
    return ended


def _say_how_to_go_on(restart: bool) -> None:
    from clearhead.training.display import forgiving

    if sys.stderr is not None:
        without = " without restart=True" if restart else ""
        forgiving(sys.stderr).write(f"to go on: the same call{without}\n")


def _train(config: RunConfig, folder: Path, restart: bool, watchers: list[Observer]) -> RunEnded:
    """Prepare data and model and let the trainer run; observers that are opened join the others."""
    from clearhead.api.preparation import prepare, teller
    from clearhead.data.corpus import remove_unused_corpora
    from clearhead.training.checkpoints import Keeper
    from clearhead.training.events import JsonLog
    from clearhead.training.loop import Trainer
    from clearhead.training.run_folder import forget_run, note_data, provenance, refuse_other_data
    from clearhead.training.step import choose_precision

    device = _set_up(config.training, watchers)
    hashes = _data_hashes(config.data)
    begun = folder if not restart and (folder / "config.json").exists() else None
    if begun is not None:
        refuse_other_data(folder, hashes)
    corpora = folder / "training" / "corpus"
    ready = prepare(config, begun, corpora, watchers)
    model = ready.build_model().to(device)
    if begun is None:
        forget_run(folder)
        remove_unused_corpora(corpora)
        note_data(folder, hashes)
    watchers.append(JsonLog(folder / "training" / "log.jsonl"))
    for line in ready.found():
        teller(watchers)(line)
    for findings in ready.findings:
        teller(watchers)(f"every place: {findings}")
    if config.training.tensorboard:
        from clearhead.training.events import TensorBoardLog

        watchers.append(TensorBoardLog(folder / "training" / "tensorboard"))
    # Only now: a folder with a config.json has a vocabulary that stands.
    write_model_folder(folder, config, ready.parts)
    precision = choose_precision(config.training.precision, device)
    found = [report.to_dict() for report in ready.reports]
    facts = provenance(config.seed, device, precision, hashes, found)
    keeper = Keeper(folder, config.training.average_last, facts)
    width = config.model.d_model
    return Trainer(ready.task, model, config.training, config.seed, width, keeper, watchers).run()


def dry_run(config: RunConfig, *, observers: Sequence[Observer] = ()) -> DryRun:
    """What a run would need, and what is in its data; nothing is kept.

    The vocabulary is learned and all data are encoded for it, as `train` would.

    Args:
        config: the whole run.
        observers: told what happens until then.

    Raises:
        ConfigError: settings do not go together.
        DataError: the data cannot be used.
        ModelFolderError: the folder of `classifier.encoder_from` cannot be used.
        TrainingError: TensorBoard is asked for and not installed.
    """
    from clearhead.api.preparation import prepare, teller
    from clearhead.training.dry_run import try_steps

    try:
        with TemporaryDirectory() as folder:
            config = _ready(config, restart=True)
            device = _set_up(config.training, observers)
            ready = prepare(config, None, Path(folder), observers)
            model = ready.build_model().to(device)
            teller(observers)("trying a few steps")
            width = config.model.d_model
            return try_steps(ready.task, model, config.training, width, ready.found())
    finally:
        for observer in observers:
            observer.close()


def _ready(config: RunConfig, restart: bool) -> RunConfig:
    """The run as it will be, found possible before data are read or anything is removed.

    Raises:
        ConfigError: settings do not go together.
        ModelFolderError: the folder of `classifier.encoder_from` cannot be used.
        TrainingError: TensorBoard is asked for and not installed.
    """
    from clearhead.training.events import require_tensorboard

    config = with_encoders_settings(config, restart)
    if config.training.tensorboard:
        require_tensorboard()
    return config


def _set_up(config: TrainingConfig, observers: Sequence[Observer]) -> torch.device:
    """The device that is trained on; that it would crawl is said before it does."""
    from clearhead.api.preparation import teller
    from clearhead.decoding.device import set_up_torch
    from clearhead.training.step import slow_precision

    device = set_up_torch(config.device, config.threads)
    if (warning := slow_precision(config.precision, device)) is not None:
        teller(observers)(warning)
    return device


def _data_hashes(data: DataConfig) -> dict[str, dict[str, str]]:
    from clearhead.data.content_hash import content_hash, folder_hash
    from clearhead.data.phrasebook import Part

    def of(path: str, part: Part) -> str:
        folder = Path(os.path.expanduser(path))
        return (folder_hash(folder) if os.path.isdir(folder) else content_hash(path, part)).hex()

    parts: dict[Part, tuple[str, ...]] = {
        "train": data.train,
        "validation": data.validation,
        "test": data.test,
    }
    return {part: {file: of(file, part) for file in files} for part, files in parts.items()}
