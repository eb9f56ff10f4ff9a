"""Train a model, load it, use it: what composes the rooms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from clearhead.checkpoint import (
    ModelFolder,
    load_parameters,
    read_model_folder,
    read_tensors,
    read_tokenizers,
    write_model_folder,
)
from clearhead.config import DataConfig, RunConfig, SearchConfig, read_config
from clearhead.decoding.hypothesis import Hypothesis
from clearhead.engines.engine import Engine

if TYPE_CHECKING:
    from clearhead.tasks.translation import TranslationData
    from clearhead.tokenizer import Tokenizer
    from clearhead.training.dry_run import DryRun
    from clearhead.training.events import Observer, RunEnded


class Translator:
    """A trained translator.

    Args:
        folder: its model folder, read.
        engine: what runs it.
    """

    def __init__(self, folder: ModelFolder, engine: Engine) -> None:
        self.folder = folder
        self.engine = engine

    @property
    def config(self) -> RunConfig:
        """The configuration it was trained with."""
        return self.folder.config

    @property
    def search(self) -> SearchConfig:
        """How it searches where nothing else is asked for."""
        return self.folder.config.search

    @property
    def source_tokenizer(self) -> Tokenizer:
        """Turns a source text into token ids."""
        return self.folder.source_tokenizer

    @property
    def target_tokenizer(self) -> Tokenizer:
        """Turns token ids into a target text."""
        return self.folder.target_tokenizer

    def translate(
        self,
        texts: Sequence[str],
        *,
        search: SearchConfig | None = None,
        prefixes: Sequence[str] | None = None,
        batch_size: int = 64,
        progress: Callable[[int], None] | None = None,
        offset: int = 0,
        **choices: Any,
    ) -> list[list[Hypothesis]]:
        """The hypotheses of each text, best first; `str(hypothesis)` is its text.

        Args:
            texts: one sentence each; an empty one has one empty hypothesis.
            search: how to search; by default as the model's configuration says.
            prefixes: for each text the beginning that its translation must have.
            batch_size: sentences at a time, at most.
            progress: told how many sentences are done.
            offset: how many texts came before these, where a stream is translated in blocks.
            choices: single settings of `SearchConfig` (beam_size=5, n_best=3), laid over `search`.

        Raises:
            SearchError: a choice is unknown or wrong, or the prefixes do not fit.
            TypeError: `texts` is a single string.
        """
        from clearhead.tasks.texts import chosen_search, translate_texts

        if isinstance(texts, str):
            raise TypeError("texts is a single string: give a list of sentences")
        return translate_texts(
            self.engine,
            (self.source_tokenizer, self.target_tokenizer),
            texts,
            chosen_search(self.search if search is None else search, choices),
            prefixes=prefixes,
            batch_size=batch_size,
            progress=progress,
            offset=offset,
        )


def load(folder: str | Path, *, device: str = "auto", threads: int = 0) -> Translator:
    """The translator of a model folder; nothing else is needed, no data and no network.

    Args:
        folder: written by training.
        device: `cpu`, `cuda`, or `auto` for the GPU where there is one.
        threads: of the CPU (0: as PyTorch chooses).

    Raises:
        ModelFolderError: the folder is missing, damaged, or of another version.
        ConfigError: the device is not there.
    """
    from clearhead.engines.device import set_up_torch
    from clearhead.engines.torch_engine import TorchEngine
    from clearhead.model.build import build_model

    found = read_model_folder(folder)
    where = set_up_torch(device, threads)
    vocabularies = len(found.source_tokenizer), len(found.target_tokenizer)
    model = build_model(found.config.model, *vocabularies)
    tensors, _ = read_tensors(found.weights)
    load_parameters(model, tensors, found.weights)
    return Translator(found, TorchEngine(model.to(where).eval()))


def train(
    config: RunConfig | str | Path,
    *,
    restart: bool = False,
    observers: Sequence[Observer] = (),
) -> RunEnded:
    """Train, or go on with a run that was interrupted; the result is the folder `config.folder`.

    The first Ctrl-C ends it after the step, with a checkpoint; a second one at once.

    Args:
        config: the whole run, or the TOML file that describes it.
        restart: begin anew; a run in the folder is removed once the new data are found good.
        observers: told what happens; the log in the folder is written in any case.

    Raises:
        DataError: the data cannot be used.
        TrainingError: the folder holds a run with other settings or data, or one that is going
            on, or training diverged.
    """
    from clearhead.training.continuation import only_run_in, run_folder

    config = config if isinstance(config, RunConfig) else read_config(config)
    folder = run_folder(config, restart)
    watchers = list(observers)
    try:
        with only_run_in(folder):
            return _train(config, folder, restart, watchers)
    finally:
        for watcher in watchers:
            watcher.close()


def _train(config: RunConfig, folder: Path, restart: bool, watchers: list[Observer]) -> RunEnded:
    """Prepare data and model and let the trainer run; observers that are opened join the others."""
    from clearhead.engines.device import set_up_torch
    from clearhead.tasks.translation import TranslationTask
    from clearhead.training.continuation import forget_run, note_data, refuse_other_data
    from clearhead.training.keeper import Keeper
    from clearhead.training.log import JsonLog
    from clearhead.training.provenance import provenance
    from clearhead.training.trainer import Trainer

    device = set_up_torch(config.training.device, config.training.threads)
    hashes = _data_hashes(config.data)
    begun = folder if not restart and (folder / "config.json").exists() else None
    if begun is not None:
        refuse_other_data(folder, hashes)
    data = _prepare(config, begun, folder / "training" / "corpus", watchers)
    if begun is None:
        forget_run(folder)
        note_data(folder, hashes)
    watchers.append(JsonLog(folder / "training" / "log.jsonl"))
    if config.training.tensorboard:
        from clearhead.training.tensorboard import TensorBoardLog

        watchers.append(TensorBoardLog(folder / "training" / "tensorboard"))
    # Only now: a folder with a config.json has a vocabulary that stands.
    write_model_folder(folder, config, data.source_tokenizer, data.target_tokenizer)
    facts = provenance(config.seed, hashes, [report.to_dict() for report in data.reports])
    keeper = Keeper(folder, config.training.average_last, facts)
    task = TranslationTask(config, data)
    model = task.build_model().to(device)
    width = config.model.d_model
    return Trainer(task, model, config.training, config.seed, width, keeper, watchers).run()


def dry_run(config: RunConfig) -> DryRun:
    """What a run would need, and what is in its data; nothing is kept.

    Raises:
        DataError: the data cannot be used.
    """
    from clearhead.engines.device import set_up_torch
    from clearhead.tasks.translation import TranslationTask
    from clearhead.training.dry_run import try_steps

    with TemporaryDirectory() as folder:
        device = set_up_torch(config.training.device, config.training.threads)
        data = _prepare(config, None, Path(folder), ())
        task = TranslationTask(config, data)
        lines = tuple(line for report in data.reports for line in report.lines())
        model = task.build_model().to(device)
        return try_steps(task, model, config.training, config.model.d_model, lines)


def _prepare(
    config: RunConfig, folder: Path | None, corpus: Path, observers: Sequence[Observer]
) -> TranslationData:
    """The tokenizers, found in a folder or learned now, and the data, checked and encoded."""
    from clearhead.tasks.translation import learn_tokenizers, prepare_data
    from clearhead.training.events import Note

    def note(text: str) -> None:
        for observer in observers:
            observer.observe(Note(text))

    if folder is not None:
        tokenizers = read_tokenizers(folder, config)
    else:
        note(f"learning the vocabulary ({config.tokenizer.kind})")
        tokenizers = learn_tokenizers(config)
    data = prepare_data(config, corpus, tokenizers, lambda pairs: note(f"encoded {pairs:,} pairs"))
    for report in data.reports:
        for line in report.lines():
            note(line)
    return data


def _data_hashes(data: DataConfig) -> dict[str, dict[str, str]]:
    from clearhead.data.builtin import Part
    from clearhead.data.corpus import content_hash

    parts: dict[Part, tuple[str, ...]] = {
        "train": data.train,
        "validation": data.validation,
        "test": data.test,
    }
    return {
        part: {file: content_hash(file, part).hex() for file in files}
        for part, files in parts.items()
    }
