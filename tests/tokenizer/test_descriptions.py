"""Descriptions of imported tokenizers: those of the families are read, hostile ones refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from clearhead.errors import ModelFolderError
from clearhead.folder.model_folder import open_folder
from clearhead.tokenizer import JsonTokenizer, read_tokenizers
from clearhead.tokenizer.pretrained import Numbering
from huggingface_models import TOKENS
from model_folders import change_tree, reread

Tree = dict[str, Any]


@cache
def described(kind: str) -> str:
    folder = Path(mkdtemp(prefix="tokens-"))
    TOKENS[kind](folder)
    return (folder / "tokenizer.json").read_text()


def arguments(tree: Tree, size: int = 400) -> tuple[Tree, Numbering, int]:
    numbers = {
        token["content"].strip("[]<>").lower(): token["id"] for token in tree["added_tokens"]
    }
    bos = numbers["cls" if "cls" in numbers else "s"]
    eos = numbers["sep" if "sep" in numbers else "/s"]
    numbering = Numbering(size, numbers["pad"], bos, eos)
    return tree, numbering, int(numbering.ours[numbers["unk"]])


@pytest.mark.parametrize("kind", TOKENS)
def test_the_tokenizers_of_the_families_are_read(kind: str, tmp_path: Path) -> None:
    read = reread(JsonTokenizer(*arguments(json.loads(described(kind)))), tmp_path)
    assert isinstance(read, JsonTokenizer)
    theirs = tokenizers.Tokenizer.from_str(described(kind)).encode("the red ball")
    assert read.numbering.theirs[read.encode("the red ball")].tolist() == theirs.ids


def component(part: Any) -> Tree:
    return json.loads(part.__getstate__())


def replacing(*steps: Any) -> Callable[[Tree], None]:
    sequence = {"type": "Sequence", "normalizers": [component(step) for step in steps]}
    return lambda tree: tree.update(normalizer=sequence)


def test_the_normalizers_of_multilingual_models_are_read() -> None:
    tree = json.loads(described("XLMRoberta"))
    spaces = normalizers.Replace(tokenizers.Regex(" {2,}"), "\u2581")
    replacing(normalizers.Strip(left=False, right=True), spaces, normalizers.NFKC())(tree)
    assert JsonTokenizer(*arguments(tree)).encode("a  b ")


def changed(*path: Any, to: Any) -> Callable[[Tree], None]:
    def change(tree: Tree) -> None:
        for key in path[:-1]:
            tree = tree[key]
        tree[path[-1]] = to

    return change


WORDS = {"[UNK]": 0, "a": 1}


def word_piece(words: dict[str, int], longest: int = 100) -> Tree:
    limits = {"continuing_subword_prefix": "##", "max_input_chars_per_word": longest}
    return {"type": "WordPiece", "unk_token": "[UNK]", "vocab": words, **limits}


HOSTILE: dict[str, Callable[[Tree], None]] = {
    "doubling": replacing(*[normalizers.Replace("a", "aa")] * 40),
    "doubling a few times": replacing(*[normalizers.Replace("a", "aa")] * 4),
    "a long replacement": replacing(normalizers.Replace("a", "b" * 900)),
    "an empty pattern": changed(
        "normalizer", to={"type": "Replace", "pattern": {"String": ""}, "content": "a"}
    ),
    "a costly expression": replacing(normalizers.Replace(tokenizers.Regex("(a+)+$"), "")),
    "rules without end": changed(
        "normalizer", to={"type": "Precompiled", "precompiled_charsmap": "8P///wAA"}
    ),
    "an expression that splits": changed(
        "pre_tokenizer", to=component(pre_tokenizers.Split(tokenizers.Regex("(a+)+$"), "removed"))
    ),
    "bytes as characters, twice": changed(
        "pre_tokenizer",
        to={"type": "Sequence", "pretokenizers": [component(pre_tokenizers.ByteLevel())] * 2},
    ),
    "a sequence in a sequence": changed(
        "normalizer",
        to={"type": "Sequence", "normalizers": [{"type": "Sequence", "normalizers": []}]},
    ),
    "a template that repeats the text": changed(
        "post_processor",
        to=component(processors.TemplateProcessing(single=["$A"] * 20, special_tokens=[])),
    ),
    "an expression in the decoder": changed(
        "decoder", to=component(decoders.Replace(tokenizers.Regex("(a+)+$"), ""))
    ),
    "an unknown decoder": changed("decoder", to=component(decoders.CTC())),
    "no unknown token": changed("model", to=word_piece({"a": 0})),
    "no unknown piece": changed(
        "model", to={"type": "Unigram", "vocab": [["a", 0.0]], "unk_id": None}
    ),
    "a number beyond the embeddings": changed("model", to=word_piece({**WORDS, "b": 10**6})),
    "an added token beyond the embeddings": changed("added_tokens", -1, "id", to=10**6),
    "a template beyond the embeddings": changed(
        "post_processor", to=component(processors.BertProcessing(("a", 10**6), ("b", 10**6)))
    ),
    "an endless token": changed("model", to=word_piece({**WORDS, "b" * 2000: 2})),
    "words without end": changed("model", to=word_piece(WORDS, 10**9)),
    "an empty added token": changed("added_tokens", -1, "content", to=""),
    "random tokens": changed("model", "dropout", to=0.5),
    "no model": changed("model", to=None),
    "a model of another form": changed("model", to={"type": "BPE", "vocab": 5}),
    "a list of kinds": changed("normalizer", to={"type": ["NFC"]}),
}


@pytest.mark.parametrize("kind", ["Bert", "Roberta"])
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_description_is_refused(kind: str, name: str, tmp_path: Path) -> None:
    reread(JsonTokenizer(*arguments(json.loads(described(kind)))), tmp_path)
    change_tree(tmp_path, "tokenizer.json", lambda tree: HOSTILE[name](tree["description"]))
    with pytest.raises(ModelFolderError) as caught:
        read_tokenizers(open_folder(tmp_path, trained=False))
    assert caught.value.where in (None, str(tmp_path / "tokenizer.json"))


def test_a_panic_of_the_library_is_an_error_of_the_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tokenizer = JsonTokenizer(*arguments(json.loads(described("Bert"))))
    panicking = tokenizers.Tokenizer(models.BPE())
    normalizer: Any = normalizers.Precompiled(b"\4\0\0\0\0\0\0\0a\0")
    panicking.normalizer = normalizer
    monkeypatch.setattr(tokenizer, "_tokenizer", panicking)
    with pytest.raises(ModelFolderError):
        tokenizer.encode("b")
