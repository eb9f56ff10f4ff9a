"""The best tokens and their log-probabilities, compared with those of PyTorch."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.decoding.logits import best_tokens, check_scores, likeliest_token
from clearhead.errors import SearchError
from clearhead.tokenizer import EOS, PAD

NO_GPU = not torch.cuda.is_available()


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
