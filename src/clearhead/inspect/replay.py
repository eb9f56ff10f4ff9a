"""Replay an input and its finished output with heads switched off or words removed.

Each row of a batch is the same sentence with its own change. The replay reads the whole target at
once (teacher forcing), so it gives the exact log-probability that the changed model has for the
same output, whatever engine found that output.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from clearhead.inspect.heads import Head
from clearhead.inspect.record import Array
from clearhead.inspect.view import Means, attentions_of, heads_of, intercept, second_view
from clearhead.model.attention import MultiHeadAttention, causal_mask
from clearhead.model.positions import Positions
from clearhead.model.transformer import EncoderClassifier, EncoderDecoder

TOKENS = 8192
"""Maximum number of positions of a batch, source and target together."""

LOGITS = 2**25
"""Maximum number of logits of a batch, which bounds its memory."""

_Row = TypeVar("_Row")


@dataclass(frozen=True)
class Change:
    """What one row of a replay leaves out: heads, and positions of source and decoder, from 0.

    Zero or its mean replaces the output of a head. Positions of the source become padding, which
    nothing attends to. Nothing attends to those of the decoder, where 0 is the start symbol, and
    the position itself reads a zero vector in place of its embedding. A link is positions of the
    decoder, and those of the source that no cross-attention lets them attend to.
    """

    heads: tuple[Head, ...] = ()
    source: tuple[int, ...] = ()
    prefix: tuple[int, ...] = ()
    link: tuple[Sequence[int], Sequence[int]] = ((), ())


class Switch:
    """Changes the outputs of the heads of an attention, in each row of a batch by itself."""

    def __init__(self, attention: MultiHeadAttention) -> None:
        self.keep = torch.ones(1, attention.n_heads)  # (rows, heads) 1, or 0 if it is off
        self.instead: Tensor | None = None  # (heads, d_v) replaces a head that is off
        intercept(attention, context=self._switched)

    def _switched(self, context: Tensor) -> Tensor:
        keep = self.keep.to(context)[:, :, None, None]
        if self.instead is None:
            return context * keep
        return context * keep + self.instead.to(context)[None, :, None] * (1 - keep)


class Replay(ABC):
    """A sentence that can be replayed with changes; a classifier has no positions of a decoder.

    The outcome (places, 1) is what is explained at each place: the id of each target token, of the
    most probable label, or of each given label if labels are independent.
    """

    outcome: Array

    def __init__(
        self, model: EncoderDecoder | EncoderClassifier, n_source: int, n_prefix: int
    ) -> None:
        self.view = second_view(model)
        self.heads = heads_of(self.view)
        self.n_source, self.n_prefix = n_source, n_prefix
        self._device = next(model.parameters()).device
        self._switches = {name: Switch(found) for name, found in attentions_of(self.view).items()}
        self._scale: Tensor | None = None
        part = self.view.source_input if isinstance(self.view, EncoderDecoder) else self.view.input
        for module in part.modules():
            if isinstance(module, Positions):
                module.register_forward_pre_hook(self._rescale)

    @torch.no_grad()
    def log_probabilities(
        self,
        changes: Sequence[Change] = (Change(),),
        choices: Array | None = None,
        means: Means | None = None,
    ) -> Array:
        """(changes, places, k) the log-probabilities of choices (places, k), or of the outcome."""
        ids = torch.as_tensor(self.outcome if choices is None else choices, device=self._device)
        found = []
        for part in self.batches(changes):
            scores = self.scores(self._logits(part, means))
            found.append(scores.gather(-1, ids.expand(len(part), -1, -1)).double().cpu())
        return torch.cat(found).numpy()

    @torch.no_grad()
    def best(self, count: int) -> tuple[Array, Array]:
        """(places, count) the most probable ids, and their log-probabilities."""
        (scores,) = self.scores(self._logits([Change()], None))
        best = scores.topk(min(count, scores.size(-1)))
        return best.indices.cpu().numpy(), best.values.double().cpu().numpy()

    @torch.no_grad()
    def logits(self, rows: int) -> Tensor:
        """(rows, places, outputs) the logits of the input, in as many equal rows."""
        return self._logits([Change()] * rows, None)

    def summed(self, logits: Tensor) -> Tensor:
        """(rows,) the summed log-probability of the outcome, from logits."""
        ids = torch.as_tensor(self.outcome, device=logits.device)
        return self.scores(logits).gather(-1, ids.expand(len(logits), -1, -1)).sum(dim=(1, 2))

    def along(self, places: Sequence[int], scales: Sequence[float]) -> tuple[Array, Array]:
        """(rows,) log-probabilities at places, and (rows, source) gradients × embeddings.

        The embeddings of the source are scaled in each row, before positions are added.
        """
        self._scale = torch.tensor(scales, dtype=torch.float64, device=self._device)
        logits = self._logits([Change()] * len(places), None)
        self._scale = None
        rows = torch.arange(len(places), device=self._device)
        ids = torch.as_tensor(self.outcome[[*places], 0], device=self._device)
        scores = self.scores(logits[rows, [*places]])[rows, ids]
        (gradient,) = torch.autograd.grad(scores.sum(), self._scaled)
        products = (gradient * self._embedded).sum(dim=-1)
        return scores.detach().double().cpu().numpy(), products.detach().double().cpu().numpy()

    def head_gradients(self) -> Array:
        """(heads,) the gradient of the summed log-probability of the outcomes by a factor."""
        keeps = []
        for switch in self._switches.values():
            switch.keep = torch.ones_like(switch.keep[:1]).requires_grad_()
            switch.instead = None
            keeps.append(switch.keep)
        scores = self.scores(self._run([Change()]))
        ids = torch.as_tensor(self.outcome, device=self._device)
        gradients = torch.autograd.grad(scores.gather(-1, ids[None]).sum(), keeps)
        return torch.cat([gradient[0] for gradient in gradients]).numpy()

    def _rescale(self, module: nn.Module, inputs: tuple[Tensor, int]) -> tuple[Tensor, int] | None:
        if self._scale is None:
            return None
        embedded, start = inputs
        self._embedded = embedded.detach()
        self._scaled = (self._embedded * self._scale.to(embedded)[:, None, None]).requires_grad_()
        return self._scaled, start

    def batches(self, changes: Sequence[_Row]) -> Sequence[Sequence[_Row]]:
        """As many changes at a time, or anything else that is a row, as fit into memory."""
        logits = len(self.outcome) * self.view.output.out_features
        rows = max(1, min(TOKENS // (self.n_source + self.n_prefix), LOGITS // logits))
        return [changes[first : first + rows] for first in range(0, len(changes), rows)]

    def _logits(self, changes: Sequence[Change], means: Means | None) -> Tensor:
        for name, switch in self._switches.items():
            off = [[head.number for head in c.heads if head.attention == name] for c in changes]
            switch.keep = torch.ones(len(changes), switch.keep.size(1))
            for row, numbers in enumerate(off):
                switch.keep[row, [number - 1 for number in numbers]] = 0
            switch.instead = None if means is None else means[name]
        return self._run(changes)

    def scores(self, logits: Tensor) -> Tensor:
        """The log-probabilities of logits (…, outputs)."""
        return logits.log_softmax(dim=-1)

    @abstractmethod
    def _run(self, changes: Sequence[Change]) -> Tensor:
        """The logits (changes, places, vocabulary)."""


class TranslationReplay(Replay):
    """A source and a target, both without start and end symbols, replayed by an encoder-decoder.

    After a finished target the end symbol is an outcome too.
    """

    view: EncoderDecoder

    def __init__(
        self,
        model: EncoderDecoder,
        source_ids: Sequence[int],
        target_ids: Sequence[int],
        finished: bool = True,
    ) -> None:
        predicted = [*target_ids, *([model.eos_id] if finished else [])][
            : model.target_input.max_length
        ]
        read = [model.bos_id, *target_ids][: len(predicted)]
        super().__init__(model, len(source_ids), len(read))
        self.outcome = np.array(predicted)[:, None]
        self._source = torch.tensor([[*source_ids]], device=self._device)
        self._read = torch.tensor([read], device=self._device)
        self._causal = causal_mask(len(read), self._device)
        self._kept = torch.ones(1, len(read), dtype=torch.bool, device=self._device)
        # Not a hook of the embedding, which source and target may share.
        self.view.target_input.positions.register_forward_pre_hook(self._blank)

    def _blank(self, module: nn.Module, inputs: tuple[Tensor, int]) -> tuple[Tensor, int]:
        embedded, start = inputs
        return embedded * self._kept[..., None], start

    def _run(self, changes: Sequence[Change]) -> Tensor:
        source = self._source.repeat(len(changes), 1)
        self._kept = torch.ones_like(self._read, dtype=torch.bool).repeat(len(changes), 1)
        for row, change in enumerate(changes):
            source[row, list(change.source)] = self.view.pad_id
            self._kept[row, list(change.prefix)] = False
        memory, source_mask = self.view.encode(source)
        if any(all(change.link) for change in changes):
            source_mask = source_mask.repeat(1, 1, self.n_prefix, 1)
            for row, change in enumerate(changes):
                queries, keys = change.link
                source_mask[row, 0, np.array(queries, int)[:, None], keys] = False
        x = self.view.target_input(self._read.expand(len(changes), -1))
        mask = self._causal & self._kept[:, None, None, :]
        return self.view.output(self.view.decoder(x, memory, mask, source_mask))


class ClassificationReplay(Replay):
    """An input replayed by a classifier.

    Of n independent labels, id i stands for label i, and id n + i for its absence. The outcomes are
    the labels with a probability of at least one half, best first, or the most probable label if
    none has. The row is what the classifier encodes, without padding.
    """

    view: EncoderClassifier

    def __init__(
        self,
        model: EncoderClassifier,
        row: Any,
        multi_label: bool = False,
        temperature: float = 1.0,
    ) -> None:
        self._row = torch.as_tensor(row, device=next(model.parameters()).device)
        super().__init__(model, len(self._row), 0)
        self.multi_label, self._temperature = multi_label, temperature
        self.outcome = np.zeros((1, 1), dtype=np.int64)
        with torch.no_grad():
            logits = self._logits([Change()], None)[0, 0]
        # The probability of an independent label is one half where its logit is 0.
        given = max(1, int((logits >= 0).sum())) if multi_label else 1
        order = logits.argsort(descending=True, stable=True)
        self.outcome = order[:given, None].cpu().numpy()

    def scores(self, logits: Tensor) -> Tensor:
        scaled = logits / self._temperature
        if self.multi_label:
            return F.logsigmoid(torch.cat((scaled, -scaled), dim=-1))
        return scaled.log_softmax(dim=-1)

    def _run(self, changes: Sequence[Change]) -> Tensor:
        x = self._row.repeat(len(changes), *[1] * self._row.dim())
        padding = float("nan") if x.is_floating_point() else self.view.pad_id
        for row, change in enumerate(changes):
            x[row, list(change.source)] = padding
        return self.view(x)[:, None].expand(-1, len(self.outcome), -1)


@dataclass(frozen=True, eq=False)
class Effects:
    """What each head and each word did for an output: log-probability with it minus without it."""

    heads: tuple[Head, ...]
    by_head: Array  # (heads, places, k)
    by_source: Array  # (source words, places, k)
    by_prefix: Array  # (target words, places, k); 0 where the word is not before the place
    source: Array  # (places, k) of the whole source
    prefix: Array  # (places, k) of the whole prefix, the start symbol excepted
    log_probabilities: Array  # (places, k) with everything


def effects(
    replay: Replay,
    source_words: Sequence[Sequence[int]] | None = None,
    prefix_words: Sequence[Sequence[int]] | None = None,
    choices: Array | None = None,
    means: Means | None = None,
    heads: Sequence[Head] | None = None,
) -> Effects:
    """The effects of heads, and of words by their positions, in one batched replay."""
    if heads is None:
        heads = replay.heads
    if source_words is None:
        source_words = [(i,) for i in range(replay.n_source)]
    if prefix_words is None:
        prefix_words = [(i,) for i in range(1, replay.n_prefix)]
    changes = [
        Change(),
        *(Change(heads=(head,)) for head in heads),
        *(Change(source=tuple(word)) for word in source_words),
        *(Change(prefix=tuple(word)) for word in prefix_words),
        Change(source=tuple(range(replay.n_source))),
        Change(prefix=tuple(range(1, replay.n_prefix))),
    ]
    complete, *without = replay.log_probabilities(changes, choices, means)
    gains = complete - np.stack(without)
    first, second = len(heads), len(heads) + len(source_words)
    return Effects(
        heads=tuple(heads),
        by_head=gains[:first],
        by_source=gains[first:second],
        by_prefix=gains[second:-2],
        source=gains[-2],
        prefix=gains[-1],
        log_probabilities=complete,
    )


def link_effects(
    replay: TranslationReplay,
    output_words: Sequence[Sequence[int]],
    source_words: Sequence[Sequence[int]],
) -> Array:
    """(output words, source words) the effects of the cross-attention of one on the other.

    The positions that predict the output word do not attend to the source word, in all layers.
    """
    links = [(output, source) for output in output_words for source in source_words]
    complete, *without = replay.log_probabilities([Change(), *(Change(link=x) for x in links)])
    falls = [
        (complete - each)[list(output)].sum()
        for each, (output, _) in zip(without, links, strict=True)
    ]
    return np.array(falls).reshape(len(output_words), len(source_words))
