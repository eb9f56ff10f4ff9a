"""Word alignment from a translator: which source word each target word comes from.

Every measure of attribution, every attention and every head is a candidate, each with two readings:
the row that predicts a target word (shift 0), or the row that reads it (shift 1). Each target word
is linked to its best source word, or besides each source word to its best target word. Which of
these aligns is different in every model, so it is chosen on data and kept in the model folder. A
source word that is perhaps not translated (see `explanation.untranslated`) has no link.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import islice, product
from typing import Annotated, Any, Literal, NamedTuple, cast, get_args

import numpy as np
from pydantic import Field, TypeAdapter, ValidationError

from clearhead.decoding.engine import Hypothesis
from clearhead.errors import ConfigError, DataError, ModelFolderError, nearest, warn
from clearhead.folder.model_folder import ModelFolder
from clearhead.inspect.explanation import is_short, untranslated
from clearhead.inspect.findings import ALIGNMENT, FOLDER, read_finding
from clearhead.inspect.measures import MEASURES
from clearhead.inspect.own import inspected
from clearhead.inspect.record import Array
from clearhead.inspect.recording import TranslatorLike, is_translator, masked_pair
from clearhead.inspect.replay import effects
from clearhead.inspect.subject import Counting, Subject, pairs_of, uncounted
from clearhead.inspect.view import heads_of
from clearhead.inspect.words import Word, words_in, words_of
from clearhead.model.transformer import EncoderDecoder
from clearhead.text.spans import Protection
from clearhead.tokenizer.normal_form import is_blank

Links = frozenset[tuple[int, int]]
"""Pairs of a source word and a target word, from 0."""

SHIFTS = (0, 1)

Rule = Literal["target", "both"]
"""Which words have a best link: those of the target, or those of both sides."""


class Link(NamedTuple):
    """A source word and a target word, from 0, and the share of the target word's weight."""

    source: int
    target: int
    score: float


@dataclass(frozen=True)
class Aligner:
    """How a model aligns, and by what it was chosen: `gold`, `removal`, or `named`."""

    measure: str  # a measure, an attention such as `decoder.3.cross`, or one head
    shift: Annotated[int, Field(ge=0, le=1)]  # 0: the row that predicts a word; 1: reads it
    rule: Rule
    criterion: str
    score: float  # error rate by the criterion; by `removal` that of the rule `target`
    sentences: int  # that it was chosen on


Pair = tuple[Subject, Sequence[Word], Sequence[Word]]
"""A sentence pair with its source words and target words."""


def pair_of(translator: TranslatorLike, source: str, target: str, where: str | None = None) -> Pair:
    """A sentence pair, prepared for alignment; its words are those between spaces."""
    for text, what in ((source, "source"), (target, "target")):
        if is_blank(text):
            raise DataError(f"the {what} is empty", where=where, todo="give a sentence")
    try:
        subject = Subject.translation(translator, source, target)
    except DataError as error:
        error.where = error.where or where
        raise
    masked = masked_pair(translator, source, target)
    sides = (
        (source, subject.source_pieces, subject.source_special, translator.source_tokenizer),
        (target, subject.outputs, subject.output_special, translator.target_tokenizer),
    )
    found = []
    for read, (text, pieces, special, tokenizer) in zip(masked, sides, strict=True):
        words = words_in(read, pieces, special, tokenizer.form)
        if words is not None and read != text:
            words = _as_written(text, read, words, translator.protection)
        if words is None:
            words = words_of(pieces, special)
            if len(words) != len(text.split()):
                warn(f"the tokenizer splits {text!r} into other words, which are numbered instead")
        found.append(words)
    subject.source_words = [word for word in found[0] if word.positions]
    return subject, *found


