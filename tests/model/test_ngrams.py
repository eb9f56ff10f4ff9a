"""TF-IDF of n-grams: against scikit-learn, and what it may not depend on."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from clearhead.model.ngrams import Ngrams

VOCABULARY, PAD = 12, 0

Text = list[int]
texts = st.lists(st.lists(st.integers(1, VOCABULARY - 1), max_size=9), min_size=2, max_size=8)


def padded(some: Sequence[Text], more: int = 0) -> Tensor:
    longest = max(1, *map(len, some)) + more
    return torch.tensor([text + [PAD] * (longest - len(text)) for text in some])


def spelled(some: Sequence[Text], more: int = 0) -> Tensor:
    """Each token with two character n-grams, or with one if it is odd."""
    ids = padded(some, more)
    first = torch.where(ids != PAD, ids // 2 + 1, 0)
    second = torch.where((ids != PAD) & (ids % 2 == 0), ids // 3 + 20, 0)
    return torch.stack((ids, first, second), dim=2)


def fitted(some: Sequence[Text], count: int = 1000) -> Ngrams:
    ngrams = Ngrams(count, VOCABULARY, PAD).double()
    ngrams.fit([padded(some[:3]), padded(some[3:])])
    return ngrams


def words_of(text: Text) -> str:
    return " ".join(f"w{token}" for token in text)


def test_they_are_the_features_of_scikit_learn() -> None:
    text = pytest.importorskip("sklearn.feature_extraction.text")
    rng = np.random.default_rng(1)
    some = [[int(x) for x in rng.integers(1, VOCABULARY, 8)] for _ in range(60)]
    ngrams = fitted(some)
    vectoriser = text.TfidfVectorizer(token_pattern=r"\S+", ngram_range=(1, 2), sublinear_tf=True)
    expected = vectoriser.fit_transform(map(words_of, some))
    assert int((ngrams.idf > 0).sum()) == expected.shape[1]
    found = ngrams(padded(some))
    np.testing.assert_allclose(
        (found @ found.T).numpy(), (expected @ expected.T).toarray(), atol=1e-6
    )


@given(texts, st.integers(1, 4), st.booleans())
def test_padding_changes_nothing(some: list[Text], more: int, spells: bool) -> None:
    make = spelled if spells else padded
    ngrams = Ngrams(50, VOCABULARY, PAD)
    ngrams.fit([make(some)])
    torch.testing.assert_close(ngrams(make(some)), ngrams(make(some, more)))


def test_words_and_their_spelling_have_length_1_each() -> None:
    some = [[1, 2, 3, 3], [4, 5], []]
    ngrams = Ngrams(1000, VOCABULARY, PAD)
    ngrams.fit([spelled(some)])
    found = ngrams(spelled(some))
    is_pair_or_token = ngrams.numbers < (1 + VOCABULARY) * VOCABULARY
    for part in (is_pair_or_token, ~is_pair_or_token):
        torch.testing.assert_close(found[:, part].norm(dim=1), torch.tensor([1.0, 1.0, 0.0]))
    alone = Ngrams(1000, VOCABULARY, PAD)
    alone.fit([padded(some)])
    torch.testing.assert_close(
        alone(padded(some)) @ alone(padded(some)).T, _products(found, is_pair_or_token)
    )


def _products(found: Tensor, part: Tensor) -> Tensor:
    return found[:, part] @ found[:, part].T


@given(texts, st.integers(1, 40), st.booleans())
def test_sparse_features_are_the_same(some: list[Text], count: int, spells: bool) -> None:
    make = spelled if spells else padded
    ngrams = Ngrams(count, VOCABULARY, PAD)
    ngrams.fit([make(some)])
    found = ngrams.rows(make(some))
    assert found.is_sparse
    torch.testing.assert_close(found.to_dense(), ngrams(make(some)))


@given(texts, st.integers(1, 40), st.booleans())
def test_it_knows_the_n_grams_that_the_most_texts_have(
    some: list[Text], count: int, spells: bool
) -> None:
    make = spelled if spells else padded
    ngrams = Ngrams(count, VOCABULARY, PAD)
    ngrams.fit([make(some)])
    having = dict[tuple[object, ...], int]()
    for row in make(some).reshape(len(some), -1, 3 if spells else 1).tolist():
        words = [each[0] for each in row if each[0] != PAD]
        own = {("word", word) for word in words}
        own |= {("pair", *pair) for pair in pairwise(words)}
        own |= {("characters", c) for each in row for c in each[1:] if c}
        for ngram in own:
            having[ngram] = having.get(ngram, 0) + 1
    expected = sorted(having.values(), reverse=True)[:count]
    idf = [1 + np.log((1 + len(some)) / (1 + n)) for n in expected]
    np.testing.assert_allclose(sorted(ngrams.idf[ngrams.idf > 0].tolist()), sorted(idf), rtol=1e-5)


def test_a_text_without_known_n_grams_has_no_features() -> None:
    ngrams = fitted([[1, 2, 3]] * 4)
    assert not ngrams(padded([[11], []])).any()
