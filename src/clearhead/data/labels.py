"""The label set of a classifier, learned from the training data and saved with the model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from clearhead.data.reading.columns import columns_hint
from clearhead.data.reading.tables import CONTROL
from clearhead.errors import DataError, ModelFolderError, first_few, nearest
from clearhead.folder.files import json_file
from clearhead.folder.model_folder import ModelFolder
from clearhead.tokenizer.normal_form import LABEL

SHOWN_NAMES = 10

LABELS = "labels"
"""The name of the label set in a model folder."""


@dataclass(frozen=True)
class Labels:
    """The labels of a classifier; the number of a label is its index in `names`.

    Raises:
        ValueError: a name occurs twice, is empty, or has a control character.
    """

    names: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(set(self.names)) < len(self.names) or not all(self.names):
            raise ValueError("a label occurs twice, or is empty")
        if control := next((name for name in self.names if CONTROL.search(name)), None):
            raise ValueError(f"the label {control!r} has a line break or control character")

    @classmethod
    def learn(cls, labels: Iterable[Sequence[str]]) -> Labels:
        """The distinct labels from the labels of each example, sorted; as numbers if all are."""
        names = sorted({name for example in labels for name in example})
        with suppress(ValueError):
            names.sort(key=float)
        return cls(tuple(names))

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        numbers = {name: number for number, name in enumerate(self.names)}
        # Imported models have labels in any form, several of which may look the same.
        return {LABEL(name): number for name, number in numbers.items()} | numbers

    def check_any(self, folder: str | Path) -> None:
        """Check that there are labels, unlike in an imported encoder, so that it classifies."""
        if not self.names:
            raise ModelFolderError(
                "this model has no labels: it is an encoder to start from",
                where=folder,
                todo=f'train a classifier with it: start_from = "{folder}"',
            )

    def index(self, name: str, where: str | None = None) -> int:
        """The number of a label; `where` is the place of its example, for the error."""
        number = self._numbers.get(name, self._numbers.get(LABEL(name)))
        if number is None:
            like = nearest(name, self.names)
            raise DataError(
                f"the label {name!r} is not among those of the training data",
                where=where,
                why=f"these are {first_few(self.names, SHOWN_NAMES)}",
                todo="correct the label, or train on examples that have it"
                + (f" (did you mean {like!r}?)" if like else "")
                + columns_hint(where, name),
            )
        return number

    def encode(self, labels: Iterable[str], where: str | None = None) -> tuple[int, ...]:
        """The numbers of the labels of an example; see `index`."""
        return tuple(self.index(name, where) for name in labels)

    def files(self, name: str) -> dict[str, bytes]:
        """The content of `name.json`."""
        return json_file(name, {"labels": list(self.names)})

    @classmethod
    def of(cls, folder: ModelFolder) -> Labels:
        """The labels of a classifier.

        Raises:
            ModelFolderError: the file is missing or damaged.
        """
        return folder.built(LABELS, "the label set", cls._from_tree)

    @classmethod
    def _from_tree(cls, tree: dict[str, Any]) -> Labels:
        names = tree["labels"]
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ValueError("the labels are not a list of strings")
        return cls(tuple(names))
