"""Train, or see what training would need."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from clearhead.api.encoder import with_encoders_settings
from clearhead.checkpoint import write_model_folder
from clearhead.settings import RunConfig, TrainingConfig, read_config

if TYPE_CHECKING:
    import torch

    from clearhead.data.parts import Given, Parts
    from clearhead.training.dry_run import DryRun
    from clearhead.training.events import Observer, RunEnded


def train(
    config: RunConfig | str | Path,
    *,
    examples: Given | None = None,
    validation: Given | None = None,
    restart: bool = False,
    observers: Sequence[Observer] | None = None,
) -> RunEnded:
    """Trains, or resumes a run that was interrupted. The result is the folder `config.folder`.

    The first Ctrl-C ends the run after the step, with a checkpoint; a second one ends it at once.
    Then the result has `finished = False`, and the same call, without `restart`, resumes.

    Args:
        config: the whole run, or the TOML file that describes it.
        examples: training examples in memory, instead of the files of `data.train`: (source,
            target) for a translation, (text or features, label or list of labels) for a
            classification. Errors name them by number, from 1.
        validation: validation examples likewise, instead of the files of `data.validation`.
        restart: start from scratch. A run in the folder is removed once the new data are checked
            and the new model is built.
        observers: are shown what happens; by default a live display on the standard error, or
            plain lines if that is no terminal; `()` for silence. The log in the folder is always
            written.

    Raises:
        ConfigError: settings do not go together.
        DataError: the data cannot be used.
        ModelFolderError: the folder of `classifier.encoder_from` cannot be used.
        TrainingError: the folder holds a run with other settings or data, or one that is still
            running, or files that no run has written; or TensorBoard is configured and not
            installed; or training diverged.
    """
    from clearhead.data.parts import parts_of
    from clearhead.training.display import displays
    from clearhead.training.run_folder import only_run_in, run_folder

    config = config if isinstance(config, RunConfig) else read_config(config)
    config = _complete(config, restart)
    parts = parts_of(config, examples, validation)
    folder = run_folder(config, restart)
    watchers = displays(sys.stderr) if observers is None else list(observers)
    try:
        with only_run_in(folder):
            ended = _train(config, parts, folder, restart, watchers)
    finally:
        for watcher in watchers:
            watcher.close()
    if observers is None and not ended.finished:
        _show_how_to_resume(restart)
    return ended


def _train(
    config: RunConfig, parts: Parts, folder: Path, restart: bool, watchers: list[Observer]
) -> RunEnded:
    """Trains in a folder that no other run uses; observers that are opened join the others."""
    from clearhead.api.preparation import prepare, teller
    from clearhead.data.corpus import remove_unused_corpora
    from clearhead.training.checkpoints import Keeper
    from clearhead.training.events import JsonLog, TensorBoardLog
    from clearhead.training.loop import Trainer
    from clearhead.training.run_folder import forget_run, note_data, provenance, refuse_other_data
    from clearhead.training.step import choose_precision

    # Is this the data that the run began with?
    device = _set_up(config.training, watchers)
    hashes = {part.name: {name: content.hex() for name, content in part.hashes} for part in parts}
    begun = folder if not restart and (folder / "config.json").exists() else None
    if begun is not None:
        refuse_other_data(folder, hashes)

    # Read, check and encode the data; build the model.
    corpora = folder / "training" / "corpus"
    ready = prepare(config, begun, corpora, watchers, parts)
    model = ready.build_model().to(device)

    # Nothing was wrong: a new run may take the place of an old one.
    if begun is None:
        forget_run(folder)
        remove_unused_corpora(corpora)
        note_data(folder, hashes)
    watchers.append(JsonLog(folder / "training" / "log.jsonl"))
    tell = teller(watchers)
    for line in ready.found():
        tell(line)
    for findings in ready.findings:
        tell(f"all places of these findings: {findings}")
    if config.training.tensorboard:
        watchers.append(TensorBoardLog(folder / "training" / "tensorboard"))
    # From now on the run can be resumed, since the vocabulary is on disk.
    write_model_folder(folder, config, ready.files)

    # Train.
    precision = choose_precision(config.training.precision, device)
    reports = [report.to_dict() for report in ready.reports]
    facts = provenance(config.seed, device, precision, hashes, reports)
    keeper = Keeper(folder, config.training.average_last, facts)
    width = config.model.d_model
    return Trainer(ready.task, model, config.training, config.seed, width, keeper, watchers).run()


def dry_run(
    config: RunConfig,
    *,
    examples: Given | None = None,
    validation: Given | None = None,
    observers: Sequence[Observer] = (),
) -> DryRun:
    """What a run would need, and what is in its data. It writes nothing to the run's folder.

    The vocabulary is learned and all data are encoded, as `train` would.

    Args:
        config: the whole run.
        examples: training examples in memory, as in `train`.
        validation: validation examples in memory.
        observers: are shown what happens until then.

    Raises:
        ConfigError: settings do not go together.
        DataError: the data cannot be used.
        ModelFolderError: the folder of `classifier.encoder_from` cannot be used.
        TrainingError: TensorBoard is configured and not installed.
    """
    from clearhead.api.preparation import prepare, teller
    from clearhead.data.parts import parts_of
    from clearhead.training.dry_run import try_steps

    try:
        with TemporaryDirectory() as folder:
            config = _complete(config, restart=True)
            parts = parts_of(config, examples, validation)
            device = _set_up(config.training, observers)
            ready = prepare(config, None, Path(folder), observers, parts)
            model = ready.build_model().to(device)
            teller(observers)("trying a few steps")
            width = config.model.d_model
            return try_steps(ready.task, model, config.training, width, ready.found())
    finally:
        for observer in observers:
            observer.close()


def _complete(config: RunConfig, restart: bool) -> RunConfig:
    """The run with all its settings, checked before data are read or anything is removed."""
    from clearhead.training.events import require_tensorboard

    config = with_encoders_settings(config, restart)
    if config.training.tensorboard:
        require_tensorboard()
    return config


def _set_up(config: TrainingConfig, observers: Sequence[Observer]) -> torch.device:
    """The device to train on, with a warning if the precision is very slow there."""
    from clearhead.api.preparation import teller
    from clearhead.decoding.device import set_up_torch
    from clearhead.training.step import slow_precision

    device = set_up_torch(config.device, config.threads)
    if (warning := slow_precision(config.precision, device)) is not None:
        teller(observers)(warning)
    return device


def _show_how_to_resume(restart: bool) -> None:
    from clearhead.training.display import forgiving

    if sys.stderr is not None:
        without = " without restart=True" if restart else ""
        forgiving(sys.stderr).write(f"to resume: the same call{without}\n")
