"""The style of texts: measured, kept in a folder, compared with an input, and given to it."""

from __future__ import annotations

import sys
import warnings
from dataclasses import replace
from pathlib import Path

import pytest

from clearhead.data.judging import text_style
from clearhead.data.judging.text_style import (
    TEXT_STYLE,
    Extent,
    ExtentCounts,
    InputStyle,
    TextStyle,
    TextStyles,
    converter,
    style_of_texts,
    styles_of_pairs,
)
from clearhead.errors import ConfigError, ModelFolderError
from clearhead.folder.model_folder import open_folder
from clearhead.settings import TokenizerConfig
from clearhead.tokenizer import NormalForm, WordTokenizer
from model_folders import change_tree, folder_with

PLAIN = ["Two dogs, one cat.", "She sees Mr. Smith.", "It's a dog's life, isn't it?"]
MOSES = [
    "two dogs , one cat .",
    "she sees mr. smith .",
    "it &apos;s a dog &apos;s life , isn &apos;t it ?",
]
PREPARED = TextStyle(lower_cased=True, tokenised=True, quotes="escaped", language="en")


def read(style: InputStyle, texts: list[str], *, normalise: bool, tokens: int = 99) -> list[str]:
    """The texts as the model should get them."""
    return style.read(texts, normalise, tokens)[0]


def test_the_style_of_ordinary_text_and_of_moses_is_recognised() -> None:
    assert TextStyle.of(PLAIN, "en") == TextStyle(False, False, "straight", False, "en")
    assert TextStyle.of(MOSES, "en") == PREPARED
    assert TextStyle.of(["Das ist „schön“.", "Ça va, l’ami ?"]).quotes == "typographic"
    assert TextStyle.of(["a well @-@ known dog ."]).split_hyphens


@pytest.mark.parametrize("texts", [["我有一只猫"], ["12 34"], ["no punctuation", "at all"], []])
def test_what_texts_do_not_show_is_unknown(texts: list[str]) -> None:
    style = TextStyle.of(texts)
    assert style.tokenised is None
    assert style.quotes is None
    assert (style.lower_cased is None) == (not any(map(str.islower, "".join(texts))))


def test_abbreviations_in_tokenised_text_and_french_spaces_are_no_other_style() -> None:
    assert TextStyle.of(["mr. smith and dr. brown .", "the u.s. , again"]).tokenised
    assert TextStyle.of(["Où est le chat ?", "Voilà !", "Il dort, je crois."]).tokenised is False


def test_styles_are_kept_in_a_folder_and_a_folder_may_have_none(tmp_path: Path) -> None:
    assert TextStyles.of(folder_with(tmp_path / "none", {})) is None
    pairs = [(source, target, 1) for source, target in zip(MOSES, PLAIN, strict=True)]
    extents = {"source": Extent(", abc", 9, True), "target": Extent("", 4, False)}
    styles = styles_of_pairs(iter(pairs), ("en", "de"), extents)
    assert styles.sides["source"] == replace(PREPARED, characters=", abc", longest=9)
    assert TextStyles.of(folder_with(tmp_path, {TEXT_STYLE: styles})) == styles
    change_tree(tmp_path, "text_style.json", lambda tree: tree["sides"].update(source={"more": 1}))
    with pytest.raises(ModelFolderError) as caught:
        TextStyles.of(open_folder(tmp_path, trained=False))
    assert caught.value.where == str(tmp_path / "text_style.json")


@pytest.mark.parametrize(
    ("trained", "text", "different"),
    [
        (PREPARED, "Two dogs play in the snow.", True),
        (PREPARED, "two dogs play in the snow.", True),
        (PREPARED, "Two dogs play in the snow .", True),
        (PREPARED, "two dogs don't play", True),
        (PREPARED, "two dogs play in the snow .", False),
        (PREPARED, "mr. smith is here", False),
        (PREPARED, "", False),
        (TextStyle.of(PLAIN), "two dogs play", False),
        (TextStyle.of(PLAIN), "Two dogs play in the snow .", True),
        (TextStyle.of(PLAIN), "It’s a dog.", True),
        (TextStyle.of(["It’s a dog."]), "It's a dog.", False),
        (TextStyle.of(PLAIN), "TWO DOGS PLAY IN THE SNOW", True),
        (TextStyle.of(PLAIN), "NASA", False),
        (TextStyle.of(map(str.upper, PLAIN)), "TWO DOGS PLAY IN THE SNOW", False),
        (TextStyle(), "TWO DOGS PLAY IN THE SNOW", False),
        (TextStyle(), "Anything, it's all “the same”.", False),
    ],
)
def test_an_input_of_another_style_is_warned_of_once(
    trained: TextStyle, text: str, different: bool, tmp_path: Path
) -> None:
    style = InputStyle(tmp_path, trained)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert read(style, [text], normalise=False) == [text]
        assert read(style, [text] * 3, normalise=False) == [text] * 3
    assert len(caught) == different
    if different:
        assert "--normalise" in str(caught[0].message)


