"""What is timed: steps of training, and translations, of random ids by a random model."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import torch

from clearhead.data.batches import Batch, collate
from clearhead.data.corpus import Corpus
from clearhead.data.preparation import TranslationData
from clearhead.decoding.torch_engine import TorchEngine
from clearhead.model.build import build_model
from clearhead.model.transformer import EncoderDecoder
from clearhead.settings import ModelConfig, RunConfig, SearchConfig, TrainingConfig
from clearhead.tasks.translation import TranslationTask
from clearhead.tokenizer import EOS, WordTokenizer
from clearhead.training.progress import Meter
from clearhead.training.step import Stepper, Updater, choose_precision
from costs.curve import Work

VOCABULARY = 10_000
SOURCE_LENGTH = 32
"""Tokens of a source that is translated."""


class Training:
    """A model that is trained on random ids, each step as the trainer makes it."""

    def __init__(self, model: ModelConfig, precision: str, device: torch.device) -> None:
        training = TrainingConfig(max_steps=100_000, precision=cast(Any, precision))
        words = WordTokenizer.learn(["word"])
        # The loss asks neither for the corpus nor for what belongs to validation.
        data = TranslationData(words, words, cast(Corpus, None), (), ())
        self.device = device
        self.task = TranslationTask(RunConfig(model=model, training=training), data)
        self.model = random_model(model).to(device).train()
        updater = Updater(self.model, training, model.d_model, training.max_steps)
        chosen = choose_precision(precision, device)
        self.stepper = Stepper(self.task, updater, Meter(device), chosen, seed=1)
        self.made = 0

    def step(self, batch: Batch) -> None:
        """One update; returns when the device has made it."""
        self.made += 1
        self.stepper.step(self.made, [batch])
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def work(self, sentences: int, length: int) -> Work:
        """A step on so many pairs whose sides have so many tokens, the end symbol among them."""
        batch = random_batch(sentences, length)
        return Work(lambda: self.step(batch), batch.target_tokens)


class Decoding:
    """A model that translates random ids to outputs whose length is given."""

    def __init__(self, model: ModelConfig, device: torch.device) -> None:
        self.engine = TorchEngine(random_model(model).to(device))

    def work(self, sentences: int, length: int, beam_size: int) -> Work:
        """The translation of so many sentences to so many tokens, in one batch.

        The outputs come back to the processor, so that nothing is left to wait for.
        """
        sources = random_rows(sentences, SOURCE_LENGTH)
        search = search_of_length(length, beam_size)
        return Work(lambda: self.engine.translate(sources, search, batch_size=sentences), sentences)


def search_of_length(length: int, beam_size: int) -> SearchConfig:
    """A search whose outputs all have this length: none may end before, none goes on after."""
    return SearchConfig(
        beam_size=beam_size, min_length=length, max_length=length, max_length_offset=length
    )


def random_model(config: ModelConfig) -> EncoderDecoder:
    """A freshly initialised translator, always the same one."""
    torch.manual_seed(1)
    return build_model(config, VOCABULARY, VOCABULARY)


def random_rows(rows: int, length: int) -> list[list[int]]:
    """Rows of ids, always the same ones; no special symbol is among them."""
    chance = np.random.default_rng((rows, length))
    return chance.integers(EOS + 1, VOCABULARY, (rows, length)).tolist()


def random_batch(sentences: int, length: int) -> Batch:
    """A batch without padding, so many tokens on each side; the target's last is EOS."""
    return collate(random_rows(sentences, length), random_rows(sentences, length - 1))
