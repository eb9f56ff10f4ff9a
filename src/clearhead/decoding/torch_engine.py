"""Runs trained models with PyTorch: translators and classifiers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from clearhead.decoding.beam import Node, Trace
from clearhead.decoding.cache import DecodingState
from clearhead.decoding.engine import (
    ONE_THREAD,
    PADDED_TOKENS,
    Hypothesis,
    Sentence,
    check_prefixes,
    in_batches,
    longest_source,
)
from clearhead.decoding.fast_decoder import FastDecoder
from clearhead.decoding.products import MakeProduct, plain_product
from clearhead.decoding.search import search as search_batch
from clearhead.device import explain_full_memory, set_up_thread, threads
from clearhead.folder.model_folder import ModelFolder
from clearhead.model.attention import Attend, attention
from clearhead.model.build import build_classifier, build_model
from clearhead.model.transformer import EncoderClassifier, EncoderDecoder, evaluating
from clearhead.settings import SearchConfig
from clearhead.tokenizer import PAD, Tokenizer, read_tokenizers

if TYPE_CHECKING:
    from torch import nn

Model = TypeVar("Model", bound="nn.Module")

FEW_ROWS = 16
"""Rows of a batch for which a model of the width `ONE_THREAD` needs one thread only."""


class TorchEngine:
    """Translates with PyTorch and the searches of this package.

    Args:
        model: the translator; after its weights change, create a new engine.
        products: makes the products with its weights.
        smaller: what the user can do if the memory of a GPU is full.
        scores: whether scores are needed. Without them greedy search is faster; its scores are
            NaN, and its `token_scores` are empty.
    """

    def __init__(
        self,
        model: EncoderDecoder,
        products: MakeProduct = plain_product,
        smaller: str = "use a smaller --batch-size or --beam-size, or the CPU: --device cpu",
        *,
        scores: bool = True,
    ) -> None:
        self.model = model
        self.scores = scores
        self._smaller = smaller
        self._decoder = FastDecoder(model, products)

    @property
    def longest_source(self) -> int:
        """The maximum number of tokens of a source."""
        return longest_source(self.model.source_input.max_length)

    def translate(
        self,
        sentences: Sequence[Sentence],
        search: SearchConfig,
        *,
        batch_size: int = 64,
        progress: Callable[[int], None] | None = None,
    ) -> list[list[Hypothesis]]:
        """The hypotheses of each sentence, in their order; see `Engine`."""
        set_up_thread()
        # One position for each step; the first is that of the start symbol.
        positions = self.model.target_input.max_length
        check_prefixes(sentences, self.model.output.out_features, positions)
        rows = search.n_best if search.method == "sampling" else search.beam_size
        width = self.model.output.in_features

        def translate_batch(batch: list[int]) -> list[list[Hypothesis]]:
            what = f"a batch of {len(batch)} sentences"
            is_small = width <= ONE_THREAD and len(batch) * rows <= FEW_ROWS
            with explain_full_memory(self._smaller, what), threads(1 if is_small else 0):
                stepper, part = ModelStepper(self._decoder), [sentences[i] for i in batch]
                return search_batch(stepper, part, search, positions, self.scores)

        padded_tokens = max(1, PADDED_TOKENS // rows)
        lengths = [len(sentence.ids) for sentence in sentences]
        with evaluating(self.model):
            return in_batches(lengths, batch_size, padded_tokens, translate_batch, progress)

    def trace(
        self, source: Sequence[int], search: SearchConfig
    ) -> tuple[list[Hypothesis], list[Node]]:
        """The hypotheses of one source by beam search, and all nodes of its tree."""
        set_up_thread()
        trace = Trace()
        with evaluating(self.model):
            (found,) = search_batch(
                ModelStepper(self._decoder),
                [Sentence(source)],
                replace(search, method="beam"),
                self.model.target_input.max_length,
                trace=trace,
            )
        return found, trace.nodes


class ModelStepper:
    """The step protocol of the searches (`Stepper`), implemented by the fast decoder."""

    state: DecodingState
    """The keys and values of the tokens so far; set by `start`."""

    def __init__(self, decoder: FastDecoder) -> None:
        self._decoder = decoder
        self._device = decoder.model.output.weight.device

    def start(self, sources: Sequence[Sequence[int]]) -> None:
        """Encode the sources and begin one row for each."""
        ids = [torch.tensor(source, dtype=torch.long) for source in sources]
        padded = pad_sequence(ids, batch_first=True, padding_value=PAD)
        self.state = self._decoder.start(padded.to(self._device, non_blocking=True))

    def step(self, tokens: Int[Tensor, " rows"]) -> Float[Tensor, "rows vocabulary"]:
        """Append `tokens` to the rows and return the logits of the next tokens."""
        sent = tokens.to(self._device, non_blocking=True)
        return self._decoder.step(sent, self.state).float()

    def reorder(self, rows: Int[Tensor, " new_rows"]) -> None:
        """Let new row i continue old row `rows[i]`."""
        self.state.reorder(rows)


class ClassifierEngine:
    """Classifies rows of numbers with PyTorch; `smaller` is advice if a GPU's memory is full."""

    def __init__(
        self,
        model: EncoderClassifier,
        smaller: str = "use a smaller --batch-size, or the CPU: --device cpu",
    ) -> None:
        self.model = model
        self._smaller = smaller

    @torch.inference_mode()
    def logits(
        self,
        rows: Sequence[np.ndarray],
        collate: Callable[[Sequence[np.ndarray]], Tensor],
        *,
        batch_size: int = 64,
        progress: Callable[[int], None] | None = None,
    ) -> np.ndarray:
        """The logits of each row, float64 (rows, labels), in the order of the rows.

        Args:
            rows: ids (length,), ids with character n-grams (length, 1 + n-grams), or features
                (length, width).
            collate: makes the padded tensor of a batch of rows.
            batch_size: maximum number of rows of a batch.
            progress: called after each batch with the number of rows that are done.
        """

        def logits_of_batch(batch: list[int]) -> np.ndarray:
            with explain_full_memory(self._smaller, f"a batch of {len(batch)} inputs"):
                inputs = collate([rows[i] for i in batch]).to(output.weight.device)
                return self.model(inputs).double().cpu().numpy()

        set_up_thread()
        output = self.model.output
        lengths = list(map(len, rows))
        with evaluating(self.model):
            found = in_batches(lengths, batch_size, PADDED_TOKENS, logits_of_batch, progress)
        return np.reshape(found, (len(rows), output.out_features))


def trained_translator(
    found: ModelFolder, device: torch.device, tokenizers: Sequence[Tokenizer] = ()
) -> EncoderDecoder:
    """The encoder-decoder of a model folder, with its weights, on a device."""
    source, target = tokenizers or read_tokenizers(found)
    sizes = len(source), len(target)
    return with_weights(lambda: build_model(found.config.model, *sizes), found, device)


def trained_classifier(
    found: ModelFolder, device: torch.device, inputs: int, labels: int, attend: Attend = attention
) -> EncoderClassifier:
    """The classifier of a model folder, with its weights, on a device; see `build_classifier`."""
    return with_weights(
        partial(build_classifier, found.config, inputs, labels, attend), found, device
    )


def with_weights(
    make_model: Callable[[], Model], found: ModelFolder, device: torch.device
) -> Model:
    """A model with the weights of a folder, on a device, in evaluation mode.

    Raises:
        ModelFolderError: the weights are damaged, or belong to another model.
    """
    return found.model(make_model).to(device).eval()