def test_what_an_imported_tokenizer_ignores_is_tried() -> None:
    config = TokenizerConfig(kind="pretrained")
    words = "Snow snow . snow.".split()
    uncased = WordTokenizer(words, form=NormalForm(lower=True), split_punctuation=True)
    assert PREPARED.after(config, uncased) == TextStyle(quotes="escaped", language="en")
    assert PREPARED.after(config, WordTokenizer(words)) == PREPARED


def test_few_capitals_in_a_long_input_are_no_other_style(tmp_path: Path) -> None:
    texts = ["two dogs play in the snow , near the lake of the town ."] * 200
    read(InputStyle(tmp_path, PREPARED), [*texts, "NASA is here ."], normalise=False)


def test_a_model_that_lower_cases_or_splits_by_itself_does_not_notice_it(tmp_path: Path) -> None:
    config = TokenizerConfig(kind="words", lower=True, split_punctuation=True)
    style = InputStyle(tmp_path, PREPARED.after(config, WordTokenizer([])))
    read(style, ["Two dogs play in the snow."], normalise=False)


@pytest.mark.parametrize(
    ("text", "converted"),
    [
        ("Two dogs play in the snow.", "two dogs play in the snow ."),
        (
            "It’s “well-known” & good [now].",
            "it &apos;s &quot; well-known &quot; &amp; good &#91; now &#93; .",
        ),
        ("", ""),
        *((text, text) for text in MOSES),
    ],
)
def test_texts_are_brought_into_the_style_of_moses(text: str, converted: str) -> None:
    assert converter(PREPARED)(text) == converted


def test_tokenised_text_is_joined_for_a_model_of_ordinary_text_which_stays_as_it_is() -> None:
    convert = converter(TextStyle.of(PLAIN))
    assert convert("Two dogs play , don &apos;t they ?") == "Two dogs play, don't they?"
    assert list(map(convert, PLAIN)) == PLAIN


def test_text_in_capitals_only_gets_small_letters_for_a_model_of_ordinary_text(
    tmp_path: Path,
) -> None:
    capitals, shorter = "TWO DOGS PLAY IN THE SNOW.", "A CAT."
    style = TextStyle.of(PLAIN)
    lower = "Two dogs play in the snow."
    for neighbours in ([], [shorter], PLAIN * 9):
        cased = read(InputStyle(tmp_path, style), [capitals, *neighbours], normalise=True)
        assert cased == [lower, *neighbours]
    # Few capitals may be an abbreviation.
    mixed = ["A man of NASA plays in the snow.", "NASA", "IBM, USA", shorter]
    assert read(InputStyle(tmp_path, style), mixed, normalise=True) == mixed
    for other in (TextStyle(), TextStyle.of([capitals])):
        assert read(InputStyle(tmp_path, other), [capitals], normalise=True) == [capitals]


def test_hyphens_are_split_as_in_the_training_text() -> None:
    convert = converter(TextStyle(tokenised=True, split_hyphens=True))
    assert convert("a well-known dog.") == "a well @-@ known dog ."
    assert convert("a well @-@ known dog .") == "a well @-@ known dog ."


def test_hyphens_are_split_if_most_texts_with_hyphens_split_them() -> None:
    split, whole = "a well @-@ known dog .", "a well-known dog ."
    for number in (1, 8, 40):
        style = TextStyle.of([split] * number + [whole] * 4)
        assert style.split_hyphens == (number == 40)
    assert not TextStyle.of([whole, "a dog ."]).split_hyphens
    assert not TextStyle.of(["a dog ."]).split_hyphens


