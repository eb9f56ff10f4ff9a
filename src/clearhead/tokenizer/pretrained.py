"""The tokens of imported models, numbered so that PAD, BOS and EOS come first."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from clearhead.errors import ModelFolderError
from clearhead.folder.files import COPY_AGAIN, json_file
from clearhead.tokenizer.descriptions import check_description
from clearhead.tokenizer.protocol import BOS, EOS, Boundaries, Tokenizer, without_surrogates

if TYPE_CHECKING:
    import numpy as np

LARGEST_VOCABULARY = 10_000_000
"""More tokens than any tokenizer has."""


@dataclass(frozen=True)
class Numbering:
    """The numbers of an imported model's tokens: PAD, BOS and EOS first, the others in order.

    Args:
        size: number of tokens.
        pad: the model's own number of PAD; likewise `bos` and `eos`.

    Raises:
        ValueError: the three are not different numbers below `size`, or it is too large.
    """

    size: int
    pad: int
    bos: int
    eos: int

    def __post_init__(self) -> None:
        special = {self.pad, self.bos, self.eos}
        if any(type(number) is not int for number in (self.size, *special)):
            raise ValueError("the numbers of tokens are not whole numbers")
        if self.size > LARGEST_VOCABULARY:
            raise ValueError(f"{self.size:,} tokens are more than {LARGEST_VOCABULARY:,}")
        if len(special) < 3 or min(special) < 0 or max(special) >= self.size:
            raise ValueError(f"PAD, BOS and EOS are {self.pad}, {self.bos} and {self.eos}")

    @cached_property
    def theirs(self) -> np.ndarray:
        """The model's own number of each of our tokens, int64 (size,)."""
        import numpy as np

        special = [self.pad, self.bos, self.eos]
        return np.concatenate((special, np.delete(np.arange(self.size), special)))

    @cached_property
    def ours(self) -> np.ndarray:
        """Our number of each of the model's own tokens, int64 (size,)."""
        import numpy as np

        return np.argsort(self.theirs)


class JsonTokenizer(Tokenizer):
    """A tokenizer of the library `tokenizers`: WordPiece, byte-level BPE or unigram.

    `encode` adds the boundaries with which the model was trained, such as [CLS] and [SEP].

    Args:
        description: of the library, the content of a `tokenizer.json` of Hugging Face.
        numbering: of the tokens. There may be more than the library knows, because some models
            have more embeddings.
        unk_id: our number of the unknown token.

    Raises:
        ModelFolderError: the package `tokenizers` is not installed, or the tokenizer fails.
        ValueError: the description cannot be read, or has a part that clearhead does not use; its
            tokens do not fit the numbering; or it adds other boundaries than BOS and EOS.
    """

    def __init__(self, description: Mapping[str, Any], numbering: Numbering, unk_id: int) -> None:
        library = _library()
        if type(unk_id) is not int or not 0 <= unk_id < numbering.size:
            raise ValueError(f"the unknown token is {unk_id!r} of {numbering.size}")
        check_description(description, numbering.size)
        text = json.dumps({**description, "truncation": None, "padding": None})
        with _as_error("the package tokenizers cannot read the description"):
            self._tokenizer = library.Tokenizer.from_str(text)
        self.numbering = numbering
        self.unk_id = unk_id
        self.boundaries: Boundaries = _boundaries(self.encode(""))

    def __len__(self) -> int:
        return self.numbering.size

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        with _as_error("the tokenizer of the model cannot encode a text"):
            encoded = self._tokenizer.encode_batch_fast(list(map(without_surrogates, texts)))
            return [self.numbering.ours[each.ids].tolist() if each.ids else [] for each in encoded]

    @property
    def description(self) -> str:
        """The JSON text of the library."""
        return self._tokenizer.to_str()

    def decode(self, ids: Iterable[int]) -> str:
        """The text of the ids, as the library writes it."""
        theirs = self.numbering.theirs[[i for i in ids if i > EOS]]
        with _as_error("the tokenizer of the model cannot write a text"):
            return self._tokenizer.decode(theirs.tolist(), skip_special_tokens=True)

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """The library's name of each token; its number where the library knows none."""
        theirs = self.numbering.theirs[list(ids)].tolist()
        return [self._tokenizer.id_to_token(i) or f"<{i}>" for i in theirs]

    def files(self, name: str) -> dict[str, bytes]:
        """The content of `name.json`."""
        tree = {
            "kind": "pretrained",
            "library": "tokenizers",
            "numbering": astuple(self.numbering),
            "unk": self.unk_id,
            "description": json.loads(self.description),
        }
        return json_file(name, tree)


@contextmanager
def _as_error(what: str) -> Iterator[None]:
    """Around calls of the library `tokenizers`, which raises no narrower class than Exception."""
    try:
        yield
    except BaseException as error:
        is_panic = type(error).__name__ == "PanicException"
        if not (isinstance(error, Exception) or is_panic):
            raise
        raise ModelFolderError(what, why=str(error)[:500], todo=COPY_AGAIN) from None


def _boundaries(of_empty_text: list[int]) -> Boundaries:
    found: dict[tuple[int, ...], Boundaries] = {(): "none", (EOS,): "end", (BOS, EOS): "both"}
    if (added := tuple(of_empty_text)) not in found:
        raise ValueError(f"the tokenizer adds the tokens {added} to each text")
    return found[added]


def _library() -> Any:
    try:
        import tokenizers
    except ImportError:
        raise ModelFolderError(
            "the tokens of this imported model need the package tokenizers",
            todo="pip install tokenizers",
        ) from None
    return tokenizers
