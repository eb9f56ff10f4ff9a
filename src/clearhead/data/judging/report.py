"""The report on one part of the data, for people and for JSON."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from clearhead.data.reading.features import FeatureCounts
from clearhead.data.reading.labelled import Labelled
from clearhead.errors import first_few
from clearhead.folder.files import not_followed

FINDINGS = "findings.tsv"
SHOWN_PLACES = 5
SHOWN_CLASSES = 10

IMBALANCE = 10.0  # times the smallest class: a larger one is mentioned

Classes = tuple[tuple[str, int], ...]
"""Each label and the number of examples that have it, most frequent first."""

NotePlace = Callable[[str, str], object]
"""Receives the place of a finding, and its text."""


@dataclass(frozen=True)
class Finding:
    """How many examples broke one rule, the first places, and whether they were dropped."""

    rule: str
    text: str
    count: int
    places: tuple[str, ...]
    left_out: bool

    @property
    def has_more(self) -> bool:
        """Whether there are more places than `places` has."""
        return self.count > len(self.places)

    def line(self, name: str) -> str:
        """The finding for people; `name` is that of the part of the data."""
        kept, more = "left out" if self.left_out else "kept", ", …" if self.has_more else ""
        places = f" ({', '.join(self.places)}{more})" if self.places else ""
        return f"{name}: {self.count:,} {kept}: {self.text}{places}"


@dataclass(frozen=True)
class DataReport:
    """The findings in one part of the data, one for each rule that was broken.

    `tokens` (source and target, without BOS and EOS), `classes` and `features` (None for texts) are
    those of the examples that are kept.
    """

    name: str
    unit: Literal["pairs", "examples"]
    read: int
    kept: int
    findings: tuple[Finding, ...] = ()
    tokens: tuple[int, int] = (0, 0)
    classes: Classes = ()
    features: FeatureCounts | None = None

    @property
    def training(self) -> bool:
        """Whether the part is trained on, so that the balance of classes matters."""
        return self.name == "train"

    @property
    def has_more(self) -> bool:
        """Whether a finding has more places than the report lists."""
        return any(finding.has_more for finding in self.findings)

    def lines(self) -> list[str]:
        """The report for people: counts, features, imbalance, then one line a finding."""
        kept = "all kept" if self.kept == self.read else f"{self.kept:,} kept"
        lines = [f"{self.name}: {self.read:,} {self.unit}, {kept}{self._amounts()}"]
        if self.features is not None:
            lines += self.features.lines(self.name, named=self.training)
        if self.training and imbalance(self.classes) > IMBALANCE:
            (largest, most), (smallest, least) = self.classes[0], self.classes[-1]
            lines.append(
                f"{self.name}: the largest class ({largest}, {most:,}) has "
                f"{imbalance(self.classes):.1f} times the examples of the smallest ({smallest}, "
                f'{least:,}): classifier.class_weights = "balanced" gives all classes equal weight'
            )
        return lines + [finding.line(self.name) for finding in self.findings]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; `from_dict` reads those of pairs."""
        head = {"name": self.name, self.unit: self.read, "kept": self.kept}
        findings = {"findings": [asdict(finding) for finding in self.findings]}
        if self.unit == "pairs":
            source, target = self.tokens
            return head | {"source_tokens": source, "target_tokens": target} | findings
        features = None if self.features is None else asdict(self.features)
        tail = {"training": self.training, "features": features}
        return head | {"classes": [list(each) for each in self.classes]} | findings | tail

    @classmethod
    def from_dict(cls, tree: dict[str, Any]) -> DataReport:
        """The report on pairs that `to_dict` wrote; TypeError or KeyError if it did not."""
        tree = dict(tree)
        findings = tuple(
            Finding(**{**finding, "places": tuple(finding["places"])})
            for finding in tree.pop("findings")
        )
        read, tokens = tree.pop("pairs"), (tree.pop("source_tokens"), tree.pop("target_tokens"))
        return cls(unit="pairs", read=read, tokens=tokens, findings=findings, **tree)

    def _amounts(self) -> str:
        if self.unit == "pairs":
            return f"; {self.tokens[0]:,} source and {self.tokens[1]:,} target tokens"
        if not self.classes:
            return ""
        names = [f"{name} {count:,}" for name, count in self.classes]
        return f"; {len(self.classes):,} classes: {first_few(names, SHOWN_CLASSES)}"


def count_classes(examples: Iterable[Labelled[Any]]) -> Classes:
    """Each label and how many examples have it, most frequent first; ties are sorted by name."""
    counts = Counter(name for example in examples for name in example.labels)
    return tuple(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def imbalance(classes: Classes) -> float:
    """How many times the size of the smallest class the largest has; 1 without classes."""
    return classes[0][1] / classes[-1][1] if classes else 1.0


@contextmanager
def write_findings(path: Path) -> Iterator[NotePlace]:
    """Opens a file for findings, one a line: place, tab, text. It is synced at the end."""
    # Names of files that are not UTF-8 keep their bytes.
    with open(path, "w", encoding="utf-8", errors="surrogateescape", opener=not_followed) as file:
        yield lambda place, found: file.write(f"{place}\t{found}\n")
        file.flush()
        os.fsync(file.fileno())
