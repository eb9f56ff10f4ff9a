"""Word alignments: the matrices, the links, their error rate, and which measure is chosen."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import clearhead
from clearhead import nn
from clearhead.errors import ConfigError, DataError
from clearhead.inspect.alignment import (
    REMOVAL,
    Aligner,
    Link,
    Rule,
    aligned,
    alignment_error_rate,
    by_removal,
    candidates,
    choose,
    links,
    pair_of,
    parse_pharaoh,
    pharaoh,
    plain,
    word_matrix,
)
from clearhead.inspect.explanation import untranslated
from clearhead.inspect.measures import MEASURES
from clearhead.inspect.replay import Change
from clearhead.inspect.subject import Subject
from clearhead.inspect.words import Word
from small_models import random_model, small_config
from small_translators import SOURCE, TARGET, Translator


def test_a_word_has_the_sum_of_its_keys_and_the_mean_of_its_queries() -> None:
    rows = np.array([[0.1, 0.2, 0.7], [0.3, 0.3, 0.4], [0.6, 0.0, 0.4], [0.2, 0.2, 0.6]])
    source = [Word("a", (0, 1)), Word("b", (2,))]
    target = [Word("x", (0,)), Word("y", (1, 2))]
    found = word_matrix(rows, 0, source, target)
    np.testing.assert_allclose(found, [[0.3, 0.7], [0.6, 0.4]])
    shifted = word_matrix(rows, 1, source, target)
    np.testing.assert_allclose(shifted, [[0.6, 0.4], [0.5, 0.5]])


def test_a_link_is_the_largest_weight_of_a_target_word_and_its_share() -> None:
    found = links(np.array([[0.5, 1.5], [-1.0, -2.0], [3.0, 1.0]]))
    assert found == [Link(1, 0, 0.75), Link(0, 1, 0.0), Link(0, 2, 0.75)]
    both = links(np.array([[0.5, 1.0, 0.5], [3.0, 1.5, 0.0]]), "both")
    assert both == [Link(1, 0, 0.5), Link(2, 0, 0.25), Link(0, 1, 2 / 3), Link(1, 1, 1 / 3)]


pairs = st.frozensets(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=5)


@given(st.lists(st.tuples(pairs, pairs), min_size=1, max_size=4))
def test_the_error_rate_is_1_minus_f1(sentences: list[tuple[frozenset, frozenset]]) -> None:
    found, gold = zip(*sentences, strict=True)
    rate = alignment_error_rate(found, gold)
    both = sum(len(a & g) for a, g in sentences)
    total_found, total_gold = sum(map(len, found)), sum(map(len, gold))
    if both:
        precision, recall = both / total_found, both / total_gold
        assert rate == pytest.approx(1 - 2 * precision * recall / (precision + recall))
    else:
        assert rate == (1.0 if total_found + total_gold else 0.0)
    assert alignment_error_rate(gold, gold) == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "shift", "rule"), [("decoder.2.cross.1", 1, "target"), ("removal", 0, "both")]
)
def test_the_candidate_that_gives_the_wanted_links_is_chosen(
    name: str, shift: int, rule: Rule
) -> None:
    model = random_model(small_config(), scale=0.8).eval()
    subjects = [Subject(model, SOURCE, TARGET), Subject(model, SOURCE[::-1], [*TARGET, 5, 6])]
    pairs = [
        (
            subject,
            [Word(str(i), (i,)) for i in range(subject.replay.n_source)],
            [Word(str(i), (i,)) for i in range(subject.places - 1)],
        )
        for subject in subjects
    ]
    wanted = [plain(aligned(pair, Aligner(name, shift, rule, "gold", 0.0, 2))) for pair in pairs]
    aligner, errors = choose(pairs, wanted, "gold")
    assert aligner.score == errors[name, shift, rule] == 0
    assert [plain(aligned(pair, aligner)) for pair in pairs] == wanted
    assert aligner.sentences == 2
    assert len(errors) == 4 * len(candidates(model))
    assert {"decoder.1.cross", "decoder.2.cross.2", "rollout"} <= {key for key, *_ in errors}
    exact, errors = choose(pairs, by_removal(pairs), "removal")
    assert "removal" not in {key for key, *_ in errors}
    assert (exact.rule, exact.criterion) == ("both", "removal")


@given(pairs)
def test_links_are_written_and_read(found: frozenset) -> None:
    written = pharaoh(Link(i, j, 0.5) for i, j in found)
    assert parse_pharaoh(written, "a") == found
    assert pharaoh([Link(3, 1, 0.5), Link(0, 2, 1.0)], with_scores=True) == "0-2:1.000 3-1:0.500"


@pytest.mark.parametrize("line", ["0", "a-b", "0-", "-1-2", "0-0 1", "0:0", "1-²"])
def test_what_is_no_link_is_an_error(line: str) -> None:
    with pytest.raises(DataError) as error:
        parse_pharaoh(line, "gold:7")
    assert error.value.where == "gold:7"


def test_a_word_without_which_the_output_is_more_probable_has_no_link() -> None:
    subject = Subject(random_model(small_config(), scale=2).eval(), SOURCE, TARGET)
    source = [Word(str(i), (i,)) for i in range(len(SOURCE))]
    target = [Word(str(i), (i,)) for i in range(len(TARGET))]
    scores = subject.replay.log_probabilities([Change(), *(Change(source=(i,)) for i in range(5))])
    dropped = set(untranslated(subject, scores[:1] - scores[1:]))
    assert 0 < len(dropped) < len(SOURCE)
    matrix = word_matrix(MEASURES["rollout"].compute(subject), 0, source, target)
    found = aligned((subject, source, target), Aligner("rollout", 0, "both", "named", 0.0, 0))
    assert found == [link for link in links(matrix, "both") if link.source not in dropped]
    assert found != links(matrix, "both")


def test_a_word_that_the_model_does_not_read_has_no_link() -> None:
    subject = Subject(random_model(small_config(), scale=0.8).eval(), SOURCE, TARGET)
    source = [Word("\u200b", ()), *(Word(str(i), (i,)) for i in range(len(SOURCE)))]
    target = [Word(str(i), (i,)) for i in range(len(TARGET))]
    for rule in get_args(Rule):
        found = aligned((subject, source, target), Aligner("removal", 0, rule, "named", 0.0, 0))
        assert found
        assert 0 not in {link.source for link in found}


def test_align_in_python_is_what_is_aligned() -> None:
    translator = Translator()
    source, target = "a b c d", "p q r"
    found = clearhead.align(translator, source, target)
    assert (found.source, found.target) == (("a", "b", "c", "d"), ("p", "q", "r"))
    pair = pair_of(translator, source, target)
    assert list(found.links) == aligned(pair, REMOVAL)
    named = clearhead.align(translator, source, target, measure="decoder.2.cross.1")
    aligner = Aligner("decoder.2.cross.1", 0, "both", "named", 0.0, 0)
    assert list(named.links) == aligned(pair, aligner)
    assert parse_pharaoh(str(named), "") == plain(named.links)
    assert named.words == [(named.source[s], named.target[t]) for s, t, _ in named.links]


def test_a_model_of_ones_own_is_aligned_by_ids() -> None:
    model = nn.Transformer(13, 11, d_model=16, heads=2, layers=1).eval()
    found = clearhead.align(model, [3, 4, 5], [4, 6])
    assert (found.source, found.target) == (("3", "4", "5"), ("4", "6"))
    with pytest.raises(ConfigError):
        clearhead.align(nn.TransformerClassifier(13, 3, d_model=16, heads=2, layers=1), [3], [4])
    with pytest.raises(ConfigError):
        clearhead.align(model, [3], [4], measure="decoder.9.cross")
