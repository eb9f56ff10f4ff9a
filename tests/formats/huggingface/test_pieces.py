"""The converted tokenizers give the ids and texts of clearhead's."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from clearhead.data.reading.phrasebook import phrasebook_pairs
from clearhead.formats.huggingface.pieces import fast_tokenizer
from clearhead.settings import TokenizerConfig
from clearhead.tokenizer import SentencePieceTokenizer, with_form
from clearhead.tokenizer.normal_form import FULL_WIDTH, INVISIBLE, SPACES, NormalForm
from clearhead.tokenizer.sentencepieces import ESCAPE

pytest.importorskip("tokenizers")

BYTE = re.compile("<0x[0-9A-F]{2}>")
kinds = st.sampled_from(["bpe", "unigram"])
texts = st.one_of(
    st.text(max_size=40),
    st.text("aeiou tns.", max_size=40),
    st.lists(st.sampled_from(["the cat", " ", "  ", "▁", ESCAPE, "é", "☃", "\n"])).map("".join),
)


@cache
def both(kind: Any, lower: bool, byte_fallback: bool = True) -> tuple[SentencePieceTokenizer, Any]:
    pairs = phrasebook_pairs("phrasebook:en-es", "train")[:2000]
    config = TokenizerConfig(
        kind=kind, max_vocabulary=600, lower=lower, byte_fallback=byte_fallback
    )
    ours = SentencePieceTokenizer.learn([text for pair in pairs for text in pair], config)
    return ours, fast_tokenizer(ours)


@given(kinds, st.booleans(), st.booleans(), texts)
@example("bpe", False, True, " two  spaces ▁ and \U0010fffd")
def test_ids_and_texts_are_the_same(kind: str, lower: bool, byte_fallback: bool, text: str) -> None:
    ours, theirs = both(kind, lower, byte_fallback)
    ids = ours.encode(text)
    assert [i + 1 for i in theirs.encode(text).ids] == ids
    if ours.unk_id not in ids:  # has no text
        assert theirs.decode([i - 1 for i in ids]) == ours.decode(ids)


FORMS = (
    NormalForm("NFC", SPACES, INVISIBLE, FULL_WIDTH),
    NormalForm("NFKC", SPACES, INVISIBLE, lower=True),
    NormalForm("NFC", SPACES, INVISIBLE, lower=True, language="tr"),
    NormalForm("NFC"),
)


@cache
def both_in_form(kind: Any, form: NormalForm) -> tuple[SentencePieceTokenizer, Any]:
    ours = with_form(both(kind, False)[0], form)
    return ours, fast_tokenizer(ours)


characters = "aIiİıeéo \u0301\u0307\t\xa0\xad\u200b\u3000\ufeff\uff21\uff01가ﬁ\u1100\u1161Σ▁"
tricky = st.text(st.sampled_from(characters), max_size=30)


@given(kinds, st.sampled_from(FORMS), tricky | texts)
@example("bpe", FORMS[0], "\ufeff the\xa0c\xadat\u200b ｉｓ e\u0301 ")
@example("bpe", FORMS[2], "İI I\u0307 ΟΔΟΣ")
def test_the_normal_form_is_that_of_the_tokenizer(kind: str, form: NormalForm, text: str) -> None:
    ours, theirs = both_in_form(kind, form)
    assert [i + 1 for i in theirs.encode(text).ids] == ours.encode(text)
