"""What a model predicted for each example, the worst errors first, and the file of it."""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from clearhead.data.reading.labelled import SEPARATOR, join_lines
from clearhead.errors import ConfigError, DataError
from clearhead.evaluation.calibration import THRESHOLD, decisions
from clearhead.evaluation.scores import sentence_chrf
from clearhead.folder.files import write_bytes
from clearhead.tokenizer.normal_form import PLAIN, NormalForm

if TYPE_CHECKING:
    from clearhead.data.reading.labelled import Labelled

FORMULA = re.compile(r"(?=[=+\-@\t\r\n＝＋－＠].)(?![+-][\d.,]+%?$)", re.DOTALL)
"""The start of a text that a spreadsheet would compute; numbers and single characters are none."""


@dataclass(frozen=True)
class TranslatedExample:
    """One sentence of an evaluation.

    Attributes:
        line: its number, from 1.
        chrf: the chrF of the prediction, from 0 to 100.
        source, reference, prediction: texts.
    """

    line: int
    chrf: float
    source: str
    reference: str
    prediction: str

    def row(self) -> dict[str, Any]:
        """The values by the name of their column in a file."""
        return {**asdict(self), "chrf": round(self.chrf, 2)}


@dataclass(frozen=True)
class ClassifiedExample:
    """One text or sequence of an evaluation.

    Attributes:
        place: its file and line: `test.csv:17`; or `example 17` in memory.
        label: the true label; if it may have several, all of them with `|` between them.
        prediction: the predicted label or labels, likewise.
        probability: of the prediction. If an example may have several labels, the probability that
            it has exactly those predicted, if labels were independent.
        text: None for features.
    """

    place: str
    label: str
    prediction: str
    probability: float
    text: str | None = None

    def row(self) -> dict[str, Any]:
        """The values by the name of their column in a file: texts have the number of the line."""
        values: dict[str, Any] = {"label": self.label, "prediction": self.prediction}
        values["probability"] = round(self.probability, 4)
        if self.text is None:
            return {"place": self.place, **values}
        number = re.search(r"\d+$", self.place)
        line = int(number[0]) if number else self.place
        return {"line": line, **values, "text": self.text}


def translated_examples(
    sources: Sequence[str],
    references: Sequence[str],
    outputs: Sequence[str],
    lowercase: bool,
    form: NormalForm = PLAIN,
) -> tuple[TranslatedExample, ...]:
    """The N sentences, those with the lowest chrF in a form of the texts first."""
    compared, correct = (list(map(form, texts)) for texts in (outputs, references))
    scores = sentence_chrf(compared, correct, lowercase=lowercase)
    rows = zip(scores, sources, references, outputs, strict=True)
    examples = [TranslatedExample(line, *row) for line, row in enumerate(rows, start=1)]
    return tuple(sorted(examples, key=lambda example: example.chrf))


def classified_examples(
    examples: Sequence[Labelled],
    probabilities: np.ndarray,
    names: Sequence[str],
    multi_label: bool,
    thresholds: float | np.ndarray = THRESHOLD,
) -> tuple[ClassifiedExample, ...]:
    """The N examples: wrong ones first, of these the most certain, then the least certain right."""
    chosen = decisions(probabilities, multi_label, thresholds)
    if multi_label:
        certainty = np.where(chosen, probabilities, 1 - probabilities).prod(axis=1)
    else:
        certainty = probabilities.max(axis=1)
    found = []
    for example, marks, probability in zip(examples, chosen, certainty.tolist(), strict=True):
        predicted = [name for name, mark in zip(names, marks, strict=True) if mark]
        is_wrong = set(predicted) != set(example.labels)
        classified = ClassifiedExample(
            example.place,
            SEPARATOR.join(example.labels),
            SEPARATOR.join(predicted),
            probability,
            example.input if isinstance(example.input, str) else None,
        )
        found.append((not is_wrong, -probability if is_wrong else probability, classified))
    return tuple(each for *_, each in sorted(found, key=lambda ranked: ranked[:2]))


def check_table_path(path: Path) -> None:
    """Raise an error if `write_table` cannot write this path."""
    if path.suffix.lower() not in TABLES:
        raise ConfigError(
            "predictions are not written to files with this ending",
            where=path,
            todo=f"name a file that ends in {', '.join(TABLES)}",
        )
    if path.is_dir():
        raise DataError("this is a folder", where=path, todo="name a file")
    if not path.parent.is_dir():
        raise DataError(
            f"the folder {path.parent.absolute()} is missing",
            where=path,
            todo=f"create it: mkdir -p {shlex.quote(str(path.parent))}",
        )


def write_table(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows with the same columns as `.csv`, `.tsv` or `.jsonl`, in UTF-8.

    The `.csv` is for spreadsheets: it begins with a byte order mark, and a text or label that a
    spreadsheet would take for a formula gets an apostrophe before it. In a `.tsv`, texts have
    spaces instead of tabs and line breaks. Errors as of `check_table_path`.
    """
    check_table_path(path)
    content = TABLES[path.suffix.lower()](rows)
    write_bytes(path, content.encode("utf-8", "replace"), DataError)


def _as_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    def cell(value: Any) -> Any:
        return f"'{value}" if isinstance(value, str) and FORMULA.match(value) else value

    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(rows[0])
    writer.writerows(map(cell, row.values()) for row in rows)
    return f"\ufeff{text.getvalue()}"


def _as_tsv(rows: Sequence[Mapping[str, Any]]) -> str:
    lines = [list(rows[0]), *(row.values() for row in rows)]
    return "".join(
        "\t".join(join_lines(str(value)).replace("\t", " ") for value in line) + "\n"
        for line in lines
    )


def _as_jsonl(rows: Sequence[Mapping[str, Any]]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


TABLES: dict[str, Callable[[Sequence[Mapping[str, Any]]], str]] = {
    ".csv": _as_csv,
    ".tsv": _as_tsv,
    ".jsonl": _as_jsonl,
}
