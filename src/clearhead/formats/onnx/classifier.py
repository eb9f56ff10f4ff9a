"""Runs an exported classifier with numpy and onnxruntime; clearhead is not needed.

    from classifier import Classifier

    classifier = Classifier("the folder of this file")
    classifier.classify(["a text"])             # [[("label", 0.93)]]

Texts need sentencepiece if the folder has a tokenizer.model, and tokenizers if the model started
from one of Hugging Face. `classifier.json` describes the inputs and the output of the model.
"""

from __future__ import annotations

import json
import re
import unicodedata
import warnings
import zlib
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

PAD, BOS, EOS = 0, 1, 2
APOSTROPHES = "'\u2019"
WITHIN, WITHIN_NUMBERS = f"{APOSTROPHES}_.:\u00b7\u2027\u05f4", ",;"
BLANK = re.compile(r"[\s\xad\u034f\u200b-\u200f\u2060-\u2064\ufe0e\ufe0f\ufeff]*")
LONGEST_CACHED = 40  # characters of a word whose parts are kept
SPACE, ESCAPE = "\u2581", "\U0010fffd"


class Classifier:
    """A classifier of texts, or of arrays (frames, features).

    Args:
        folder: of the export.
        model: the file of the model: `model.onnx`, or `model-int8.onnx` if there is one.
        threads: threads of onnxruntime (0: one per core).
    """

    def __init__(self, folder: str | Path, model: str = "model.onnx", threads: int = 0) -> None:
        folder = Path(folder)
        self.facts: dict[str, Any] = json.loads((folder / "classifier.json").read_text("utf-8"))
        self.labels: list[str] = self.facts["labels"]
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self.session = onnxruntime.InferenceSession(
            str(folder / model), options, providers=["CPUExecutionProvider"]
        )
        self._row = _text_reader(folder, self.facts) if "text" in self.facts else self._frames

    def classify(
        self, inputs: Sequence[Any], top: int | None = None, batch_size: int = 64
    ) -> list[list[tuple[str, float]]]:
        """The most probable labels of each input with their probabilities, best first.

        Args:
            inputs: texts, or arrays (frames, features). An empty text has no label.
            top: number of labels of each input. By default one; if an input may have several
                labels, all from their thresholds in `classifier.json`, perhaps none.
            batch_size: maximum number of inputs of a batch.
        """
        found = []
        for given, row in zip(inputs, self.probabilities(inputs, batch_size), strict=True):
            order = np.argsort(-row, kind="stable")
            if isinstance(given, str) and BLANK.fullmatch(given):
                order = []
            elif top is None and self.facts["multi_label"]:
                order = [i for i in order if row[i] >= self.facts["thresholds"][i]]
            else:
                order = order[: top or 1]
            found.append([(self.labels[i], float(row[i])) for i in order])
        return found

    def probabilities(self, inputs: Sequence[Any], batch_size: int = 64) -> np.ndarray:
        """The calibrated probability of each label, float64 (inputs, labels)."""
        logits = self.logits(inputs, batch_size).astype(np.float64) / self.facts["temperature"]
        if self.facts["multi_label"]:
            return np.exp(-np.logaddexp(0.0, -logits))
        weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
        return weights / weights.sum(axis=-1, keepdims=True)

    def logits(self, inputs: Sequence[Any], batch_size: int = 64) -> np.ndarray:
        """The output of the model for each label, float32 (inputs, labels)."""
        rows = [self._row(self._bounded(given, i)) for i, given in enumerate(inputs, start=1)]
        order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
        logits = np.zeros((len(rows), len(self.labels)), np.float32)
        for first in range(0, len(rows), batch_size):
            batch = order[first : first + batch_size]
            values, mask = padded([rows[i] for i in batch])
            names = self.facts["inputs"]
            fed = dict(zip(names, (values, mask), strict=True))
            logits[batch] = np.asarray(self.session.run(["logits"], fed)[0])
        return logits

    def _bounded(self, given: Any, number: int) -> Any:
        """An input without characters that are too many to be read."""
        if not isinstance(given, str) or "text" not in self.facts:
            return given
        if len(given) <= (most := self.facts["text"]["longest"]):
            return given
        has = f"input {number} has {len(given):,} characters"
        warnings.warn(f"{has} and was cut to {most:,}", stacklevel=4)
        return given[:most]

    def _frames(self, frames: Any) -> np.ndarray:
        """Features without missing values, on the scale of the training data."""
        facts = self.facts["features"]
        if facts["names"] and hasattr(frames, "columns"):
            frames = frames[facts["names"]]
        frames = np.asarray(frames, np.float32)
        if frames.ndim == 1:
            frames = frames[:, None]
        if frames.ndim != 2 or frames.shape[1] != len(facts["mean"]):
            raise ValueError(f"the shape is {frames.shape}, not (frames, {len(facts['mean'])})")
        # Frames at the end without any value are padding.
        known = np.flatnonzero(~np.isnan(frames).all(axis=1))
        frames = frames[: known[-1] + 1] if len(known) else frames
        mean = np.array(facts["mean"])
        frames = _filled(frames, facts["missing"], mean)
        if facts["normalised"]:
            frames = ((frames - mean) / np.array(facts["deviation"])).astype(np.float32)
        return frames[: self.facts["longest"]]


