"""From texts to hypotheses with texts: tokenizer, engine, tokenizer."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from clearhead.decoding.engine import Engine, Hypothesis, check_batch_size
from clearhead.errors import ConfigError, SearchError, warn
from clearhead.settings import SearchConfig, config_from
from clearhead.settings.nearest import setting_meant
from clearhead.settings.search import idle_for, method_for
from clearhead.tokenizer import Tokenizer

LONGEST_SOURCE = 1024
"""Tokens of a source; what is longer is cut, with a warning: attention grows with the square."""

NOTHING = Hypothesis(tokens=(), score=0.0, token_scores=(), normalised_score=0.0, finished=True)
"""The translation of an empty text."""


def chosen_search(search: SearchConfig, choices: Mapping[str, Any]) -> SearchConfig:
    """The search with single settings laid over it, checked as strictly as a file would be.

    Raises:
        SearchError: a setting is unknown, of a wrong type or value, or idle for the method.
    """
    if not isinstance(search, SearchConfig):
        raise SearchError(f"search is no SearchConfig: {search!r}", where="translate")
    settings = [field.name for field in dataclasses.fields(SearchConfig)]
    for name in choices:
        if name not in settings:
            todo = setting_meant(name, "", settings, ())
            raise SearchError(f"{name}: there is no such setting", where="translate", todo=todo)
    method = method_for(choices, search.method)
    tree = {"search": {**dataclasses.asdict(search), "method": method, **choices}}
    try:
        chosen = config_from(tree, where="translate").search
    except ConfigError as error:
        raise SearchError(error.what, where=error.where, why=error.why, todo=error.todo) from None
    if idle := idle_for(chosen.method, choices):
        other = "beam" if chosen.method == "sampling" else "sampling"
        raise SearchError(
            f"{idle} means nothing for method = {chosen.method!r}",
            where="translate",
            todo=f"say method={other!r}, or leave {idle} out",
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
    """The hypotheses of each text, best first; an empty text has one, which is empty.

    Those of sampling stand in the order in which they were drawn.

    Args:
        engine: what searches.
        tokenizers: the source's and the target's.
        texts: one sentence each.
        search: how to search.
        prefixes: for each text the beginning that its translation must have; spaces at its ends
            do not count.
        batch_size: sentences at a time, at most.
        progress: told how many texts are done.
        offset: how many texts came before these; a warning numbers them from there on, and so
            do random draws, so that blocks give what the whole would have given.

    Raises:
        SearchError: the batch size is no positive number, or the prefixes do not fit.

    Warns:
        UserWarning: a text has more tokens than `LONGEST_SOURCE`, or than the engine can take, and
            was cut; or a prefix holds what the vocabulary lacks.
    """
    check_batch_size(batch_size, "sentences", "translate", SearchError)
    if prefixes is not None:
        _check_prefixes(prefixes, len(texts))
    source_tokenizer, target_tokenizer = tokenizers
    filled = [i for i, text in enumerate(texts) if text.strip()]
    sources = source_tokenizer.encode_batch([texts[i] for i in filled])
    longest = min(LONGEST_SOURCE, engine.longest_source or LONGEST_SOURCE)
    for i, source in zip(filled, sources, strict=True):
        if len(source) > longest:
            number = offset + i + 1
            message = f"line {number} has {len(source)} tokens and was cut to {longest}"
            warn(message)
            del source[longest:]
    found = engine.translate(
        sources,
        search,
        prefixes=None
        if prefixes is None
        else _encoded(
            # A space at the end would be a piece of its own, which the next word begins with.
            [prefixes[i].strip() for i in filled],
            [offset + i for i in filled],
            target_tokenizer,
        ),
        keys=[offset + i for i in filled],
        batch_size=batch_size,
        progress=progress,
    )
    results = [[NOTHING] for _ in texts]
    for i, hypotheses in zip(filled, found, strict=True):
        results[i] = [
            dataclasses.replace(h, text=target_tokenizer.decode(h.tokens)) for h in hypotheses
        ]
    return results


def _encoded(prefixes: Sequence[str], keys: Sequence[int], tokenizer: Tokenizer) -> list[list[int]]:
    """The ids of each prefix; says of which lines a translation cannot begin with it."""
    found = tokenizer.encode_batch(prefixes)
    for prefix, key, ids in zip(prefixes, keys, found, strict=True):
        if tokenizer.unk_id in ids:
            begins = tokenizer.decode(ids)
            what = f"the prefix of line {key + 1} holds what the vocabulary lacks"
            warn(f"{what}: its translation begins with {begins!r}, not with {prefix!r}")
    return found


def _check_prefixes(prefixes: Sequence[str], count: int) -> None:
    if isinstance(prefixes, str) or not all(isinstance(prefix, str) for prefix in prefixes):
        raise SearchError(
            "prefixes is not a list of strings",
            where="translate",
            todo="give one for each text, an empty one where nothing is asked for",
        )
    if len(prefixes) != count:
        raise SearchError(
            f"{len(prefixes)} prefixes were given for {count} texts",
            where="translate",
            todo="give one for each text, an empty one where nothing is asked for",
        )
