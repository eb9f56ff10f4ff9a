"""Tests of the searches against brute force, a simple beam and exact distributions.

Logits of the fake model are a fixed function of the source and of the whole prefix, so a row that
is moved wrongly gives other logits.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import zlib
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from clearhead.decoding.beam import beam_search
from clearhead.decoding.engine import Hypothesis, length_penalty, longest_output, prefixes_and_keys
from clearhead.decoding.logits import best_tokens, check_scores, likeliest_token
from clearhead.decoding.search import greedy_search
from clearhead.decoding.search import search as search_checked
from clearhead.decoding.stepper import Stepper
from clearhead.errors import SearchError
from clearhead.settings import SearchConfig
from clearhead.tokenizer import BOS, EOS, PAD
from further_search import FurtherSearch

Tokens = tuple[int, ...]
NO_GPU = not torch.cuda.is_available()


def search(
    stepper: Stepper,
    sources: Sequence[Sequence[int]],
    config: SearchConfig,
    prefixes: Sequence[Sequence[int]] | None = None,
    keys: Sequence[int] | None = None,
    positions: int | None = None,
    scored: bool = True,
) -> list[list[Hypothesis]]:
    """Search as an engine does, which checks prefixes and keys first."""
    prefixes, keys = prefixes_and_keys(len(sources), prefixes, keys)
    return search_checked(stepper, sources, config, prefixes, keys, positions, scored)


@functools.cache
def table(vocabulary: int, end_bonus: float, ties: bool, source: Tokens, prefix: Tokens) -> Tensor:
    """(vocabulary,) the logits after a prefix; rounded if ties are needed."""
    seed = zlib.crc32(repr((source, prefix)).encode())
    logits = 1.5 * torch.randn(vocabulary, generator=torch.Generator().manual_seed(seed))
    logits[EOS] += end_bonus
    return logits.round() if ties else logits


class TableStepper:
    """A stepper whose rows are (source, prefix); it records every step."""

    def __init__(self, vocabulary: int = 7, end_bonus: float = 0.0, ties: bool = False) -> None:
        self.vocabulary = vocabulary
        self.logits = functools.partial(table, vocabulary, end_bonus, ties)
        self.rows: list[tuple[Tokens, Tokens]] = []
        self.stepped: list[list[tuple[Tokens, Tokens]]] = []

    def start(self, sources: Sequence[Sequence[int]]) -> None:
        self.rows = [(tuple(source), ()) for source in sources]

    def step(self, tokens: Tensor) -> Tensor:
        moved = zip(self.rows, tokens.tolist(), strict=True)
        self.rows = [(source, (*prefix, token)) for (source, prefix), token in moved]
        self.stepped.append(self.rows)
        assert all(prefix[0] == BOS for _, prefix in self.rows)
        return torch.stack([self.logits(source, prefix[1:]) for source, prefix in self.rows])

    def reorder(self, rows: Tensor) -> None:
        self.rows = [self.rows[row] for row in rows.tolist()]

    def log_probability(self, source: Tokens, prefix: Tokens, token: int) -> float:
        """The formula in double precision."""
        weights = [math.exp(logit) for logit in self.logits(source, prefix).tolist()]
        return math.log(weights[token] / sum(weights))


class ConstantStepper:
    """A stepper that always returns the same logits."""

    def __init__(self, logits: Sequence[float]) -> None:
        self.logits = torch.tensor(logits)
        self.count = 0

    def start(self, sources: Sequence[Sequence[int]]) -> None:
        self.count = len(sources)

    def step(self, tokens: Tensor) -> Tensor:
        assert len(tokens) == self.count
        return self.logits.repeat(self.count, 1)

    def reorder(self, rows: Tensor) -> None:
        self.count = len(rows)


SOURCES: list[Tokens] = [(4, 5), (6,), (3, 3, 3, 4), (5, 4), (9,)]


def exactly(length: int, **choices) -> SearchConfig:
    """A config whose longest output is `length` for every source."""
    return SearchConfig(
        max_length=length, max_length_ratio=0.0, max_length_offset=length, **choices
    )


def normalised(score: float, length: int, alpha: float) -> float:
    return score / ((5 + length) ** alpha / 6**alpha)


def total_score(stepper: TableStepper, source: Tokens, symbols: Tokens) -> float:
    return sum(
        stepper.log_probability(source, symbols[:i], symbol) for i, symbol in enumerate(symbols)
    )


def rank(candidate: tuple[Tokens, float], alpha: float) -> tuple[bool, float]:
    symbols, score = candidate
    return EOS not in symbols, -normalised(score, len(symbols), alpha)


def reference_beam(
    stepper: TableStepper, source: Tokens, config: SearchConfig, prefix: Tokens = ()
) -> tuple[list[tuple[Tokens, float]], list[int]]:
    """One sentence, symbol by symbol: its (symbols, score) in order, and the live rows by step."""
    live, found, counts = [((), 0.0)], [], []
    longest = longest_output(len(source), config, len(prefix))
    while live and len(live[0][0]) < longest:
        counts.append(len(live))
        candidates = []
        for symbols, score in live:
            step = len(symbols)
            allowed = set(range(3, stepper.vocabulary))
            n = config.no_repeat_ngram
            if n:
                seen = {symbols[i : i + n] for i in range(step - n + 1)}
                allowed -= {t for t in allowed if (*symbols, t)[step - n + 1 :] in seen}
            allowed |= {EOS} if step >= config.min_length else set()
            allowed = {prefix[step]} if step < len(prefix) else allowed
            for token in allowed:
                gain = stepper.log_probability(source, symbols, token)
                candidates.append(((*symbols, token), score + gain))
        if not candidates:
            break
        best = sorted(candidates, key=lambda c: -c[1])[: config.beam_size - len(found)]
        found += [candidate for candidate in best if candidate[0][-1] == EOS]
        live = [candidate for candidate in best if candidate[0][-1] != EOS]
    ranked = sorted(found + live, key=lambda c: rank(c, config.length_penalty))
    return ranked[: config.n_best], counts


def symbols_of(hypothesis: Hypothesis) -> Tokens:
    return (*hypothesis.tokens, EOS) if hypothesis.finished else hypothesis.tokens


def assert_same(hypotheses: list[Hypothesis], expected: list[tuple[Tokens, float]]) -> None:
    assert [symbols_of(h) for h in hypotheses] == [symbols for symbols, _ in expected]
    assert [h.score for h in hypotheses] == pytest.approx(
        [score for _, score in expected], abs=1e-4
    )


# --- beam search -----------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
def test_a_beam_as_wide_as_all_candidates_finds_all_sequences_in_brute_force_order(alpha) -> None:
    longest, stepper = 4, TableStepper(vocabulary=6)
    words = range(3, 6)
    finished = [(*w, EOS) for n in range(longest) for w in itertools.product(words, repeat=n)]
    every = [*finished, *itertools.product(words, repeat=longest)]
    config = exactly(longest, beam_size=len(every), n_best=len(every), length_penalty=alpha)

    results = search(stepper, SOURCES, config)

    for source, hypotheses in zip(SOURCES, results, strict=True):
        scored = [(symbols, total_score(stepper, source, symbols)) for symbols in every]
        assert_same(hypotheses, sorted(scored, key=lambda c: rank(c, alpha)))


@pytest.mark.parametrize("vocabulary", [5, 8, 200])
@pytest.mark.parametrize("beam_size", [1, 2, 3, 5])
def test_a_narrow_beam_gives_what_the_reference_gives(vocabulary: int, beam_size: int) -> None:
    for alpha, end_bonus in ((0.0, 1.0), (1.0, 0.0), (0.6, math.log(vocabulary) - 1)):
        stepper = TableStepper(vocabulary, end_bonus)
        config = exactly(9, beam_size=beam_size, n_best=beam_size, length_penalty=alpha)
        for source, hypotheses in zip(SOURCES, search(stepper, SOURCES, config), strict=True):
            assert_same(hypotheses, reference_beam(stepper, source, config)[0])


def test_a_beam_of_one_takes_the_likeliest_token_each_time() -> None:
    stepper = TableStepper(vocabulary=50, end_bonus=1.0)
    results = search(stepper, SOURCES, SearchConfig(beam_size=1))
    ends = set()
    for source, (hypothesis,) in zip(SOURCES, results, strict=True):
        symbols: Tokens = ()
        while EOS not in symbols and len(symbols) < 2 * len(source) + 20:
            logits = stepper.logits(source, symbols).clone()
            logits[[PAD, BOS]] = -math.inf
            symbols = (*symbols, int(logits.argmax()))
        assert symbols_of(hypothesis) == symbols
        ends.add(hypothesis.finished)
    assert ends == {True, False}


@settings(max_examples=60)
@given(
    longest=st.lists(st.integers(0, 9), max_size=5),
    vocabulary=st.integers(4, 40),
    min_length=st.integers(0, 4),
    end_bonus=st.sampled_from([0.0, 3.0]),
)
def test_greedy_search_is_beam_search_with_a_beam_of_one(
    longest: list[int], vocabulary: int, min_length: int, end_bonus: float
) -> None:
    config = SearchConfig(beam_size=1, min_length=min_length, max_length=9)
    sources, stepper = SOURCES[: len(longest)], TableStepper(vocabulary, end_bonus)
    stepper.start(sources)
    found = greedy_search(stepper, longest, config)
    seen, stepper.stepped = stepper.stepped, []
    stepper.start(sources)
    expected = beam_search(stepper, longest, [()] * len(longest), config)
    assert seen == stepper.stepped
    for (ours,), (other,) in zip(found, expected, strict=True):
        assert (ours.tokens, ours.finished) == (other.tokens, other.finished)
        assert ours.token_scores == pytest.approx(other.token_scores, abs=1e-6)
        assert ours.score == pytest.approx(other.score, abs=1e-5)
        assert ours.normalised_score == pytest.approx(other.normalised_score, abs=1e-5)
    stepper.start(sources)
    bare = search(stepper, sources, config, scored=False)
    stepper.start(sources)
    for (ours,), (other,) in zip(bare, search(stepper, sources, config), strict=True):
        assert (ours.tokens, ours.finished) == (other.tokens, other.finished)
        assert ours.token_scores == ()
        assert math.isnan(ours.score)
        assert math.isnan(ours.normalised_score)


@pytest.mark.parametrize(
    "device", ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(NO_GPU, reason="no GPU"))]
)
@pytest.mark.parametrize("first", [EOS, EOS + 1])
def test_the_likeliest_token_is_the_first_of_the_log_softmax(device: str, first: int) -> None:
    logits = torch.randn(6, 500, generator=torch.Generator().manual_seed(1)).to(device)
    logits[1] = -math.inf
    logits[2, 7:] = -math.inf
    logits[3, 4], logits[4, 5] = math.nan, math.inf
    logits[5, PAD] = 100.0
    expected = logits.double().log_softmax(dim=1)[:, first:].max(dim=1)
    for scored in (True, False):
        ids, scores = likeliest_token(logits.clone(), first, scored)
        assert scores[1] == -math.inf
        for row in (3, 4):
            with pytest.raises(SearchError, match="infinite or not a number"):
                check_scores(scores[[0, row]])
        check_scores(scores[[0, 1, 2, 5]])
        for row in (0, 2, 5):
            assert ids[row] == expected.indices[row].item() + first
            likelihood = expected.values[row].item() if scored else logits[row, ids[row]].item()
            assert scores[row] == pytest.approx(likelihood, rel=1e-5)


def test_hypotheses_are_distinct_and_in_order() -> None:
    config = SearchConfig(beam_size=8, n_best=8, max_length=12)
    for hypotheses in search(TableStepper(), SOURCES, config):
        assert len({symbols_of(h) for h in hypotheses}) == len(hypotheses) == 8
        keys = [(not h.finished, -h.normalised_score) for h in hypotheses]
        assert keys == sorted(keys)


def test_fewer_best_are_the_first_of_more() -> None:
    many = search(TableStepper(), SOURCES, SearchConfig(beam_size=6, n_best=6))
    few = search(TableStepper(), SOURCES, SearchConfig(beam_size=6, n_best=2))
    assert few == [hypotheses[:2] for hypotheses in many]


@pytest.mark.parametrize("method", ["beam", "sampling"])
def test_scores_are_those_of_the_model_for_the_same_tokens(method) -> None:
    stepper = TableStepper()
    config = SearchConfig(
        method, n_best=4, temperature=0.7, top_k=3, top_p=0.9, min_length=2, no_repeat_ngram=2
    )
    for source, hypotheses in zip(SOURCES, search(stepper, SOURCES, config), strict=True):
        for hypothesis in hypotheses:
            symbols = symbols_of(hypothesis)
            expected = [
                stepper.log_probability(source, symbols[:i], symbol)
                for i, symbol in enumerate(symbols)
            ]
            assert hypothesis.token_scores == pytest.approx(expected, abs=1e-5)
            assert hypothesis.score == pytest.approx(sum(hypothesis.token_scores), abs=1e-9)
            penalised = normalised(hypothesis.score, len(symbols), config.length_penalty)
            assert hypothesis.normalised_score == pytest.approx(penalised)
            assert not {PAD, BOS, EOS} & {*hypothesis.tokens}


# --- batches ---------------------------------------------------------------------------------

CONFIGS = st.builds(
    SearchConfig,
    method=st.sampled_from(["beam", "sampling"]),
    beam_size=st.integers(3, 6),
    n_best=st.integers(1, 3),
    min_length=st.integers(0, 3),
    max_length=st.just(10),
    max_length_offset=st.integers(0, 6),
    no_repeat_ngram=st.integers(0, 3),
    top_k=st.integers(0, 4),
    top_p=st.sampled_from([0.5, 1.0]),
)
WORDS = st.integers(3, 6)
REQUESTS = st.lists(
    st.tuples(
        st.lists(WORDS, max_size=4).map(tuple),
        st.lists(WORDS, max_size=2).map(tuple),
        st.integers(0, 99),
    ),
    min_size=1,
    max_size=7,
)


@settings(deadline=None, max_examples=150)
@given(config=CONFIGS, requests=REQUESTS, ties=st.booleans())
def test_a_sentence_gets_the_same_whatever_its_neighbours(config, requests, ties: bool) -> None:
    sources, prefixes, keys = ([request[i] for request in requests] for i in range(3))
    together = search(TableStepper(ties=ties), sources, config, prefixes, keys)
    for request, hypotheses in zip(requests, together, strict=True):
        source, prefix, key = request
        alone = search(TableStepper(ties=ties), [source], config, [prefix], [key])
        assert alone == [hypotheses]


def test_no_source_gives_no_result() -> None:
    assert search(TableStepper(), [], SearchConfig()) == []
    assert search(TableStepper(), [], SearchConfig(method="sampling")) == []


@pytest.mark.parametrize("beam_size", [1, 4])
def test_only_live_hypotheses_are_stepped(beam_size: int) -> None:
    config = SearchConfig(beam_size=beam_size, max_length=12, max_length_offset=4)
    stepper = TableStepper(end_bonus=1.5)
    search(stepper, SOURCES, config)
    expected: Counter[tuple[int, Tokens]] = Counter()
    for source in SOURCES:
        for step, count in enumerate(reference_beam(stepper, source, config)[1]):
            expected[step, source] += count
    stepped = Counter(
        (step, source) for step, rows in enumerate(stepper.stepped) for source, _ in rows
    )
    assert stepped == expected
    assert len(stepper.stepped[-1]) < len(SOURCES)


def test_only_unfinished_samples_are_stepped() -> None:
    stepper = TableStepper(end_bonus=1.0)
    config = SearchConfig("sampling", n_best=5, max_length=12)
    results = search(stepper, SOURCES, config)
    lengths = [len(h.token_scores) for hypotheses in results for h in hypotheses]
    assert [len(rows) for rows in stepper.stepped] == [
        sum(length > step for length in lengths) for step in range(max(lengths))
    ]


# --- length and constraints ------------------------------------------------------------------


def test_the_length_penalty_is_that_of_the_paper() -> None:
    assert length_penalty(7, 1.0) == 2.0
    assert length_penalty(19, 0.5) == 2.0
    assert length_penalty(100, 0.0) == 1.0


def test_the_longest_output_is_the_ratio_rounded_up() -> None:
    for hundredths, offset, limit in itertools.product((0, 50, 107, 110, 200), (0, 9), (0, 60)):
        config = SearchConfig(
            max_length_ratio=hundredths / 100, max_length_offset=offset, max_length=limit
        )
        for length in range(200):
            exact = math.ceil(Fraction(hundredths, 100) * length + offset)
            assert longest_output(length, config) == (min(exact, limit) if limit else exact)


@given(
    length=st.integers(0, 60),
    shortest=st.integers(1, 90),
    limit=st.sampled_from([0, 95]),
    positions=st.one_of(st.none(), st.integers(1, 100)),
)
def test_the_limit_allows_the_shortest_output_and_its_end(
    length: int, shortest: int, limit: int, positions: int | None
) -> None:
    config = SearchConfig(min_length=shortest, max_length=limit)
    free = longest_output(length, SearchConfig(max_length=limit), 0, positions)
    found = longest_output(length, config, 0, positions)
    assert found == max(free, min(shortest + 1, positions or shortest + 1))


@pytest.mark.parametrize("method", ["beam", "sampling"])
def test_outputs_keep_to_the_length_limits(method) -> None:
    config = SearchConfig(
        method, n_best=5, min_length=3, max_length_ratio=1.5, max_length_offset=3, max_length=8
    )
    seen = set()
    for source, hypotheses in zip(
        SOURCES, search(TableStepper(end_bonus=1.0), SOURCES, config), strict=True
    ):
        longest = min(8, math.ceil(1.5 * len(source) + 3))
        for hypothesis in hypotheses:
            if hypothesis.finished:
                assert 3 <= len(hypothesis.tokens) < longest
            else:
                assert len(hypothesis.tokens) == longest
            seen.add((hypothesis.finished, len(hypothesis.tokens)))
    assert {(True, 3), (False, 5)} <= seen


@pytest.mark.parametrize("method", ["beam", "sampling"])
def test_a_model_that_never_ends_is_stopped(method) -> None:
    logits = [0.0, 0.0, -math.inf, 1.0, 2.0, 0.5]
    results = search(ConstantStepper(logits), [[5], [5, 5]], SearchConfig(method, n_best=2))
    for length, hypotheses in zip((22, 24), results, strict=True):
        assert [h.finished for h in hypotheses] == [False, False]
        assert [len(h.tokens) for h in hypotheses] == [length, length]


@pytest.mark.parametrize("method", ["beam", "sampling"])
def test_an_output_of_no_length_is_empty_and_leaves_its_neighbours_alone(method) -> None:
    config = SearchConfig(method, max_length_ratio=2.0, max_length_offset=0)
    nothing, something = search(TableStepper(), [(), (4, 5)], config, keys=[0, 1])
    assert nothing == [Hypothesis((), 0.0, (), 0.0, finished=False)]
    assert [something] == search(TableStepper(), [(4, 5)], config, keys=[1])


@pytest.mark.parametrize("method", ["beam", "sampling"])
@pytest.mark.parametrize("beam_size", [1, 3])
@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_logits_that_are_no_numbers_are_an_error(method, beam_size: int, wrong: float) -> None:
    for place in (PAD, EOS, 4):
        logits = [0.0] * 6
        logits[place] = wrong
        with pytest.raises(SearchError, match="not a number"):
            search(ConstantStepper(logits), [[5]], SearchConfig(method, beam_size=beam_size))


@pytest.mark.parametrize("method", ["beam", "sampling"])
@pytest.mark.parametrize("beam_size", [1, 3])
def test_where_no_token_is_possible_the_output_stops_unfinished(method, beam_size: int) -> None:
    config = SearchConfig(method, beam_size=beam_size)
    ((hypothesis,),) = search(ConstantStepper([-math.inf] * 6), [[5]], config)
    assert hypothesis == Hypothesis((), 0.0, (), 0.0, finished=False)


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


@pytest.mark.parametrize("n", [1, 2, 3])
def test_beams_with_constraints_give_what_the_reference_gives(n: int) -> None:
    stepper = TableStepper(vocabulary=7)
    config = SearchConfig(n_best=5, max_length=9, min_length=2, no_repeat_ngram=n)
    prefixes: list[Tokens] = [(), (3,), (4, 4, 4, 4), (5, 6), (3, 4, 3)]
    results = search(stepper, SOURCES, config, prefixes)
    for source, prefix, hypotheses in zip(SOURCES, prefixes, results, strict=True):
        assert_same(hypotheses, reference_beam(stepper, source, config, prefix)[0])


@pytest.mark.parametrize("method", ["beam", "sampling"])
def test_outputs_begin_with_the_forced_prefix_whose_score_counts(method) -> None:
    # Force overrules what forbids a word to come twice.
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


@pytest.mark.parametrize("prefix", [(PAD,), (BOS,), (5, EOS), (-1,), (7,)])
def test_a_prefix_that_cannot_be_an_output_is_an_error(prefix: Tokens) -> None:
    with pytest.raises(SearchError, match="prefix"):
        search(TableStepper(vocabulary=7), [(4,), (5,)], SearchConfig(), [(), prefix])


@pytest.mark.parametrize("method", ["beam", "sampling"])
def test_a_long_prefix_leaves_the_usual_number_of_tokens_after_it(method) -> None:
    prefix = (3, 4, 5) * 20
    config = SearchConfig(method, beam_size=2, max_length_offset=7)
    never_ends = TableStepper(vocabulary=6, end_bonus=-100.0)
    for (hypothesis,), room in (
        (*search(never_ends, [(4,)], config, [prefix]), 7),
        (*search(never_ends, [(4,)], dataclasses.replace(config, max_length=63), [prefix]), 3),
        (*search(never_ends, [(4,)], dataclasses.replace(config, max_length=9), [prefix]), 0),
    ):
        assert hypothesis.tokens[: len(prefix)] == prefix
        assert len(hypothesis.tokens) == len(prefix) + room
        assert not hypothesis.finished


@pytest.mark.parametrize("method", ["beam", "sampling"])
def test_no_output_exceeds_the_positions_of_the_model(method) -> None:
    config = SearchConfig(method, min_length=50)
    never_ends = TableStepper(vocabulary=6, end_bonus=-100.0)
    prefixes = [(), (3,) * 8, (3,) * 9]
    for (hypothesis,) in search(never_ends, [(4,) * 30] * 3, config, prefixes, positions=9):
        assert len(hypothesis.tokens) == 9
    # The start symbol is among them.
    assert max(len(prefix) for rows in never_ends.stepped for _, prefix in rows) == 9


def test_a_prefix_error_counts_sentences_from_one() -> None:
    for prefix, positions in (((EOS,), None), ((3,) * 10, 9)):
        with pytest.raises(SearchError, match="the prefix of sentence 8 "):
            search(TableStepper(), [(4,), (5,)], SearchConfig(), [(), prefix], [2, 7], positions)


def test_a_hypothesis_reads_as_its_text() -> None:
    ((hypothesis,),) = search(TableStepper(), [(4,)], SearchConfig())
    assert str(dataclasses.replace(hypothesis, text="ein Satz")) == "ein Satz"


def test_prefixes_and_keys_must_be_as_many_as_the_sources() -> None:
    with pytest.raises(SearchError, match=r"1 prefixes .* 2 sources"):
        search(TableStepper(), [(4,), (5,)], SearchConfig(), prefixes=[()])
    with pytest.raises(SearchError, match=r"3 keys .* 2 sources"):
        search(TableStepper(), [(4,), (5,)], SearchConfig(), keys=[1, 2, 3])
    with pytest.raises(SearchError, match="negative"):
        search(TableStepper(), [(4,)], SearchConfig(method="sampling"), keys=[-1])


# --- sampling --------------------------------------------------------------------------------


def cut_distribution(
    stepper: TableStepper, source: Tokens, prefix: Tokens, config: SearchConfig
) -> dict[int, float]:
    """The probability of each token that may be drawn after a prefix."""
    logits = stepper.logits(source, prefix).tolist()
    weights = {
        t: math.exp(logit / config.temperature)
        for t, logit in enumerate(logits)
        if t not in (PAD, BOS)
    }
    ordered = sorted(weights, key=lambda t: -weights[t])[: config.top_k or None]
    whole, held, kept = sum(weights[t] for t in ordered), 0.0, []
    for token in ordered:
        if held < config.top_p * whole:
            kept.append(token)
        held += weights[token]
    return {t: weights[t] / sum(weights[k] for k in kept) for t in kept}


def sequence_distribution(
    stepper: TableStepper, source: Tokens, config: SearchConfig
) -> dict[Tokens, float]:
    """The probability of every output, by enumerating all outputs."""
    open_ends, chances = {(): 1.0}, {}
    for _ in range(longest_output(len(source), config)):
        following = {
            (*symbols, token): chance * share
            for symbols, chance in open_ends.items()
            for token, share in cut_distribution(stepper, source, symbols, config).items()
        }
        chances |= {s: chance for s, chance in following.items() if s[-1] == EOS}
        open_ends = {s: chance for s, chance in following.items() if s[-1] != EOS}
    return chances | open_ends


SAMPLINGS = [
    exactly(3, method="sampling", n_best=3000),
    exactly(3, method="sampling", n_best=3000, temperature=0.6, seed=2),
    exactly(3, method="sampling", n_best=3000, temperature=1.7, top_k=2),
    exactly(3, method="sampling", n_best=3000, top_p=0.75),
    exactly(3, method="sampling", n_best=3000, temperature=1.3, top_k=3, top_p=0.8, seed=3),
]


@pytest.mark.parametrize("config", SAMPLINGS)
def test_samples_come_as_often_as_the_distribution_says(config: SearchConfig) -> None:
    stepper = TableStepper(vocabulary=8)
    sources = SOURCES[:3]
    for source, hypotheses in zip(sources, search(stepper, sources, config), strict=True):
        chances = sequence_distribution(stepper, source, config)
        counts = Counter(symbols_of(h) for h in hypotheses)
        assert {*counts} <= {*chances}
        # Pearson's test, all rare outputs counted together; chance alone fails it once in 10,000.
        common = [s for s, chance in chances.items() if chance * config.n_best >= 5]
        pairs = [(counts[s], chances[s] * config.n_best) for s in common]
        observed, expected = (config.n_best - sum(column) for column in zip(*pairs, strict=True))
        if expected > 1:
            pairs.append((observed, expected))
        statistic = sum((seen - wanted) ** 2 / wanted for seen, wanted in pairs)
        freedom = torch.tensor((len(pairs) - 1) / 2, dtype=torch.float64)
        half = torch.tensor(statistic / 2, dtype=torch.float64)
        assert len(pairs) > 2
        assert float(torch.special.gammaincc(freedom, half)) > 1e-4


def test_a_cut_to_one_token_is_greedy_search() -> None:
    greedy = search(TableStepper(), SOURCES, SearchConfig(beam_size=1))
    for choices in (
        dict(top_k=1),
        dict(top_p=1e-9),
        dict(temperature=1e-7),
        dict(temperature=1e-300),
    ):
        config = SearchConfig(method="sampling", n_best=3, **choices)  # type: ignore[arg-type]
        sampled = search(TableStepper(), SOURCES, config)
        assert sampled == [hypotheses * 3 for hypotheses in greedy]


def test_samples_depend_on_seed_key_and_number_alone() -> None:
    config = SearchConfig(method="sampling", n_best=4)
    first = search(TableStepper(vocabulary=30), SOURCES, config)
    assert search(TableStepper(vocabulary=30), SOURCES, config) == first

    turned = search(TableStepper(vocabulary=30), SOURCES[::-1], config, keys=[4, 3, 2, 1, 0])
    assert turned[::-1] == first

    fewer = search(TableStepper(vocabulary=30), SOURCES, dataclasses.replace(config, n_best=2))
    assert fewer == [hypotheses[:2] for hypotheses in first]

    for other in (
        search(TableStepper(vocabulary=30), SOURCES, dataclasses.replace(config, seed=2)),
        search(TableStepper(vocabulary=30), SOURCES, config, keys=[5, 6, 7, 8, 9]),
    ):
        assert all(a != b for a, b in zip(other, first, strict=True))


def test_samples_of_equal_sentences_are_independent() -> None:
    config = SearchConfig(method="sampling", n_best=4)
    results = search(TableStepper(vocabulary=30), [(4, 5)] * 3, config)
    assert len({h.tokens for hypotheses in results for h in hypotheses}) == 12


# --- the best tokens -------------------------------------------------------------------------


@settings(deadline=None)
@given(
    rows=st.integers(1, 4), vocabulary=st.integers(8, 700), k=st.integers(1, 8), seed=st.integers(0)
)
def test_the_best_tokens_are_those_of_topk(rows: int, vocabulary: int, k: int, seed: int) -> None:
    chance = torch.Generator().manual_seed(seed % 2**63)
    logits = torch.randn(rows, vocabulary, generator=chance)
    logits[logits < -0.5] = -math.inf
    values, tokens = best_tokens(logits, k)
    assert torch.equal(values, logits.topk(k, dim=1).values)
    assert torch.equal(logits.gather(1, tokens), values)
    assert all(len({*row}) == k for row in tokens.tolist())


def test_the_fake_models_implement_the_protocol() -> None:
    steppers: list[Stepper] = [TableStepper(), ConstantStepper([0.0] * 5)]
    for stepper in steppers:
        stepper.start([[3], [4], [5]])
        stepper.reorder(torch.tensor([2, 0]))
        assert stepper.step(torch.tensor([BOS, BOS])).shape[0] == 2


def test_the_greedy_loop_runs_only_with_the_settings_that_it_knows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taken: list[str] = []
    for name in ("greedy_search", "beam_search"):
        found = lambda *given, name=name: taken.append(name) or []  # noqa: E731
        monkeypatch.setattr(f"clearhead.decoding.search.{name}", found)
    for chosen in (FurtherSearch(beam_size=1), FurtherSearch(beam_size=1, further=1)):
        search(TableStepper(), [[3]], chosen)
    assert taken == ["greedy_search", "beam_search"]
