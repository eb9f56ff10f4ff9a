"""The rules by which examples are checked before training, and the engine that applies them.

There are two kinds of example, sentence pairs and labelled examples, each with a list of rules.
Rules that drop an example are applied first, then those that only count it; an example is reported
under the first rule that it breaks. Validation and test data are checked by the same rules and kept
completely, because scores over a part of them would not be comparable.

`Checker.check` counts the examples that break a rule, and returns which examples to keep. `report`
formats the findings.

Texts are equal if they are equal without the white space at their ends, features if all values are.
Texts that are read have the normal form of the run already.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np

from clearhead.data.judging.report import SHOWN_PLACES, DataReport, Finding, NotePlace
from clearhead.data.reading.pairs import Pair
from clearhead.data.reading.parts import DataPart
from clearhead.settings import DataConfig
from clearhead.text.spans import NOTHING, Protection
from clearhead.tokenizer.normal_form import is_blank

Lengths = np.ndarray | Callable[[Sequence[Any]], Sequence[int]]
"""Tokens or frames of each example, int (N, sides); or a function that counts those of examples."""


class Block:
    """N examples, those that have broken no rule so far (`pending`), and facts for the rules."""

    def __init__(self, checker: Checker, examples: Sequence[Any], lengths: Lengths | None) -> None:
        self.examples, self.config = examples, checker.config
        self.pending = np.ones(len(examples), dtype=bool)
        self._checker, self._lengths = checker, lengths
        self._hashes: dict[str, np.ndarray] = {}
        self._repeated: dict[str, np.ndarray] = {}

    @cached_property
    def lengths(self) -> np.ndarray:
        """Tokens or frames, int (N, sides); 0 if unknown, or if the example broke an earlier rule.

        A function counts them once, and may learn a vocabulary from the examples that are left.
        """
        if isinstance(self._lengths, np.ndarray):
            return self._lengths
        found = np.zeros((len(self.examples), 1), dtype=np.int64)
        rows = np.flatnonzero(self.pending)
        if self._lengths is not None and len(rows):
            found[rows, 0] = self._lengths([self.examples[row] for row in rows.tolist()])
        return found

    @property
    def differing(self) -> np.ndarray:
        """Which pairs have other protected spans on the one side than on the other, bool (N,)."""
        mask = self._checker.protection.mask_pair
        found = np.zeros(len(self.examples), dtype=bool)
        for row in np.flatnonzero(self.pending).tolist() if self._checker.protection else ():
            found[row] = mask(self.examples[row].source, self.examples[row].target, 0) is None
        return found

    @cached_property
    def blank(self) -> np.ndarray:
        """Which texts are empty or white space, bool (N, sides); always False for features."""
        if isinstance(self.examples[0], Pair):
            return np.array([(is_blank(p.source), is_blank(p.target)) for p in self.examples])
        return np.array([[isinstance(e.input, str) and is_blank(e.input)] for e in self.examples])

    def hashes(self, key: str) -> np.ndarray:
        """The hash of each example under a key of its kind, uint64 (N,)."""
        if key not in self._hashes:
            self._hashes[key] = hashes_of(self.examples, self._checker.kind.hashes[key])
        return self._hashes[key]

    def held_out(self, key: str) -> np.ndarray:
        """Which examples have the hash of a held-out example, bool (N,)."""
        held_out = self._checker.held_out[key]
        # Without held-out examples, hashes need not be computed.
        nothing = np.zeros(len(self.examples), dtype=bool)
        return held_out.contains(self.hashes(key)) if len(held_out) else nothing

    def repeated(self, key: str) -> np.ndarray:
        """Which examples have the hash of one before, in this block or another: bool (N,)."""
        if key not in self._repeated:
            self._repeated[key] = self._checker.seen[key].add(self.hashes(key))
        return self._repeated[key]


class Rule(NamedTuple):
    """One rule: its name, its text with settings of `data`, and which examples (N,) break it.

    `drop` decides whether these are dropped from training or only counted; it may name a setting of
    `data`. `in_target` is for which pairs the place is in the file of the target.
    """

    name: str
    text: str
    broken: Callable[[Block], Any]
    drop: bool | str = True
    in_target: Callable[[Block], np.ndarray] | None = None


@dataclass(frozen=True)
class Kind:
    """A kind of example: functions that hash it or a part of it, and rules in their order."""

    unit: Literal["pairs", "examples"]
    hashes: Mapping[str, Callable[[Any], int]]
    rules: tuple[Rule, ...]


PAIRS = Kind(
    "pairs",
    {
        "pair": lambda pair: text_hash(pair.source, pair.target),
        "source": lambda pair: text_hash(pair.source),
        "target": lambda pair: text_hash(pair.target),
    },
    (
        Rule(
            "empty",
            "a side is empty",
            # White space alone is a token of SentencePiece, so both are checked.
            lambda b: ((b.lengths == 0) | b.blank).any(axis=1),
            in_target=lambda b: (b.lengths[:, 0] > 0) & ~b.blank[:, 0],
        ),
        Rule(
            "held_out",
            "the same pair is in the {held_in} data",
            lambda b: b.held_out("pair"),
            drop="drop_held_out",
        ),
        Rule(
            "duplicate",
            "the same pair came before",
            lambda b: b.repeated("pair"),
            drop="drop_duplicates",
        ),
        Rule(
            "long",
            "a side has more than {max_length} tokens",
            lambda b: b.lengths.max(axis=1) > b.config.max_length,
            in_target=lambda b: b.lengths[:, 0] <= b.config.max_length,
        ),
        Rule(
            "ratio",
            "a side has more than {max_length_ratio:g} times the tokens of the other",
            lambda b: b.lengths.max(axis=1) > b.config.max_length_ratio * b.lengths.min(axis=1),
            in_target=lambda b: b.lengths[:, 0] < b.lengths[:, 1],
        ),
        Rule(
            "held_out_source",
            "the source is in the {held_in} data, with another target",
            lambda b: b.held_out("source"),
            drop=False,
        ),
        Rule(
            "held_out_target",
            "the target is in the {held_in} data, with another source",
            lambda b: b.held_out("target"),
            drop=False,
            in_target=lambda b: np.ones(len(b.examples), dtype=bool),
        ),
        Rule(
            "spans",
            "the sides differ in their placeholders or other protected spans",
            lambda b: b.differing,
            drop=False,
        ),
    ),
)

LABELLED = Kind(
    "examples",
    {
        "example": lambda e: text_hash(str(input_hash(e.input)), *sorted(e.labels)),
        "input": lambda e: input_hash(e.input),
    },
    (
        Rule("empty", "the text is empty", lambda b: b.blank.any(axis=1)),
        Rule(
            "held_out",
            "the same example is in the {held_in} data",
            lambda b: b.held_out("example"),
            drop="drop_held_out",
        ),
        Rule(
            "duplicate",
            "the same example came before",
            lambda b: b.repeated("example"),
            drop="drop_duplicates",
        ),
        Rule(
            "long",
            "more than {max_length} tokens or frames, cut to the first {max_length}",
            lambda b: b.lengths.max(axis=1) > b.config.max_length,
            drop=False,  # as in predictions
        ),
        Rule(
            "contradiction",
            "the same input came before with another label",
            lambda b: b.repeated("input"),
            drop=False,
        ),
        Rule(
            "held_out_input",
            "the input is in the {held_in} data, with another label",
            lambda b: b.held_out("input"),
            drop=False,
        ),
    ),
)


class Checker:
    """Checks blocks of examples one after the other, and sums up a report.

    For each example and key, it keeps 8 bytes of hash and nothing else. Training examples may be
    dropped; others are only counted. `held_out` are for training data the validation and test
    examples, for test data the validation examples.
    """

    def __init__(
        self,
        part: DataPart,
        kind: Kind,
        config: DataConfig,
        held_out: Iterable[Any] = (),
        protection: Protection = NOTHING,
    ) -> None:
        self.protection = protection
        self.kind, self.config, self._part = kind, config, part
        training = part.name in ("train", "replay")
        held_out = list(held_out)
        self.held_out = {key: HashSet() for key in kind.hashes}
        for key, hash_of in kind.hashes.items():
            self.held_out[key].add(hashes_of(held_out, hash_of))
        self.seen = {key: HashSet() for key in kind.hashes}
        # Settings decide what is dropped from training data only.
        drops = {
            rule.name: getattr(config, rule.drop)
            if training and isinstance(rule.drop, str)
            else bool(rule.drop)
            for rule in kind.rules
        }
        # Rules that only count must not hide one that drops, nor the lengths of kept examples.
        drop = [rule for rule in kind.rules if drops[rule.name]]
        count = [rule for rule in kind.rules if not drops[rule.name]]
        self._order = [*drop, *sorted(count, key=lambda rule: rule.name != "long")]
        limits = vars(config) | {"held_in": "validation or test" if training else "validation"}
        self._findings = {
            name: Finding(name, text.format(**limits), 0, (), training and drops[name])
            for name, text, *_ in kind.rules
        }
        self._report = DataReport(part.name, kind.unit, 0, 0)

    def check(
        self, examples: Sequence[Any], lengths: Lengths | None = None, note: NotePlace | None = None
    ) -> np.ndarray:
        """Which of the next examples (N,) are used: bool (N,).

        Without lengths none is too long. `note` is called with every finding; the report has the
        first places of each rule only.
        """
        keep = np.ones(len(examples), dtype=bool)
        if not len(examples):
            return keep
        block = Block(self, examples, lengths)
        for rule in self._order:
            rows = np.flatnonzero(rule.broken(block) & block.pending)
            if not len(rows):
                continue
            finding = self._findings[rule.name]
            missing = SHOWN_PLACES - len(finding.places)
            in_target = rule.in_target(block) if rule.in_target else np.zeros_like(keep)
            places = tuple(
                self._part.place(examples[row], bool(in_target[row]))
                for row in (rows[:missing] if note is None else rows).tolist()
            )
            if note is not None:
                for place in places:
                    note(place, finding.text)
            self._findings[rule.name] = replace(
                finding, count=finding.count + len(rows), places=finding.places + places[:missing]
            )
            block.pending[rows] = False
            if finding.left_out:
                keep[rows] = False
        report, tokens = self._report, block.lengths[keep].sum(axis=0).tolist()
        self._report = replace(
            report,
            read=report.read + len(examples),
            kept=report.kept + int(keep.sum()),
            tokens=(report.tokens[0] + tokens[0], report.tokens[1] + tokens[-1]),
        )
        return keep

    @property
    def rules(self) -> list[tuple[str, bool]]:
        """The text of each rule, and whether it drops examples."""
        return [(finding.text, finding.left_out) for finding in self._findings.values()]

    def report(self) -> DataReport:
        """The findings so far."""
        found = tuple(finding for finding in self._findings.values() if finding.count)
        return replace(self._report, findings=found)


def text_hash(*texts: str) -> int:
    """64 bits of one or several texts, without the white space at their ends."""
    return _hash("\0".join(text.strip() for text in texts).encode())


def input_hash(content: str | np.ndarray) -> int:
    """64 bits of a text, as `text_hash`, or of the values of features."""
    if isinstance(content, str):
        return text_hash(content)
    # All NaNs are the same, and so are 0 and -0.
    values = np.where(np.isnan(content), np.float32("nan"), content + 0).astype("<f4")
    return _hash(repr(values.shape).encode() + values.tobytes())


def _hash(content: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little")


class HashSet:
    """A set of 64-bit hashes that takes 8 bytes each: 400 MB for 50 million.

    Among 50 million different examples, one corpus in 15,000 has two with the same hash; one of the
    two is then dropped. The set has sorted runs, each at least twice as long as the next. Adding n
    hashes in blocks takes O(n log n) time; a look-up takes one binary search per run.
    """

    def __init__(self) -> None:
        self._runs: list[np.ndarray] = []

    def __len__(self) -> int:
        return sum(map(len, self._runs))

    @property
    def sorted(self) -> np.ndarray:
        """All hashes, ascending: uint64 (n,)."""
        return np.sort(np.concatenate([np.empty(0, np.uint64), *self._runs]))

    def contains(self, hashes: np.ndarray) -> np.ndarray:
        """Which of the hashes (N,) are in the set: bool (N,)."""
        found = np.zeros(len(hashes), dtype=bool)
        for run in self._runs:
            at = np.minimum(np.searchsorted(run, hashes), len(run) - 1)
            found |= run[at] == hashes
        return found

    def add(self, hashes: np.ndarray) -> np.ndarray:
        """Add hashes (N,), and return which of them are repetitions: bool (N,)."""
        distinct, first = np.unique(hashes, return_index=True)
        known = self.contains(distinct)
        repeated = np.ones(len(hashes), dtype=bool)
        repeated[first] = known
        if not known.all():
            self._runs.append(distinct[~known])
        while len(self._runs) > 1 and len(self._runs[-2]) < 2 * len(self._runs[-1]):
            last = self._runs.pop()
            merged = np.concatenate([self._runs.pop(), last])
            merged.sort(kind="stable")  # on two sorted runs this is a merge
            self._runs.append(merged)
        return repeated


def hashes_of(examples: Sequence[Any], hash_of: Callable[[Any], int]) -> np.ndarray:
    """The hash of each example, uint64 (N,)."""
    return np.fromiter(map(hash_of, examples), dtype=np.uint64, count=len(examples))
