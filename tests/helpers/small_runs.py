"""Runs that take seconds, their data, and an observer that remembers events."""

from __future__ import annotations

import dataclasses
import os
import random
import shutil
import signal
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from clearhead.api.preparation import Prepared, Run, prepare
from clearhead.data.reading.parts import Parts, parts_of
from clearhead.folder.shards import read_shards
from clearhead.folder.tensors import read_tensors
from clearhead.settings import (
    DataConfig,
    DropoutConfig,
    ModelConfig,
    RunConfig,
    ScheduleConfig,
    SearchConfig,
    TokenizerConfig,
    TrainingConfig,
    config_from,
)
from clearhead.training.checkpoints import SHARDS, STATE, State
from clearhead.training.events import Event, Note, Progress, Validated

COLOURS = {"red": "warm", "orange": "warm", "blue": "cold", "green": "cold"}
SMALL_MODEL = {"encoder_layers": 1, "d_model": 16, "d_ff": 32, "n_heads": 2, "dropout": 0.1}


def prepared(
    config: RunConfig, corpus: Path, parts: Parts | None = None, **others: Any
) -> Prepared:
    """The run with its data; `others` are further attributes of `Run`."""
    return prepare(Run(config, parts or parts_of(config), corpus, **others))


class Watcher:
    """Remembers events; interrupts the run at a step, as Ctrl-C would."""

    def __init__(self, interrupt_at: int | None = None) -> None:
        self.events: list[Event] = []
        self.interrupt_at = interrupt_at

    def observe(self, event: Event) -> None:
        self.events.append(event)
        if isinstance(event, Validated) and event.step == self.interrupt_at:
            signal.raise_signal(signal.SIGINT)

    def close(self) -> None:
        pass

    @property
    def notes(self) -> list[str]:
        return [event.text for event in self.of(Note)]

    def of(self, kind: type[Any]) -> list[Any]:
        """The events of a kind."""
        return [event for event in self.events if isinstance(event, kind)]


class Killed(BaseException):
    """Raised in place of a killed process: nothing may be written after it."""


class StopsAtReport(Watcher):
    """Interrupts the run at the report of a step, which may be between two validations."""

    def observe(self, event: Event) -> None:
        self.events.append(event)
        if isinstance(event, Progress) and event.step == self.interrupt_at:
            signal.raise_signal(signal.SIGINT)


def write_pairs(folder: Path, pairs: int = 120) -> DataConfig:
    """Write small training and validation data, in which the target is the reversed source."""
    chance = random.Random(7)
    names = []
    for part, count in (("train", pairs), ("validation", 12)):
        lines = []
        for number in range(count):
            words = [str(number), *chance.choices("abcdefgh", k=chance.randint(2, 9))]
            lines.append(f"{' '.join(words)}\t{' '.join(words[::-1])}\n")
        path = folder / f"{part}.tsv"
        path.write_text("".join(lines), encoding="utf-8")
        names.append((str(path),))
    return DataConfig(train=names[0], validation=names[1], drop_duplicates=False)


def small_run(folder: Path, name: str = "run", **training: object) -> RunConfig:
    """A run of seconds, with dropout and sampling, so that every kind of randomness is tested."""
    settings = {
        "batch_tokens": 200,
        "max_steps": 12,
        "validate_every": 4,
        "average_last": 2,
        "export": False,
        "schedule": ScheduleConfig(kind="linear", peak=5e-3, warmup=3),
        **training,
    }
    return RunConfig(
        folder=str(folder / name),
        data=write_pairs(folder),
        tokenizer=TokenizerConfig(kind="bpe", max_vocabulary=60, sampling=0.2, byte_fallback=False),
        model=ModelConfig(
            encoder_layers=1,
            decoder_layers=1,
            d_model=16,
            d_ff=32,
            n_heads=2,
            dropout=DropoutConfig.everywhere(0.2),
        ),
        training=TrainingConfig(**settings),  # pyright: ignore[reportArgumentType]
        search=SearchConfig(beam_size=2, max_length=15),
    )


def final_state(config: RunConfig) -> dict[str, torch.Tensor]:
    """All tensors to resume from: weights and the optimizer's."""
    return read_state(Path(config.folder))[0]


def read_state(folder: Path) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """The tensors of the state of a run, in whichever files they are, and its other facts."""
    tensors, facts = read_tensors(folder / STATE)
    shards = facts.pop("shards", None)
    if shards is not None:
        tensors = read_shards(folder / SHARDS, shards, lambda name: None)
    return tensors, facts


def saved(config: RunConfig) -> State:
    """The progress in the saved state of a run."""
    return State(**read_state(Path(config.folder))[1])


def begun(first: RunConfig, name: str, **sections: Any) -> RunConfig:
    """A run that starts from another one; `sections` are the settings that differ."""
    tree: dict[str, Any] = dataclasses.asdict(first)
    folder = str(Path(first.folder).with_name(name))
    tree |= {"start_from": first.folder, "folder": folder}
    for section, values in sections.items():
        tree[section] |= values
    return config_from(tree)


