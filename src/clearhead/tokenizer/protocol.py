"""The protocol of a tokenizer, and the three ids that all tokenizers have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, Protocol

from clearhead.folder.model_folder import Stored
from clearhead.tokenizer.normal_form import PLAIN, NormalForm

PAD, BOS, EOS = 0, 1, 2

SYMBOLS = "".join(map(chr, range(0xE000, 0xE008)))
"""Characters for private use that stand for spans in masked text; see `clearhead.text.spans`."""

Boundaries = Literal["none", "end", "both"]
"""What `encode` adds to a text: nothing, EOS at its end, or BOS and EOS."""


def cut(ids: Sequence[int], longest: int, boundaries: Boundaries = "none") -> list[int]:
    """At most `longest` ids of a text. What is left out is before EOS if it ends with EOS."""
    if len(ids) <= longest or boundaries == "none":
        return list(ids[:longest])
    return [*ids[: longest - 1], EOS]


def without_surrogates(text: str) -> str:
    """The text with U+FFFD for each lone surrogate, which cannot be written in UTF-8."""
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")


class Tokenizer(Stored, Protocol):
    """Turns text into ids and back.

    The tokenizers of a translator are `source_tokenizer` and `target_tokenizer`:

        tokenizer = translator.source_tokenizer
        tokenizer.decode(tokenizer.encode("A man sleeps."))
    """

    form: NormalForm = PLAIN
    """What is done to a text before it is encoded."""

    boundaries: Boundaries = "none"
    """What `encode` adds to a text. Only tokenizers of imported models add anything."""

    unk_id: int
    """The id of everything that the vocabulary lacks."""

    sampling: float = 0.0
    """The strength of `sample_batch`; 0: no sampling."""

    def __len__(self) -> int:
        """The size of the vocabulary, special ids included."""
        ...

    def encode(self, text: str) -> list[int]:
        """The ids of a text, with BOS and EOS only as `boundaries` names them."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text, as `encode` gives them."""
        ...

    def sample_batch(self, texts: Sequence[str], seed: int) -> list[list[int]]:
        """Another segmentation of each text: a function of (texts, seed) alone."""
        return self.encode_batch(texts)

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids; PAD, BOS and EOS are skipped."""
        ...

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """The name of each id, for people."""
        ...
