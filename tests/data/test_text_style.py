"""The style of texts: measured, kept in a folder, compared with an input, and given to it."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import pytest

from clearhead.data import text_style
from clearhead.data.text_style import (
    InputStyle,
    TextStyle,
    TextStyles,
    converter,
    styles_of_pairs,
)
from clearhead.errors import ConfigError, ModelFolderError
from clearhead.files import write_json
from clearhead.settings import TokenizerConfig
from clearhead.tokenizer import NormalForm, WordTokenizer

PLAIN = ["Two dogs, one cat.", "She sees Mr. Smith.", "It's a dog's life, isn't it?"]
MOSES = [
    "two dogs , one cat .",
    "she sees mr. smith .",
    "it &apos;s a dog &apos;s life , isn &apos;t it ?",
]
PREPARED = TextStyle(lower_cased=True, tokenised=True, quotes="escaped", language="en")


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
    assert TextStyles.load(tmp_path) is None
    pairs = [(source, target, 1) for source, target in zip(MOSES, PLAIN, strict=True)]
    styles = styles_of_pairs(iter(pairs), ("en", "de"))
    assert styles.sides["source"] == PREPARED
    styles.save(tmp_path, text_style.TEXT_STYLE)
    assert TextStyles.load(tmp_path) == styles
    (file,) = tmp_path.iterdir()
    file.write_text(file.read_text().replace("true", "false"))
    with pytest.raises(ModelFolderError):
        TextStyles.load(tmp_path)


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
        assert style.read([text], normalise=False) == [text]
        assert style.read([text] * 3, normalise=False) == [text] * 3
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
    InputStyle(tmp_path, PREPARED).read([*texts, "NASA is here ."], normalise=False)


def test_a_model_that_lower_cases_or_splits_by_itself_does_not_notice_it(tmp_path: Path) -> None:
    config = TokenizerConfig(kind="words", lower=True, split_punctuation=True)
    style = InputStyle(tmp_path, PREPARED.after(config, WordTokenizer([])))
    style.read(["Two dogs play in the snow."], normalise=False)


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
    cased = InputStyle(tmp_path, style).read([capitals, shorter], normalise=True)
    assert cased == ["Two dogs play in the snow.", "A cat."]
    mixed = ["A man of NASA plays in the snow.", "NASA"]
    assert InputStyle(tmp_path, style).read(mixed, normalise=True) == mixed
    for other in (TextStyle(), TextStyle.of([capitals])):
        assert InputStyle(tmp_path, other).read([capitals], normalise=True) == [capitals]


def test_the_style_of_text_in_capitals_is_kept_in_a_folder(tmp_path: Path) -> None:
    styles = TextStyles({"text": TextStyle.of(["TWO DOGS PLAY IN THE SNOW."])})
    assert styles.sides["text"].upper_cased
    styles.save(tmp_path, text_style.TEXT_STYLE)
    assert TextStyles.load(tmp_path) == styles


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


def test_the_reason_why_an_imported_model_cannot_normalise_is_its_own(tmp_path: Path) -> None:
    reasons = []
    for fact in ("imported from", "clearhead"):
        write_json(tmp_path / "provenance.json", {fact: "x"})
        with pytest.raises(ModelFolderError) as caught:
            InputStyle(tmp_path, None).read(["a"], normalise=True)
        reasons.append((caught.value.why, caught.value.todo))
    assert "imported" in str(reasons[0])
    assert "imported" not in str(reasons[1])


def test_what_cannot_be_normalised_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ModelFolderError):
        InputStyle(tmp_path, None).read(["a"], normalise=True)
    monkeypatch.setitem(sys.modules, "sacremoses", None)
    with pytest.raises(ConfigError) as caught:
        InputStyle(tmp_path, PREPARED).read(["a"], normalise=True)
    assert "pip install sacremoses" in str(caught.value.todo)
