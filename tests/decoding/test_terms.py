"""Terms as ids: what an output has of them, and the beam that places them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.decoding.engine import Hypothesis, Sentence
from clearhead.decoding.search import search
from clearhead.decoding.terms import Form, Terminology, Terms, Vocabulary
from clearhead.errors import SearchError
from clearhead.settings import SearchConfig, TokenizerConfig
from clearhead.text.glossary import Glossary
from clearhead.tokenizer import EOS, SentencePieceTokenizer, WordTokenizer
from fake_steppers import SOURCES, TableStepper, Tokens, exactly, symbols_of, total_score


def words(size: int) -> Vocabulary:
    """Each token is a word."""
    return Vocabulary(np.zeros(size, dtype=bool), np.ones(size, dtype=bool))


WORDS = words(9)

PARTS = Vocabulary(np.arange(9) == 6, np.ones(9, dtype=bool))
"""The token 6 continues a word."""


def terms(*forms: Sequence[Tokens], vocabulary: Vocabulary = WORDS) -> Terms:
    return Terms(tuple(tuple(map(Form, each)) for each in forms), vocabulary)


def test_an_output_has_each_term_as_often_as_it_is_wanted() -> None:
    both = terms([(3, 4), (5,)], [(3, 4)])
    assert both.lengths == (1, 2)
    assert both.progress([]) == (0, 0, (3, 5), None)
    assert both.progress([3]).placed == 1
    assert both.progress([3]).wanted == (4,)
    assert both.progress([7, 3, 4, 7]).wanted == (3, 5)
    assert both.are_in([3, 4, 3, 4])
    assert both.are_in([5, 8, 3, 4])
    assert not both.are_in([3, 4, 8, 4])


def test_a_term_is_no_part_of_a_longer_word() -> None:
    one = terms([(3,), (3, 6, 6)], vocabulary=PARTS)
    assert one.progress([3]).longer == (6,)
    assert one.progress([7]).longer is None
    assert not one.are_in([3, 6])
    assert one.are_in([3, 6, 6])
    assert not one.are_in([3, 6, 6, 6])
    assert one.are_in([3, 7, 6])


def test_a_form_after_a_mark_is_no_end_of_a_word() -> None:
    ends = np.arange(9) != 8
    after_mark = Form((3,), wanted=False, apart=True)
    glued = Terms(((after_mark, Form((4,))),), Vocabulary(WORDS.continues, ends))
    assert glued.progress([]).wanted == (4,)
    assert glued.are_in([8, 3])
    assert not glued.are_in([7, 3])


@given(
    st.lists(st.lists(st.tuples(st.integers(3, 5), st.integers(3, 5)), min_size=1), max_size=2),
    st.lists(st.integers(3, 6), max_size=8),
)
def test_progress_never_counts_more_than_there_is(forms: list, tokens: list[int]) -> None:
    wanted = terms(*forms)
    found = wanted.progress(tokens)
    assert found.complete <= found.placed <= wanted.least
    assert (found.complete == wanted.least) == wanted.are_in(tokens)
    assert bool(found.wanted) != wanted.are_in(tokens)


def placed(config: SearchConfig, wanted: list[Terms | None], **choices) -> list[list[Hypothesis]]:
    sentences = [
        Sentence(source, key=key, terms=each)
        for key, (source, each) in enumerate(zip(SOURCES, wanted, strict=True))
    ]
    return search(TableStepper(**choices), sentences, config)


@pytest.mark.parametrize(
    "one", [terms([(4,)]), terms([(3, 5), (5, 5)]), terms([(3,)], [(4, 3)]), terms([(5,)], [(5,)])]
)
def test_a_beam_as_wide_as_all_candidates_finds_the_best_output_with_the_terms(one: Terms) -> None:
    one = Terms(one.forms, words(6))
    longest, stepper = 5, TableStepper(vocabulary=6)
    every = [
        (*each, EOS)
        for n in range(longest)
        for each in itertools.product(range(3, 6), repeat=n)
        if one.are_in(each)
    ]
    config = exactly(longest, beam_size=3**longest, n_best=10, length_penalty=0.0)
    for source, hypotheses in zip(SOURCES, placed(config, [one] * 5, vocabulary=6), strict=True):
        scored = sorted((total_score(stepper, source, each), each) for each in every)[::-1]
        finished = [each for each in hypotheses if each.finished]
        assert [symbols_of(each) for each in finished] == [each for _, each in scored[:10]]
        assert [each.score for each in finished] == pytest.approx(
            [score for score, _ in scored[:10]], abs=1e-4
        )


@pytest.mark.parametrize("beam_size", [1, 2, 5])
@pytest.mark.parametrize("end_bonus", [0.0, 4.0])
def test_a_narrow_beam_places_all_terms_and_others_are_as_without(
    beam_size: int, end_bonus: float
) -> None:
    config = SearchConfig(beam_size=beam_size)
    many = words(40)
    first = terms([(30, 31, 32)], [(33,), (34, 35)], vocabulary=many)
    wanted = [first, None, terms([(36,)], vocabulary=many), None, None]
    found = placed(config, wanted, vocabulary=40, end_bonus=end_bonus)
    free = placed(config, [None] * 5, vocabulary=40, end_bonus=end_bonus)
    for each, (best, *_), (other, *_) in zip(wanted, found, free, strict=True):
        if each is None:
            assert best == other
        else:
            assert each.are_in(best.tokens)
    assert not first.are_in(free[0][0].tokens)


def test_after_a_term_its_word_ends() -> None:
    vocabulary = Vocabulary((np.arange(12) > EOS) & (np.arange(12) < 11), np.ones(12, dtype=bool))
    wanted = terms([(4,), (4, 5, 6)], vocabulary=vocabulary)
    found = placed(SearchConfig(beam_size=4, n_best=4), [wanted] * 5, vocabulary=12)
    for hypotheses in found:
        finished = [each.tokens for each in hypotheses if each.finished]
        assert finished
        assert all(map(wanted.are_in, finished))


def test_terms_are_not_sampled() -> None:
    with pytest.raises(SearchError):
        placed(SearchConfig("sampling"), [terms([(4,)]), *[None] * 4])


def test_a_word_is_a_token_of_words() -> None:
    tokenizer = WordTokenizer("der Drucker ist neu".split())
    glossary = Glossary([("printer", "Drucker"), ("scanner", "Scanner")])
    terminology = Terminology(glossary, tokenizer)
    found = terminology.glossary.find("the printer and the scanner")
    ids = terminology.ids(found)
    assert ids is not None
    assert len(ids.forms) == 1  # the vocabulary does not have the other one
    assert ids.are_in(tokenizer.encode("der Drucker ist neu"))
    assert not ids.are_in(tokenizer.encode("der ist neu"))
    assert terminology.ids([]) is None


def test_the_ids_and_the_text_agree_on_what_is_a_word(
    pieces: SentencePieceTokenizer,
) -> None:
    terminology = Terminology(Glossary([("printer", "Drucker|Druckers")]), pieces)
    found = terminology.glossary.find("printer")
    ids = terminology.ids(found)
    assert ids is not None
    for text in (
        *("der Drucker", "des Druckers", "(Drucker) ist neu", "Drucker.", "Drucker-Name"),
        *("Netzdrucker", "Druckerei", "der NetzDrucker", "der Drucken", ""),
    ):
        assert ids.are_in(pieces.encode(text)) == (not terminology.glossary.missing(found, text)), (
            text
        )


def test_a_script_without_spaces_has_terms_within_its_text() -> None:
    texts = ["打印机没有纸", "请打开打印机", "打印机很新(打印机)", "纸没有了"] * 20
    tokenizer = SentencePieceTokenizer.learn(texts, TokenizerConfig(max_vocabulary=300))
    terminology = Terminology(Glossary([("printer", "打印机")]), tokenizer)
    found = terminology.glossary.find("printer")
    ids = terminology.ids(found)
    assert ids is not None
    for text in ("打印机没有纸", "请打开打印机", "打开(打印机)", "打开打印机A", "打印很新", ""):
        # A piece may reach from a term into the next word.
        assert not (
            ids.are_in(tokenizer.encode(text)) and terminology.glossary.missing(found, text)
        ), text
    assert ids.are_in(tokenizer.encode("打开(打印机)"))
    # A form follows a word without a space.
    before = tokenizer.encode("请打开")
    for token in ids.progress(before).wanted:
        assert " " not in tokenizer.decode([*before, token])


@pytest.fixture(scope="module")
def pieces() -> SentencePieceTokenizer:
    texts = ["der Drucker ist neu", "des Druckers (Drucker) Namen", "Netz, Druckerei-Name."] * 20
    return SentencePieceTokenizer.learn(texts, TokenizerConfig(max_vocabulary=300))
