"""Every finding of a check, in a file: a line each, its place, a tab, and what is found there."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np

from clearhead.data.readers import Pair, place
from clearhead.data.report import DataReport, Finding
from clearhead.settings import DataConfig

FINDINGS = "findings.tsv"

Note = Callable[[str, str], object]
"""Takes a finding: its place, and what is found there."""


@contextmanager
def noting(path: Path) -> Iterator[Note]:
    """Writes findings into a new file; names of files that are no UTF-8 stay as they are on disk.

    Raises:
        OSError: it cannot be written.
    """
    with path.open("w", encoding="utf-8", errors="surrogateescape") as file:
        yield lambda place, found: file.write(f"{place}\t{found}\n")


# ---- data.hashes
# Sentence pairs as 64-bit hashes, to find those that come twice among millions.
#
# Two of 50 million different pairs share a hash by chance in one of 15,000 corpora; one of them
# is then left out.


def pair_hash(*texts: str) -> int:
    """64 bits of a text, or of a pair, without the spaces at its ends."""
    joined = "\0".join(text.strip() for text in texts)
    return int.from_bytes(hashlib.blake2b(joined.encode(), digest_size=8).digest(), "little")


def hash_array(values: Iterable[int]) -> np.ndarray:
    """Hashes as an array, uint64 (N,)."""
    return np.fromiter(values, dtype=np.uint64)


class HashSet:
    """A set of 64-bit hashes in 8 bytes each, so that 50 million pairs take 400 MB.

    Sorted runs, each at least twice as long as the next: adding n hashes in blocks takes
    O(n log n) time, and a look-up one binary search a run.
    """

    def __init__(self) -> None:
        self._runs: list[np.ndarray] = []

    def contains(self, hashes: np.ndarray) -> np.ndarray:
        """Which of the hashes (N,) are in the set: bool (N,)."""
        found = np.zeros(len(hashes), dtype=bool)
        for run in self._runs:
            at = np.minimum(np.searchsorted(run, hashes), len(run) - 1)
            found |= run[at] == hashes
        return found

    def add(self, hashes: np.ndarray) -> None:
        """Put hashes (N,), none of them in the set yet, into the set."""
        if len(hashes) == 0:
            return
        self._runs.append(np.sort(hashes))
        while len(self._runs) > 1 and len(self._runs[-2]) < 2 * len(self._runs[-1]):
            last = self._runs.pop()
            merged = np.concatenate([self._runs.pop(), last])
            merged.sort(kind="stable")  # on two sorted runs this is a merge
            self._runs.append(merged)


class HeldOut:
    """The hashes of validation and test pairs, of their sources and of their targets."""

    def __init__(self, pairs: Iterable[tuple[str, str] | Pair] = ()) -> None:
        both, sources, targets = [], [], []
        for source, target, *_ in pairs:
            both.append(pair_hash(source, target))
            sources.append(pair_hash(source))
            targets.append(pair_hash(target))
        self.pairs = np.unique(hash_array(both))
        self.sources = np.unique(hash_array(sources))
        self.targets = np.unique(hash_array(targets))


# ---- data.checks
# What is looked at in the sentence pairs before anything trains, and what is done about it.
#
# A pair is left out of the training data for the first of these reasons that holds:
#
# - `empty`: the source or the target has no token, or is nothing but white space;
# - `held_out`: the same pair is in the validation or test data, where it would inflate the score
#   (if `drop_held_out`; otherwise it is counted and kept);
# - `duplicate`: the same pair came before (if `drop_duplicates`; otherwise it is counted and kept);
# - `long`: the source or the target has more than `max_length` tokens;
# - `ratio`: one side has more than `max_length_ratio` times the tokens of the other.
#
# `held_out_source` and `held_out_target`, training pairs of which one side alone is in the
# validation
# or test data (beside another one), are counted and kept. Validation and test data are judged by
# the
# same rules and kept whole: a score over a part of them would compare with nothing. What the
# rules of
# held-out pairs find in the test data is also in the validation data, by which the best model is
# picked.
#
# Texts are the same when they are equal after spaces at their ends have been taken away. A place
# is in the file of the side that breaks the rule: of the empty one, the one that is too long, or
# the
# longer of two; of the source where both do, or the pair does.

RULES = {
    "empty": "a side is empty",
    "held_out": "the same pair is in the {held_in} data",
    "duplicate": "the same pair came before",
    "long": "a side has more than {max_length} tokens",
    "ratio": "a side has more than {max_length_ratio:g} times the tokens of the other",
    "held_out_source": "the source is in the {held_in} data, with another target",
    "held_out_target": "the target is in the {held_in} data, with another source",
}
KEPT_RULES = ("held_out_source", "held_out_target")
SHOWN_PLACES = 5
HELD_IN = "validation or test"
"""What training pairs must not be in."""


class PairChecker:
    """Judges blocks of pairs one after the other and adds up a `DataReport`.

    Args:
        name: what the data are called in the report ("train").
        files: their files, to name places by.
        config: the limits.
        held_out: the pairs that must not be trained on.
        mend: leave out what the rules say; otherwise only count it.
        held_in: the data that those pairs are of, in the words of the report.
    """

    def __init__(
        self,
        name: str,
        files: Sequence[str],
        config: DataConfig,
        held_out: HeldOut | None = None,
        *,
        mend: bool = True,
        held_in: str = HELD_IN,
    ) -> None:
        self._name, self._files, self._config, self._mend = name, files, config, mend
        self._held_out = held_out or HeldOut()
        kept = {"held_out": not config.drop_held_out, "duplicate": not config.drop_duplicates}
        self._kept_rules = (*KEPT_RULES, *(rule for rule, is_kept in kept.items() if is_kept))
        limits = {"max_length": config.max_length, "max_length_ratio": config.max_length_ratio}
        self._texts = {rule: text.format(**limits, held_in=held_in) for rule, text in RULES.items()}
        self._seen = HashSet()
        self._pairs = self._kept = self._source_tokens = self._target_tokens = 0
        self._counts = dict.fromkeys(RULES, 0)
        self._places: dict[str, list[str]] = {rule: [] for rule in RULES}

    def check(
        self,
        pairs: Sequence[Pair],
        source_lengths: np.ndarray,
        target_lengths: np.ndarray,
        note: Note | None = None,
    ) -> np.ndarray:
        """Which of the pairs (N,), with lengths in tokens (N,), are used: bool (N,).

        `note` is given every finding; the report has the first places of each rule alone.
        """
        verdicts = self._verdicts(pairs, source_lengths, target_lengths)
        keep = np.ones(len(pairs), dtype=bool)
        undecided = keep.copy()
        for rule, hit in verdicts.items():
            rows = np.flatnonzero(hit & undecided)
            self._counts[rule] += len(rows)
            room = SHOWN_PLACES - len(self._places[rule])
            places = [
                self._place(rule, pairs[row], int(source_lengths[row]), int(target_lengths[row]))
                for row in (rows[:room] if note is None else rows).tolist()
            ]
            self._places[rule] += places[:room]
            if note is not None:
                for found in places:
                    note(found, self._texts[rule])
            undecided[rows] = False
            if self._leaves_out(rule):
                keep[rows] = False
        self._pairs += len(pairs)
        self._kept += int(keep.sum())
        self._source_tokens += int(source_lengths[keep].sum())
        self._target_tokens += int(target_lengths[keep].sum())
        return keep

    def report(self) -> DataReport:
        """What was found so far."""
        findings = tuple(
            Finding(
                rule=rule,
                text=self._texts[rule],
                count=count,
                places=tuple(self._places[rule]),
                left_out=self._leaves_out(rule),
            )
            for rule, count in self._counts.items()
            if count
        )
        return DataReport(
            *(self._name, self._pairs, self._kept, self._source_tokens, self._target_tokens),
            findings,
        )

    def _leaves_out(self, rule: str) -> bool:
        return self._mend and rule not in self._kept_rules

    def _place(self, rule: str, pair: Pair, source_length: int, target_length: int) -> str:
        in_target = {
            "empty": source_length > 0 and bool(pair.source.strip()),
            "long": source_length <= self._config.max_length,
            "ratio": source_length < target_length,
            "held_out_target": True,
        }
        return place(self._files, pair.line, in_target.get(rule, False))

    def _verdicts(
        self, pairs: Sequence[Pair], source_lengths: np.ndarray, target_lengths: np.ndarray
    ) -> dict[str, np.ndarray]:
        shorter = np.minimum(source_lengths, target_lengths)
        longer = np.maximum(source_lengths, target_lengths)
        hashes = hash_array(pair_hash(pair.source, pair.target) for pair in pairs)
        # SentencePiece has a token for white space alone.
        blank = [not (pair.source.strip() and pair.target.strip()) for pair in pairs]
        verdicts = {"empty": (shorter == 0) | np.array(blank, dtype=bool)}
        held_out, repeated = np.isin(hashes, self._held_out.pairs), self._repeated(hashes)
        if self._config.drop_held_out:
            verdicts["held_out"] = held_out
        if self._config.drop_duplicates:
            verdicts["duplicate"] = repeated
        verdicts["long"] = longer > self._config.max_length
        verdicts["ratio"] = longer > self._config.max_length_ratio * shorter
        # Those that are kept are among the last: other rules may leave the pair out.
        verdicts.setdefault("held_out", held_out)
        verdicts.setdefault("duplicate", repeated)
        if len(self._held_out.pairs):
            sources = hash_array(pair_hash(pair.source) for pair in pairs)
            targets = hash_array(pair_hash(pair.target) for pair in pairs)
            verdicts["held_out_source"] = np.isin(sources, self._held_out.sources)
            verdicts["held_out_target"] = np.isin(targets, self._held_out.targets)
        return verdicts

    def _repeated(self, hashes: np.ndarray) -> np.ndarray:
        """Which hashes came before, in this block or an earlier one; remembers them all."""
        fresh, first = np.unique(hashes, return_index=True)
        repeated = np.ones(len(hashes), dtype=bool)
        repeated[first] = self._seen.contains(fresh)
        self._seen.add(fresh[~self._seen.contains(fresh)])
        return repeated


def check_kept(
    name: str,
    files: Sequence[str],
    pairs: Sequence[Pair],
    lengths: tuple[Sequence[int], Sequence[int]],
    config: DataConfig,
    validation: Sequence[Pair] = (),
    note: Note | None = None,
) -> DataReport:
    """The report on validation or test pairs, of which none is left out.

    Args:
        name: what the data are called ("validation").
        files: their files.
        pairs: the pairs (N,).
        lengths: the tokens of each source (N,) and of each target (N,).
        config: the limits.
        validation: for test pairs, the validation pairs, which should be others.
        note: is given every finding.
    """
    # What these two say is said of training pairs.
    config = replace(config, drop_held_out=True, drop_duplicates=True)
    held_out = HeldOut(validation)
    checker = PairChecker(name, files, config, held_out, mend=False, held_in="validation")
    sources, targets = (np.asarray(side, dtype=np.int64) for side in lengths)
    checker.check(pairs, sources, targets, note)
    return checker.report()
