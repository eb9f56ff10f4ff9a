"""The pieces of clearhead's SentencePiece tokenizers as a tokenizer of the library `tokenizers`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import sentencepiece
import tokenizers
from tokenizers import Regex, decoders, models, normalizers

from clearhead.tokenizer import BOS, EOS, PAD, SentencePieceTokenizer
from clearhead.tokenizer.normal_form import DOTTED, WIDTH_OFFSET, NormalForm
from clearhead.tokenizer.sampling import META_SPACE
from clearhead.tokenizer.sentencepieces import ESCAPE

SPECIAL = {BOS: "<pad>", EOS: "</s>"}
"""The names of our begin and end of sentence."""

FINAL_SIGMA = r"(?<=[\p{Lu}\p{Ll}\p{Lt}])Σ(?![\p{Lu}\p{Ll}\p{Lt}])"

NEVER = -1e6
"""The score of unigram pieces that are not pieces of texts."""


def fast_tokenizer(tokenizer: SentencePieceTokenizer) -> tokenizers.Tokenizer:
    """The same tokens, numbered from BOS on: without PAD, each has our id minus one.

    It adds no tokens to a text, as clearhead's own translators read none.
    """
    processor = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.model)
    ids = range(PAD + 1, len(tokenizer))
    names = [SPECIAL.get(i) or processor.id_to_piece(i) for i in ids]
    unknown = names[tokenizer.unk_id - 1]
    plain = {
        name: processor.get_score(i)
        for i, name in zip(ids, names, strict=True)
        if not (processor.is_control(i) or processor.is_unknown(i) or processor.is_byte(i))
    }
    has_bytes = "<0x00>" in names
    if tokenizer.kind == "bpe":
        vocabulary = {name: i for i, name in enumerate(names)}
        merges = [pair for pair, _ in sorted(_merges(plain), key=lambda merge: -merge[1])]
        model = models.BPE(
            vocabulary, merges, unk_token=unknown, fuse_unk=True, byte_fallback=has_bytes
        )
    else:
        scored = [(name, plain.get(name, NEVER)) for name in names]
        model = models.Unigram(scored, tokenizer.unk_id - 1, has_bytes)
    converted = tokenizers.Tokenizer(model)
    steps = [
        *_steps_of(tokenizer.form),
        normalizers.Replace(ESCAPE, f"{ESCAPE}0"),
        normalizers.Replace(META_SPACE, f"{ESCAPE}1"),
        normalizers.Prepend(META_SPACE),
        normalizers.Replace(" ", META_SPACE),
    ]
    converted.normalizer = normalizers.Sequence(steps)  # pyright: ignore[reportAttributeAccessIssue]
    back = [
        decoders.Replace(META_SPACE, " "),
        decoders.ByteFallback(),
        decoders.Fuse(),
        decoders.Strip(" ", 1, 0),
        decoders.Replace(f"{ESCAPE}1", META_SPACE),
        decoders.Replace(f"{ESCAPE}0", ESCAPE),
    ]
    converted.decoder = decoders.Sequence(back)  # pyright: ignore[reportAttributeAccessIssue]
    return converted


def _steps_of(form: NormalForm) -> Iterator[Any]:
    """The steps of a normaliser that are the same as a normal form."""
    unicode = getattr(normalizers, form.unicode) if form.unicode else None
    if unicode:
        for characters, new in ((form.spaces, " "), (form.removed, "")):
            if characters:
                escaped = "".join(f"\\x{{{ord(character):x}}}" for character in characters)
                yield normalizers.Replace(Regex(f"[{escaped}]"), new)
        for character in form.folded:
            yield normalizers.Replace(character, chr(ord(character) - WIDTH_OFFSET))
        yield unicode()
        if form.spaces:
            yield normalizers.Strip()
    if form.lower:
        dotless = (("I\u0307", "i"), ("\u0130", "i"), ("I", "\u0131"))
        for old, new in dotless if form.language else ():
            yield normalizers.Replace(old, new)
        # Lowercase does not know that a sigma at the end of a word has another form.
        yield normalizers.Replace(Regex(FINAL_SIGMA), "ς")
        yield normalizers.Lowercase()
        yield normalizers.Replace(Regex(DOTTED), "i")
        if unicode:
            yield unicode()


def _merges(scores: dict[str, float]) -> Iterator[tuple[tuple[str, str], float]]:
    """Each pair of pieces whose concatenation is a piece, with its score."""
    for piece, score in scores.items():
        for i in range(1, len(piece)):
            pair = piece[:i], piece[i:]
            if pair[0] in scores and pair[1] in scores:
                yield pair, score
