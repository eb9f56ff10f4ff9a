"""Forced prefixes and forbidden tokens, in both searches."""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.errors import SearchError
from clearhead.settings import SearchConfig
from clearhead.tokenizer import BOS, EOS, PAD
from fake_steppers import SOURCES, TableStepper, Tokens, search, symbols_of, total_score


@pytest.mark.parametrize("method", ["beam", "sampling"])
def test_where_constraints_forbid_every_token_the_output_stops_unfinished(method) -> None:
    # Two words, each allowed once, and no end before five: nothing can follow two words.
    config = SearchConfig(method, n_best=2, beam_size=4, min_length=5, no_repeat_ngram=1)
    for hypotheses in search(TableStepper(vocabulary=5), SOURCES, config):
        assert [h.finished for h in hypotheses] == [False, False]
        assert [sorted(h.tokens) for h in hypotheses] == [[3, 4], [3, 4]]


def repeated_ngrams(tokens: Tokens, n: int) -> int:
    counts = Counter(zip(*(tokens[i:] for i in range(n)), strict=False))
    return sum(count - 1 for count in counts.values())


@pytest.mark.parametrize("method", ["beam", "sampling"])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_no_ngram_comes_twice_where_that_is_forbidden(method, n: int) -> None:
    config = SearchConfig(method, n_best=5, max_length=20)
    stepper = TableStepper(vocabulary=6, end_bonus=-3.0)
    repeats = {
        size: sum(
            repeated_ngrams(hypothesis.tokens, n)
            for hypotheses in search(
                stepper, SOURCES, dataclasses.replace(config, no_repeat_ngram=size)
            )
            for hypothesis in hypotheses
        )
        for size in (0, n)
    }
    assert repeats[0] > 0
    assert repeats[n] == 0


@pytest.mark.parametrize("method", ["beam", "sampling"])
def test_outputs_begin_with_the_forced_prefix_whose_score_counts(method) -> None:
    # A forced prefix overrides `no_repeat_ngram`.
    stepper = TableStepper(vocabulary=40)
    prefixes: list[Tokens] = [(6, 6), (), (7,), (8, 9, 8, 9), (6, 6)]
    config = SearchConfig(method, n_best=3, no_repeat_ngram=1, min_length=3)
    free = search(stepper, SOURCES, config)
    forced = search(stepper, SOURCES, config, prefixes)
    assert forced[1] == free[1]
    for source, prefix, hypotheses in zip(SOURCES, prefixes, forced, strict=True):
        for hypothesis in hypotheses:
            assert hypothesis.tokens[: len(prefix)] == prefix
            expected = total_score(stepper, source, symbols_of(hypothesis))
            assert hypothesis.score == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(
    ("prefix", "positions"), [*(((i,), None) for i in (PAD, BOS, EOS, -1, 7)), ((3,) * 10, 9)]
)
def test_a_prefix_that_cannot_be_an_output_is_an_error(
    prefix: Tokens, positions: int | None
) -> None:
    with pytest.raises(SearchError) as caught:
        search(TableStepper(), [(4,), (5,)], SearchConfig(), [(), prefix], [2, 7], positions)
    assert "sentence 8 " in caught.value.what


COPIED = {4: 5, 6: 6}
"""Source ids of symbols and their target ids."""


@pytest.mark.parametrize("method", ["beam", "sampling"])
@given(st.lists(st.lists(st.integers(3, 7), min_size=1, max_size=6), min_size=1, max_size=4))
def test_an_output_has_the_symbols_of_its_source_and_each_as_often(
    method, sources: list[list[int]]
) -> None:
    # An end that is likely from the start must wait for the symbols.
    config = SearchConfig(method, n_best=2, beam_size=2, max_length_ratio=1, max_length_offset=1)
    stepper = TableStepper(vocabulary=8, end_bonus=2.0)
    for source, hypotheses in zip(
        sources, search(stepper, sources, config, symbols=COPIED), strict=True
    ):
        for hypothesis in hypotheses:
            for ours, theirs in COPIED.items():
                assert hypothesis.tokens.count(theirs) == source.count(ours)


def test_of_the_outputs_with_the_symbols_a_wide_beam_finds_the_best() -> None:
    config = SearchConfig(beam_size=1000, n_best=1000, max_length=4, length_penalty=0.0)
    stepper, source = TableStepper(vocabulary=7), (4, 3)
    (found,) = search(stepper, [source], config, symbols={4: 5})
    outputs = (
        tokens
        for length in range(4)
        for tokens in itertools.product(range(3, 7), repeat=length)
        if tokens.count(5) == 1
    )
    expected = sorted((-total_score(stepper, source, (*t, EOS)), t) for t in outputs)
    finished = [h for h in found if h.finished]
    assert [h.tokens for h in finished] == [tokens for _, tokens in expected]


def test_greedy_search_without_symbols_in_the_source_gives_none() -> None:
    config = SearchConfig(beam_size=1, max_length=9)
    symbols = {4: 5, 6: 6}
    for (hypothesis,) in search(TableStepper(), [(3,), (7, 3)], config, symbols=symbols):
        assert not {5, 6} & {*hypothesis.tokens}


def test_symbols_may_repeat_where_ngrams_may_not() -> None:
    config = SearchConfig(beam_size=2, no_repeat_ngram=1, max_length=9)
    ((hypothesis, *_),) = search(TableStepper(), [(4, 4, 4)], config, symbols={4: 5})
    assert hypothesis.tokens.count(5) == 3
