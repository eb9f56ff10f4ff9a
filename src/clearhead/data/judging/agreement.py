"""Whether data are what they seem: parts and sides that belong together, labels, axes, features.

A sample of each part is compared: pairs by `pairing`, the languages of parts by `languages`, how
texts look by `text_style`. Features are examined by their values. A finding is an error if it is
beyond doubt and `data.mismatch` is "refuse", otherwise a warning. Where a sample shows too little,
nothing is reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from random import Random
from typing import TypeVar

from clearhead.data.judging import pairing
from clearhead.data.judging.languages import (
    CLOSER,
    FOREIGN,
    LEAST_TEXTS,
    ONE_WAY,
    OTHER_SCRIPT,
    SIMILAR,
    TEXTS,
    Likeness,
    Profile,
    turned,
)
from clearhead.data.judging.text_style import TextStyle, differences
from clearhead.data.reading.arrays import SUFFIXES
from clearhead.data.reading.columns import (
    Columns,
    columns_read,
    holds_texts,
    likely_columns,
    mean_words,
)
from clearhead.data.reading.feature_sequences import FEATURE_FORMATS
from clearhead.data.reading.features import monotonic, roughness
from clearhead.data.reading.pairs import Pair, holds_pairs
from clearhead.data.reading.parts import DataPart, Parts
from clearhead.errors import DataError, first_few
from clearhead.settings import RunConfig

T = TypeVar("T")

START = 200_000
"""Pairs at the start of a part from which its samples are taken."""

BLOCKS = 8
"""Blocks of neighbouring pairs in a sample, of `pairing.BLOCK` pairs each."""

SPREAD = 4000
"""Pairs of a part, at random, whose languages are compared."""

STEP = 101
"""Of a long part, one pair in so many is read to find more languages.

