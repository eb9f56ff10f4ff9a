"""The linear model of n-grams: against scikit-learn, and what it may not depend on."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from clearhead.model.build import build_classifier
from clearhead.model.ngrams import LEAST, NgramClassifier
from clearhead.settings import ClassifierConfig
from small_models import labelled_run, small_config

VOCABULARY, LABELS, PAD = 12, 3, 0

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


def fitted(some: Sequence[Text], truth: Tensor, count: int = 1000) -> NgramClassifier:
    model = NgramClassifier(count, VOCABULARY, truth.size(1), PAD).double()
    model.fit([padded(some[:3]), padded(some[3:])], truth.double(), torch.ones(len(some)).double())
    return model


def words_of(text: Text) -> str:
    return " ".join(f"w{token}" for token in text)


@pytest.fixture(scope="module")
def sample() -> tuple[list[Text], Tensor]:
    rng = np.random.default_rng(1)
    labels = rng.integers(0, LABELS, 60)
    some = [
        [int(x) for x in rng.integers(1, VOCABULARY, 6)] + [int(label) + 1] * 2 for label in labels
    ]
    return some, torch.nn.functional.one_hot(torch.tensor(labels), LABELS).double()


def test_it_is_the_linear_support_vector_machine_of_scikit_learn(
    sample: tuple[list[Text], Tensor],
) -> None:
    text = pytest.importorskip("sklearn.feature_extraction.text")
    svm = pytest.importorskip("sklearn.svm")
    some, truth = sample
    model = fitted(some, truth)
    vectoriser = text.TfidfVectorizer(
        token_pattern=r"\S+", ngram_range=(1, 2), sublinear_tf=True, min_df=LEAST
    )
    features = vectoriser.fit_transform(map(words_of, some))
    known = int((model.idf > 0).sum())
    assert known == features.shape[1]
    ours = model.tfidf(padded(some))
    np.testing.assert_allclose(
        (ours @ ours.T).numpy(), (features @ features.T).toarray(), atol=1e-6
    )
    theirs = svm.LinearSVC(tol=1e-8, max_iter=100_000).fit(features, truth.argmax(dim=1).numpy())
    unseen = [[1, 1, 5, 7], [9, 3, 3], [11, 2, 4, 2, 6]]
    np.testing.assert_allclose(
        model.margins(padded(unseen)).numpy(),
        theirs.decision_function(vectoriser.transform(map(words_of, unseen))),
        atol=1e-3,
    )


@given(texts, st.integers(1, 4), st.booleans())
def test_padding_changes_nothing(some: list[Text], more: int, spells: bool) -> None:
    make = spelled if spells else padded
    truth = torch.eye(LABELS)[torch.arange(len(some)) % LABELS]
    model = NgramClassifier(50, VOCABULARY, LABELS, PAD)
    model.fit([make(some)], truth, torch.ones(len(some)))
    torch.testing.assert_close(model.margins(make(some)), model.margins(make(some, more)))


@given(texts, st.integers(1, 40), st.booleans())
def test_it_knows_the_n_grams_that_the_most_texts_have(
    some: list[Text], count: int, spells: bool
) -> None:
    make = spelled if spells else padded
    model = NgramClassifier(count, VOCABULARY, LABELS, PAD)
    model.fit([make(some)], torch.zeros(len(some), LABELS), torch.ones(len(some)))
    having = dict[tuple[object, ...], int]()
    for row in make(some).reshape(len(some), -1, 3 if spells else 1).tolist():
        words = [each[0] for each in row if each[0] != PAD]
        own = {("word", word) for word in words}
        own |= {("pair", *pair) for pair in pairwise(words)}
        own |= {("characters", c) for each in row for c in each[1:] if c}
        for ngram in own:
            having[ngram] = having.get(ngram, 0) + 1
    expected = sorted((n for n in having.values() if n >= LEAST), reverse=True)[:count]
    idf = [1 + np.log((1 + len(some)) / (1 + n)) for n in expected]
    np.testing.assert_allclose(sorted(model.idf[model.idf > 0].tolist()), sorted(idf), rtol=1e-5)


def test_a_text_without_known_n_grams_has_the_bias(sample: tuple[list[Text], Tensor]) -> None:
    some, truth = sample
    model = fitted([[token for token in text if token < 11] for text in some], truth)
    torch.testing.assert_close(model.margins(padded([[11], []])), model.bias.expand(2, -1))


def test_a_text_of_weight_0_is_as_if_it_had_no_label(sample: tuple[list[Text], Tensor]) -> None:
    some, truth = sample
    weights = torch.ones(len(some)).double()
    weights[:5] = 0.0
    other = truth.clone()
    other[:5] = other[:5].roll(1, dims=1)
    margins = []
    for labels in (truth, other):
        model = NgramClassifier(1000, VOCABULARY, LABELS, PAD).double()
        model.fit([padded(some)], labels, weights)
        margins.append(model.margins(padded(some)))
    torch.testing.assert_close(*margins)


def test_it_is_added_to_the_logits_only_outside_training(
    sample: tuple[list[Text], Tensor],
) -> None:
    some, truth = sample
    config = labelled_run(small_config(), ClassifierConfig(ngrams=100, dropout=0.0))
    model = build_classifier(config, VOCABULARY, LABELS)
    assert model.ngrams is not None
    model.ngrams.fit([padded(some)], truth.float(), torch.ones(len(some)))
    model.ngrams.factors.copy_(torch.tensor([0.5, 2.0]))
    ids = padded(some[:4])
    both = model.eval()(ids)
    margins = model.ngrams.margins(ids)
    assert margins.abs().min() > 0
    memory, mask = model.encode(ids)
    alone = model.output(model.state(ids, memory, mask))
    torch.testing.assert_close(both, 0.5 * alone + 2 * margins)
    model.training = True
    torch.testing.assert_close(model(ids), alone)
