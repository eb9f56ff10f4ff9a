"""The parts of the data (train, validation, test): files, or examples in memory."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from clearhead.data.reading.arrays import files_of_array_folder
from clearhead.data.reading.feature_sequences import of_one_width, read_feature_sequences
from clearhead.data.reading.features import as_frames
from clearhead.data.reading.labelled import (
    SEPARATOR,
    Labelled,
    feature_names,
    join_lines,
    labels_of,
    read_labelled_texts,
)
from clearhead.data.reading.lines import check_regular, open_packed
from clearhead.data.reading.pairs import Pair, place, read_pairs, short_name
from clearhead.data.reading.phrasebook import PHRASEBOOK, Part, phrasebook_pairs
from clearhead.data.reading.tables import refuse_unwritable
from clearhead.errors import ConfigError, DataError, ModelFolderError, reason, type_of
from clearhead.folder.files import read_json
from clearhead.settings import RunConfig
from clearhead.tokenizer.normal_form import PLAIN, NormalForm, form_of

Given = Sequence[Sequence[Any]]
"""Examples in memory: (source, target), or (text or features, label or list of labels).

The latter may have the weight of the example in the training loss as a third item, or be a
`Labelled` example.
"""


@dataclass(frozen=True)
class DataPart:
    """One part of the data."""

    name: Part | Literal["replay"]
    files: tuple[str, ...] = ()  # () for examples given in memory
    examples: tuple[Any, ...] = ()  # pairs or labelled examples that were read, or given
    form: NormalForm = PLAIN  # of what is read; the form of targets follows from it
    languages: tuple[str, str] = ("", "")  # of the sides of pairs

    def __bool__(self) -> bool:
        return bool(self.files or self.examples)

    @property
    def where(self) -> str:
        """The place of the whole part, for errors."""
        return ", ".join(self.files) or f"{self.name} examples"

    @cached_property
    def hashes(self) -> list[tuple[str, bytes]]:
        """Each file or folder (or `memory`) with its `file_hash`."""
        if not self.files and self.examples:
            return [("memory", _memory_hash(self.examples))]
        return [(file, file_hash(file, self._kind)) for file in self.files]

    def pairs(self) -> Iterator[Pair]:
        """The sentence pairs, as a stream if they are not in memory."""
        if self.examples or not self.files:
            return iter(self.examples)
        return self._formed(read_pairs(self.files, self._kind, self.languages))

    def _formed(self, examples: Iterable[Any]) -> Iterator[Any]:
        """Examples in the form of the part, so that texts that look the same are the same."""
        form, of_target = self.form, self.form.of_target()

        def formed(example: Any) -> Any:
            if isinstance(example, Pair):
                source, target, line = example
                return Pair(form(source), of_target(target), line)
            return example._replace(input=form(example.input))

        return iter(examples) if form == PLAIN else map(formed, examples)

    @property
    def _kind(self) -> Part:
        """The part of built-in data that is named without one."""
        return "train" if self.name == "replay" else self.name

    def place(self, example: Pair | Labelled[Any], in_target: bool = False) -> str:
        """The place of an example, or of the target of a pair, in a report: `train.de:17`.

        It has no path, unless two files have the same name.
        """
        if isinstance(example, Pair) and self.files:
            return place(self.files, example.line, in_target)
        if isinstance(example, Pair):
            return _place_in_memory(self.name, example.line)
        file, _, line = example.place.rpartition(":")
        if file in self.files:
            return f"{short_name(file, self.files)}:{line}"
        path = Path(example.place)
        for folder in map(Path, map(os.path.expanduser, self.files)):
            if path != folder and path.is_relative_to(folder):
                return str(path.relative_to(folder))
        return path.name

    def read(self, config: RunConfig) -> DataPart:
        """The part with its examples in memory."""
        if self.examples or not self.files:
            return self
        if config.task == "translation":
            pairs = read_pairs(self.files, self._kind, config.data.languages)
            return self.having(pairs, config)
        examples = (example for file in self.files for example in read_examples(file, config))
        return self.having(examples, config)

    def having(self, examples: Iterable[Any], config: RunConfig) -> DataPart:
        """The part with these examples, in its form."""
        if config.input == "features":
            examples = of_one_width(examples)
        return replace(self, examples=tuple(self._formed(examples)))


class Parts(NamedTuple):
    """The parts of a run's data."""

    train: DataPart
    validation: DataPart
    test: DataPart
    replay: DataPart = DataPart("replay")

    @property
    def held_out(self) -> tuple[Any, ...]:
        """The validation and test examples in memory."""
        return (*self.validation.examples, *self.test.examples)


