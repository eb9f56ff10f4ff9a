"""Train, or see what training would need."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from clearhead.device import imported, limit_kernels
from clearhead.errors import ConfigError
from clearhead.folder.model_folder import CONFIG, open_folder, write_folder
from clearhead.settings import RunConfig, TrainingConfig, read_config, with_absolute_paths

if TYPE_CHECKING:
    import torch
    from torch import nn

    from clearhead.api.preparation import Prepared, Run
    from clearhead.data.reading.parts import Given
    from clearhead.folder.model_folder import ModelFolder
    from clearhead.ranks import Ranks
    from clearhead.training.dry_run import DryRun
    from clearhead.training.events import Observer, RunEnded
    from clearhead.training.task import Task


def train(
    config: RunConfig | str | Path,
    *,
    examples: Given | None = None,
    validation: Given | None = None,
    restart: bool = False,
    observers: Sequence[Observer] | None = None,
    resumable: bool = True,
) -> RunEnded:
    """Train a model, or resume a run that was interrupted. Writes the model to `config.folder`.

        clearhead.train("my.toml")
        clearhead.load("runs/my").translate(["A man sleeps."])

    The first Ctrl-C ends the run after the current step and saves its state. A second one ends
    it at once. The result then has `finished = False`. The same call without `restart` resumes.

    Several processes that `torchrun` has started train one model together. Rank 0 alone writes and
    has observers.

    Args:
        config: the whole run, or the TOML file that describes it.
        examples: training examples in memory, instead of the files of `data.train`: (source,
            target) for a translation, (text or features, label or list of labels) for a
            classification. Errors name them by number, from 1.
        validation: validation examples in the same form, instead of the files of
            `data.validation`.
        restart: start again. The old run in the folder is removed after the new data have been
            checked, and the new model and its optimizer have been built.
        observers: receive the events of the run. By default a live display on the standard error,
            or plain lines if that is not a terminal; `()` for silence. They are closed at the
            end, also after an error. The log in the folder is always written.
        resumable: save the state, from which the run can be resumed.

    Raises:
        ConfigError: settings contradict each other.
        DataError: the data cannot be used.
        ModelFolderError: the model of `start_from` cannot be used.
        TrainingError: the folder holds a run with other settings or data, or one that is still
            running, or files that no run has written; or TensorBoard is configured and not
            installed; or training diverged; or another process has ended.

    Warns:
        UserWarning: PyTorch was imported before, so that its threads wait long for each other.
    """
    imported("torch")
    from clearhead.api.preparation import Run
    from clearhead.data.reading.parts import parts_of
    from clearhead.ranks import is_first, joined_ranks
    from clearhead.training.display import displays
    from clearhead.training.run_folder import only_run_in, run_folder

    opened = displays(sys.stderr) if observers is None else list(observers)
    watching = opened if is_first() else []
    try:
        config = config if isinstance(config, RunConfig) else read_config(config)
        with joined_ranks() as ranks:
            _check_processes(config.training, ranks, restart)
            if not ranks.is_first:
                ranks.wait()  # until rank 0 has prepared the folder, which is then resumed
                restart = False
            with _started(config, restart, watching) as (config, start):
                parts = parts_of(config, examples, validation)
                folder = run_folder(config, restart)
                is_resumed = not restart and (folder / CONFIG).exists()
                resumed = open_folder(folder, trained=False) if is_resumed else None
                corpus = folder / "training" / "corpus"
                run = Run(config, parts, corpus, start, resumed, watching, ranks)
                with only_run_in(folder) if ranks.is_first else nullcontext():
                    ended = _train(run, resumable)
    finally:
        for observer in opened:
            observer.close()
    if observers is None and not ended.finished and ranks.is_first:
        _show_how_to_resume(restart)
    return ended


def _train(run: Run, resumable: bool) -> RunEnded:
    """Train in a folder that no other run uses; the logs in it become observers, too."""
    from clearhead.data.corpus import remove_other_corpora
    from clearhead.training.checkpoints import Keeper
    from clearhead.training.loop import Trainer
    from clearhead.training.run_folder import forget_run, note_data, provenance, refuse_other_data

    ranks, is_watched, folder = run.ranks, bool(run.observers), Path(run.config.folder)
    hashes = {p.name: {name: content.hex() for name, content in p.hashes} for p in run.parts}
    if run.resumed is not None:
        refuse_other_data(folder, hashes)
    prepared, config, device, model = _ready(run)
    training, reports = config.training, [report.to_dict() for report in prepared.reports]
    facts = provenance(config.seed, device, training.precision, hashes, reports, ranks.count)
    keeper = Keeper(folder, training.average_last, facts, resumable, ranks)
    trainer = Trainer(prepared.task, model, config, keeper, run.observers, ranks)
    if not ranks.is_first:
        return trainer.run()

    # No error so far, so a new run may replace the old one.
    if run.resumed is None:
        forget_run(folder)
        if config.task != "translation":
            remove_other_corpora(run.corpus)  # of a translator before
        note_data(folder, hashes)
    run.observers.extend(_logs(folder, training, prepared.task, model))
    findings = [f"all findings, with file and line: {path}" for path in prepared.findings]
    for line in (*prepared.report_lines(), *findings):
        run.note(line)
    # From now on the run can be resumed, since the vocabulary is on disk.
    write_folder(folder, run.config, prepared.files)
    if run.start is not None and is_watched:
        for line in _baselines(prepared.task, pretrained=model):
            run.note(line)
    ranks.wait()

    ended = trainer.run()
    if ended.finished:
        for line in _after_training(prepared.task, ended, is_watched, training.export):
            run.note(line)
    return ended


def _logs(folder: Path, config: TrainingConfig, task: Task, model: nn.Module) -> Iterator[Observer]:
    """The observers that write into the folder."""
    from clearhead.training.events import JsonLog, TensorBoardLog

    yield JsonLog(folder / "training" / "log.jsonl")
    if config.tensorboard:
        yield TensorBoardLog(folder / "training" / "tensorboard")
    if config.watch_attention:
        from clearhead.api.watching import records_of
        from clearhead.inspect.attention_watch import AttentionWatch

        yield AttentionWatch(folder, records_of(task, model, config.watch_attention))


def _check_processes(config: TrainingConfig, ranks: Ranks, restart: bool) -> None:
    """Raise a ConfigError if the processes cannot train together with these settings."""
    from clearhead.ranks import check_share, restarts

    check_share(config.accumulate, config.batch_tokens, ranks)
    if restart and restarts():
        raise ConfigError(
            "restart and torchrun's --max-restarts exclude each other",
            why="after a process has died, torchrun would repeat the command, which would delete "
            "the run once more",
            todo="start the run without --max-restarts, stop it (Ctrl-C), and repeat the command "
            "with --max-restarts and without --restart",
        )
    if ranks.count > 1 and config.parallel == "fsdp" and config.watch_attention:
        raise ConfigError(
            "the attention cannot be watched while the model is shared out",
            where=f"training.watch_attention = {config.watch_attention}",
            why="rank 0 watches alone, and has a part of the weights",
            todo='set training.watch_attention = 0 or training.parallel = "ddp"',
        )


def _after_training(task: Task, ended: RunEnded, is_watched: bool, export: bool) -> Iterator[str]:
    """Write the card, fit the linear baseline of a watched run, and export the model.

    Yields lines about the latter two.
    """
    from clearhead.api.card import write_card
    from clearhead.api.exporting import exports_after_training

    write_card(Path(ended.folder))
    if is_watched:
        yield from _baselines(task, ended.scores)
    yield from exports_after_training(Path(ended.folder), export)


def _baselines(
    task: Task, scores: Mapping[str, float] | None = None, pretrained: nn.Module | None = None
) -> Iterator[str]:
    """A line with the scores of a linear model of a classifier's data, if there can be one.

    Beside them are the `scores` of the classifier. With a `pretrained` one, the linear model reads
    the vectors of its encoder, which another line announces.
    """
    from clearhead.decoding.torch_engine import ClassifierEngine
    from clearhead.evaluation.baseline import BaselineError, baseline_on_validation, is_available
    from clearhead.model.transformer import EncoderClassifier
    from clearhead.tasks.classification import ClassificationTask

    if not isinstance(task, ClassificationTask) or not is_available():
        return
    data, encode = task.data, None
    if isinstance(pretrained, EncoderClassifier):
        yield "fitting a linear model to the vectors of the pretrained encoder"
        states, inputs = ClassifierEngine(pretrained).states, data.inputs
        encode = lambda examples: states(inputs.rows(examples), inputs)  # noqa: E731
    try:
        yield baseline_on_validation(
            data.train, data.validation, data.labels, task.config, scores, encode
        )
    except BaselineError as error:
        yield f"no linear baseline: {error.why}"


def dry_run(
    config: RunConfig | str | Path,
    *,
    examples: Given | None = None,
    validation: Given | None = None,
    observers: Sequence[Observer] = (),
) -> DryRun:
    """Report what a run would need and what is in its data. Writes nothing to the run's folder.

        print(clearhead.dry_run("my.toml"))

    The vocabulary is learned and all data are encoded, as in `train`.

    Args:
        config: the whole run, or the TOML file that describes it.
        examples: training examples in memory, as in `train`.
        validation: validation examples in memory.
        observers: receive notes about what is done; they are closed at the end.

    Raises:
        ConfigError: settings contradict each other.
        DataError: the data cannot be used.
        ModelFolderError: the model of `start_from` cannot be used.
        TrainingError: TensorBoard is configured and not installed.
    """
    imported("torch")
    from clearhead.api.preparation import Run
    from clearhead.data.reading.parts import parts_of
    from clearhead.training.dry_run import try_steps

    try:
        config = config if isinstance(config, RunConfig) else read_config(config)
        with (
            TemporaryDirectory() as folder,
            _started(config, True, observers) as (config, start),
        ):
            parts = parts_of(config, examples, validation)
            run = Run(config, parts, Path(folder), start, observers=list(observers))
            prepared, ready, _, model = _ready(run)
            run.note("trying a few steps")
            lines = prepared.report_lines()
            write_folder(Path(folder), config, prepared.files)
            size = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
            return try_steps(prepared.task, model, ready, lines, size)
    finally:
        for observer in observers:
            observer.close()


def _started(
    config: RunConfig, restart: bool, observers: Sequence[Observer]
) -> AbstractContextManager[tuple[RunConfig, ModelFolder | None]]:
    """The run with all its settings, and the model that it starts from if there is one.

    Settings are checked before data are read or anything is removed.
    """
    from clearhead.api.start import starting_point
    from clearhead.training.events import Note, notify, require_tensorboard
    from clearhead.training.run_folder import settle_run

    if config.task == "classification":
        limit_kernels()  # before the model that it starts from computes anything
    if config.training.tensorboard:
        require_tensorboard()
    config = with_absolute_paths(config)
    if config.folder:
        settle_run(Path(config.folder))
    return starting_point(config, restart, lambda note: notify(observers, Note(note)))


def _ready(run: Run) -> tuple[Prepared, RunConfig, torch.device, nn.Module]:
    """The prepared run, its settings without `auto`, the device, and the model on it."""
    from clearhead.api.preparation import prepare
    from clearhead.device import multiplies_bf16, processors, set_up_torch
    from clearhead.training.step import choose_precision

    config = run.config.training
    if config.threads > (most := processors()):
        run.note(
            f"warning: training.threads = {config.threads:,} is more than the {most:,} processors "
            "of this machine, which slows training down; 0 is one thread per core"
        )
    device = set_up_torch(config.device, config.threads)
    if config.precision == "bf16" and not multiplies_bf16(device):
        run.note(
            "warning: this device has no known bf16 instructions, so bf16 is many times slower "
            "than float32; set training.precision to auto or float32"
        )
    prepared = prepare(run)
    training = replace(
        config,
        precision=choose_precision(config.precision, device),
        keep=prepared.keep if config.keep == "auto" else config.keep,
    )
    ready = replace(run.config, training=training)
    return prepared, ready, device, prepared.build_model().to(device)


def _show_how_to_resume(restart: bool) -> None:
    from clearhead.training.display import forgiving

    if sys.stderr is not None:
        without = " without restart=True" if restart else ""
        forgiving(sys.stderr).write(f"to resume, repeat this call{without}\n")