def test_what_cannot_be_normalised_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError):
        read(InputStyle(tmp_path, None), ["a"], normalise=True)
    monkeypatch.setitem(sys.modules, "sacremoses", None)
    with pytest.raises(ConfigError) as caught:
        read(InputStyle(tmp_path, PREPARED), ["a"], normalise=True)
    assert "pip install sacremoses" in str(caught.value.todo)


def extent_of(texts: list[str]) -> Extent:
    counts = ExtentCounts()
    counts.add(texts)
    return counts.extent()


@pytest.mark.parametrize(
    ("texts", "longest", "spaced"),
    [
        (["a b c"] * 99 + ["a " * 40], 3, True),
        (["a b c"] * 97 + ["a " * 40] * 3, 40, True),
        (["今日は天気がいいですね。"] * 99 + ["猫" * 90], 12, False),
        (["tree", "houses"] * 50, 6, False),  # of single words
        ([], 0, False),
    ],
)
def test_nearly_all_training_texts_have_at_most_the_recorded_length(
    texts: list[str], longest: int, spaced: bool
) -> None:
    found = extent_of(texts)
    assert (found.longest, found.spaced) == (longest, spaced)
    assert found.characters == "".join(sorted(set("".join(texts))))


def test_the_record_of_characters_is_bounded_and_can_be_written(tmp_path: Path) -> None:
    many = "".join(map(chr, range(0x3400, 0x3400 + text_style.MOST_CHARACTERS + 1)))
    assert extent_of([many]).characters == ""
    styles = style_of_texts(["a \ud800 b c"], "", extent_of(["a \ud800\udc00 b c"]))
    assert TextStyles.of(folder_with(tmp_path, {TEXT_STYLE: styles})) == styles
    assert styles.sides["text"].characters == " abc"


def test_a_model_that_starts_from_another_knows_the_characters_of_both() -> None:
    earlier = TextStyle(characters="abc", longest=30)
    new = Extent("cd", 4, True)
    assert new.joined(earlier) == Extent("abcd", 30, True)
    assert new.joined(replace(earlier, spaced=False)).longest == 4
    for unknown in (None, TextStyle()):
        assert new.joined(unknown).characters == ""


def remarks(style: InputStyle, text: str) -> list[str]:
    """The kinds of remarks on a text."""
    (_,), (found,) = style.read([text], normalise=False, tokens=99)
    return [each.kind for each in found]


def test_a_text_has_remarks_on_characters_and_length_that_the_training_text_lacks(
    tmp_path: Path,
) -> None:
    style = InputStyle(tmp_path, TextStyle(characters=" abc.", longest=4))
    assert remarks(style, "a b c.") == []
    assert remarks(style, "") == []
    assert remarks(style, "a b c d") == ["characters"]
    assert remarks(style, "a b a b a b") == []  # not much longer
    assert remarks(style, "a b a b a b a") == ["long"]
    assert remarks(style, "\u200b" * 9 + "a " * 9) == ["characters", "long"]
    (_,), ((one,),) = style.read(["a\u200bb ж\u200b"], normalise=False, tokens=99)
    assert "U+200B ZERO WIDTH SPACE, U+0436 CYRILLIC SMALL LETTER ZHE" in one.text
    unspaced = InputStyle(tmp_path, TextStyle(characters="猫犬。", longest=4, spaced=False))
    assert remarks(unspaced, "猫犬猫犬猫。") == []
    assert remarks(unspaced, "猫犬猫犬猫犬。") == ["long"]
    for unknown in (None, TextStyle()):
        assert remarks(InputStyle(tmp_path, unknown), "ж " * 99) == []


def test_characters_are_compared_as_the_tokenizer_reads_them(tmp_path: Path) -> None:
    known = TextStyle(characters="AB\u00a0", longest=4)
    assert remarks(InputStyle(tmp_path, known), "a b") == ["characters"]
    assert remarks(InputStyle(tmp_path, known, lambda t: t.lower().replace(" ", "")), "a B") == []


def test_a_text_is_cut_before_anything_is_done_with_it(tmp_path: Path) -> None:
    most = text_style.longest_text(99)
    for normalise in (False, True):
        style = InputStyle(tmp_path, replace(TextStyle.of(PLAIN), longest=9, spaced=False))
        texts, found = style.read(["a" * most, "a" * (most + 1)], normalise, 99)
        assert texts == ["a" * most] * 2
        assert [[each.kind for each in every] for every in found] == [["long"], ["cut"]]
