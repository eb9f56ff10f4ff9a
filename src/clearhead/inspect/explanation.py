"""What an output comes from: the effects of heads and words, measures, and alternatives."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from clearhead.device import explain_full_memory
from clearhead.errors import ConfigError, DataError
from clearhead.inspect.heads import checked
from clearhead.inspect.measures import MEASURES
from clearhead.inspect.own import inspected
from clearhead.inspect.record import Array, Record, heat_table
from clearhead.inspect.replay import Effects, Means, effects
from clearhead.inspect.subject import Subject
from clearhead.inspect.view import replacements
from clearhead.model.transformer import EncoderDecoder

ALTERNATIVES = 8
"""Outputs at each place whose probability is known, the output itself included."""

LONGEST_EXPLAINED = 200
"""Positions of source and target together up to which heads and words are switched off one by one:
the time grows with their square."""

TOO_LONG = f"they have more than {LONGEST_EXPLAINED} positions together"

UNTRANSLATED, UNUSED = -0.5, 0.1
"""A source word is perhaps not translated if the log-probability of the output falls without it by
at most the first number, so that the output is more probable; or if it does not fall, and that of
no token by more than the second. docs/explanation/looking-inside.md has figures."""

SOURCE_COUNTS = 0.1
"""Mean gain in log-probability of an output by the source, below which it hardly counts."""


@dataclass(frozen=True, eq=False)
class Explanation:
    """What the outputs of a model for one input come from.

        found = clearhead.explain(translator, "A man sleeps.", "Ein Mann schläft.")
        found.by_source[:, 0, 0]  # what each source word adds to the first output

    A place is an output token of a translator, or the label of a classifier. If labels are
    independent, each label that the classifier gives is a place, or the most probable label if it
    gives none. Effects are log-probabilities with a head or a word minus those without it: positive
    means that it helped.

    Attributes:
        record: what the model computed.
        source: the source words.
        prefix: the words of the target; a place has effects of those before it.
        outputs: (places,) what is explained.
        choices: for each place the output itself and then the most probable others. An independent
            label has no others.
        log_probabilities: (places, choices).
        heads: the names of the heads.
        by_head: (heads, places, choices).
        by_source: (source words, places, choices).
        by_prefix: (target words, places, choices).
        measures: by name, (places, source positions).
        untranslated: the source words that are perhaps not translated: the output of a translator
            is more probable without them, or no token of it needs them.
        source_share: (places,) the gain by the whole source divided by the sum of the gains by
            the whole source and by the whole prefix. NaN where neither helped, where there is no
            prefix, and for a classifier.
        warning: about a source that hardly counts, or None.
    """

    record: Record
    source: tuple[str, ...]
    prefix: tuple[str, ...]
    outputs: tuple[str, ...]
    choices: tuple[tuple[str, ...], ...]
    log_probabilities: Array
    heads: tuple[str, ...]
    by_head: Array
    by_source: Array
    by_prefix: Array
    measures: Mapping[str, Array]
    untranslated: tuple[str, ...]
    source_share: Array
    warning: str | None

    def __repr__(self) -> str:
        return f"<Explanation: {' '.join(self.source)} → {' '.join(self.outputs)}>"

    def why_not(self, place: int, choice: int) -> dict[str, list[tuple[str, float]]]:
        """Why this output and not another one: the difference of their effects, largest first.

        Args:
            place: the place, from 0.
            choice: the index of the other output in `choices`, from 1.

        Returns:
            For `heads`, `source` and `prefix` the names with the differences. Positive speaks for
            the output, negative for the other.

        Raises:
            ConfigError: there is no such place or choice.
        """
        for what, number, first, count in (
            ("place", place, 0, len(self.outputs)),
            ("choice", choice, 1, self.log_probabilities.shape[1]),
        ):
            if not first <= number < count:
                why = f"there are {count - first}, counted from {first}"
                raise ConfigError(f"there is no {what} {number}", where="why_not", why=why)
        parts = {
            "heads": (self.heads, self.by_head),
            "source": (self.source, self.by_source),
            "prefix": (self.prefix, self.by_prefix),
        }
        found = {}
        for part, (names, gains) in parts.items():
            difference = gains[:, place, 0] - gains[:, place, choice]
            order = np.argsort(-np.abs(difference), kind="stable")
            found[part] = [(names[i], float(difference[i])) for i in order]
        return found

    def _repr_html_(self) -> str:
        """A table for a notebook: what each source word did for each output."""
        caption = "Fall of the log-probability of each output without the source word: positive "
        caption += "numbers helped. Effects do not add up."
        table = heat_table(caption, self.by_source[..., 0], self.source, self.outputs)
        note = f"<p>{html.escape(self.warning)}</p>" if self.warning else ""
        return note + table


def explain(
    model: Any,
    source: Any,
    target: Any = None,
    measures: str | Iterable[str] = ("removal",),
    ablate_by: str = "zero",
    tokenizer: Any = None,
) -> Explanation:
    """Explain what a translator or a classifier gives for an input.

        best = translator.translate(["A man rides a bicycle."])[0][0]
        clearhead.explain(translator, "A man rides a bicycle.", best)

    Args:
        model: the translator or classifier, with any engine, or a model of `clearhead.nn`; it does
            not change.
        source: a text, features or ids, as in `record`.
        target: for a translator its translation, or any other text or ids.
        measures: the names of measures of attribution to compute too, as a list or separated by
            commas.
        ablate_by: what replaces the output of a head that is switched off: `zero`, or its `mean`
            over the sample of `clearhead study`.
        tokenizer: of a model of `clearhead.nn`, as in `record`.

    Raises:
        ConfigError: a translator has no target, a classifier has one, the model is neither, or
            there is no such measure or replacement.
        ModelFolderError: the means of the heads are needed and are not there.
        DataError: source or target are empty, or too long.
        ClearheadError: the memory of the GPU is full.
    """
    names = checked(measures, MEASURES, "a measure", "explain")
    model = inspected(model, tokenizer)
    with explain_full_memory("give a shorter input, or use the CPU: --device cpu", "explain"):
        subject = Subject.of(model, source, target, "explain")
        if not is_short(subject):
            raise DataError(
                "source and target are too long to explain",
                why=f"{TOO_LONG}: each head and each word is switched off in turn",
                todo="give shorter ones, or look at the weights: clearhead.record",
            )
        means = replacements(ablate_by, subject.model, model.folder)
        return _explanation(subject, names, means)


def _explanation(
    subject: Subject,
    measures: Iterable[str],
    means: Means | None,
) -> Explanation:
    ids, scores = alternatives(subject)
    found = word_effects(subject, ids, means)
    places = subject.places
    return Explanation(
        record=subject.record,
        source=tuple(word.text for word in subject.source_words),
        prefix=tuple(word.text for word in subject.target_words),
        outputs=subject.outputs,
        choices=tuple(tuple(subject.names_of(row.tolist())) for row in ids),
        log_probabilities=scores,
        heads=tuple(map(str, found.heads)),
        by_head=found.by_head,
        by_source=found.by_source,
        by_prefix=found.by_prefix,
        measures={name: MEASURES[name].compute(subject) for name in measures},
        untranslated=tuple(
            subject.source_words[i].text for i in untranslated(subject, found.by_source)
        ),
        source_share=source_share(found) if subject.is_translation else np.full(places, np.nan),
        warning=warning_of(subject, found),
    )


def is_short(subject: Subject) -> bool:
    """Whether heads and words can be switched off one by one."""
    return subject.replay.n_source + subject.replay.n_prefix <= LONGEST_EXPLAINED


def alternatives(subject: Subject) -> tuple[Array, Array]:
    """(places, k) the ids of the outcome and the best others, and their log-probabilities."""
    if subject.multi_label:
        return subject.replay.outcome, subject.replay.log_probabilities()[0]
    # No search writes padding or a start symbol.
    model = subject.model
    never = (model.pad_id, model.bos_id) if isinstance(model, EncoderDecoder) else ()
    ids, scores = subject.replay.best(ALTERNATIVES + len(never))
    own = subject.replay.log_probabilities()[0]
    kept, values = [], []
    for place, (row, row_scores) in enumerate(zip(ids, scores, strict=True)):
        outcome = subject.replay.outcome[place, 0]
        others = ~np.isin(row, (outcome, *never))
        kept.append([outcome, *row[others][: ALTERNATIVES - 1]])
        values.append([own[place, 0], *row_scores[others][: ALTERNATIVES - 1]])
    # A small vocabulary may leave fewer at places where the outcome is among the others.
    count = min(map(len, kept))
    kept, values = [row[:count] for row in kept], [row[:count] for row in values]
    return np.array(kept), np.array(values)


def word_effects(subject: Subject, ids: Array, means: Means | None = None) -> Effects:
    """The effects of all heads and words on each place."""
    return effects(
        subject.replay,
        [word.positions for word in subject.source_words],
        [word.positions for word in subject.target_words],
        ids,
        means,
    )


def untranslated(subject: Subject, by_source: Array) -> list[int]:
    """The source words that are perhaps not translated, by their effects (words, places, …)."""
    if not subject.is_translation:
        return []
    falls = by_source.reshape(*by_source.shape[:2], -1)[..., 0]  # (words, places)
    whole, largest = falls.sum(axis=1), falls.max(axis=1)
    found = (whole <= UNTRANSLATED) | ((whole <= 0) & (largest <= UNUSED))
    return np.flatnonzero(found).tolist()


def source_share(found: Effects) -> Array:
    """(places,) the gain by the whole source / the gains by source and prefix; perhaps NaN."""
    source, prefix = found.source[:, 0].clip(min=0), found.prefix[:, 0].clip(min=0)
    total = source + prefix
    share = np.divide(source, total, out=np.full_like(total, np.nan), where=total > 0)
    share[0] = np.nan  # the first place has no prefix to compare with
    return share


def warning_of(subject: Subject, found: Effects) -> str | None:
    """A warning if the source hardly counts for a translation."""
    gain = float(found.source[:, 0].mean())
    if not subject.is_translation or gain >= SOURCE_COUNTS:
        return None
    return (
        "The source hardly counts for this output: without any source word, its log-probability "
        f"falls by only {gain:.2f} for each token. It may have nothing to do with the source."
    )
