"""Translating texts: empty and overlong ones, prefixes, and the settings of the search."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest

from clearhead.api import Translator
from clearhead.data.judging.text_style import longest_text
from clearhead.decoding import engine as engine_module
from clearhead.decoding import texts as texts_module
from clearhead.decoding.confidence import Confidence
from clearhead.decoding.engine import Engine, Hypothesis, Sentence
from clearhead.decoding.texts import repetition, with_errors
from clearhead.errors import ClearheadError, ModelFolderError, SearchError, TextWarning
from clearhead.settings import SearchConfig
from clearhead.text.memory import Memory
from translated import TEXTS, outputs


def kinds(hypothesis: Hypothesis) -> list[str]:
    """The kinds of warnings of a hypothesis."""
    return [each.kind for each in hypothesis.warnings]


def test_an_empty_text_gives_one_empty_hypothesis(translator: Translator) -> None:
    for hypotheses in translator.translate(["", " \t"], n_best=2):
        (hypothesis,) = hypotheses
        assert hypothesis.text == ""
        assert hypothesis.score == 0.0


def test_a_warning_names_a_prefix_that_cannot_begin_a_translation(translator: Translator) -> None:
    tokenizer = translator.target_tokenizer
    begins = tokenizer.decode(tokenizer.encode("a ж"))
    with pytest.warns(TextWarning, match="line 6 ") as caught:
        ((_,), (second,)) = translator.translate(["1 a", "1 b"], prefixes=["a", "a ж"], offset=4)
    messages = [str(each.message) for each in caught]
    assert any(begins in each and "a ж" in each for each in messages)
    assert "prefix" in kinds(second)
    assert second.text.startswith(begins)


def test_a_prefix_begins_the_translation(translator: Translator) -> None:
    for prefix in ("a b", "h"):
        ((hypothesis,),) = translator.translate(["1 a b c"], prefixes=[prefix])
        assert hypothesis.text.startswith(prefix)


def test_spaces_around_a_prefix_force_nothing(translator: Translator) -> None:
    assert translator.target_tokenizer.encode(" ")  # a piece, which would be forced
    bare = translator.translate(["1 a", "1 b"], prefixes=["", "a b"])
    assert translator.translate(["1 a", "1 b"], prefixes=[" ", " a b  "]) == bare


PAIRS = [("1 a  b", "h g"), ("2 a b c d e f g h", "g h"), ("5 a ж", "ж")]


def remembering(translator: Translator, engine: Engine) -> Translator:
    """The translator with another engine and a memory."""
    tokenizers = translator.source_tokenizer, translator.target_tokenizer
    memory = Memory(PAIRS, least=0.8)
    return Translator(translator.folder, tokenizers, engine, memory=memory)


def test_a_translation_of_the_memory_never_reaches_the_engine(translator: Translator) -> None:
    engine = Fake()
    found = remembering(translator, cast(Engine, engine)).translate(
        ["1 a b", "", "3 c", "5 a ж", "1 a b"], prefixes=["", "", "", " ", "a"], n_best=2
    )
    assert sum(engine.calls) == 2
    first, empty, model, unusual, begun = (best for best, *_ in found)
    assert (first.text, first.match, first.finished, first.warnings) == ("h g", 1.0, True, ())
    assert translator.target_tokenizer.decode(first.tokens) == "h g"
    assert math.isnan(first.score)
    assert math.isnan(first.normalised_score)
    assert first.token_scores == ()
    # The memory knows characters that the model does not.
    assert (unusual.text, unusual.match, unusual.warnings) == ("ж", 1.0, ())
    assert [each.match for each in (empty, model, begun)] == [0.0] * 3


@pytest.mark.parametrize(
    ("confidence", "is_used"), [(0.72, True), (0.75, False), (0.9, False), (None, False)]
)
def test_that_of_a_similar_text_is_taken_where_the_model_is_less_sure(
    translator: Translator, confidence: float | None, is_used: bool
) -> None:
    remembers = remembering(translator, cast(Engine, Fake()))
    bias = math.log(confidence / (1 - confidence)) if confidence else 0.0
    remembers.confidence = Confidence(0.0, bias, (0.0, 0.0, 0.0)) if confidence else None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        text = "2 a b c d e f g"
        ((found,),) = remembers.translate([text], offset=4)
    if not is_used:
        assert (found.text, found.match) == (text, 0.0)
        assert found.confidence == (confidence and pytest.approx(confidence))
        assert "similar" not in kinds(found)
        return
    assert (found.text, found.match) == ("g h", pytest.approx(30 / 32))
    assert found.confidence is None
    assert kinds(found) == ["similar"]
    assert "93 %" in found.warnings[0].text
    assert [str(each.message)[:6] for each in caught] == ["line 5"]


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
    monkeypatch.setattr(engine_module, "LONGEST_SOURCE", 6)
    with pytest.warns(TextWarning, match="line 12 has .* cut to 6"):
        ((short,), (long,)) = translator.translate(["1 a", "1 a b c d e f g h"], offset=10)
    assert ("cut" in kinds(short), "cut" in kinds(long)) == (False, True)


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


def words(tokens: Sequence[int]) -> str:
    """The text of tokens that are code points, with a space after each."""
    return " ".join(map(chr, tokens))


def repeated(text: str) -> str:
    return repetition(list(map(ord, text)), words)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("abababab", "a b"),
        ("xyzabababab!", "a b"),
        ("abcabcabcabcab", "a b c"),
        ("zzzz", ""),  # four letters
        ("ababab", ""),
        ("abaabaabb", ""),
        ("00000000", ""),
        ("1,1,1,1,1,1,", ""),
        ("........", ""),
        ("....abcabcabcabc", "a b c"),
        ("", ""),
        ("猫犬猫犬猫犬猫犬", "猫 犬"),
    ],
)
def test_a_part_that_comes_four_times_in_a_row_is_a_repetition(text: str, part: str) -> None:
    assert repeated(text) == part


def test_ordinary_sentences_do_not_repeat_themselves() -> None:
    for text in (
        "Ha ha ha, she said.",
        "No, no, no, I will not!",
        "It was very, very, very cold.",
        "1 000 000 000 people",
        "He is as tall as I am, and as old as I am, and as strong as I am.",
        "The dog that the cat that the mouse saw saw saw the man.",
        "- - - - - - - -",
    ):
        ids = {word: i for i, word in enumerate(text.split())}
        names = {i: word for word, i in ids.items()}
        tokens = [ids[word] for word in text.split()]
        assert repetition(tokens, lambda found, n=names: " ".join(n[i] for i in found)) == ""


@dataclass
class Fake:
    """An engine that gives the source ids back; some first ids are errors."""

    longest_source: int = 1024
    wrong: tuple[int, ...] = ()
    calls: list[int] = field(default_factory=list)
    change: Callable[[Hypothesis], Hypothesis] = lambda found: found

    def translate(
        self, sentences: Sequence[Sentence], search: SearchConfig, **_: Any
    ) -> list[list[Hypothesis]]:
        self.calls.append(len(sentences))
        if any(ids[0] in self.wrong for ids, *_ in sentences):
            raise SearchError("no probability is left")
        return [
            [self.change(Hypothesis(tuple(ids), -1.0, (), -1.0, finished=True))]
            for ids, *_ in sentences
        ]


@pytest.fixture
def fake(translator: Translator) -> Translator:
    """The translator with an engine that gives the source back."""
    tokenizers = translator.source_tokenizer, translator.target_tokenizer
    return Translator(translator.folder, tokenizers, cast(Engine, Fake()))


def test_what_there_is_to_say_of_a_text_and_of_its_translation_is_in_its_hypotheses(
    fake: Translator,
) -> None:
    unfinished = Fake(change=lambda found: replace(found, finished=False))
    looping = Fake(change=lambda found: replace(found, tokens=found.tokens * 8))
    for engine, text, expected in (
        (Fake(), "1 a b", []),
        (Fake(), "", []),
        (Fake(), "1 a ж", ["characters"]),
        (Fake(), "1 a" * 20, ["long"]),
        (Fake(), "1 a b " * 20, ["long"]),  # the source repeats itself
        (Fake(longest_source=4), "1 a b c d", ["cut"]),
        (unfinished, "1 a b", ["unfinished"]),
        (looping, "1 a b", ["repetition"]),
        (looping, "1 a b " * 20, ["long"]),
        (unfinished, "ж " + "1 a" * 20, ["characters", "long", "unfinished"]),
        (Fake(), "a" * (longest_text(1024) + 1), ["cut"]),
    ):
        fake.engine = cast(Engine, engine)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            (before,), (found,) = fake.translate(["", text], offset=7)
        assert (kinds(before), kinds(found)) == ([], expected)
        messages = [each.message for each in caught]
        assert [each.kind for each in messages if isinstance(each, TextWarning)] == expected
        assert all(str(message).startswith("line 9 ") for message in messages)


def test_there_is_one_warning_for_each_kind_in_a_call(fake: Translator) -> None:
    with pytest.warns(TextWarning) as caught:
        fake.translate(["1 ж", "1 a", "2 ж", "3 ж"])
    (warning,) = (each.message for each in caught)
    assert isinstance(warning, TextWarning)
    assert [line.split(" has ")[0] for line in warning.lines] == ["line 1", "line 3", "line 4"]


def test_a_folder_without_a_record_of_the_training_text_gives_no_warning(
    fake: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clearhead.data.judging.text_style.TextStyles.of", lambda folder: None)
    bare = Translator(fake.folder, (fake.source_tokenizer, fake.target_tokenizer), fake.engine)
    ((found,),) = bare.translate(["ж" * 200])
    assert kinds(found) == []


def test_the_error_of_one_text_does_not_fail_the_others(fake: Translator) -> None:
    texts = [f"{number} a" for number in range(20)]
    first = {text: fake.source_tokenizer.encode(text)[0] for text in texts}
    expected = fake.translate(texts)
    for wrong in ([3], [0, 19], [4, 5, 6]):
        ids = tuple(first[texts[i]] for i in wrong)
        failing = [i for i, text in enumerate(texts) if first[text] in ids]
        fake.engine = cast(Engine, Fake(wrong=ids))
        counts: list[int] = []
        with pytest.warns(TextWarning, match=f"line {failing[0] + 1} "):
            found = fake.translate(texts, on_error="return", progress=counts.append)
        for number, ((one,), right) in enumerate(zip(found, expected, strict=True)):
            if number in failing:
                assert isinstance(one.error, SearchError)
                assert (one.text, one.tokens, math.isnan(one.score)) == ("", (), True)
            else:
                assert [one] == right
        with pytest.raises(SearchError):
            fake.translate(texts)


def test_an_error_of_the_search_or_of_the_model_is_not_one_of_a_text(
    fake: Translator, translator: Translator
) -> None:
    fake.engine = cast(Engine, Fake(wrong=tuple(range(100))))
    with pytest.raises(SearchError):
        fake.translate(["1 a", "2 a"], on_error="return")
    settings: list[dict[str, Any]] = [{"batch_size": 0}, {"beam_size": 0}, {"prefixes": ["a"]}]
    for wrong in settings:
        with pytest.raises(SearchError):
            translator.translate(["1 a", "2 a"], on_error="return", **wrong)
    with pytest.raises(SearchError):
        translator.translate(["1 a"], on_error="ignore")


def test_a_prefix_that_is_too_long_is_an_error_of_its_text(translator: Translator) -> None:
    prefixes = ["", "a " * longest_text(1024), "b"]
    found = translator.translate(["1 a"] * 3, prefixes=prefixes, on_error="return", max_length=9)
    assert [each.error is None for each, *_ in found] == [True, False, True]
    assert "sentence 2 " in str(found[1][0].error)
    assert found[2][0].text.startswith("b")


def test_a_text_that_a_tokenizer_cannot_encode_is_an_error_of_that_text() -> None:
    def translate(first: int, last: int) -> list[list[Hypothesis]]:
        if first <= 2 < last:
            raise ModelFolderError("the tokenizer of the model cannot encode a text")
        return [[texts_module.EMPTY]] * (last - first)

    found = with_errors(translate, [()] * 7, lambda: None)
    assert [isinstance(one.error, ModelFolderError) for (one,) in found] == [
        number == 2 for number in range(7)
    ]

    def broken() -> None:
        raise ClearheadError("broken")

    with pytest.raises(ClearheadError, match="broken"):
        with_errors(translate, [()] * 7, broken)


def test_a_repetition_that_the_prefix_gives_is_none_of_the_translation(fake: Translator) -> None:
    looping = Fake(change=lambda found: replace(found, tokens=found.tokens * 8))
    fake.engine = cast(Engine, looping)
    ((plain,),) = fake.translate(["1 a b"])
    prefix = fake.target_tokenizer.decode(plain.tokens)
    ((begun,),) = fake.translate(["1 a b"], prefixes=[prefix])
    assert (kinds(plain), kinds(begun)) == (["repetition"], [])


@pytest.mark.parametrize("text", ["\u200b", "\xad", "\xa0\ufeff", "\u2060\u3000", "\u200e\u200d"])
def test_a_text_that_nobody_sees_is_empty(translator: Translator, text: str) -> None:
    ((hypothesis,),) = translator.translate([text])
    assert (hypothesis.text, hypothesis.tokens) == ("", ())
