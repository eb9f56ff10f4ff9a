"""What the check found: a finding of any data, and the report on sentence pairs."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Finding:
    """How many examples one rule met, their first places, and whether they were left out."""

    rule: str
    text: str
    count: int
    places: tuple[str, ...]
    left_out: bool

    @property
    def has_more(self) -> bool:
        """Whether there are places beyond those."""
        return self.count > len(self.places)

    def line(self, name: str) -> str:
        """For people, as found in the part of the data that has this name."""
        kept, more = "left out" if self.left_out else "kept", ", …" if self.has_more else ""
        return f"{name}: {self.count:,} {kept}: {self.text} ({', '.join(self.places)}{more})"


@dataclass(frozen=True)
class DataReport:
    """What the check found in one part of the data.

    `pairs` were read and `kept` are used; tokens are counted over the kept pairs, without BOS
    and EOS.
    """

    name: str
    pairs: int
    kept: int
    source_tokens: int
    target_tokens: int
    findings: tuple[Finding, ...] = field(default=())

    @property
    def has_more(self) -> bool:
        """Whether there are places that it does not have."""
        return any(finding.has_more for finding in self.findings)

    def lines(self) -> list[str]:
        """The report for people: one line of counts and one line a finding."""
        kept = "all kept" if self.kept == self.pairs else f"{self.kept:,} kept"
        lines = [
            f"{self.name}: {self.pairs:,} pairs, {kept}; "
            f"{self.source_tokens:,} source and {self.target_tokens:,} target tokens"
        ]
        return lines + [finding.line(self.name) for finding in self.findings]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; `from_dict` reads them back."""
        return asdict(self)

    @classmethod
    def from_dict(cls, tree: dict[str, Any]) -> DataReport:
        """The report that `to_dict` wrote.

        Raises:
            TypeError, KeyError: it did not write this.
        """
        findings = tuple(
            Finding(**{**finding, "places": tuple(finding["places"])})
            for finding in tree["findings"]
        )
        return cls(**{**tree, "findings": findings})
