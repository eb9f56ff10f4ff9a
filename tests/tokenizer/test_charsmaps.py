"""Rules for characters that pass the check never make the library panic."""

from __future__ import annotations

import base64
from functools import cache
from io import BytesIO
from random import Random

import pytest
import sentencepiece
from tokenizers.normalizers import Precompiled

from clearhead.tokenizer.charsmaps import check_charsmap

TEXTS = ["\ufb01ne \u00bd \uff21\u0301 \uac00 \ufdfa", "".join(map(chr, range(1, 0xD000, 3)))]


@cache
def charsmap(name: str) -> bytes:
    """The rules that SentencePiece writes into its models."""
    model = BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["a b"]),
        model_writer=model,
        vocab_size=20,
        hard_vocab_limit=False,
        normalization_rule_name=name,
        minloglevel=2,
    )
    content = model.getvalue()
    at = content.index(name.encode()) + len(name)  # field 1 of the rules; field 2 has the table
    assert content[at] == 0x12
    size = shift = 0
    while True:
        at += 1
        size |= (content[at] & 0x7F) << shift
        shift += 7
        if content[at] < 0x80:
            return content[at + 1 : at + 1 + size]


def check(content: bytes) -> None:
    check_charsmap(base64.b64encode(content).decode())


@pytest.mark.parametrize("name", ["nfkc", "nmt_nfkc", "nmt_nfkc_cf"])
def test_the_rules_of_sentencepiece_are_accepted(name: str) -> None:
    check(charsmap(name))
    assert Precompiled(charsmap(name)).normalize_str("\uff21") in ("A", "a")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["nfkc", "nmt_nfkc"])
def test_damaged_rules_are_refused_or_harmless(name: str) -> None:
    whole, random, accepted = charsmap(name), Random(1), 0
    size = int.from_bytes(whole[:4], "little")
    for _ in range(60):
        content = bytearray(whole)
        for _ in range(random.choice((1, 1, 100))):
            start, end = random.choice(((0, 4), (4, 1500), (4, 4 + size), (4 + size, len(whole))))
            content[random.randrange(start, end)] = random.randrange(256)
        try:
            check(bytes(content))
        except ValueError:
            continue
        accepted += 1
        for text in TEXTS:
            Precompiled(bytes(content)).normalize_str(text)
    assert accepted


def unit(label: int, offset: int, has_text: bool = False) -> bytes:
    return (label | has_text << 8 | offset << 10).to_bytes(4, "little")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xff\xff\xff",
        b"\xf0\xff\xff\xff" + bytes(100),
        b"\4\0\0\0" + unit(0, 0) + b"a\0",  # the children of the root are beyond the table
        b"\0\4\0\0" + unit(0, 0) + bytes(96 * 4) + unit(97, 2**21 - 1) + bytes(158 * 4) + b"a\0",
        charsmap("nfkc")[:-20000],
        charsmap("nfkc") + b"\0" + b"a" * 300,
        charsmap("nfkc") + b"\xff",
        charsmap("nfkc") + bytes(2**21),
    ],
    ids=range(9),
)
def test_rules_that_lead_out_of_their_table_are_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"rule|utf-8"):
        check(content)


def test_a_table_with_a_circle_is_followed_once() -> None:
    table = [unit(0, 0), *(unit(byte, byte) for byte in range(1, 256))]
    check(b"\0\4\0\0" + b"".join(table) + b"a\0")
