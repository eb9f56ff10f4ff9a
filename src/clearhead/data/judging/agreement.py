"""Whether data are what they seem: parts and sides that belong together, labels, axes, features.

A sample of each part is compared: pairs by `pairing`, the languages of parts by `languages`, how
texts look by `text_style`. Features are examined by their values. A finding is an error if it is
beyond doubt and `data.mismatch` is "refuse", otherwise a warning. Where a sample shows too little,
nothing is reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from random import Random
from typing import Any, TypeVar

from clearhead.data.judging import pairing
from clearhead.data.judging.languages import known_share, letters_of, words_of
from clearhead.data.judging.text_style import TextStyle, differences
from clearhead.data.reading.arrays import SUFFIXES
from clearhead.data.reading.columns import (
    Columns,
    columns_read,
    holds_texts,
    likely_columns,
    mean_words,
    sample_of,
)
from clearhead.data.reading.feature_sequences import FEATURE_FORMATS
from clearhead.data.reading.features import monotonic, roughness
from clearhead.data.reading.pairs import Pair
from clearhead.data.reading.parts import DataPart, Parts
from clearhead.errors import DataError, first_few
from clearhead.settings import RunConfig

T = TypeVar("T")

START = 200_000  # examples at the start of a part from which its samples are taken
BLOCKS = 8  # of `pairing.BLOCK` neighbouring pairs in a sample
SPREAD = 4000  # examples of a part, at random, whose languages are compared
STEP = 101  # of a long part, one in so many is read: a prime meets all languages that take turns

CERTAIN = 500  # pairs that leave no doubt whether sides belong together
SENTENCE = 4  # sides with fewer words on average, such as a dictionary, may show no relation
ERRORS = 4  # standard errors above 0.5 up to which a figure for the fit is at chance

LEAST_TEXTS, TEXTS = 100, 500  # of a part whose language is judged, at least and at most
FOREIGN = 0.2  # less known words are of another language
OTHER_SCRIPT = 0.1  # less known letters are of another script
SIMILAR = 0.75  # more known words are of one language and of similar content
SWAPPED_SIDES = 2  # times as many words are known on the other side, if sides are swapped

FEW_LABELS = 20  # texts for each different label, at least, where pairs are texts with labels
LABELS = 20  # more different values than this may be targets, such as results of sums
LEAST_ROWS = 20  # fewer rows do not show whether a column has labels
IDENTICAL, MANY_IDENTICAL = 0.95, 0.5  # the share of equal sides: an error, and a warning

SWAPPED = 0.25
"""The ratio of `roughness` along features to that along frames, below which axes look swapped."""
MANY_CHANNELS = 8  # fewer features may well be alike, such as the axes of a sensor

INSIST = 'if the data are meant to be so, set data.mismatch = "warn" (init: --mismatch warn)'
IN_MEMORY = "give each example as (text, label)"


@dataclass(frozen=True)
class Doubt:
    """Data that do not seem to belong together; `certain` if this is beyond doubt.

    For the other attributes see `ClearheadError`.
    """

    what: str
    where: str
    why: str
    todo: str
    certain: bool = True


def check_labels(config: RunConfig, part: DataPart) -> None:
    """Check that the labels of a part in memory are no texts.

    Raises:
        DataError: they are, and `data.mismatch` is "refuse".
    """
    if config.input == "text":
        _refuse(config, _about_labels(config, part))


def check_agreement(config: RunConfig, parts: Parts) -> list[str]:
    """Compare the parts, and the sides of pairs; the result has a line for each warning.

    The training pairs may be in files, everything else is in memory.

    Raises:
        DataError: they do not belong together, and `data.mismatch` is "refuse".
    """
    doubts = _refuse(config, _doubts(config, parts))
    return [f"{doubt.where}: {doubt.what} ({doubt.why})" for doubt in doubts]


def _refuse(config: RunConfig, doubts: Iterator[Doubt]) -> list[Doubt]:
    found = list(doubts)
    for doubt in found:
        if doubt.certain and config.data.mismatch == "refuse":
            todo = f"{doubt.todo}; {INSIST}"
            raise DataError(doubt.what, where=doubt.where, why=doubt.why, todo=todo)
    return found


def _doubts(config: RunConfig, parts: Parts) -> Iterator[Doubt]:
    if config.input == "features":
        yield from _about_features(parts.train)
        return
    samples = [_Sample(part) for part in parts if part]
    train, *others = samples
    if config.task == "translation":
        for sample in samples:
            yield from _about_sides(sample)
    else:
        yield from _about_labels(config, parts.train)
        # Without files of its own, the validation part is a share of the training data.
        others = [sample for sample in others if sample.part.where != parts.train.where]
    replay = [sample for sample in others if sample.part.name == "replay"]
    for sample in others:
        yield from _about_part(config, sample, [train] if sample in replay else [train, *replay])


class _Sample:
    """Examples of a part: `spread` at random, and `blocks` of neighbours, spread evenly."""

    def __init__(self, part: DataPart) -> None:
        start = list(islice(part.pairs(), START))
        self.part, self.is_whole = part, len(start) < START
        self.spread, self.blocks = _at_random(start), start
        if len(start) > BLOCKS * pairing.BLOCK:
            step = (len(start) - pairing.BLOCK) // (BLOCKS - 1)
            firsts = range(0, BLOCKS * step, step)
            self.blocks = [each for n in firsts for each in start[n : n + pairing.BLOCK]]

    def further(self) -> list[Any]:
        """Examples at random from the whole part."""
        if self.is_whole:
            return self.spread
        return _at_random(list(islice(self.part.pairs(), 0, None, STEP)))


def _at_random(examples: Sequence[T]) -> list[T]:
    return Random(0).sample(examples, min(SPREAD, len(examples)))


def _texts(examples: Sequence[Any]) -> dict[str, list[str]]:
    """The texts of each side by its name."""
    if not isinstance(examples[0], Pair):
        return {"texts": [each.input for each in examples]}
    source, target = ([pair[side] for pair in examples] for side in (0, 1))
    return {"source": source, "target": target}


def _about_sides(sample: _Sample) -> Iterator[Doubt]:
    """Whether the sides of a part are those of translations."""
    part, pairs = sample.part, sample.blocks
    if pairs[0].line == 2:
        yield Doubt("a header was skipped", part.where, "line 1 names the columns", "", False)
    sources, targets = _texts(pairs).values()
    for labels, texts, name in ((targets, sources, "targets"), (sources, targets, "sources")):
        different = sorted(set(labels))
        are_few = FEW_LABELS * len(different) <= len(labels)
        if are_few and holds_texts(texts) and not holds_texts(labels):
            worded = sum(any(map(str.isalpha, label)) for label in labels)
            yield Doubt(
                f"these look like texts with labels: the {name} have only {len(different):,} "
                f"different values in {len(labels):,} pairs",
                part.where,
                f"such as {first_few(list(map(repr, different)), 3)}",
                'for a classifier, set task = "classification" (init: --task classification)',
                certain=len(different) <= LABELS and 2 * worded > len(labels),
            )
            return
    same = sum(pair.source.strip() == pair.target.strip() for pair in pairs)
    share = same / len(pairs)
    if share >= MANY_IDENTICAL and len(pairs) >= LEAST_ROWS:
        yield Doubt(
            "source and target are the same",
            part.where,
            f"in {same:,} of {len(pairs):,} pairs ({100 * share:.0f} %)",
            "name the file of the translations",
            certain=share >= IDENTICAL,
        )
    elif found := pairing.mismatch(sources, targets):
        yield _about_mismatch(part, pairs, found)


def _about_mismatch(part: DataPart, pairs: Sequence[Pair], found: pairing.Mismatch) -> Doubt:
    judged = pairs[found.rows.start : found.rows.stop]
    why = f"a target fits its source better than a random one in {found.fit} (50 % is chance)"
    certain = len(pairs) >= CERTAIN
    if found.better is None:
        what = "sources and targets do not belong together"
        todo = "name files in which line n of one is the translation of line n of the other"
        chance = 0.5 + ERRORS / (12 * len(judged)) ** 0.5
        are_sentences = min(map(mean_words, _texts(judged).values())) >= SENTENCE
        certain = certain and are_sentences and found.fit.most < chance
    else:
        lines = f"{abs(found.shift)} line{'s' * (abs(found.shift) > 1)}"
        what = f"the targets look shifted by {lines}"
        why += f"; shifted by {lines}: {found.better}"
        todo = "look for a line that is missing, or too many, in one of the sides"
    if found.rows.start:
        what += f", from some line before {part.place(judged[-1])} on"
    return Doubt(what, part.where, why, todo, certain)


def _about_part(config: RunConfig, sample: _Sample, learned: Sequence[_Sample]) -> Iterator[Doubt]:
    """Whether the texts of a part are in the languages and the style of those that are learned."""
    given = _texts(sample.spread)

    def compared(examples: list[Any]) -> list[Doubt]:
        known = _texts(_at_random(examples))
        return list(_about_languages(config, sample.part, known, given))

    doubts = compared([each for known in learned for each in known.spread])
    if doubts and not all(known.is_whole for known in learned):
        doubts = compared([each for known in learned for each in known.further()])
    if not doubts and sample.part.name != "replay":
        doubts = list(_about_style(config, sample.part, _texts(learned[0].spread), given))
    yield from doubts


def _about_languages(
    config: RunConfig, part: DataPart, known: dict[str, list[str]], given: dict[str, list[str]]
) -> Iterator[Doubt]:
    if min(len(next(iter(each.values()))) for each in (given, known)) < LEAST_TEXTS:
        return
    words = {name: words_of(texts[:TEXTS]) for name, texts in given.items()}
    learned = {name: words_of(texts) for name, texts in known.items()}
    shares = {name: known_share(words[name], learned[name]) for name in known}
    # A model to start from may know languages that training data lack.
    is_new = not config.start_from
    crossed = dict(zip(words, reversed(learned.values()), strict=True))
    # A translator of both directions may be validated in the rarer one.
    if len(words) == 2 and all(
        known_share(words[name], crossed[name]) > max(FOREIGN, SWAPPED_SIDES * share)
        for name, share in shares.items()
    ):
        percent = (f"{100 * share:.0f} % of the {name}" for name, share in shares.items())
        yield Doubt(
            f"the {part.name} source and target look swapped",
            part.where,
            f"the training data have {' and '.join(percent)} words on the same side, and more than "
            "twice as many on the other",
            "name the files in the order of the training data",
            certain=is_new,
        )
        return
    if part.name == "replay":  # often in another language
        return
    for name, share in shares.items():
        if share < FOREIGN:
            look = "look" if name == "texts" else "looks"
            others = [value for other, value in shares.items() if other != name]
            letters = known_share(letters_of(words[name]), letters_of(learned[name]))
            yield Doubt(
                f"the {part.name} {name} {look} like another language than the training {name}",
                part.where,
                f"the training data have {100 * share:.0f} % of its words; in one language it is "
                f"more than {100 * FOREIGN:.0f} %",
                "name data in the languages of the training data",
                certain=is_new and (letters < OTHER_SCRIPT or max(others, default=0) > SIMILAR),
            )


def _about_style(
    config: RunConfig, part: DataPart, known: dict[str, list[str]], given: dict[str, list[str]]
) -> Iterator[Doubt]:
    """Whether texts are prepared as training texts, as far as the model notices it."""
    for name, texts in given.items():
        learned = TextStyle.of(known[name]).after(config.tokenizer)
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
    # In tables and .ts files it is clear which values are of one frame.
    are_arrays = all(
        FEATURE_FORMATS.of(file) is None or file.lower().endswith(SUFFIXES) for file in part.files
    )
    rough = roughness(sequences) if are_arrays else None
    if rough is None:
        return
    (frames, width), ratio = sequences[0].shape, rough[1] / max(rough[0], 1e-9)
    if ratio < SWAPPED and (frames < width or width >= MANY_CHANNELS):
        yield Doubt(
            f"the axes look swapped: (frames, features) is ({frames:,}, {width:,})",
            part.where,
            f"neighbouring features differ {ratio:.2f} times as much as neighbouring frames",
            "clearhead reads (sequences, frames, features); from (sequences, features, frames), "
            "save x.transpose(0, 2, 1)",
            certain=frames < width,
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
            _todo_about_labels(config, part, swapped),
        )


def _todo_about_labels(config: RunConfig, part: DataPart, swapped: bool) -> str:
    if not part.files:
        return IN_MEMORY
    file = part.files[0]
    read = columns_read(file, Columns(config.data.text_column, config.data.label_column))
    likely = likely_columns(sample_of(file))
    if likely and likely != read:
        return f"set {likely.settings}"
    if swapped:
        return f"set {Columns(read.label, read.text).settings}"
    return "choose the column of the labels with data.label_column (init: --label-column)"
