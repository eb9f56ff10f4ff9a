"""Translation: an encoder-decoder learns from sentence pairs and is scored by its translations."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import cached_property
from typing import cast

import torch
from torch import nn

from clearhead.data.batches import (
    Batch,
    Pairs,
    SubwordSampling,
    collate,
    epoch_batches,
    largest_batch,
)
from clearhead.data.corpus import Epoch, encode_pairs
from clearhead.data.inputs import hide_words
from clearhead.data.order import batch_order
from clearhead.data.preparation import TranslationData
from clearhead.decoding.confidence import KEY, Confidence
from clearhead.decoding.engine import ONE_THREAD
from clearhead.decoding.texts import translate_texts
from clearhead.decoding.torch_engine import TorchEngine
from clearhead.device import threads
from clearhead.evaluation.scores import (
    bleu_and_chrf,
    exact_match,
    scored_form,
    sentence_chrf,
    signed,
)
from clearhead.losses.cross_entropy import projected_cross_entropy
from clearhead.model.build import build_model
from clearhead.model.transformer import EncoderDecoder, evaluating
from clearhead.ranks import ALONE, Ranks
from clearhead.settings import RunConfig
from clearhead.text.spans import protection_of
from clearhead.tokenizer import EOS, PAD, cut
from clearhead.training.task import Evaluation, Loss, Sample, diverged

SAMPLES = 3
"""Validation sentences to show at each validation."""

SMALLER = "lower search.beam_size, or use the CPU: training.device = 'cpu'"
"""What to do if a validation needs more memory than a GPU has."""

VALIDATION_PAIRS = 64
"""Pairs of a batch when the loss on the validation data is computed."""


class TranslationTask:
    """Batches of pairs, the loss of the target tokens, and BLEU and chrF with the run's search."""

    def __init__(self, config: RunConfig, data: TranslationData, ranks: Ranks = ALONE) -> None:
        self.config = config
        self.data = data
        self.ranks = ranks
        self.measure = config.measure
        self.higher_is_better = self.measure != "loss"
        self.validation = data.validation[: config.evaluation.max_sentences or None]
        self._tokenizers = data.source_tokenizer, data.target_tokenizer
        self._protection = protection_of(config.tokenizer)
        self._sampling = SubwordSampling(*self._tokenizers, config.data.max_length)

    def build_model(self) -> EncoderDecoder:
        """A new model of the run's configuration, initialised from its seed."""
        torch.manual_seed(self.config.seed)
        source, target = map(len, self._tokenizers)
        return build_model(self.config.model, source, target)

    def pairs(self, epoch: int) -> Pairs:
        """The training pairs of an epoch."""
        data, config = self.data, self.config
        if data.replay is None and not config.data.weights:
            return data.corpus
        weights, share = config.data.weights, config.data.replay_share
        return Epoch(data.corpus, config.seed, epoch, weights, data.replay, share)

    def batch_count(self, epoch: int) -> int:
        """Batches in an epoch."""
        pairs, limit = self.pairs(epoch), self.config.training.batch_tokens
        lengths = pairs.source_lengths, pairs.target_lengths
        return len(batch_order(*lengths, limit, self.config.seed, epoch))

    def batches(self, epoch: int, first: int, every: int = 1) -> Iterator[Batch]:
        """The batches of an epoch from index `first` on, or every n-th of them."""
        limit, seed = self.config.training.batch_tokens, self.config.seed
        return epoch_batches(self.pairs(epoch), limit, seed, epoch, first, self._sampling, every)

    def largest_batch(self, epoch: int = 0) -> Batch:
        """The largest batch of an epoch. Subword sampling segments its words again."""
        limit, seed = self.config.training.batch_tokens, self.config.seed
        return largest_batch(self.pairs(epoch), limit, seed, epoch, self._sampling)

    def split(self, batch: Batch) -> list[Batch]:
        """The two halves of a batch, or the batch alone if it has one pair."""
        return batch.halves()

    def counts(self, batch: Batch) -> Mapping[str, int]:
        """Tokens of both sides, and all positions of the padded batch."""
        return {
            "source tokens": batch.source_tokens,
            "target tokens": batch.target_tokens,
            "positions": batch.source.numel() + batch.target_output.numel(),
        }

    def places(self, batch: Batch, epoch: int) -> list[str]:
        """The file and line of each pair of a batch."""
        return list(map(self.pairs(epoch).place, batch.rows))

    def loss(self, model: nn.Module, batch: Batch) -> Loss:
        """The summed cross-entropy of the target tokens, without padding.

        With R-Drop (Liang et al. 2021) the batch passes twice. The passes differ in dropout and in
        hidden words.
        """
        training = self.config.training
        model = cast(EncoderDecoder, model)
        device = model.output.weight.device
        r_drop = training.r_drop if model.training else 0.0
        passes = 2 if r_drop > 0 else 1
        outputs = batch.target_output.repeat(passes, 1).flatten()
        # Computed on the CPU, because waiting for a GPU would take longer.
        real = (outputs != PAD).nonzero()[:, 0]
        source, inputs, outputs, real = (
            part.to(device, non_blocking=True)
            for part in (
                batch.source.repeat(passes, 1),
                batch.target_input.repeat(passes, 1),
                outputs[real],
                real,
            )
        )
        if model.training and training.word_dropout > 0:
            source = hide_words(source, self.data.source_tokenizer.unk_id, training.word_dropout)
            inputs = hide_words(inputs, self.data.target_tokenizer.unk_id, training.word_dropout)
        hidden = model(source, inputs, hidden=True).flatten(0, 1).index_select(0, real)
        smoothing = training.label_smoothing if model.training else 0.0
        total, plain = projected_cross_entropy(
            hidden, model.output.weight, model.output.bias, outputs, smoothing, r_drop
        )
        return Loss(total / passes, plain / passes, batch.target_tokens)

    def evaluate(self, model: nn.Module) -> Evaluation:
        """Loss, BLEU, chrF and exact matches on the validation pairs, with the run's search.

        A narrow model computes with one thread: alone this takes a little longer, and beside other
        programs much less, because a search has many short steps.
        """
        model = cast(EncoderDecoder, model)
        with threads(1 if model.output.in_features <= ONE_THREAD else 0):
            return self._evaluated(model)

    def _evaluated(self, model: EncoderDecoder) -> Evaluation:
        loss = self._validation_loss(model)
        if not math.isfinite(loss):
            return diverged(self.measure)
        sources = [pair.source for pair in self.validation]
        references = [pair.target for pair in self.validation]
        engine = TorchEngine(model, smaller=SMALLER)
        part = self.ranks.part(sources)
        translations = translate_texts(
            engine, self._tokenizers, part, self.config.search, self._protection
        )
        best = self.ranks.gathered([hypotheses[0] for hypotheses in translations])
        outputs = [hypothesis.text for hypothesis in best]
        tokenize, lowercase = self.config.evaluation.tokenize, self.config.lowercase
        form = scored_form([self.config], lowercase)
        compared, correct = (list(map(form, texts)) for texts in (outputs, references))
        found = bleu_and_chrf(compared, correct, tokenize, lowercase=lowercase)
        bleu, chrf = (signed(measure, form) for measure in found)
        samples = zip(sources[:SAMPLES], references, outputs, strict=False)
        each = [score / 100 for score in sentence_chrf(compared, correct, lowercase=lowercase)]
        confidence = Confidence.fit(sources, best, each)
        return Evaluation(
            scores={
                "loss": loss,
                "bleu": bleu.score,
                "chrf": chrf.score,
                "exact match": exact_match(compared, correct, lowercase=lowercase),
            },
            signatures={"bleu": bleu.signature, "chrf": chrf.signature},
            samples=tuple(Sample(*sample) for sample in samples),
            fitted={KEY: asdict(confidence)} if confidence else {},
        )

    @torch.inference_mode()
    def _validation_loss(self, model: EncoderDecoder) -> float:
        """The mean loss per target token of the validation pairs, without dropout."""
        total, tokens = 0.0, 0
        with evaluating(model):
            for batch in self.ranks.part(self._validation_batches):
                loss = self.loss(model, batch)
                total += float(loss.plain)
                tokens += loss.units
        total, tokens = self.ranks.total([total, tokens])
        return total / tokens

    @cached_property
    def _validation_batches(self) -> list[Batch]:
        """The validation pairs, encoded once; pairs of similar lengths share a batch."""
        longest = self.config.data.max_length
        encoded = encode_pairs(self.validation, self._tokenizers, self._protection)
        sources, targets = (
            [cut(ids, longest, tokenizer.boundaries) or [EOS] for ids in side]
            for side, tokenizer in zip(encoded, self._tokenizers, strict=True)
        )
        pairs = sorted(
            zip(sources, targets, strict=True), key=lambda pair: (len(pair[1]), len(pair[0]))
        )
        groups = [pairs[i : i + VALIDATION_PAIRS] for i in range(0, len(pairs), VALIDATION_PAIRS)]
        return [collate([s for s, _ in group], [t for _, t in group]) for group in groups]
