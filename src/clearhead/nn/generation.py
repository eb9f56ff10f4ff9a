"""Search over a model of your own: greedy, beam search, sampling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import torch
from jaxtyping import Int
from torch import Tensor, nn

from clearhead.decoding.engine import Hypothesis, Sentence, numbered
from clearhead.decoding.search import search as search_batch
from clearhead.decoding.stepper import Stepper
from clearhead.decoding.texts import chosen_search
from clearhead.decoding.torch_engine import TorchEngine
from clearhead.errors import ConfigError, DataError, type_of
from clearhead.model.transformer import EncoderDecoder, uncompiled
from clearhead.settings import SearchConfig
from clearhead.tokenizer.protocol import BOS, EOS, PAD


def beam_search(
    model: EncoderDecoder | Stepper,
    source: Int[Tensor, "batch source"] | Sequence[Sequence[int]],
    beam_size: int = 5,
    max_length: int | None = None,
    **search: Any,
) -> list[list[Hypothesis]]:
    """The hypotheses of each source, best first (Sutskever et al. 2014, section 3.2).

        for best, *others in nn.beam_search(model, source, n_best=5):
            print(best.score, best.tokens)

    A hypothesis has its `tokens` without start and end symbols, `score` (the sum of their
    log-probabilities, end symbol included), `token_scores`, and `finished`.

    Args:
        model: the model; or a `Stepper`, by which any model can be searched, with 0, 1 and 2 as
            the ids of padding, start and end.
        source: padded ids (batch, source), or lists of ids.
        beam_size: number of hypotheses kept at each step; 1: greedy search.
        max_length: maximum number of ids of an output, the end symbol included; by default twice
            the source and 20 more.
        search: any other field of `SearchConfig`, e.g. `n_best=5`, `length_penalty=0.6`;
            `method="sampling"` has no beam.

    Raises:
        ConfigError: the model is neither a `Transformer` nor a `Stepper`.
        SearchError: a setting is unknown, wrong or without effect.
        DataError: a source is empty, or is no row of ids of the vocabulary.
    """
    sampled = search.get("method") == "sampling"
    limit = {} if max_length is None else {"max_length_ratio": 0.0, "max_length_offset": max_length}
    choices = {**limit, **({} if sampled else {"beam_size": beam_size}), **search}
    config = chosen_search(SearchConfig(length_penalty=0.0), choices, "beam_search")
    model = uncompiled(model)
    if not isinstance(model, EncoderDecoder):
        if not all(hasattr(model, name) for name in ("start", "step", "reorder")):
            what = f"{type_of(model)} cannot be searched"
            raise ConfigError(what, where="beam_search", todo="give a Transformer, or a Stepper")
        return search_batch(model, _sentences(source, PAD), config)
    embeddings = (m for m in model.source_input.modules() if isinstance(m, nn.Embedding))
    sentences = _sentences(source, model.pad_id, next(embeddings).num_embeddings)
    if (model.pad_id, model.bos_id, model.eos_id) == (PAD, BOS, EOS):
        return TorchEngine(model).search(sentences, config)
    return _OtherIds(model).search(sentences, config)


def _sentences(
    source: Tensor | Sequence[Sequence[int]], pad_id: int, vocabulary: int | None = None
) -> list[Sentence]:
    """The rows of a source without the padding at their ends.

    Raises:
        DataError: as in `beam_search`.
    """
    rows: list[Any] = cast(Any, source).tolist() if hasattr(source, "tolist") else [*source]
    todo = "give ids (batch, source) as int64, or a list of lists of ids"
    for number, row in enumerate(rows):
        row = rows[number] = list(row) if isinstance(row, Sequence) else row
        if not isinstance(row, list) or not all(type(each) is int for each in row):
            what = f"row {number} of the source is no row of ids"
            raise DataError(what, where="beam_search", todo=todo)
        while row and row[-1] == pad_id:
            row.pop()
        if not row:
            raise DataError(f"row {number} of the source is empty", where="beam_search", todo=todo)
        if vocabulary is not None and not 0 <= min(row) <= max(row) < vocabulary:
            raise DataError(
                f"row {number} of the source has an id outside the vocabulary",
                where="beam_search",
                why=f"it has ids from {min(row)} to {max(row)}, the model 0 to {vocabulary - 1}",
            )
    return numbered(rows)


class _OtherIds(TorchEngine):
    """Searches a model whose padding, start and end are not the ids 0, 1 and 2 of the searches.

    The searches see the ids in another order: these three first, then the others as they are.
    """

    def __init__(self, model: EncoderDecoder) -> None:
        super().__init__(model)
        special = [model.pad_id, model.bos_id, model.eos_id]
        others = [i for i in range(model.target_input.embedding.num_embeddings) if i not in special]
        self.order = torch.tensor([*special, *others])

    def _stepper(self) -> Stepper:
        return _Reordered(super()._stepper(), self.order)

    def search(self, *args: Any, **options: Any) -> list[list[Hypothesis]]:
        """As in `TorchEngine`, with the ids of the model."""

        def restored(found: Hypothesis) -> Hypothesis:
            return replace(found, tokens=tuple(self.order[[*found.tokens]].tolist()))

        return [[*map(restored, each)] for each in super().search(*args, **options)]


class _Reordered:
    """A stepper whose target ids are in another order: id i of the search is `order[i]`."""

    def __init__(self, stepper: Stepper, order: Tensor) -> None:
        self._stepper, self._order = stepper, order
        self.start, self.reorder = stepper.start, stepper.reorder

    def step(self, tokens: Tensor) -> Tensor:
        """See `Stepper`."""
        logits = self._stepper.step(self._order[tokens])
        return logits.index_select(1, self._order.to(logits.device))
