"""From texts to hypotheses with texts: tokenizer, engine, tokenizer."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Sequence

from clearhead.config import SearchConfig
from clearhead.decoding.hypothesis import Hypothesis
from clearhead.engines.engine import Engine
from clearhead.tokenizer import Tokenizer

LONGEST_SOURCE = 1024
"""Tokens of a source; what is longer is cut, with a warning: attention grows with the square."""

NOTHING = Hypothesis(tokens=(), score=0.0, token_scores=(), normalised_score=0.0, finished=True)
"""The translation of an empty text."""


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

    Args:
        engine: what searches.
        tokenizers: the source's and the target's.
        texts: one sentence each.
        search: how to search.
        prefixes: for each text the beginning that its translation must have.
        batch_size: sentences at a time, at most.
        progress: told how many texts are done.
        offset: how many texts came before these; a warning numbers them from there on, and so
            do random draws, so that blocks give what the whole would have given.

    Warns:
        UserWarning: a text has more than `LONGEST_SOURCE` tokens and was cut.
    """
    source_tokenizer, target_tokenizer = tokenizers
    filled = [i for i, text in enumerate(texts) if text.strip()]
    sources = source_tokenizer.encode_batch([texts[i] for i in filled])
    for i, source in zip(filled, sources, strict=True):
        if len(source) > LONGEST_SOURCE:
            number = offset + i + 1
            message = f"line {number} has {len(source)} tokens and was cut to {LONGEST_SOURCE}"
            warnings.warn(message, stacklevel=2)
            del source[LONGEST_SOURCE:]
    found = engine.translate(
        sources,
        search,
        prefixes=None
        if prefixes is None
        else target_tokenizer.encode_batch([prefixes[i] for i in filled]),
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