def _as_written(
    text: str, read: str, words: Sequence[Word], protection: Protection
) -> Sequence[Word]:
    """The words between the spaces of a text, from those that the model reads.

    A span is one word of the model, but may be several words of the text, or a part of one.
    """
    places, done = list[int](), 0  # of each character of the text, its place in what is read
    for start, end in protection.rows(text):
        first = len(places) and places[-1] + 1
        places += (*range(first, first + start - done), *[first + start - done] * (end - start))
        done = end
    first = len(places) and places[-1] + 1
    places += range(first, first + len(text) - done)
    numbers: dict[int, int] = {}  # of each place, the number of its word
    for number, found in enumerate(re.finditer(r"\S+", read)):
        numbers.update(dict.fromkeys(range(*found.span()), number))
    written = list[Word]()
    for found in re.finditer(r"\S+", text):
        parts = dict.fromkeys(numbers.get(places[at], -1) for at in range(*found.span()))
        positions = (place for number in parts if number >= 0 for place in words[number].positions)
        written.append(Word(found[0], tuple(positions)))
    return written


def kept_aligner(folder: ModelFolder, model: EncoderDecoder) -> Aligner | None:
    """How a model aligns, if that was chosen and kept in its folder."""
    tree = read_finding(folder, ALIGNMENT)
    if tree is None:
        return None
    try:
        found = TypeAdapter(Aligner).validate_python(tree)
        check_measure(model, found.measure)
    except (ValidationError, ConfigError):
        what = "the choice of how to align is damaged"
        todo = f"remove {ALIGNMENT} in its folder {FOLDER}"
        raise ModelFolderError(what, where=folder.path, todo=todo) from None
    return found


def best_aligner(
    translator: TranslatorLike,
    pairs: Sequence[tuple[str, str]],
    gold: Sequence[Links] | None = None,
    sentences: int = 100,
    counting: Counting = uncounted,
    measures: bool = True,
) -> tuple[Aligner, Mapping[tuple[str, int, Rule], float]]:
    """Choose how a model aligns, and give the error rate of each candidate.

    The `gold` links of the pairs decide, or else those of exact removal on validation pairs of the
    run if these can be read. Without `measures`, which cost more, attentions alone are candidates.
    """
    found = list(enumerate(pairs))
    if gold is None and translator.config.data.validation:
        try:
            found = list(enumerate(islice(pairs_of(translator), sentences)))
        except DataError as error:
            warn(f"the measure is chosen by the given pairs: {error}")
    filled = [(i, pair) for i, pair in found if not any(map(is_blank, pair))][:sentences]
    if not filled:
        raise DataError("there is no pair with words on both sides", todo="give other files")
    sample = [
        pair_of(translator, *pair, f"pair {number}")
        for number, (_, pair) in enumerate(filled, start=1)
    ]
    if gold is not None:
        wanted, criterion = [gold[i] for i, _ in filled], "gold"
    else:
        wanted, criterion = by_removal(sample), "removal"
    with counting(len(sample), "pairs, to choose the measure") as show:
        return choose(sample, wanted, criterion, show, measures)