If languages take turns, a prime number meets all of them.
"""

CERTAIN = 500
"""Pairs that leave no doubt whether sides belong together."""

SENTENCE = 4
"""Sides with fewer words on average, such as entries of a dictionary, may show no relation."""

ERRORS = 4
"""A figure for the fit is at chance if it is less than this many standard errors above 0.5."""

FEW_LABELS = 20
"""Texts for each different label, at least, where pairs are texts with labels."""

LABELS = 20
"""More different values than this may be targets of a translator, such as results of sums."""

LEAST_ROWS = 20
"""Fewer rows do not show whether a column has labels."""

SWAPPED, UNCLEAR = 0.25, 2.0
"""Ratios of `roughness` along features to that along frames, below which axes may be swapped."""

MANY_CHANNELS = 8
"""Fewer features may well be alike, such as the axes of a sensor."""

IDENTICAL, MANY_IDENTICAL = 0.95, 0.5
"""The share of pairs with equal sides that is an error, and a warning."""

INSIST = 'if the data are meant to be so, set data.mismatch = "warn" (init: --mismatch warn)'


IN_MEMORY = "give each example as (text, label)"
"""What to do about labels of examples in memory."""


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
        samples = [Sample.of(part) for part in parts if part]
        for sample in samples:
            yield from _about_sides(sample.part, sample.blocks)
        yield from _about_parts_of_pairs(config, samples)
    elif config.input == "text":
        yield from _about_labels(config, parts.train)
        for part in parts[1:]:
            # Without files of its own, the validation part is a share of the training data.
            if part and part.where != parts.train.where:
                yield from _about_texts_of_parts(config, parts.train, part)
    else:
        yield from _about_features(parts.train)


@dataclass(frozen=True)
class Sample:
    """Pairs of a part.

    Attributes:
        part: the part.
        blocks: blocks of neighbouring pairs, spread evenly over the start of the part.
        spread: pairs at random from the start of the part.
        is_whole: whether the start is the whole part.
    """

    part: DataPart
    blocks: list[Pair]
    spread: list[Pair]
    is_whole: bool

    @classmethod
    def of(cls, part: DataPart) -> Sample:
        """The sample of a part."""
        pairs = list(islice(part.pairs(), START))
        return cls(part, _blocks(pairs), _at_random(pairs), len(pairs) < START)

    def further(self) -> list[Pair]:
        """Pairs at random from the whole part."""
        if self.is_whole:
            return self.spread
        return _at_random(list(islice(self.part.pairs(), 0, None, STEP)))


def _blocks(pairs: list[Pair]) -> list[Pair]:
    if len(pairs) <= BLOCKS * pairing.BLOCK:
        return pairs
    step = (len(pairs) - pairing.BLOCK) // (BLOCKS - 1)
    return [
        pair
        for start in range(0, BLOCKS * step, step)
        for pair in pairs[start : start + pairing.BLOCK]
    ]


def _at_random(examples: Sequence[T]) -> list[T]:
    return Random(0).sample(examples, min(SPREAD, len(examples)))


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
            worded = sum(any(map(str.isalpha, label)) for label in labels)
            yield Doubt(
                f"these look like texts with labels: the {name} have only {len(set(labels)):,} "
                f"different values in {len(labels):,} pairs",
                part.where,
                f"such as {first_few(list(map(repr, sorted(set(labels)))), 3)}",
                'for a classifier, set task = "classification" (init: --task classification)',
                certain=len(set(labels)) <= LABELS and 2 * worded > len(labels),
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
    length, tokens, words = found.fit.percent
    why = (
        f"a target fits its source better than a random one in {length} of cases by length, "
        f"{tokens} by shared tokens, {words} by words (50 % is chance)"
    )
    certain = len(pairs) >= CERTAIN
    if found.better is None:
        what = "sources and targets do not belong together"
        todo = "name files in which line n of one is the translation of line n of the other"
        judged = pairs
        if found.first:
            judged = pairs[found.first :][: pairing.BLOCK]
            what += f", from some line before {part.place(judged[-1])} on"
        chance = 0.5 + ERRORS / (12 * len(judged)) ** 0.5
        are_sentences = min(map(mean_words, _sides(judged))) >= SENTENCE
        certain = certain and are_sentences and found.fit.most < chance
    else:
        lines = f"{abs(found.shift)} line{'s' * (abs(found.shift) > 1)}"
        what = f"the targets look shifted by {lines}"
        why += f"; shifted by {lines}: {', '.join(found.better.percent)}"
        place = "near the start"
        if found.first:
            around = pairs[found.first - pairing.NEAR : found.first + pairing.NEAR + 1]
            place = "there"
            start, end = map(part.place, (around[0], around[-1]))
            what += f", from a line between {start} and {end} on"
        todo = f"look {place} for a line that is missing, or too many, in one of the sides"
    return Doubt(what, part.where, why, todo, certain)


def _about_parts_of_pairs(config: RunConfig, samples: Sequence[Sample]) -> Iterator[Doubt]:
    """Whether the sides of each part are in the languages and the style of the training data."""
    train, *others = samples
    learned = [train, *(each for each in others if each.part.name == "replay")]
    for sample in others:
        known = [train] if sample.part.name == "replay" else learned
        doubts = _compared(sample, [each.spread for each in known])
        if doubts and not all(each.is_whole for each in known):
            doubts = _compared(sample, [each.further() for each in known])
        for doubt in doubts:
            yield _unless_started(config, doubt)
        if doubts or sample.part.name == "replay":
            continue
        sides = zip(_sides(train.spread), _sides(sample.spread), ("source", "target"), strict=True)
        for known_side, side, name in sides:
            yield from _about_style(config, known_side, sample.part, side, name)


def _about_style(
    config: RunConfig, known: Sequence[str], part: DataPart, texts: Sequence[str], name: str
) -> Iterator[Doubt]:
    """Whether texts of a part are prepared as training texts, as far as the model notices it."""
    learned = TextStyle.of(known).after(config.tokenizer)
    found = differences(learned, TextStyle.of(texts))
    if found and len(texts) >= LEAST_ROWS:
        yield Doubt(
            f"the style of the {part.name} {name} is not that of the training {name}: "
            f"{', '.join(found)}",
            part.where,
            "scores would be too low; prepare both in the same way",
            "",
            certain=False,
        )


def _unless_started(config: RunConfig, doubt: Doubt) -> Doubt:
    """A doubt about languages; a model to start from may know some that training data lack."""
    return replace(doubt, certain=doubt.certain and not config.start_from)


def _compared(sample: Sample, learned: Sequence[Sequence[Pair]]) -> list[Doubt]:
    """The doubts about the languages of a part, compared with pairs that are learned."""
    part, known = sample.part, _at_random([pair for pairs in learned for pair in pairs])
    asked = min(len(sample.spread), len(known) // 2, TEXTS)
    if asked < LEAST_TEXTS:
        return []
    likeness = [Likeness(side, asked) for side in _sides(known)]
    profiles = [Profile(side) for side in _sides(sample.spread[:asked])]
    strange = [not likeness[side].covers(profiles[side]) for side in (0, 1)]
    own = [likeness[side].of(profiles[side]) for side in (0, 1)]
    other = [likeness[1 - side].of(profiles[side]) for side in (0, 1)]
    both = list(zip(own, other, strict=True))
    closer = all(x is not None and y is not None and y - x > CLOSER for x, y in both)
    # A translator of both directions may be validated in the rarer one.
    sides = [(pair.source, pair.target) for pair in known[:TEXTS]]
    if closer and turned(sides, *profiles) >= ONE_WAY:
        return [
            Doubt(
                f"the {part.name} source and target look swapped",
                part.where,
                f"likeness of the {part.name} source to the training source {own[0]:.2f}, to the "
                f"training target {other[0]:.2f}; of the target to the target {own[1]:.2f}, to the "
                f"source {other[1]:.2f}",
                "name the files in the order of the training data",
            )
        ]
    doubts = []
    for side, name in enumerate(("source", "target")):
        value, control = own[side], own[1 - side]
        # Pairs to replay are often in another language.
        if part.name != "replay" and strange[side] and value is not None and value < FOREIGN:
            certain = value < OTHER_SCRIPT or (control is not None and control > SIMILAR)
            what = f"the {part.name} {name} looks like another language than the training {name}"
            doubts.append(_about_language(part, what, value, certain))
    return doubts


def _about_texts_of_parts(config: RunConfig, train: DataPart, part: DataPart) -> Iterator[Doubt]:
    """Whether the texts of a part are in the language and the style of the training texts."""
    known, texts = ([each.input for each in _at_random(given.examples)] for given in (train, part))
    asked = min(len(texts), len(known) // 2, TEXTS)
    if asked >= LEAST_TEXTS:
        likeness, profile = Likeness(known, asked), Profile(texts[:asked])
        value = likeness.of(profile)
        if value is not None and value < FOREIGN and not likeness.covers(profile):
            what = f"the {part.name} texts look like another language than the training texts"
            doubt = _about_language(part, what, value, certain=value < OTHER_SCRIPT)
            yield _unless_started(config, doubt)
            return
    yield from _about_style(config, known, part, texts, "texts")


def _about_language(part: DataPart, what: str, value: float, certain: bool) -> Doubt:
    return Doubt(
        what,
        part.where,
        f"likeness by trigrams {value:.2f}; texts of the same kind have about 1, other languages "
        "0.5 or less",
        "name data in the languages of the training data",
        certain,
    )


def _about_features(part: DataPart) -> Iterator[Doubt]:
    """Whether features are numbers of rows, and whether arrays are (frames, features)."""
    sequences, names = [each.input for each in part.examples], part.examples[0].columns
    for index, counts in monotonic(sequences).items():
        name = f"feature {index + 1}{f' ({names[index]})' if names else ''}"
        does = "counts the rows" if counts else "only rises or only falls"
        yield Doubt(
            f"{name} {does} through all sequences",
            part.where,
            "in data that are sorted by label, such a feature gives the label away",
            "remove it",
            certain=counts,
        )
    # Tables and .ts files say which values are of one frame.
    are_arrays = all(
        FEATURE_FORMATS.of(file) is None or file.lower().endswith(SUFFIXES) for file in part.files
    )
    rough = roughness(sequences) if are_arrays else None
    if rough is None:
        return
    (frames, width), ratio = sequences[0].shape, rough[1] / max(rough[0], 1e-9)
    looks_swapped = ratio < SWAPPED and (frames < width or width >= MANY_CHANNELS)
    if looks_swapped or (ratio < UNCLEAR and width >= max(MANY_CHANNELS, 2 * frames)):
        does = "look" if looks_swapped else "may be"
        yield Doubt(
            f"the axes {does} swapped: (frames, features) is ({frames:,}, {width:,})",
            part.where,
            f"neighbouring features differ {ratio:.2f} times as much as neighbouring frames",
            "clearhead reads (sequences, frames, features); from (sequences, features, frames), "
            "save x.transpose(0, 2, 1)",
            certain=looks_swapped and frames < width,
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
            _todo_about_labels(config, part, swapped, holds_texts(texts) and holds_texts(labels)),
        )


def _todo_about_labels(config: RunConfig, part: DataPart, swapped: bool, are_pairs: bool) -> str:
    if not part.files:
        return IN_MEMORY
    file = part.files[0]
    read = columns_read(file, Columns(config.data.text_column, config.data.label_column))
    likely = likely_columns(file)
    if likely and likely != read:
        return f"set {likely.settings}"
    if swapped:
        return f"set {Columns(read.label, read.text).settings}"
    pairs = '; for a translator, set task = "translation"' if are_pairs else ""
    choose = "choose the column of the labels with data.label_column (init: --label-column)"
    return choose + (pairs if holds_pairs(file) else "")
