"""The normal form of text: what looks the same is the same for a model."""

from __future__ import annotations

import unicodedata
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from clearhead.data.preparation import learn_tokenizers
from clearhead.data.reading.parts import parts_of
from clearhead.settings import DataConfig, RunConfig, TokenizerConfig, config_from
from clearhead.tokenizer import (
    learn_tokenizer,
    read_tokenizers,
    tokenizer_files,
    with_form,
)
from clearhead.tokenizer.normal_form import (
    FULL_WIDTH,
    INVISIBLE,
    LABEL,
    SPACES,
    NormalForm,
    form_of,
    is_blank,
    lower_cased,
)
from model_folders import folder_with, reread

SOURCES = NormalForm("NFC", SPACES, INVISIBLE, FULL_WIDTH)
TARGETS = SOURCES.of_target()
FORMS = (
    *(SOURCES, TARGETS, LABEL, NormalForm("NFKC", SPACES, INVISIBLE)),
    *(replace(SOURCES, lower=True), replace(SOURCES, lower=True, language="tr")),
)
CLEAN = "the cat is black"
FAMILY = "\U0001f469\u200d\U0001f469\u200d\U0001f467"
PERSIAN = "می\u200cخواهم"
WALES = "\U0001f3f4\U000e0067\U000e0062\U000e0077\U000e006c\U000e0073\U000e007f"

any_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
pieces = st.sampled_from(
    "aIiİıeéo \u0301\u0307\u0323\xa0\xad\u200b\u3000\uff21\uff01가ﬁ\u1100\u1161"
)
tricky = st.text(pieces, max_size=12)


def config(normal_form: Any = "sources", **data: Any) -> RunConfig:
    return RunConfig(
        data=DataConfig(**data), tokenizer=TokenizerConfig(normal_form=normal_form, lower=True)
    )


@pytest.mark.parametrize(
    "text",
    [
        *("the\xa0cat\u202fis\u2009black", "the\u3000cat is\tblack", "\ufeffthe cat is black "),
        *(
            "the c\xadat is bl\u200back",
            "the \u2060cat is\u2063 bla\u034fck",
            "the cat\ufeff is black",
        ),
        *("ｔｈｅ　ｃａｔ is black", "the cat is black\t", "the cat\u2028is\x85black"),
    ],
)
def test_what_looks_like_a_source_is_read_as_it(text: str) -> None:
    assert SOURCES(text) == CLEAN


@pytest.mark.parametrize("text", ["Tiếng Việt", "한국어", "Żółć", "Ǹ Ȧ Ḯ"])
def test_composed_and_decomposed_text_is_the_same(text: str) -> None:
    for form in FORMS:
        assert form(unicodedata.normalize("NFD", text)) == form(text)


@pytest.mark.parametrize(
    "text", [FAMILY, PERSIAN, WALES, "\u202bשלום\u202c", "\u0600\u0661", "ﬁ x² ½"]
)
def test_characters_with_a_meaning_stay(text: str) -> None:
    assert SOURCES(text) == TARGETS(text) == text


def test_runs_of_spaces_stay_and_targets_keep_their_spaces_and_widths() -> None:
    assert SOURCES("a \xa0 b") == "a   b"
    text = " «\xa0Où\u202f?\xa0» ＮＨＫ\u3000\xad "
    assert TARGETS(text) == TARGETS(unicodedata.normalize("NFD", text)) == text


def test_nfkc_replaces_compatible_characters_in_sources_alone() -> None:
    # Languages are kept only where they change something.
    german = RunConfig(
        data=DataConfig(train=("a.de", "a.en")), tokenizer=TokenizerConfig(lower=True)
    )
    assert form_of(german) == NormalForm(lower=True)
    form = form_of(config("nfkc"))
    assert form("ﬁve ½ ① ＡＢ") == "five 1\u20442 1 ab"
    assert form.of_target()("ﬁve ½ ① Ａ") == "ﬁve ½ ① ａ"


@pytest.mark.parametrize("form", FORMS)
@given(text=any_text | tricky)
@example("")
@example("J\u030c H\u0331 İ\u0307")
def test_a_form_is_idempotent_and_the_same_for_nfd(form: NormalForm, text: str) -> None:
    found = form(text)
    assert form(found) == found == form(unicodedata.normalize("NFD", text))


@given(ascii_text=st.text(st.characters(min_codepoint=33, max_codepoint=126)), text=any_text)
def test_ascii_does_not_change_and_no_form_does_nothing(ascii_text: str, text: str) -> None:
    for form in (SOURCES, TARGETS, NormalForm("NFKC", SPACES, INVISIBLE)):
        assert form(ascii_text) == ascii_text
    assert NormalForm()(text) == text


