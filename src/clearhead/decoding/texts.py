"""Translate texts: encode them, run an engine, decode its hypotheses."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from clearhead.decoding.engine import LONGEST_SOURCE, Engine, Hypothesis, check_batch_size
from clearhead.errors import ConfigError, SearchError, warn
from clearhead.settings import SearchConfig
from clearhead.settings.search import idle_for, method_for
from clearhead.tokenizer import Tokenizer, cut
from clearhead.tokenizer.normal_form import is_blank

EMPTY = Hypothesis(tokens=(), score=0.0, token_scores=(), normalised_score=0.0, finished=True)
"""The translation of an empty text."""


class CutSourceWarning(UserWarning):
    """A source has more tokens than the engine can read."""


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
        other = "beam" if chosen.method == "sampling" else "sampling"
        raise SearchError(
            f"{idle} has no effect with method = {chosen.method!r}",
            where=where,
            todo=f"use method={other!r}, or leave {idle} out",
        )
    return chosen


def translate_texts(
    engine: Engine,
    tokenizers: tuple[Tokenizer, Tokenizer],
    texts: Sequence[str],
    search: SearchConfig,
    *,
    prefixes: Sequence[str] | None = None,
    batch_size: int = 64,
    progress: Callable[[int], None] | None = None,
    offset: int = 0,
) -> list[list[Hypothesis]]:
    """The hypotheses of each text, best first; samples are in the order drawn.

    An empty text has one empty hypothesis.

    Args:
        engine: runs the model.
        tokenizers: of the source and of the target.
        texts: one sentence each.
        search: the settings of the search.
        prefixes: for each text the beginning of its translation; spaces at its ends are ignored.
        batch_size: maximum number of sentences of a batch.
        progress: called with the number of texts that are done.
        offset: the number of texts before these. Warnings and random draws count from there, so
            that the result does not depend on how texts are divided into blocks.

    Raises:
        SearchError: the batch size is not a positive number, or the prefixes do not fit.

    Warns:
        UserWarning: a text has more than `LONGEST_SOURCE` tokens, or more than the engine can read,
            and was cut; or a prefix is not in the vocabulary.
    """
    check_batch_size(batch_size, "sentences", "translate", SearchError)
    if prefixes is not None:
        check_prefixes(prefixes, len(texts))
    source_tokenizer, target_tokenizer = tokenizers
    filled = [i for i, text in enumerate(texts) if not is_blank(text)]
    sources = source_tokenizer.encode_batch([texts[i] for i in filled])
    longest = min(LONGEST_SOURCE, engine.longest_source or LONGEST_SOURCE)
    for i, source in zip(filled, sources, strict=True):
        if len(source) > longest:
            message = f"line {offset + i + 1} has {len(source)} tokens and was cut to {longest}"
            warn(message, CutSourceWarning)
            source[:] = cut(source, longest, source_tokenizer.boundaries)
    keys = [offset + i for i in filled]
    ids = None
    if prefixes is not None:
        # A space at the end would become a piece, with which the next word should begin.
        ids = _encode_prefixes([prefixes[i].strip() for i in filled], keys, target_tokenizer)
    found = engine.translate(
        sources, search, prefixes=ids, keys=keys, batch_size=batch_size, progress=progress
    )
    results = [[EMPTY] for _ in texts]
    for i, hypotheses in zip(filled, found, strict=True):
        results[i] = [
            dataclasses.replace(h, text=target_tokenizer.decode(h.tokens)) for h in hypotheses
        ]
    return results


def _encode_prefixes(
    prefixes: Sequence[str], keys: Sequence[int], tokenizer: Tokenizer
) -> list[list[int]]:
    """The ids of each prefix; warns if it is not in the vocabulary."""
    found = tokenizer.encode_batch(prefixes)
    for prefix, key, ids in zip(prefixes, keys, found, strict=True):
        if tokenizer.unk_id in ids:
            begins = tokenizer.decode(ids)
            what = f"the prefix of line {key + 1} is not in the vocabulary"
            warn(f"{what}: its translation begins with {begins!r}, not with {prefix!r}")
    return found


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
