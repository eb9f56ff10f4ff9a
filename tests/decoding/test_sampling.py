"""Samples, compared with exact distributions."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter

import pytest
import torch

from clearhead.decoding.engine import longest_output
from clearhead.settings import SearchConfig
from clearhead.tokenizer import BOS, EOS, PAD
from fake_steppers import SOURCES, TableStepper, Tokens, exactly, search, symbols_of


def test_only_unfinished_samples_are_stepped() -> None:
    stepper = TableStepper(end_bonus=1.0)
    config = SearchConfig("sampling", n_best=5, max_length=12)
    results = search(stepper, SOURCES, config)
    lengths = [len(h.token_scores) for hypotheses in results for h in hypotheses]
    assert [len(rows) for rows in stepper.stepped] == [
        sum(length > step for length in lengths) for step in range(max(lengths))
    ]


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


@pytest.mark.slow
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
