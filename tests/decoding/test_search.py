"""Tests of the searches against brute force and a simple beam."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.decoding.beam import Trace, beam_search
from clearhead.decoding.constraints import Constraints, Forbidden
from clearhead.decoding.engine import Hypothesis, longest_output
from clearhead.decoding.search import greedy_search
from clearhead.errors import SearchError
from clearhead.settings import SearchConfig
from clearhead.tokenizer import BOS, EOS, PAD
from fake_steppers import (
    SOURCES,
    ConstantStepper,
    TableStepper,
    Tokens,
    exactly,
    search,
    symbols_of,
    total_score,
)
from further_search import FurtherSearch


def normalised(score: float, length: int, alpha: float) -> float:
    return score / ((5 + length) ** alpha / 6**alpha)


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


@pytest.mark.slow
@pytest.mark.parametrize("vocabulary", [5, 8, 200])
@pytest.mark.parametrize("beam_size", [1, 2, 3, 5])
def test_a_narrow_beam_gives_what_the_reference_gives(vocabulary: int, beam_size: int) -> None:
    for alpha, end_bonus in ((0.0, 1.0), (1.0, 0.0), (0.6, math.log(vocabulary) - 1)):
        stepper = TableStepper(vocabulary, end_bonus)
        config = exactly(9, beam_size=beam_size, n_best=beam_size, length_penalty=alpha)
        for source, hypotheses in zip(SOURCES, search(stepper, SOURCES, config), strict=True):
            assert_same(hypotheses, reference_beam(stepper, source, config)[0])


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
    expected = beam_search(stepper, longest, Constraints([Forbidden(config)]), config)
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


@pytest.mark.slow
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


# --- length and constraints ------------------------------------------------------------------


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


@pytest.mark.parametrize("n", [1, 2, 3])
def test_beams_with_constraints_give_what_the_reference_gives(n: int) -> None:
    stepper = TableStepper(vocabulary=7)
    config = SearchConfig(n_best=5, max_length=9, min_length=2, no_repeat_ngram=n)
    prefixes: list[Tokens] = [(), (3,), (4, 4, 4, 4), (5, 6), (3, 4, 3)]
    results = search(stepper, SOURCES, config, prefixes)
    for source, prefix, hypotheses in zip(SOURCES, prefixes, results, strict=True):
        assert_same(hypotheses, reference_beam(stepper, source, config, prefix)[0])


@pytest.mark.parametrize("method", ["beam", "sampling"])
def test_a_long_prefix_leaves_the_usual_number_of_tokens_after_it(method) -> None:
    prefix = (3, 4, 5) * 20
    config = SearchConfig(method, beam_size=2, max_length_offset=7)
    never_ends = TableStepper(vocabulary=6, end_bonus=-100.0)
    for (hypothesis,), more in (
        (*search(never_ends, [(4,)], config, [prefix]), 7),
        (*search(never_ends, [(4,)], dataclasses.replace(config, max_length=63), [prefix]), 3),
        (*search(never_ends, [(4,)], dataclasses.replace(config, max_length=9), [prefix]), 0),
    ):
        assert hypothesis.tokens[: len(prefix)] == prefix
        assert len(hypothesis.tokens) == len(prefix) + more
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


@settings(max_examples=50)
@given(
    source=st.sampled_from(SOURCES),
    beam_size=st.integers(1, 5),
    end_bonus=st.sampled_from([-1.0, 0.0, 2.0]),
    alpha=st.sampled_from([0.0, 1.0]),
)
def test_a_trace_is_the_tree_of_the_search(
    source: Tokens, beam_size: int, end_bonus: float, alpha: float
) -> None:
    config = SearchConfig(beam_size=beam_size, n_best=beam_size, length_penalty=alpha, max_length=6)

    def found(trace: Trace | None) -> list[Hypothesis]:
        stepper = TableStepper(end_bonus=end_bonus)
        stepper.start([source])
        limit = longest_output(len(source), config)
        return beam_search(stepper, [limit], Constraints([Forbidden(config)]), config, trace)[0]

    trace = Trace()
    hypotheses = found(trace)
    assert hypotheses == found(None)
    stepper = TableStepper(end_bonus=end_bonus)
    paths: list[Tokens] = []
    for node in trace.nodes:
        before = () if node.parent is None else paths[node.parent]
        paths.append((*before, node.token))
        assert node.step == len(before)
        assert node.score == pytest.approx(
            stepper.log_probability(source, before, node.token), abs=1e-5
        )
        total = sum(
            stepper.log_probability(source, before[:i], token) for i, token in enumerate(before)
        )
        assert node.total == pytest.approx(total + node.score, abs=1e-5)
        assert node.parent is None or trace.nodes[node.parent].state == "kept"
        assert (node.state == "finished") <= (node.token == EOS)
    kept = {
        path: node for path, node in zip(paths, trace.nodes, strict=True) if node.state != "pruned"
    }
    for hypothesis in hypotheses:
        node = kept[(*hypothesis.tokens, EOS) if hypothesis.finished else hypothesis.tokens]
        assert node.total == pytest.approx(hypothesis.score, abs=1e-5)
    for step in range(max(node.step for node in trace.nodes) + 1):
        nodes = [node for node in trace.nodes if node.step == step]
        taken = [node.total for node in nodes if node.state != "pruned"]
        pruned = [node.total for node in nodes if node.state == "pruned"]
        assert len(taken) <= beam_size
        assert not pruned or min(taken) >= max(pruned)
