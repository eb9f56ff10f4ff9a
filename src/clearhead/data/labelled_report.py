"""What the check found in labelled examples, for people and for JSON."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from clearhead.data.checks import SHOWN_PLACES
from clearhead.data.features import FeatureCounts
from clearhead.data.labelled import Labelled
from clearhead.data.report import Finding

IMBALANCE = 10.0
"""How many times the smallest class the largest may be before it is said."""

SHOWN_CLASSES = 10

Classes = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class LabelledReport:
    """What the check found in one part of the data.

    Attributes:
        name: of the part.
        examples: so many were read.
        kept: so many are used.
        classes: each label and the number of kept examples that have it, most frequent first.
        findings: what the rules met.
        training: whether the part is trained on, so that imbalance matters.
        features: of its sequences; None of texts.
    """

    name: str
    examples: int
    kept: int
    classes: Classes
    findings: tuple[Finding, ...] = field(default=())
    training: bool = True
    features: FeatureCounts | None = None

    def lines(self) -> list[str]:
        """For people: counts, the features, imbalance if there is any, then the findings."""
        kept = "all kept" if self.kept == self.examples else f"{self.kept:,} kept"
        lines = [f"{self.name}: {self.examples:,} examples, {kept}{self._class_counts()}"]
        if self.features is not None:
            lines += self.features.lines(self.name, named=self.training)
        if self.training and self.imbalance > IMBALANCE:
            (largest, most), (smallest, least) = self.classes[0], self.classes[-1]
            lines.append(
                f"{self.name}: the largest class ({largest}, {most:,}) has {self.imbalance:.1f} "
                f"times the examples of the smallest ({smallest}, {least:,}): "
                'classifier.class_weights = "balanced" makes all classes count alike'
            )
        return lines + [finding.line(self.name) for finding in self.findings]

    @property
    def imbalance(self) -> float:
        """How many times the examples of the smallest class the largest has; 1 without classes."""
        return self.classes[0][1] / self.classes[-1][1] if self.classes else 1.0

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)

    def _class_counts(self) -> str:
        if not self.classes:
            return ""
        shown = ", ".join(f"{name} {count:,}" for name, count in self.classes[:SHOWN_CLASSES])
        more = len(self.classes) - SHOWN_CLASSES
        tail = f", and {more:,} more" if more > 0 else ""
        return f"; {len(self.classes):,} classes: {shown}{tail}"


def count_classes(examples: Iterable[Labelled[Any]]) -> Classes:
    """Each label and how many examples have it: most first, equally frequent ones by name."""
    counts = Counter(name for example in examples for name in example.labels)
    return tuple(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def finding_of(
    rule: str, text: str, examples: Sequence[Labelled[Any]], named: str, *, left_out: bool = False
) -> Finding:
    """What a rule found.

    Args:
        rule: its name.
        text: what it says of the examples.
        examples: all that it met.
        named: the file or folder that they were read from; places within the folder are given
            from there.
        left_out: whether they are not trained on.
    """
    places = tuple(_place(example, named) for example in examples[:SHOWN_PLACES])
    return Finding(rule, text, len(examples), places, left_out)


def _place(example: Labelled[Any], named: str) -> str:
    """`cat/3.npy` within a folder that was named, otherwise file and line, `train.csv:17`."""
    folder, place = Path(os.path.expanduser(named)), Path(example.place)
    within = named and place.is_relative_to(folder)
    return str(place.relative_to(folder)) if within else place.name