def assert_same(left: dict[str, torch.Tensor], right: dict[str, torch.Tensor]) -> None:
    assert left.keys() == right.keys()
    for name, tensor in left.items():
        assert torch.equal(tensor, right[name]), name


def copy_with_links(source: Path, place: Path) -> None:
    """Copy a folder; the names of one file are again names of one file."""
    copies: dict[int, str] = {}

    def copy(path: str, target: str) -> None:
        first = copies.setdefault(os.stat(path).st_ino, target)
        if first == target:
            shutil.copy2(path, target)
        else:
            os.link(first, target)

    shutil.copytree(source, place, copy_function=copy, dirs_exist_ok=True)


def flip(path: Path, place: int) -> None:
    """Change a bit of a file in place, as a disk may: all names of the file have it then.

    Args:
        path: the file.
        place: index of the byte; negative from the end.
    """
    with path.open("r+b") as file:
        origin = os.SEEK_SET if place >= 0 else os.SEEK_END
        file.seek(place, origin)
        (byte,) = file.read(1)
        file.seek(place, origin)
        file.write(bytes([byte ^ 4]))


def write_tsv(path: Path, rows: Iterable[Sequence[str]]) -> tuple[str]:
    path.write_text("".join("\t".join(row) + "\n" for row in rows))
    return (str(path),)


def write_texts(folder: Path, count: int = 160) -> Path:
    """Write texts whose label depends on the colour that they name."""
    chance = random.Random(3)
    path = folder / "train.tsv"
    lines = []
    for number in range(count):
        colour = chance.choice(list(COLOURS))
        words = [str(number), *chance.choices("abcdef", k=chance.randint(1, 6))]
        words.insert(chance.randint(0, len(words)), colour)
        lines.append(f"{COLOURS[colour]}\t{' '.join(words)}\n")
    path.write_text("".join(lines), encoding="utf-8")
    return path


def write_sequences(folder: Path, count: int = 120) -> Path:
    """Write sequences whose label is the largest feature."""
    rng = np.random.default_rng(3)
    labels = rng.integers(0, 3, count)
    lengths = rng.integers(2, 9, count)
    frames = [rng.normal(size=(length, 3)) for length in lengths]
    for label, sequence in zip(labels, frames, strict=True):
        sequence[:, label] += 2.0
    path = folder / "train.npz"
    names = np.array(["first", "second", "third"])[labels]
    np.savez(path, x=np.concatenate(frames).astype(np.float32), lengths=lengths, y=names)
    return path


def text_run(folder: Path, name: str = "run", **sections: dict[str, Any]) -> RunConfig:
    tree = {
        "task": "classification",
        "folder": str(folder / name),
        "data": {"train": [str(write_texts(folder))], "max_length": 20},
        "tokenizer": {"max_vocabulary": 60, "sampling": 0.1, "byte_fallback": False},
        "model": SMALL_MODEL,
        "classifier": {"pooling": ["mean", "maximum", "attention"]},
        "training": {
            "batch_tokens": 200,
            "max_steps": 60,
            "validate_every": 20,
            "average_last": 2,
            "schedule": {"kind": "linear", "peak": 2e-2, "warmup": 5},
        },
    }
    return config_from({**tree, **{k: {**tree.get(k, {}), **v} for k, v in sections.items()}})


def spelled_run(folder: Path, name: str = "run", **sections: dict[str, Any]) -> RunConfig:
    """Texts by whole words, each with its n-grams, convolutions and a start symbol."""
    return text_run(
        folder,
        name,
        tokenizer={"kind": "words", "max_vocabulary": 0, "sampling": 0.0},
        model={"character_ngrams": [2, 3], "ngram_vectors": 50, "input_convolution": [2, 3]},
        classifier={"pooling": ["first", "maximum"]},
        **sections,
    )


def feature_run(folder: Path, name: str = "run", **sections: dict[str, Any]) -> RunConfig:
    run = text_run(folder, name)
    tree: dict[str, Any] = dataclasses.asdict(run) | {"input": "features"}
    tree["data"] |= {"train": [str(write_sequences(folder))]}
    tree["model"] |= {"positions": {"kind": "none"}}
    return config_from({**tree, **{k: {**tree[k], **v} for k, v in sections.items()}})


def moses_run(folder: Path) -> RunConfig:
    """A short run on lower-cased, tokenised sentences, as Moses writes them."""
    chance = random.Random(5)
    for part, count in (("train", 60), ("validation", 6)):
        for language in ("en", "de"):
            lines = (
                f"two {' '.join(chance.choices('dogs cats play in the snow'.split(), k=4))} ."
                for _ in range(count)
            )
            (folder / f"{part}.{language}").write_text("".join(f"{line}\n" for line in lines))
    run = small_run(folder, "moses", max_steps=4)
    train, validation = (
        (str(folder / f"{part}.en"), str(folder / f"{part}.de")) for part in ("train", "validation")
    )
    return dataclasses.replace(run, data=DataConfig(train=train, validation=validation))
