"""Translate or score texts: encode them, run an engine, decode its hypotheses."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from operator import eq
from typing import Any

from pydantic import ValidationError

from clearhead.data.judging.text_style import longest_text
from clearhead.decoding.confidence import Confidence
from clearhead.decoding.engine import (
    LONGEST_SOURCE,
    Engine,
    Hypothesis,
    Sentence,
    check_batch_size,
    hypothesis_of,
)
from clearhead.decoding.terms import Terminology
from clearhead.errors import ClearheadError, ConfigError, Remark, SearchError, warn_of_texts
from clearhead.settings import SearchConfig
from clearhead.settings.search import idle_for, method_for
from clearhead.text.memory import Match, Memory
from clearhead.text.spans import NOTHING, SPANS, Masked, Protection
from clearhead.tokenizer import EOS, SYMBOLS, Tokenizer, cut
from clearhead.tokenizer.normal_form import is_blank

EMPTY = Hypothesis(tokens=(), score=0.0, token_scores=(), normalised_score=0.0, finished=True)
"""The translation of an empty text."""

REPEATS = 4
"""A text repeats itself if the same tokens come so many times in a row."""

MARGIN = 0.2
"""By how much the similarity of a text in a memory must exceed the confidence in a translation.

A similar text may have another meaning (docs/experiments.md).
"""

LONGEST_REPEATED, LEAST_REPEATED = 30, 8
"""The most tokens of a repeated part, and the least characters of all its repetitions."""


def chosen_search(
    search: SearchConfig, choices: Mapping[str, Any], where: str | None = "translate"
) -> SearchConfig:
    """The search settings with some of them replaced, checked as strictly as a file.

    Raises:
        SearchError: a setting is unknown, has a wrong type or value, or has no effect.
    """
    if not isinstance(search, SearchConfig):
        raise SearchError(f"search is not a SearchConfig: {search!r}", where=where)
    method = method_for(choices, search.method)
    try:
        chosen = dataclasses.replace(search, **{"method": method, **choices})
    except ConfigError as wrong:
        # Only an error about two settings may concern one that is not given.
        found = wrong.__context__
        kinds = [e["type"] for e in found.errors()] if isinstance(found, ValidationError) else []
        about_two = kinds[:1] == ["value_error"]
        why = "settings that are not given are those of the model" if about_two else None
        raise SearchError(wrong.what, where=where, why=why, todo=wrong.todo) from None
    if idle := idle_for(chosen.method, choices):
        what = f"{idle} has no effect with method={chosen.method!r}"
        other = "beam" if chosen.method == "sampling" else "sampling"
        raise SearchError(what, where=where, todo=f"leave it out, or use method={other!r}")
    return chosen


def translate_texts(
    engine: Engine,
    tokenizers: tuple[Tokenizer, Tokenizer],
    texts: Sequence[str],
    search: SearchConfig,
    protection: Protection = NOTHING,
    *,
    prefixes: Sequence[str] | None = None,
    batch_size: int = 64,
    progress: Callable[[int], None] | None = None,
    offset: int = 0,
    remarks: Sequence[Sequence[Remark]] | None = None,
    terminology: Terminology | None = None,
    confidence: Confidence | None = None,
    memory: Memory | None = None,
    originals: Sequence[str] | None = None,
) -> list[list[Hypothesis]]:
    """The hypotheses of each text, best first; see `Translator.translate`.

    A text of more tokens than the engine reads is cut. Errors and random draws count from `offset`,
    so that the result does not depend on how texts are divided into blocks. `remarks` are on the
    texts themselves. Spans that `protection` protects come back in the text of a hypothesis, and
    the terms of `terminology` are in it, or there is a remark. `confidence` gives the confidence of
    each hypothesis. A text without a prefix that is in the `memory` gets its translation from
    there. The memory has texts like `originals`, which are the texts before they were normalised.

    Raises:
        SearchError: the batch size is not a positive number, or a prefix does not fit.
    """
    check_batch_size(batch_size, "sentences", "translate", SearchError)
    source_tokenizer, target_tokenizer = tokenizers
    looked_up = [i for i, text in enumerate(texts) if memory and not is_blank(text)]
    if prefixes is not None:
        looked_up = [i for i in looked_up if not prefixes[i].strip()]
    originals = originals or texts
    known = {i: match for i in looked_up if memory and (match := memory.exact(originals[i]))}
    filled = [i for i, text in enumerate(texts) if not (is_blank(text) or i in known)]
    masked = {i: protection.mask(texts[i]) for i in filled}
    sources = source_tokenizer.encode_batch([masked[i].text for i in filled])
    noted = [[*each] for each in remarks] if remarks else [[] for _ in texts]
    for i, source in zip(filled, sources, strict=True):
        if len(source) > (longest := engine.longest_source):
            noted[i].append(Remark("cut", f"has {len(source):,} tokens and was cut to {longest:,}"))
            source[:] = cut(source, longest, source_tokenizer.boundaries)
    keys = [offset + i for i in filled]
    begun: Sequence[Sequence[int]] = [()] * len(filled)
    if prefixes is not None:
        for i in filled:
            if protection.unmarked(prefixes[i]) != prefixes[i]:
                masked[i] = dataclasses.replace(masked[i], accelerator="")
        # A space at the end would become a piece, with which the next word should begin.
        bare = dataclasses.replace(protection, accelerator="")
        stripped = [bare.mask_like(prefixes[i].strip(), masked[i]) for i in filled]
        begun = _encode_prefixes(stripped, keys, target_tokenizer, [noted[i] for i in filled])
    copies = _copies(protection, target_tokenizer, [masked[i] for i in filled])
    terms = [terminology.glossary.find(text) if terminology else [] for text in texts]
    placed = [terminology.ids(terms[i]) if terminology else None for i in filled]
    sentences = list(map(Sentence, sources, begun, keys, copies, placed))
    outputs = engine.translate(sentences, search, batch_size=batch_size, progress=progress)
    results = [[_noted(EMPTY, each)] for each in noted]

    def absent_terms(i: int, text: str) -> list[Remark]:
        """The remarks on terms that a translation lacks."""
        absent = terminology.glossary.missing(terms[i], text) if terminology else []
        return [term.remark for term in absent]

    def complete(hypothesis: Hypothesis, i: int, sentence: Sentence) -> Hypothesis:
        text, found = target_tokenizer.decode(hypothesis.tokens), list(noted[i])
        if not hypothesis.finished:
            found.append(Remark("unfinished", "has a translation that ends at the length limit"))
        own = hypothesis.tokens[len(sentence.prefix) :]
        repeated = repetition(own, target_tokenizer.decode)
        if repeated and not repetition(sentence.ids, source_tokenizer.decode):
            shown = repr(dataclasses.replace(masked[i], accelerator="").restored(repeated))
            found.append(Remark("repetition", f"has a translation that repeats {shown}"))
        # A model may write a span that it was not given.
        invented = any(text[a:b] not in SYMBOLS for a, b in protection.ranges(text))
        if invented or not masked[i].keeps(text):
            found.append(SPANS)
        found += absent_terms(i, text)
        hypothesis = dataclasses.replace(hypothesis, text=masked[i].restored(text))
        if confidence is not None:
            estimate = confidence(texts[i], hypothesis)
            hypothesis = dataclasses.replace(hypothesis, confidence=estimate)
        return _noted(hypothesis, found)

    for i, hypotheses, sentence in zip(filled, outputs, sentences, strict=True):
        results[i] = [complete(hypothesis, i, sentence) for hypothesis in hypotheses]
    for i in looked_up:
        match = known.get(i) or _similar(memory, originals[i], results[i][0].confidence)
        absent = absent_terms(i, match.text) if match else []
        if match and (i in known or not absent):
            translation = protection.mask_like(match.text, protection.mask(texts[i]))
            results[i] = [_of_memory(match, target_tokenizer.encode(translation), absent)]
    return results


def score_texts(
    engine: Engine,
    tokenizers: tuple[Tokenizer, Tokenizer],
    pairs: Sequence[tuple[str, str]],
    search: SearchConfig,
    protection: Protection = NOTHING,
    *,
    batch_size: int = 64,
    progress: Callable[[int], None] | None = None,
    offset: int = 0,
    remarks: Sequence[Sequence[Remark]] | None = None,
) -> list[Hypothesis]:
    """The target of each pair as a hypothesis with its scores; see `Translator.score`.

    Spans are masked as in training, by the number of the pair, from `offset` + 1.
    """
    check_batch_size(batch_size, "pairs", "score", SearchError)
    # As in training; a source needs a token.
    masked = [
        protection.mask_pair(*pair, seed=line) or tuple(map(protection.unmarked, pair))
        for line, pair in enumerate(pairs, start=offset + 1)
    ]
    encoded = [
        tokenizer.encode_batch([pair[side] for pair in masked])
        for side, tokenizer in enumerate(tokenizers)
    ]
    noted = [[*each] for each in remarks] if remarks else [[] for _ in pairs]
    # A target has a symbol besides its tokens.
    for rows, longest, tokenizer, side in zip(
        encoded,
        (engine.longest_source, engine.longest_source - 1),
        tokenizers,
        ("source", "target"),
        strict=True,
    ):
        for ids, found in zip(rows, noted, strict=True):
            if len(ids) > longest:
                what = f"has a {side} of {len(ids):,} tokens, which was cut to {longest:,}"
                found.append(Remark("cut", what))
                ids[:] = cut(ids, longest, tokenizer.boundaries)
    sources, targets = [ids or [EOS] for ids in encoded[0]], encoded[1]
    scores = engine.score(sources, targets, batch_size=batch_size, progress=progress)
    return [
        _noted(
            dataclasses.replace(hypothesis_of(ids, each, search.length_penalty), text=target), found
        )
        for ids, each, (_, target), found in zip(targets, scores, pairs, noted, strict=True)
    ]


def _similar(memory: Memory | None, text: str, confidence: float | None) -> Match | None:
    """The translation of a similar text, if it is likely to be better than that of the model.

    That is so if the similarity exceeds the confidence by more than `MARGIN`.
    """
    if memory is None or confidence is None or confidence >= 1 - MARGIN:
        return None
    match = memory.find(text)
    return match if match and confidence < match.similarity - MARGIN else None


def _of_memory(match: Match, tokens: Sequence[int], remarks: Sequence[Remark]) -> Hypothesis:
    """The translation of a memory, which has these tokens, with remarks on it."""
    how = match.similarity
    if how < 1:
        what = f"has the translation of a text that is {math.floor(100 * how)} % alike"
        remarks = [*remarks, Remark("similar", what)]
    nan = math.nan
    found = Hypothesis(tuple(tokens), nan, (), nan, finished=True, text=match.text, match=how)
    return _noted(found, remarks)


def _copies(
    protection: Protection, tokenizer: Tokenizer, masked: Sequence[Masked]
) -> list[Mapping[int, int]]:
    """How often each output must have the id of each symbol; nothing without symbols."""
    if not protection.has_symbols:
        return [{} for _ in masked]
    ids = {symbol: tokenizer.encode(symbol)[-1] for symbol in SYMBOLS}
    return [{ids[symbol]: each.text.count(symbol) for symbol in SYMBOLS} for each in masked]


def _noted(hypothesis: Hypothesis, remarks: Sequence[Remark]) -> Hypothesis:
    """A hypothesis with remarks; of one kind the first is kept."""
    kinds = {each.kind: each for each in reversed(remarks)}
    return dataclasses.replace(hypothesis, warnings=tuple(reversed(kinds.values())))


def with_errors(
    translate: Callable[[int, int], list[list[Hypothesis]]],
    remarks: Sequence[Sequence[Remark]],
    probe: Callable[[], object],
) -> list[list[Hypothesis]]:
    """The hypotheses of texts; a text that has an error has one hypothesis with the error.

    `translate` gives those from the first to before the last index. `probe` translates another
    text: if that fails, the error is not one of a text, and is raised.
    """

    def in_halves(first: int, last: int) -> list[list[Hypothesis]]:
        try:
            return translate(first, last)
        except ClearheadError as error:
            if (first, last) == (0, len(remarks)):
                probe()
            if last - first == 1:
                nothing = Hypothesis((), math.nan, (), math.nan, finished=False, error=error)
                return [[_noted(nothing, remarks[first])]]
        middle = (first + last) // 2
        return [*in_halves(first, middle), *in_halves(middle, last)]

    return in_halves(0, len(remarks))


def repetition(tokens: Sequence[int], decode: Callable[[Sequence[int]], str]) -> str:
    """What a text repeats at least `REPEATS` times in a row; empty if there is nothing.

    It has a letter, because rows of digits and of marks are ordinary.
    """
    for length in range(1, min(len(tokens) // REPEATS, LONGEST_REPEATED) + 1):
        same = bytes(map(eq, tokens, tokens[length:]))
        start = same.find(b"\1" * (length * (REPEATS - 1)))
        if start >= 0:
            part = decode(tokens[start : start + length]).strip()
            if len(part) * REPEATS >= LEAST_REPEATED and any(map(str.isalpha, part)):
                return part
    return ""


def warn_of_hypotheses(found: Sequence[Sequence[Hypothesis]], offset: int) -> None:
    """Issue the warnings and errors of the first hypothesis of each text; texts are lines."""
    warn_of_texts(
        (f"line {number}", remark)
        for number, (first, *_) in enumerate(found, start=offset + 1)
        for remark in (
            *first.warnings,
            *([Remark("error", f"was not translated: {first.error}")] if first.error else ()),
        )
    )


def _encode_prefixes(
    prefixes: Sequence[str],
    keys: Sequence[int],
    tokenizer: Tokenizer,
    remarks: Sequence[list[Remark]],
) -> list[list[int]]:
    """The ids of each prefix; adds a remark if it is not in the vocabulary."""
    most = longest_text(LONGEST_SOURCE)
    for prefix, key in zip(prefixes, keys, strict=True):
        if len(prefix) > most:
            what = f"the prefix of sentence {key + 1} has {len(prefix):,} characters"
            raise SearchError(f"{what}, which is more than {most:,}", todo="shorten the prefix")
    encoded = tokenizer.encode_batch(prefixes)
    for prefix, ids, found in zip(prefixes, encoded, remarks, strict=True):
        if tokenizer.unk_id in ids:
            begins = tokenizer.decode(ids)
            what = "has a prefix that is not in the vocabulary"
            found.append(
                Remark("prefix", f"{what}: its translation begins with {begins!r}, not {prefix!r}")
            )
    return encoded


def check_prefixes(prefixes: Sequence[str], count: int) -> None:
    """Raise a `SearchError` unless there is one prefix for each of `count` texts."""
    if isinstance(prefixes, str) or not all(isinstance(prefix, str) for prefix in prefixes):
        what = "prefixes is not a list of strings"
    elif len(prefixes) != count:
        what = f"{len(prefixes)} prefixes were given for {count} texts"
    else:
        return
    todo = "give one prefix for each text; it may be empty"
    raise SearchError(what, where="translate", todo=todo)
