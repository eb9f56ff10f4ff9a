"""A trained translator, from texts to hypotheses."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from clearhead.api.classifier import texts_of
from clearhead.checkpoint import ModelFolder, read_tokenizers
from clearhead.decoding.engine import Engine, Hypothesis
from clearhead.settings import RunConfig, SearchConfig

if TYPE_CHECKING:
    from clearhead.tokenizer import Tokenizer


class Translator:
    """A trained translator.

    Args:
        folder: its model folder, read.
        engine: what runs it.
    """

    def __init__(self, folder: ModelFolder, engine: Engine) -> None:
        self.folder = folder
        self.engine = engine
        self._tokenizers = read_tokenizers(folder.path, folder.config)

    @property
    def config(self) -> RunConfig:
        """The configuration it was trained with."""
        return self.folder.config

    @property
    def search(self) -> SearchConfig:
        """How it searches where nothing else is asked for."""
        return self.folder.config.search

    @property
    def source_tokenizer(self) -> Tokenizer:
        """Turns a source text into token ids."""
        return self._tokenizers[0]

    @property
    def target_tokenizer(self) -> Tokenizer:
        """Turns token ids into a target text."""
        return self._tokenizers[1]

    def translate(
        self,
        texts: Iterable[str],
        *,
        search: SearchConfig | None = None,
        prefixes: Iterable[str] | None = None,
        batch_size: int = 64,
        progress: Callable[[int], None] | None = None,
        offset: int = 0,
        **choices: Any,
    ) -> list[list[Hypothesis]]:
        """The hypotheses of each text, best first; `str(hypothesis)` is its text.

        Those of sampling stand in the order in which they were drawn.

        Args:
            texts: one sentence each; an empty one has one empty hypothesis.
            search: how to search; by default as the model's configuration says.
            prefixes: for each text the beginning that its translation must have; spaces at its
                ends do not count.
            batch_size: sentences at a time, at most.
            progress: told how many sentences are done.
            offset: how many texts came before these, where a stream is translated in blocks.
            choices: single settings of `SearchConfig` (beam_size=5, n_best=3), laid over `search`;
                those of sampling go with method="sampling", and a beam_size asks for a beam.

        Raises:
            SearchError: a choice is unknown or wrong, or means nothing for the method of search, or
                the prefixes do not fit.
            DataError: a text is no string, or the texts are a table.
            TypeError: `texts` is a single string.
            ClearheadError: the device failed, e.g. because the memory of the GPU is full.

        Warns:
            UserWarning: a text has more tokens than the model takes, and was cut; or a prefix holds
                what the vocabulary lacks.
        """
        from clearhead.decoding.texts import chosen_search, translate_texts

        return translate_texts(
            self.engine,
            self._tokenizers,
            texts_of(texts),
            chosen_search(self.search if search is None else search, choices),
            prefixes=prefixes if prefixes is None or isinstance(prefixes, str) else [*prefixes],
            batch_size=batch_size,
            progress=progress,
            offset=offset,
        )
