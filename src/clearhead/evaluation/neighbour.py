"""The nearest neighbour as the baseline of a translator: it needs no training.

A sentence gets the translation of the training sentence that is most like it (`text/memory.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from clearhead.data.reading.parts import Parts, parts_of, parts_of_run
from clearhead.data.trainable import pairs_to_learn
from clearhead.evaluation.scores import bleu_and_chrf
from clearhead.settings import RunConfig
from clearhead.text.memory import Memory
from clearhead.text.spans import SOFTWARE, protection_of
from clearhead.tokenizer import form_of
from clearhead.tokenizer.normal_form import PLAIN, NormalForm

MOST_PAIRS = 300_000
"""Of more training pairs, the first are used."""

MOST_COMPARISONS = 100_000_000
"""Sentences × training sentences to compare, which takes about ten seconds besides reading them."""

Progress = Callable[[int], object]
"""Receives the number of pairs or sentences that are done."""


def _ignored(done: int) -> None:
    """Shows no progress."""


@dataclass(frozen=True)
class NeighbourScores:
    """BLEU and chrF of the baseline on the first sentences of a test set, or on all.

    Attributes:
        bleu: BLEU.
        chrf: chrF.
        sentences: the number of sentences that were scored.
        of: the number of sentences of the test set.
        known: the number of different training sentences.
    """

    bleu: float
    chrf: float
    sentences: int
    of: int
    known: int

    def __str__(self) -> str:
        """The scores in one line."""
        some = f" of the first {self.sentences:,} sentences" if self.sentences < self.of else ""
        scores = f"BLEU {self.bleu:.2f}, chrF {self.chrf:.2f}{some}"
        return f"nearest neighbour, among {self.known:,} training sentences: {scores}"


def training_memory(
    config: RunConfig, folder: Path | None = None, progress: Progress = _ignored
) -> Memory:
    """The training pairs of a run: of its files, or of those that a model folder has recorded.

    Raises:
        DataError: there is no pair; or a file cannot be read, or has changed.
        ConfigError: the configuration names no files.
    """
    parts = parts_of(config) if folder is None else parts_of_run(folder, config)
    protected = protection_of(config.tokenizer) if config.tokenizer.has_symbols else SOFTWARE
    return Memory(_pairs(config, parts, progress), protected, form_of(config))


def _pairs(config: RunConfig, parts: Parts, progress: Progress) -> Iterator[tuple[str, str]]:
    """The training pairs, without those that are validation or test data, too."""
    held_out = {"validation": parts.validation.read(config), "test": parts.test.read(config)}
    pairs = pairs_to_learn(config, parts._replace(**held_out))
    for number, (source, target, _) in enumerate(islice(pairs, MOST_PAIRS), start=1):
        progress(number)
        yield source, target


def score_neighbours(
    memory: Memory,
    sources: Sequence[str],
    references: Sequence[str],
    tokenize: str = "13a",
    *,
    lowercase: bool = False,
    form: NormalForm = PLAIN,
    progress: Progress = _ignored,
) -> NeighbourScores:
    """The scores of the nearest neighbours of sentences (N,) on their references (N,).

    `form` is the normal form in which translations and references are compared.
    """
    count = min(len(sources), MOST_COMPARISONS // max(1, len(memory)))
    outputs = list[str]()
    for text in sources[:count]:
        match = memory.nearest(text)
        outputs.append(match.text if match else "")
        progress(len(outputs))
    correct = list(map(form, references[:count]))
    bleu, chrf = bleu_and_chrf(list(map(form, outputs)), correct, tokenize, lowercase=lowercase)
    return NeighbourScores(bleu.score, chrf.score, count, len(sources), len(memory))