def parts_of(
    config: RunConfig, examples: Given | None = None, validation: Given | None = None
) -> Parts:
    """The parts of the data of a run, in files or in memory; no file is read.

    Raises:
        ConfigError: a part that the run needs is missing, or both in files and in memory.
        DataError: an example in memory has a wrong form, or a file is none that can be read twice.
    """
    pairs = config.task == "translation"
    parts = Parts(
        _part(config, "train", examples),
        _part(config, "validation", validation),
        _part(config, "test"),
        _part(config, "replay"),
    )
    if not parts.train:
        two = "name two parallel files: train = ['train.en', 'train.de']"
        todo = two if pairs else "name one: train = ['train.csv'], or a folder"
        raise ConfigError("data.train names no files", todo=todo)
    if pairs and not parts.validation:
        raise ConfigError(
            "data.validation names no files",
            why="the best model is chosen by its score on pairs that it is not trained on",
            todo="name files with other pairs than the training data, such as a thousand lines "
            "split off both sides (init: --validation)",
        )
    return parts


def _part(
    config: RunConfig, name: Part | Literal["replay"], given: Given | None = None
) -> DataPart:
    files: tuple[str, ...] = getattr(config.data, name)
    part = DataPart(name, files, form=form_of_texts(config), languages=config.data.languages)
    if given is None:
        for file in files:
            check_regular(file, folder=config.input == "features")
        return part
    if files:
        raise ConfigError(
            f"there are {name} examples in memory, and data.{name} names files",
            where=", ".join(files),
            todo=f"leave one of them out: data.{name} or the examples",
        )
    if len(given) == 0:
        raise DataError("there are no examples", where=f"{name} examples")
    example = _pair if config.task == "translation" else labelled_example
    return part.having((example(each, n, name, config) for n, each in enumerate(given, 1)), config)


def form_of_texts(config: RunConfig) -> NormalForm:
    """The form of the texts that are read. The tokenizer folds and lower-cases them later."""
    if config.input == "features":
        return PLAIN
    found = form_of(config)
    return NormalForm(found.unicode, found.spaces, found.removed)


def _pair(given: Any, number: int, name: str, _: RunConfig) -> Pair:
    where = _place_in_memory(name, number)
    source, target = _two(given, "(source, target)", where)
    return Pair(_text(source, "the source", where), _text(target, "the target", where), number)


def labelled_example(given: Any, number: int, name: str, config: RunConfig) -> Labelled:
    """An example of `Given` for a classifier, by its number in the part of this name."""
    where = _place_in_memory(name, number)
    if isinstance(given, Labelled):
        return given._replace(place=where)
    weight = 1.0
    if isinstance(given, list | tuple) and len(given) == 3:
        *given, weight = given
        if not 0 <= weight < math.inf:
            raise DataError(f"the weight is {weight}, not a number from 0", where=where)
    content, label = _two(given, "(text or features, label), or (…, label, weight)", where)
    values = label if isinstance(label, list | tuple) else [label]
    values = [value.item() if isinstance(value, np.generic) else value for value in values]
    labels = labels_of(values, config.classifier.multi_label, where)
    if config.input == "text":
        return Labelled(_text(content, "the text", where), labels, where, weight=weight)
    frames = as_frames(np.asarray(content), where)
    return Labelled(frames, labels, where, feature_names(content), weight)


def _place_in_memory(name: str, number: int) -> str:
    return f"example {number}" if name == "train" else f"{name} example {number}"


def _two(given: Any, form: str, where: str) -> tuple[Any, Any]:
    if isinstance(given, str) or not isinstance(given, Sequence) or len(given) != 2:
        raise DataError(f"the example is not {form}", where=where, why=f"it is {given!r}"[:200])
    return given[0], given[1]


