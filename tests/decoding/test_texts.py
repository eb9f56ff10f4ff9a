"""Translating texts: empty and overlong ones, prefixes, and the settings of the search."""

from __future__ import annotations

import pytest

from clearhead.api import Translator
from clearhead.decoding import texts as texts_module
from clearhead.settings import SearchConfig
from translated import TEXTS, outputs


def test_an_empty_text_gives_one_empty_hypothesis(translator: Translator) -> None:
    for hypotheses in translator.translate(["", " \t"], n_best=2):
        (hypothesis,) = hypotheses
        assert hypothesis.text == ""
        assert hypothesis.score == 0.0


def test_a_warning_names_a_prefix_that_cannot_begin_a_translation(translator: Translator) -> None:
    tokenizer = translator.target_tokenizer
    begins = tokenizer.decode(tokenizer.encode("a ж"))
    what = f"begins with {begins!r}, not with 'a ж'"
    with pytest.warns(UserWarning, match=r"prefix of line 6 .* vocabulary") as caught:
        ((_,), (second,)) = translator.translate(["1 a", "1 b"], prefixes=["a", "a ж"], offset=4)
    assert what in str(caught[0].message)
    assert second.text.startswith(begins)


def test_a_prefix_begins_the_translation(translator: Translator) -> None:
    for prefix in ("a b", "h"):
        ((hypothesis,),) = translator.translate(["1 a b c"], prefixes=[prefix])
        assert hypothesis.text.startswith(prefix)


def test_spaces_around_a_prefix_force_nothing(translator: Translator) -> None:
    assert translator.target_tokenizer.encode(" ")  # a piece, which would be forced
    bare = translator.translate(["1 a", "1 b"], prefixes=["", "a b"])
    assert translator.translate(["1 a", "1 b"], prefixes=[" ", " a b  "]) == bare


def test_samples_depend_on_the_seed_and_not_on_the_batch(translator: Translator) -> None:
    draw = dict(method="sampling", n_best=3, max_length=8)
    first = outputs(translator, TEXTS, seed=1, **draw)
    assert outputs(translator, TEXTS, seed=1, batch_size=1, **draw) == first
    assert outputs(translator, TEXTS, seed=2, **draw) != first
    blocks = [outputs(translator, TEXTS[i : i + 4], offset=i, **draw) for i in (0, 4, 8, 12)]
    joined = [sampled for block in blocks for sampled in block]
    assert joined == outputs(translator, TEXTS, **draw)


def test_an_overlong_text_is_cut_with_a_warning(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(texts_module, "LONGEST_SOURCE", 6)
    with pytest.warns(UserWarning, match="line 12 has .* cut to 6"):
        outputs(translator, ["1 a", "1 a b c d e f g h"], offset=10)


def test_settings_go_with_the_method_that_the_search_has_or_that_they_ask_for(
    translator: Translator,
) -> None:
    sampling = SearchConfig(method="sampling", top_k=3, n_best=2, max_length=8)
    drawn = outputs(translator, TEXTS, search=sampling, seed=3)
    named = dict(method="sampling", top_k=3, n_best=2, max_length=8, seed=3)
    assert drawn == outputs(translator, TEXTS, **named)
    assert drawn != outputs(translator, TEXTS, search=sampling, seed=4)
    # A setting of beam search selects beam search.
    beam = outputs(translator, TEXTS, search=sampling, beam_size=3)
    assert beam == outputs(translator, TEXTS, beam_size=3, n_best=2, max_length=8)


@pytest.mark.parametrize("text", ["\u200b", "\xad", "\xa0\ufeff", "\u2060\u3000"])
def test_a_text_that_nobody_sees_is_empty(translator: Translator, text: str) -> None:
    ((hypothesis,),) = translator.translate([text])
    assert (hypothesis.text, hypothesis.tokens) == ("", ())
