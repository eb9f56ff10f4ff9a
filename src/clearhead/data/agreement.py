"""Whether the parts of the data, and the two sides of pairs, belong together.

A sample of each part is compared: pairs by `pairing`, the languages of parts by `languages`. What
is beyond doubt is an error, unless `data.mismatch` is "warn"; the rest is a warning. Where a sample
shows too little, nothing is reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from clearhead.data import pairing
from clearhead.data.columns import holds_texts, likely_columns
from clearhead.data.languages import (
    CLOSER,
    FOREIGN,
    LEAST_TEXTS,
    OTHER_SCRIPT,
    SIMILAR,
    TEXTS,
    Likeness,
    Profile,
)
from clearhead.data.parts import DataPart, Parts
from clearhead.data.readers import Pair, holds_pairs
from clearhead.errors import DataError, first_few
from clearhead.settings import RunConfig

START = 200_000
"""Pairs at the start of a part from which the sample is taken."""

BLOCKS = 8
"""Blocks of neighbouring pairs in a sample, of `pairing.BLOCK` pairs each."""

CERTAIN = 500
"""Pairs that leave no doubt whether sides belong together."""

FEW_LABELS = 20
"""Texts for each different label, at least, where pairs are texts with labels."""

LEAST_ROWS = 20
"""Fewer rows do not show whether a column has labels."""

IDENTICAL, MANY_IDENTICAL = 0.95, 0.5
"""The share of pairs with equal sides that is an error, and a warning."""

INSIST = 'if they are meant to be so, set data.mismatch = "warn" (init: --mismatch warn)'


@dataclass(frozen=True)
class Doubt:
    """Data that do not seem to belong together.

    Attributes:
        what, where, why, todo: see `ClearheadError`.
        certain: whether this is beyond doubt.
    """

    what: str
    where: str
    why: str
    todo: str
    certain: bool = True

    @property
    def line(self) -> str:
        """The doubt in one line."""
        return f"{self.where}: {self.what} ({self.why})"


def check_labels(config: RunConfig, part: DataPart) -> None:
    """Check that the labels of a part in memory are no texts.

    Raises:
        DataError: they are, and `data.mismatch` is "refuse".
    """
    if config.input == "text":
        _refuse(config, list(_about_labels(config, part)))


def check_agreement(config: RunConfig, parts: Parts) -> list[str]:
    """Compare the parts, and the sides of pairs; the result has a line for each warning.

    The training pairs may be in files, everything else is in memory.

    Raises:
        DataError: they do not belong together, and `data.mismatch` is "refuse".
    """
    doubts = list(_doubts(config, parts))
    _refuse(config, doubts)
    return [doubt.line for doubt in doubts]


def _refuse(config: RunConfig, doubts: Sequence[Doubt]) -> None:
    for doubt in doubts:
        if doubt.certain and config.data.mismatch == "refuse":
            todo = f"{doubt.todo}; {INSIST}"
            raise DataError(doubt.what, where=doubt.where, why=doubt.why, todo=todo)


def _doubts(config: RunConfig, parts: Parts) -> Iterator[Doubt]:
    if config.task == "translation":
        samples = [(part, sample_pairs(part)) for part in parts if part]
        for part, pairs in samples:
            yield from _about_sides(part, pairs)
        (train, known), *others = samples
        for part, pairs in others:
            yield from _about_sides_of_parts(train, known, part, pairs)
    elif config.input == "text":
        yield from _about_labels(config, parts.train)
        for part in parts[1:]:
            # Without files of its own, the validation part is a share of the training data.
            if part and part.where != parts.train.where:
                yield from _about_texts_of_parts(parts.train, part)


def sample_pairs(part: DataPart) -> list[Pair]:
    """Blocks of neighbouring pairs, spread evenly over the start of a part."""
    pairs = list(islice(part.pairs(), START))
    if len(pairs) <= BLOCKS * pairing.BLOCK:
        return pairs
    step = (len(pairs) - pairing.BLOCK) // (BLOCKS - 1)
    return [
        pair
        for start in range(0, BLOCKS * step, step)
        for pair in pairs[start : start + pairing.BLOCK]
    ]


def _sides(pairs: Sequence[Pair]) -> tuple[list[str], list[str]]:
    return [pair.source for pair in pairs], [pair.target for pair in pairs]


def _about_sides(part: DataPart, pairs: Sequence[Pair]) -> Iterator[Doubt]:
    """Whether the sides of a part are those of translations."""
    if pairs[0].line == 2:
        yield Doubt("a header was skipped", part.where, "line 1 names the columns", "", False)
    sources, targets = _sides(pairs)
    for labels, texts, name in ((targets, sources, "targets"), (sources, targets, "sources")):
        few = FEW_LABELS * len(set(labels)) <= len(labels) and holds_texts(texts)
        if few and not holds_texts(labels):
            yield Doubt(
                f"these look like texts with labels: the {name} have only {len(set(labels)):,} "
                f"different values in {len(labels):,} pairs",
                part.where,
                f"such as {first_few(list(map(repr, sorted(set(labels)))), 3)}",
                'for a classifier, set task = "classification" (init: --task classification)',
            )
            return
    same = [pair.source.strip() == pair.target.strip() for pair in pairs]
    share = sum(same) / max(1, len(same))
    if share >= MANY_IDENTICAL and len(same) >= LEAST_ROWS:
        yield Doubt(
            "source and target are the same",
            part.where,
            f"in {sum(same):,} of {len(same):,} pairs ({100 * share:.0f} %)",
            "name the file of the translations",
            certain=share >= IDENTICAL,
        )
        return
    if found := pairing.mismatch(sources, targets):
        yield _about_mismatch(part, pairs, found)


def _about_mismatch(part: DataPart, pairs: Sequence[Pair], found: pairing.Mismatch) -> Doubt:
    from_line = f", from about line {pairs[found.first].line:,} on" if found.first else ""
    why = f"targets fit their sources better than other targets do in {found.fit} of the cases; "
    if found.better is None:
        what = "sources and targets do not belong together"
        why += "50 % is chance"
        todo = "name files in which line n of one is the translation of line n of the other"
    else:
        lines = f"{abs(found.shift)} line{'s' * (abs(found.shift) > 1)}"
        what = f"the targets look shifted by {lines}"
        direction = "after" if found.shift > 0 else "before"
        why += f"those {lines} {direction} them: {found.better}"
        todo = "look for a line that is missing, or too many, in one of the sides"
    return Doubt(what + from_line, part.where, why, todo, certain=len(pairs) >= CERTAIN)


def _about_sides_of_parts(
    train: DataPart, known: Sequence[Pair], part: DataPart, pairs: Sequence[Pair]
) -> Iterator[Doubt]:
    """Whether the sides of a part are in the languages of those of the training data."""
    asked = min(len(pairs), len(known) // 2, TEXTS)
    if asked < LEAST_TEXTS:
        return
    chosen = pairs[:: len(pairs) // asked][:asked]
    likeness = [Likeness(side, asked) for side in _sides(known)]
    profiles = [Profile(side) for side in _sides(chosen)]
    own = [likeness[side].of(profiles[side]) for side in (0, 1)]
    other = [likeness[1 - side].of(profiles[side]) for side in (0, 1)]
    both = list(zip(own, other, strict=True))
    if all(x is not None and y is not None and y - x > CLOSER for x, y in both):
        yield Doubt(
            f"the {part.name} source and target look swapped",
            part.where,
            f"likeness of the {part.name} source to the training source {own[0]:.2f}, to the "
            f"training target {other[0]:.2f}; of the target to the target {own[1]:.2f}, to the "
            f"source {other[1]:.2f}",
            f"name the files in the order of the training data, {train.where}",
        )
        return
    for side, name in enumerate(("source", "target")):
        value, control = own[side], own[1 - side]
        if value is not None and value < FOREIGN:
            certain = value < OTHER_SCRIPT or (control is not None and control > SIMILAR)
            what = f"the {part.name} {name} looks like another language than the training {name}"
            yield _about_language(part, what, value, certain)


def _about_texts_of_parts(train: DataPart, part: DataPart) -> Iterator[Doubt]:
    """Whether the texts of a part are in the language of the training texts."""
    known, texts = ([each.input for each in given.examples] for given in (train, part))
    asked = min(len(texts), len(known) // 2, TEXTS)
    if asked < LEAST_TEXTS:
        return
    known = known[:: max(1, len(known) // (BLOCKS * pairing.BLOCK))]
    value = Likeness(known, asked).of(Profile(texts[:: len(texts) // asked][:asked]))
    if value is not None and value < FOREIGN:
        what = f"the {part.name} texts look like another language than the training texts"
        yield _about_language(part, what, value, certain=value < OTHER_SCRIPT)


def _about_language(part: DataPart, what: str, value: float, certain: bool) -> Doubt:
    return Doubt(
        what,
        part.where,
        f"likeness by trigrams {value:.2f}; texts of the same kind have about 1, other languages "
        "0.5 or less",
        "name data in the languages of the training data",
        certain,
    )


def _about_labels(config: RunConfig, part: DataPart) -> Iterator[Doubt]:
    """Whether the labels of a part are labels."""
    texts = [each.input for each in part.examples]
    labels = [name for each in part.examples for name in each.labels]
    if len(texts) < LEAST_ROWS or 2 * len(set(labels)) <= len(labels):
        return
    swapped = 2 * len(set(texts)) <= len(texts)
    if config.data.smallest_class > 1 or swapped or holds_texts(labels):
        yield Doubt(
            "texts and labels look swapped" if swapped else "the labels do not look like labels",
            part.where,
            f"{len(set(labels)):,} different labels in {len(texts):,} rows, such as "
            f"{first_few([repr(name[:30]) for name in labels], 2)}",
            _todo_about_labels(part, swapped, holds_texts(texts) and holds_texts(labels)),
        )


def _todo_about_labels(part: DataPart, swapped: bool, are_pairs: bool) -> str:
    likely = likely_columns(part.files[0]) if part.files else None
    if likely:
        return f"set {likely.settings}"
    if swapped:
        return "exchange data.text_column and data.label_column"
    pairs = '; for a translator, set task = "translation"'
    is_file_of_pairs = part.files and holds_pairs(part.files[0])
    choose = "choose the column of the labels with data.label_column (init: --label-column)"
    return choose + (pairs if are_pairs and is_file_of_pairs else "")