def _text(text: object, what: str, where: str) -> str:
    if not isinstance(text, str):
        raise DataError(f"{what} is {type_of(text)}, not a string", where=where)
    refuse_unwritable(text, what, where)
    return join_lines(text)


def read_examples(path: str, config: RunConfig, known: Collection[str] = ()) -> list[Labelled]:
    """The labelled texts of a file, or the feature sequences of a file or folder.

    `known` are labels by which the columns of texts are recognised.
    """
    data = config.data
    several = config.classifier.multi_label
    if config.input == "features":
        read = read_feature_sequences(path, data.label_column)
        return [_with_labels_apart(each) for each in read] if several else list(read)
    return list(read_labelled_texts(path, data.text_column, data.label_column, several, known))


def _with_labels_apart(sequence: Labelled) -> Labelled:
    """A sequence whose labels are separated in the file."""
    values = [name for label in sequence.labels for name in label.split(SEPARATOR)]
    return sequence._replace(labels=labels_of(values, True, sequence.place))


LARGEST_NAMED = 2**36
"""The largest data file that is read because the configuration of a model folder names it."""


def parts_of_run(folder: Path, config: RunConfig) -> Parts:
    """The parts of the data of a model folder; it raises as `parts_of` and `check_recorded`."""
    parts = parts_of(config)
    for part in parts:
        check_recorded(folder, part)
    return parts


def check_recorded(folder: Path, part: DataPart) -> None:
    """Check a part of the data whose files the configuration of a model folder names.

    The folder may be a stranger's: a DataError unless they are the files that the run has recorded.
    """
    try:
        recorded = list(read_json(folder / "provenance.json")["data"].get(part.name, {}).values())
    except (ModelFolderError, KeyError, AttributeError):
        what = "the record of the run, provenance.json, is missing or damaged"
        raise DataError(what, where=folder, todo=NAME_DATA) from None
    if recorded != [file_hash(file, part._kind, LARGEST_NAMED).hex() for file in part.files]:
        raise DataError(
            f"the {part.name} data are not those of the run",
            where=part.where if part.files else folder,
            why="their content is not the one that provenance.json records",
            todo=NAME_DATA,
        )


NAME_DATA = "name the data in the command"
"""What to do if the files that a model folder names cannot be used."""


def file_hash(file: str, part: Part = "train", largest: int = 0) -> bytes:
    """The SHA-256 of a file, or of what is read from a folder or a part of the phrasebook.

    Of a folder of feature sequences, the names of the files and `labels.csv` count as well. `part`
    is the part of a phrasebook that is named without one. `largest` is the size in bytes of the
    largest file that is read (0: any).
    """
    digest, folder = hashlib.sha256(), Path(os.path.expanduser(file))
    if file.startswith(PHRASEBOOK):
        digest.update(json.dumps(phrasebook_pairs(file, part)).encode())
    elif os.path.isdir(folder):
        for inner in files_of_array_folder(folder):
            digest.update(os.fsencode(os.path.relpath(inner, folder)))
            digest.update(file_hash(str(inner), largest=largest))
    else:
        with open_packed(file, regular=True) as stream:
            size = os.fstat(stream.fileno()).st_size
            # A file of the system has no size, and reading it may not end.
            if largest and not 0 < size <= largest:
                what = f"the file has {size:,} bytes, and a file of 1 to {largest:,} is expected"
                raise DataError(what, where=file, todo=NAME_DATA)
            try:
                digest = hashlib.file_digest(stream, "sha256")
            except OSError as error:
                raise DataError("the file cannot be read", where=file, why=reason(error)) from None
    return digest.digest()


def _memory_hash(examples: Sequence[Pair | Labelled]) -> bytes:
    digest = hashlib.sha256()
    for example in examples:
        content = example[0]
        if isinstance(content, np.ndarray):
            digest.update(content.tobytes())
            content = content.shape
        weight = example.weight if isinstance(example, Labelled) else 1.0
        digest.update(json.dumps([content, example[1], weight]).encode())
    return digest.digest()
