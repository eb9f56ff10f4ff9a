"""The tokens of a Marian translator are those of transformers."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from io import BytesIO
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
import sentencepiece
from hypothesis import example, given
from hypothesis import strategies as st

from clearhead.errors import ModelFolderError
from clearhead.folder.model_folder import open_folder
from clearhead.formats.huggingface.translators import tokenizers_of
from clearhead.tokenizer import BOS, EOS, PAD, read_tokenizers
from clearhead.tokenizer.marian import MarianTokenizer
from clearhead.tokenizer.pretrained import Numbering
from marian_models import TAGS, write_tokenizer
from model_folders import change_tree, reread

transformers = pytest.importorskip("transformers")

KINDS: list[dict[str, Any]] = [
    {},
    dict(tags=TAGS),
    dict(separate=True),
    dict(separate=True, tags=TAGS, kind="bpe"),
]
kinds = st.sampled_from(range(len(KINDS)))
SPECIAL = re.compile("</s>|<unk>|<pad>")

texts = st.one_of(
    st.text(max_size=40),
    st.text("aeiou tns.¿", max_size=40),
    st.lists(
        st.sampled_from(["the cat", "el gato", " ", "<<", ">>", *TAGS, "☃", "ﬁ", "▁", "\t"])
    ).map("".join),
).filter(lambda text: not SPECIAL.search(text))


@cache
def both(kind: int) -> tuple[Any, tuple[MarianTokenizer, MarianTokenizer]]:
    folder = Path(mkdtemp(prefix="marian-"))
    write_tokenizer(folder, **KINDS[kind])
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    sizes = [len(v) for v in (theirs.encoder, getattr(theirs, "target_encoder", theirs.encoder))]
    config = {
        "vocab_size": sizes[0],
        "decoder_vocab_size": sizes[1],
        "pad_token_id": theirs.pad_token_id,
        "eos_token_id": theirs.eos_token_id,
    }
    return theirs, tokenizers_of(theirs, config)


def named(tokenizer: MarianTokenizer, ids: list[int]) -> list[str]:
    return ["<pad>" if i == BOS else tokenizer.pieces([i])[0] for i in ids]


@given(kinds, texts)
@example(1, ">>spa<< the cat is black")
@example(1, ">>deu<< the cat")
@example(1, ">>spa<<")
def test_ids_of_sources_are_those_of_transformers(kind: int, text: str) -> None:
    theirs, (ours, _) = both(kind)
    expected = theirs(text).input_ids
    vocabulary = theirs.encoder
    assert [vocabulary[name] for name in named(ours, ours.encode(text))] == expected


@given(kinds, texts)
def test_ids_of_targets_are_those_of_transformers(kind: int, text: str) -> None:
    theirs, (_, ours) = both(kind)
    expected = theirs(text_target=text).input_ids
    found = [*ours.encode(text), EOS]
    vocabulary = theirs.target_encoder if theirs.separate_vocabs else theirs.encoder
    assert [vocabulary[name] for name in named(ours, found)] == expected


@given(kinds, st.data())
def test_texts_of_outputs_are_those_of_transformers(kind: int, data: st.DataObject) -> None:
    theirs, (_, ours) = both(kind)
    ids = data.draw(st.lists(st.integers(1, len(ours) - 1), max_size=20))
    vocabulary = theirs.target_encoder if theirs.separate_vocabs else theirs.encoder
    numbers = [vocabulary[name] for name in named(ours, ids)]
    expected = theirs.decode(numbers, skip_special_tokens=True)
    assert ours.decode(ids) == expected
    assert expected == theirs.decode(numbers, skip_special_tokens=True, use_source_tokenizer=False)


@pytest.mark.slow
@given(kinds, st.lists(texts, max_size=4))
def test_a_batch_is_its_texts(kind: int, batch: list[str]) -> None:
    for tokenizer in both(kind)[1]:
        assert tokenizer.encode_batch(batch) == [tokenizer.encode(text) for text in batch]


@pytest.mark.parametrize("kind", range(len(KINDS)))
def test_a_saved_tokenizer_is_the_same(kind: int, tmp_path: Path) -> None:
    for tokenizer in both(kind)[1]:
        again = reread(tokenizer, tmp_path)
        assert again.files("t") == tokenizer.files("t")
        assert again.encode("the cat") == tokenizer.encode("the cat")
        assert len(again) == len(tokenizer)
        assert again.pieces([PAD, BOS, EOS]) == ["<pad>", "<s>", "</s>"]


def test_lone_surrogates_and_ids_without_a_name_are_no_text() -> None:
    _, (ours, _) = both(0)
    assert ours.encode("\ud800") == ours.encode("\ufffd")
    last = len(ours)
    numbering = replace(ours.numbering, size=last + 1, pad=last)
    names = [*ours.vocabulary, None]
    tokenizer = MarianTokenizer(ours.model, names, numbering, ours.unk_id, "end")
    assert tokenizer.pieces([last]) == [f"<{last}>"]
    assert tokenizer.decode([last]) == ""


@pytest.mark.parametrize("name", ["\ud800", 5, ["a"]])
def test_a_name_that_is_not_a_text_is_found_when_the_folder_is_loaded(
    name: Any, tmp_path: Path
) -> None:
    _, (ours, _) = both(0)
    reread(ours, tmp_path)

    def change(tree: Any) -> None:
        tree["vocabulary"][-1] = name

    change_tree(tmp_path, "tokenizer.json", change)
    with pytest.raises(ModelFolderError) as caught:
        read_tokenizers(open_folder(tmp_path, trained=False))
    assert caught.value.where == str(tmp_path / "tokenizer.json")


def test_rules_that_write_no_text_are_an_error_of_the_model(tmp_path: Path) -> None:
    """SentencePiece writes A1 for a, and in the damaged model bytes that are not UTF-8."""
    (tmp_path / "rules.tsv").write_text("61\tA1\n")
    model = BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["b c"]),
        model_writer=model,
        vocab_size=20,
        hard_vocab_limit=False,
        normalization_rule_tsv=str(tmp_path / "rules.tsv"),
        minloglevel=2,
    )
    whole = model.getvalue()
    for content in (whole, whole.replace("\xa1\0".encode(), b"\xff\xff\0")):
        names = ["<unk>", "</s>", "b", "c", "<pad>"]
        tokenizer = MarianTokenizer(content, names, Numbering(6, 5, 4, 1), 3, "end")
        if content is whole:
            assert tokenizer.encode("a")
            continue
        with pytest.raises(ModelFolderError):
            tokenizer.encode("a")