@pytest.mark.parametrize("text", ["", " ", "\u200b", "\xad", "\xa0\ufeff \t", "\u2060"])
def test_invisible_lines_are_blank(text: str) -> None:
    assert is_blank(text)
    assert SOURCES(text) == ""
    assert not is_blank(f"{text}a{text}")


@pytest.mark.parametrize(
    ("language", "text", "lower"),
    [
        *(("", "İSTANBUL", "istanbul"), ("", "I\u0307Z", "iz"), ("", "IŞIK", "işik")),
        *(("tr", "İSTANBUL IŞIK", "istanbul ışık"), ("tr-TR", "I\u0307Iıi", "iııi")),
        *(("az-Latn", "İI", "iı"), ("tur-Latn", "I", "ı"), ("lt", "I\u0307", "i")),
        *(("de", "STRASSE ẞ", "strasse ß"), ("el", "ΟΔΟΣ", "οδος"), ("tru", "I", "i")),
    ],
)
def test_letters_are_lower_cased_by_the_language(language: str, text: str, lower: str) -> None:
    assert lower_cased(text, language) == lower
    assert replace(SOURCES, lower=True, language=language)(text) == lower


def test_full_width_characters_stay_where_the_training_text_has_them() -> None:
    letters = form_of(config(), ["ＮＨＫのニュース", "今日は"])
    assert letters("Ｎ！") == "ｎ!"
    marks = form_of(config(), ["你好！", "再见"])
    assert marks("Ｎ！") == "n！"
    assert form_of(config(), ["hello", *["a"] * 2000, "ｏ"])("Ｎ！") == "n!"


# Tokenizers


@pytest.mark.parametrize("kind", ["words", "bpe", "unigram"])
def test_a_tokenizer_reads_and_keeps_its_form(kind: Any, tmp_path: Path) -> None:
    texts = ["the cat is black", "the dog is here", unicodedata.normalize("NFD", "é")]
    tokenizer = learn_tokenizer(texts, TokenizerConfig(kind=kind, max_vocabulary=310), SOURCES)
    other = "\ufeffthe\xa0c\xadat is ｂlack "
    assert tokenizer.encode(other) == tokenizer.encode(CLEAN)
    assert tokenizer.encode_batch([other]) == tokenizer.encode_batch([CLEAN])
    assert tokenizer.sample_batch([other], 1) == tokenizer.sample_batch([CLEAN], 1)
    assert tokenizer.decode(tokenizer.encode("e\u0301")) == "é"
    loaded = reread(tokenizer, tmp_path)
    assert (loaded.form, loaded.files("t")) == (SOURCES, tokenizer.files("t"))
    plain = with_form(tokenizer, NormalForm())
    assert plain.encode(other) != plain.encode(CLEAN)
    assert b"normal_form" not in plain.files("t")["t.json"]
    assert reread(plain, tmp_path).form == NormalForm()


PAIRS = [("İYİ IŞIK bir", "The LIGHT\xa0IS good"), ("e\u0301 ev", "A house ｗ")] * 4


def pairs_run(**tokenizer: Any) -> RunConfig:
    languages = {"source_language": "tr", "target_language": "en"}
    settings = {"max_vocabulary": 330, "lower": True, "normal_form": "sources", **tokenizer}
    run = {"data": languages, "tokenizer": settings, "model": {"share_embeddings": "target"}}
    return config_from(run)


@pytest.mark.parametrize("joint", [True, False])
def test_the_sides_of_a_translator_have_their_own_forms(joint: bool, tmp_path: Path) -> None:
    run = pairs_run(joint=joint)
    source, target = learn_tokenizers(run, parts_of(run, PAIRS, PAIRS[:1]))
    loaded = read_tokenizers(folder_with(tmp_path, tokenizer_files(source, target, joint), run))
    assert [each.form for each in loaded] == [source.form, target.form]
    for own, other in ((source, target), loaded):
        assert own.decode(own.encode("Iİ\xa0ｗ")) == "ıi w"
        assert other.decode(other.encode("Iİ\xa0ｗ")) == "ii\xa0ｗ"


# What is read for training


def test_texts_for_training_are_read_in_their_form() -> None:
    run = pairs_run()
    [(source, target, _), *_] = parts_of(
        run, [("e\u0301\xa0A\xad", "e\u0301\xa0")], PAIRS
    ).train.pairs()
    assert (source, target) == ("é A", "é\xa0")
    none = pairs_run(normal_form="none")
    given = ("e\u0301\xa0\xad", "e\u0301")
    assert next(parts_of(none, [given], PAIRS).train.pairs())[:2] == given
