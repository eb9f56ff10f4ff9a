"""The tokens of imported Marian translators: pieces of SentencePiece, numbered by a vocabulary."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import astuple

from clearhead.folder.files import json_file
from clearhead.tokenizer.pretrained import Numbering
from clearhead.tokenizer.protocol import BOS, EOS, PAD, Boundaries, Tokenizer, without_surrogates
from clearhead.tokenizer.sampling import META_SPACE
from clearhead.tokenizer.sentencepieces import processor_of, texts_of_library

SPECIAL = {PAD: "<pad>", BOS: "<s>", EOS: "</s>"}
"""How `pieces` names them, whatever their names in the vocabulary."""


class MarianTokenizer(Tokenizer):
    """The tokenizer of one side of a Marian translator.

    The vocabulary may be of both languages: then it has pieces that this side's SentencePiece
    model lacks. A language tag such as `>>fra<<` at the beginning of a text is one token.

    Args:
        model: the bytes of the side's SentencePiece model.
        vocabulary: the name of each of Marian's numbers; None: it has no name.
        numbering: of the tokens. PAD is not in Marian's vocabulary.
        unk_id: our id of the unknown token.
        boundaries: Marian's sources end with EOS.

    Raises:
        ValueError: the numbers do not belong together, or a name or piece is not Unicode text.
        RuntimeError: SentencePiece cannot read the model.
    """

    def __init__(
        self,
        model: bytes,
        vocabulary: Sequence[str | None],
        numbering: Numbering,
        unk_id: int,
        boundaries: Boundaries,
    ) -> None:
        if len(vocabulary) + 1 != numbering.size or not EOS < unk_id < numbering.size:
            raise ValueError(f"{len(vocabulary)} tokens, the unknown one is {unk_id}: {numbering}")
        "".join(name for name in vocabulary if name is not None).encode()  # checks each name
        self.model = model
        self.vocabulary = list(vocabulary)
        self.numbering = numbering
        self.unk_id = unk_id
        self.boundaries: Boundaries = boundaries
        self._processor = processor_of(model)
        names = [*self.vocabulary, None]
        self._names = [names[i] for i in numbering.theirs]
        self._ids = {name: i for i, name in enumerate(self._names) if name and i > EOS}

    def __len__(self) -> int:
        return self.numbering.size

    @property
    def numbers(self) -> dict[str, int]:
        """Marian's number of each name in its vocabulary."""
        return {name: i for i, name in enumerate(self.vocabulary) if name is not None}

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text's pieces, with EOS for a source; large batches use all cores."""
        tagged = [_without_tag(without_surrogates(text)) for text in texts]
        threads = -1 if len(texts) >= 1000 else 1
        with texts_of_library():
            pieces = self._processor.encode(
                [text for _, text in tagged], out_type=str, num_threads=threads
            )
        end = [EOS] if self.boundaries == "end" else []
        return [
            [self._ids.get(piece, self.unk_id) for piece in (*tag, *of_text)] + end
            for (tag, _), of_text in zip(tagged, pieces, strict=True)
        ]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of the ids, without special and unknown tokens."""
        pieces = [self._names[i] or "" for i in ids if i > EOS and i != self.unk_id]
        with texts_of_library():
            return self._processor.decode_pieces(pieces).replace(META_SPACE, " ").strip()

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """The piece of each id; its number where the vocabulary names none."""
        return [SPECIAL.get(i) or self._names[i] or f"<{i}>" for i in ids]

    def files(self, name: str) -> dict[str, bytes]:
        """The content of `name.model` and `name.json`."""
        tree = {
            "kind": "pretrained",
            "library": "marian",
            "numbering": astuple(self.numbering),
            "unk": self.unk_id,
            "boundaries": self.boundaries,
            "vocabulary": self.vocabulary,
        }
        return {f"{name}.model": self.model, **json_file(name, tree)}


def _without_tag(text: str) -> tuple[tuple[str, ...], str]:
    """The language tag at the beginning of a text, if there is one, and the rest."""
    end = text.find("<<") if text.startswith(">>") else -1
    return ((), text) if end < 0 else ((text[: end + 2],), text[end + 2 :])