@dataclass(frozen=True)
class Alignment:
    """Which source word each target word comes from.

        found = clearhead.align(translator, "A man sleeps.", "Ein Mann schläft.")
        found.words  # [("A", "Ein"), …]

    Attributes:
        source: the source words, those between spaces; of ids without a tokenizer the ids.
        target: the target words.
        links: the links, each with the numbers of a source word and a target word, from 0,
            and the share of the target word's weight.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    links: tuple[Link, ...]

    @property
    def words(self) -> list[tuple[str, str]]:
        """The linked words, source and target."""
        return [(self.source[link.source], self.target[link.target]) for link in self.links]

    def __str__(self) -> str:
        """The links in the format of alignment tools, `0-0 1-2`."""
        return pharaoh(self.links)


def align(
    model: Any, source: Any, target: Any, measure: str | None = None, tokenizer: Any = None
) -> Alignment:
    """Align the words of a sentence and its translation.

        clearhead.align(translator, "the cat is black", "el gato es negro").words

    Args:
        model: a translator, or a `Transformer` of `clearhead.nn`.
        source: a text; or ids, as in `record`.
        target: its translation, a text, a `Hypothesis` or ids.
        measure: a measure of attribution, a cross-attention or a head. By default the one that
            `clearhead align` has chosen for the model, or else exact removal: the source word
            without which the target word is least probable.
        tokenizer: of a model of `clearhead.nn`, as in `record`.

    Raises:
        ConfigError: the model is no translator, or the measure is unknown.
        DataError: a side is empty or too long.
    """
    translator = inspected(model, tokenizer)
    if not is_translator(translator, "align"):
        raise ConfigError("a classifier does not align", where="align", todo="give a translator")
    aligner = None
    if measure is not None:
        check_measure(translator.model, measure)
        aligner = Aligner(measure, 0, "both", "named", 0.0, 0)
    elif translator.folder is not None:
        aligner = kept_aligner(translator.folder, translator.model)
    target = target.text or target if isinstance(target, Hypothesis) else target
    if isinstance(source, str) and isinstance(target, str):
        pair = pair_of(translator, source, target, "align")
    else:
        subject = Subject.translation(translator, source, target)
        pair = subject, subject.source_words, subject.output_words
    found = aligned(pair, aligner or REMOVAL)
    sides = (tuple(word.text for word in words) for words in pair[1:])
    return Alignment(*sides, links=tuple(found))


REMOVAL = Aligner("removal", 0, "target", "named", 0.0, 0)
"""Links each target word with the source word without which its probability falls most."""


def aligned(pair: Pair, aligner: Aligner) -> list[Link]:
    """The links of a sentence pair."""
    subject, source, target = pair
    found = scores(subject, aligner.measure)
    linked = links(word_matrix(found, aligner.shift, source, target), aligner.rule)
    none = unlinked(pair)
    return [link for link in linked if link.source not in none]


def unlinked(pair: Pair) -> set[int]:
    """The source words without a link: perhaps not translated, or not read by the model.

    A long sentence has none of the former.
    """
    subject, source, _ = pair
    empty = {i for i, word in enumerate(source) if not word.positions}
    if not is_short(subject):
        return empty
    words = [word.positions for word in source]
    found = effects(subject.replay, words, prefix_words=[], heads=[])
    return empty | set(untranslated(subject, found.by_source))


def by_removal(pairs: Iterable[Pair]) -> list[Links]:
    """For each target word the source word without which its probability falls most."""
    return [plain(aligned(pair, REMOVAL)) for pair in pairs]


def candidates(model: EncoderDecoder) -> list[str]:
    """The names that `scores` takes for a translator: measures, attentions and heads."""
    heads = [head for head in heads_of(model) if head.attention.endswith(".cross")]
    attentions = dict.fromkeys(head.attention for head in heads)
    return [*MEASURES, *attentions, *map(str, heads)]


def check_measure(model: EncoderDecoder, name: str) -> None:
    """Check a name for `scores`."""
    names = candidates(model)
    if name not in names:
        close = nearest(name, names)
        raise ConfigError(
            f"{name!r} does not align words",
            why=f"it is none of the measures {', '.join(MEASURES)}, and no cross-attention",
            todo=f"did you mean {close}?" if close else "give a name such as decoder.2.cross.1",
        )


def scores(subject: Subject, name: str) -> Array:
    """(rows of the decoder, source positions) of a measure, an attention or a head."""
    if name in MEASURES:
        return MEASURES[name].compute(subject)
    _, layer, _, *head = name.split(".")
    weights = subject.record.decoder[int(layer) - 1].cross_attention
    return weights[int(head[0]) - 1] if head else weights.mean(axis=0)


def word_matrix(
    found: Array, shift: int, source_words: Sequence[Word], target_words: Sequence[Word]
) -> Array:
    """From (rows of the decoder, source positions) to (target words, source words)."""
    # Sums over the pieces of keys, means over those of queries.
    rows = np.array(
        [found[[i + shift for i in word.positions]].mean(axis=0) for word in target_words]
    )
    return np.stack([rows[:, list(word.positions)].sum(axis=1) for word in source_words], axis=1)


def links(matrix: Array, rule: Rule = "target") -> list[Link]:
    """The largest weights of a matrix (target words, source words)."""
    positive = matrix.clip(min=0)
    totals = positive.sum(axis=1)
    found = {(int(source), target) for target, source in enumerate(matrix.argmax(axis=1))}
    if rule == "both":
        found |= {(source, int(target)) for source, target in enumerate(matrix.argmax(axis=0))}
    return [
        Link(source, target, float(positive[target, source] / (totals[target] or 1.0)))
        for source, target in sorted(found, key=lambda link: (link[1], link[0]))
    ]


def alignment_error_rate(found: Iterable[AbstractSet], gold: Iterable[AbstractSet]) -> float:
    """1 − 2|A∩G| / (|A|+|G|) over all sentences (Och and Ney 2003, with sure links alone)."""
    pairs = list(zip(found, gold, strict=True))
    total = sum(len(a) + len(g) for a, g in pairs)
    return 1.0 - 2 * sum(len(a & g) for a, g in pairs) / total if total else 0.0


def plain(found: Iterable[Link]) -> Links:
    """Links without their scores."""
    return frozenset((link.source, link.target) for link in found)


def choose(
    pairs: Sequence[Pair],
    wanted: Sequence[Links],
    criterion: str,
    progress: Callable[[int], None] = lambda done: None,
    measures: bool = True,
) -> tuple[Aligner, Mapping[tuple[str, int, Rule], float]]:
    """The candidate that agrees best with given links."""
    # Links by removal have one link for each target word, so they do not decide on the rule; and
    # removal itself is no candidate.
    exact = criterion == "removal"
    names = candidates(cast(EncoderDecoder, pairs[0][0].model))
    names = [name for name in names if not (exact and name == "removal")]
    names = [name for name in names if measures or name not in MEASURES]
    rules: tuple[Rule, ...] = ("target",) if exact else get_args(Rule)
    found: dict[tuple[str, int, Rule], list[Links]] = {
        key: [] for key in product(names, SHIFTS, rules)
    }
    for number, (subject, source, target) in enumerate(pairs, start=1):
        none = unlinked((subject, source, target))
        for name in names:
            rows = scores(subject, name)
            for shift in SHIFTS:
                matrix = word_matrix(rows, shift, source, target)
                for rule in rules:
                    linked = (link for link in links(matrix, rule) if link.source not in none)
                    found[name, shift, rule].append(plain(linked))
        progress(number)
    errors = {key: alignment_error_rate(each, wanted) for key, each in found.items()}
    # Of equal ones the last, since heads and attentions, which cost least, come after measures.
    (measure, shift, rule), error = min(reversed(errors.items()), key=lambda item: item[1])
    aligner = Aligner(measure, shift, "both" if exact else rule, criterion, error, len(pairs))
    return aligner, errors


def pharaoh(found: Iterable[Link], with_scores: bool = False) -> str:
    """Links in the format of alignment tools, `0-0 1-2`, or with scores, `0-0:0.93`."""
    ordered = sorted(found)
    return " ".join(
        f"{link.source}-{link.target}" + (f":{link.score:.3f}" if with_scores else "")
        for link in ordered
    )


def parse_pharaoh(line: str, where: str) -> Links:
    """The links of a line such as `0-0 1-2`."""
    found = set()
    for word in line.split():
        source, dash, target = word.partition("-")
        if not (dash and source.isascii() and source.isdecimal() and target.isdecimal()):
            raise DataError(f"{word[:40]!r} is no link", where=where, todo="write links as 0-0 1-2")
        found.add((int(source[:9]), int(target[:9])))
    return frozenset(found)