def padded(rows: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Rows (length, …) as one array (rows, longest, …), and its mask, True where no padding is."""
    width = [max(sizes) for sizes in zip(*(row.shape for row in rows), strict=True)]
    width[0] = max(1, width[0])
    values = np.zeros((len(rows), *width), rows[0].dtype)
    mask = np.zeros((len(rows), width[0]), bool)
    for i, row in enumerate(rows):
        values[(i, *map(slice, row.shape))] = row
        mask[i, : len(row)] = True
    return values, mask


def _filled(frames: np.ndarray, rule: str, mean: np.ndarray) -> np.ndarray:
    """Features whose missing values (NaN) are filled as in training."""
    missing = np.isnan(frames)
    if not missing.any():
        return frames
    if rule == "refuse":
        raise ValueError("a value is missing; the model was trained without missing values")
    values = np.zeros_like(mean) if rule == "zero" else mean
    filled = np.where(missing, values.astype(np.float32), frames)
    if rule == "interpolate":
        for feature in np.flatnonzero(missing.any(axis=0) & ~missing.all(axis=0)):
            gaps = np.flatnonzero(missing[:, feature])
            known = np.flatnonzero(~missing[:, feature])
            filled[gaps, feature] = np.interp(gaps, known, filled[known, feature])
    return filled


# Texts


def normal_form(tokenizer: dict[str, Any], text: str) -> str:
    """A text as a tokenizer reads it: its normal form, and small letters if it has only these."""
    form = tokenizer.get("normal_form", {})
    unicode_form = form.get("unicode")
    if unicode_form:
        changes = dict.fromkeys(map(ord, form.get("spaces", "")), " ")
        changes |= dict.fromkeys(map(ord, form.get("removed", "")), "")
        changes |= {ord(c): chr(ord(c) - 0xFEE0) for c in form.get("folded", "")}
        text = unicodedata.normalize(unicode_form, text.translate(changes))
        text = text.strip(" ") if form.get("spaces") else text
    if tokenizer.get("lower"):
        if form.get("language"):  # its capital of i has a dot, and its small letter of I has none
            text = text.replace("I\u0307", "i").replace("\u0130", "i").replace("I", "\u0131")
        text = re.sub("i\u0307+", "i", text.lower())
        text = unicodedata.normalize(unicode_form, text) if unicode_form else text
    return text


def _text_reader(folder: Path, facts: dict[str, Any]) -> Callable[[str], np.ndarray]:
    """A function that makes the row of a text: ids (length,), or with n-grams (length, columns)."""
    tokenizer = json.loads((folder / "tokenizer.json").read_text("utf-8"))
    longest, start = facts["longest"], [BOS] * facts["text"]["start"]
    if tokenizer["kind"] == "words":
        return _word_reader(tokenizer, facts["text"]["ngrams"], longest, start)
    if tokenizer["kind"] == "pretrained":
        return _pretrained_reader(tokenizer, facts["text"]["boundaries"], longest, start)
    import sentencepiece

    pieces = sentencepiece.SentencePieceProcessor(model_file=str(folder / "tokenizer.model"))

    def row(text: str) -> np.ndarray:
        text = _one_line(normal_form(tokenizer, text))
        text = text.replace(ESCAPE, ESCAPE + "0").replace(SPACE, ESCAPE + "1")
        return np.array([*start, *pieces.encode(text)[:longest]], np.int64)

    return row


def _word_reader(
    tokenizer: dict[str, Any], ngrams: dict[str, Any] | None, longest: int, start: list[int]
) -> Callable[[str], np.ndarray]:
    ids = {word: i for i, word in enumerate(tokenizer["words"], start=EOS + 1)}
    unknown = EOS + 1 + len(ids)

    def row(text: str) -> np.ndarray:
        words = normal_form(tokenizer, text).split()
        if tokenizer["split_punctuation"]:
            words = [part for word in words for part in split_punctuation(word)]
        words = words[:longest]
        numbers = [*start, *(ids.get(word, unknown) for word in words)]
        if ngrams is None:
            return np.array(numbers, np.int64)
        spelled = [_ngrams(word, ngrams) for word in words]
        found = np.zeros((len(numbers), 1 + max([1, *map(len, spelled)])), np.int64)
        found[:, 0] = numbers
        for columns, each in zip(found[len(start) :], spelled, strict=True):
            columns[1 : 1 + len(each)] = each
        return found

    return row


def _ngrams(word: str, ngrams: dict[str, Any]) -> list[int]:
    """The number of each character n-gram of a word."""
    marked = f"<{word}>"[: ngrams["longest_word"]]
    return [
        1 + zlib.crc32(marked[i : i + n].encode("utf-8", "surrogatepass")) % ngrams["vectors"]
        for n in ngrams["lengths"]
        for i in range(len(marked) - n + 1)
    ]


def _pretrained_reader(
    tokenizer: dict[str, Any], boundaries: str, longest: int, start: list[int]
) -> Callable[[str], np.ndarray]:
    from tokenizers import Tokenizer

    library = Tokenizer.from_str(json.dumps(tokenizer["description"]))
    library.no_truncation()
    library.no_padding()
    # PAD, BOS and EOS come first, then the other tokens in their order.
    size, *special = tokenizer["numbering"]
    theirs = np.concatenate((special, np.delete(np.arange(size), special)))
    ours = np.argsort(theirs)

    def row(text: str) -> np.ndarray:
        ids = ours[np.array(library.encode(_one_line(text)).ids, np.int64)]
        if len(ids) > longest:
            ids = ids[:longest]
            if boundaries != "none":
                ids[-1] = EOS
        return np.array([*start, *ids], np.int64)

    return row


def _one_line(text: str) -> str:
    """A text without line breaks and lone surrogates."""
    text = re.sub(r"[\r\n]+", " ", text)
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")


def split_punctuation(word: str) -> tuple[str, ...]:
    """The parts of a word and its marks; an apostrophe starts a new part."""
    return _cached_parts(word) if len(word) <= LONGEST_CACHED else _parts(word)


def _parts(word: str) -> tuple[str, ...]:
    first, last = 0, len(word)
    while first < last and _is_mark(word[last - 1]):
        last -= 1
    # If there are apostrophes at both ends, they are quotation marks.
    quoted = any(mark in APOSTROPHES for mark in word[last:])
    while first < last and _is_mark(word[first]) and (quoted or not _starts_part(word, first)):
        first += 1
    divides = [i for i in range(first + 1, last) if _divides(word, i)]
    ends = {i + after for i in divides for after in (0, 1)}
    starts = {i for i in range(first + 1, last) if _starts_part(word, i)}
    places = sorted({first, last} | ends | starts)
    parts = (word[start:end] for start, end in pairwise(places))
    return (*word[:first], *filter(None, parts), *word[last:])


_cached_parts = lru_cache(maxsize=100_000)(_parts)


def _is_mark(character: str) -> bool:
    category = unicodedata.category(character)
    return category[0] in "PS" or category == "Cf" or "\ufe00" <= character <= "\ufe0f"


def _divides(word: str, i: int) -> bool:
    """Whether character i, which is not at an end, is a mark that divides a word."""
    if unicodedata.category(word[i])[0] not in "PS" or word[i] in WITHIN:
        return False
    return not (word[i] in WITHIN_NUMBERS and word[i - 1].isdigit() and word[i + 1].isdigit())


def _starts_part(word: str, i: int) -> bool:
    """Whether character i is an apostrophe, and the next one exists and is not a mark."""
    return word[i] in APOSTROPHES and i + 1 < len(word) and not _is_mark(word[i + 1])
