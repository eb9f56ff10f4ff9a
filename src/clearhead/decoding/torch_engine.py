"""Runs trained models with PyTorch: translators and classifiers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from clearhead.data.inputs import Inputs
from clearhead.decoding.beam import Node, Trace
from clearhead.decoding.cache import DecodingState
from clearhead.decoding.changes import is_edited, versions
from clearhead.decoding.engine import (
    ONE_THREAD,
    PADDED_TOKENS,
    Hypothesis,
    Sentence,
    check_prefixes,
    in_batches,
    lacking,
    longest_source,
    scored_in_batches,
)
from clearhead.decoding.fast_decoder import FastDecoder
from clearhead.decoding.logits import log_normaliser
from clearhead.decoding.products import MakeProduct, plain_product
from clearhead.decoding.search import search as search_batch
from clearhead.decoding.stepper import Ensemble, Stepper, averaged
from clearhead.device import explain_full_memory, set_up_thread, threads
from clearhead.folder.model_folder import ModelFolder
from clearhead.model.attention import Attend, attention
from clearhead.model.build import build_classifier, build_model
from clearhead.model.transformer import EncoderClassifier, EncoderDecoder, evaluating
from clearhead.settings import SearchConfig
from clearhead.tokenizer import BOS, EOS, PAD, Tokenizer, read_tokenizers

Model = TypeVar("Model", bound=nn.Module)

FEW_ROWS = 16
"""Rows of a batch for which a model of the width `ONE_THREAD` needs one thread only."""


class TorchEngine:
    """Translates with PyTorch and the searches of this package.

    Args:
        model: the translator. While one of its modules has a hook or an edit, the engine runs the
            modules themselves, without a cache.
        products: makes the products with its weights.
        smaller: what the user can do if the memory of a GPU is full.
        scores: whether scores are needed. Without them greedy search is faster; its scores are
            NaN, and its `token_scores` are empty.
        others: further models of an ensemble, with the same vocabulary. The log-probabilities of
            all models are averaged at each step.
    """

    def __init__(
        self,
        model: EncoderDecoder,
        products: MakeProduct = plain_product,
        smaller: str = "use a smaller --batch-size or --beam-size, or the CPU: --device cpu",
        *,
        scores: bool = True,
        others: Sequence[EncoderDecoder] = (),
    ) -> None:
        self.model = model
        self.models = [model, *others]
        self._modules = nn.ModuleList(self.models)
        self.scores = scores
        self._smaller = smaller
        self._products = products
        self._forget_weights()

    @property
    def longest_source(self) -> int:
        """The maximum number of tokens of a source."""
        return min(longest_source(each.source_input.max_length) for each in self.models)

    @property
    def _vocabulary(self) -> int:
        return self.model.target_input.embedding.num_embeddings

    @property
    def _positions(self) -> int | None:
        """The positions for an output: one for each step; the first is that of the start symbol."""
        found = [each.target_input.max_length for each in self.models]
        return min(filter(None, found), default=None)

    def _forget_weights(self) -> None:
        self._decoders: dict[EncoderDecoder, FastDecoder] = {}
        self._versions = versions(self._modules)

    def _stepper(self) -> Stepper:
        if self._versions != versions(self._modules):
            self._forget_weights()
        steppers = [self._stepper_of(model) for model in self.models]
        return steppers[0] if len(steppers) == 1 else Ensemble(steppers)

    def _stepper_of(self, model: EncoderDecoder) -> Stepper:
        if is_edited(model):
            return PlainStepper(model)
        if model not in self._decoders:
            self._decoders[model] = FastDecoder(model, self._products)
        return ModelStepper(self._decoders[model])

    def translate(
        self,
        sentences: Sequence[Sentence],
        search: SearchConfig,
        *,
        batch_size: int = 64,
        progress: Callable[[int], None] | None = None,
    ) -> list[list[Hypothesis]]:
        """The hypotheses of each sentence, in their order; see `Engine`.

        A sentence whose terms are not in all its hypotheses is searched again, with the constraint
        that they are. So terms do not change the translations that have them anyway.
        """
        free = [sentence._replace(terms=None) for sentence in sentences]
        found = self.search(free, search, batch_size=batch_size, progress=progress)
        again = [i for i in lacking(sentences, found) if sentences[i].terms]
        constrained = [sentences[i] for i in again]
        for i, placed in zip(
            again, self.search(constrained, search, batch_size=batch_size), strict=True
        ):
            found[i] = placed
        return found

    def search(
        self,
        sentences: Sequence[Sentence],
        search: SearchConfig,
        *,
        batch_size: int = 64,
        progress: Callable[[int], None] | None = None,
    ) -> list[list[Hypothesis]]:
        """Same as `translate`, with one search, in which all terms are a constraint."""
        set_up_thread()
        positions = self._positions
        check_prefixes(sentences, self._vocabulary, positions)
        rows = search.n_best if search.method == "sampling" else search.beam_size
        width = self.model.target_input.embedding.embedding_dim

        def translate_batch(batch: list[int]) -> list[list[Hypothesis]]:
            what = f"a batch of {len(batch)} sentences"
            is_small = width <= ONE_THREAD and len(batch) * rows <= FEW_ROWS
            with explain_full_memory(self._smaller, what), threads(1 if is_small else 0):
                part = [sentences[i] for i in batch]
                return search_batch(self._stepper(), part, search, positions, self.scores)

        padded_tokens = max(1, PADDED_TOKENS // rows)
        lengths = [len(sentence.ids) for sentence in sentences]
        with evaluating(self._modules):
            return in_batches(lengths, batch_size, padded_tokens, translate_batch, progress)

    @torch.inference_mode()
    def score(
        self,
        sources: Sequence[Sequence[int]],
        targets: Sequence[Sequence[int]],
        *,
        batch_size: int = 64,
        progress: Callable[[int], None] | None = None,
    ) -> list[tuple[float, ...]]:
        """The log-probabilities of the tokens of each target, in float32; see `Engine`."""
        set_up_thread()
        device = next(self.model.parameters()).device

        def score_batch(batch: list[int]) -> list[tuple[float, ...]]:
            with explain_full_memory(self._smaller, f"a batch of {len(batch)} pairs"):
                chosen = [targets[i] for i in batch]
                source = _padded([sources[i] for i in batch], device)
                inputs = _padded([[BOS, *target] for target in chosen], device)
                outputs = _padded([[*target, EOS] for target in chosen], device)
                real = outputs != PAD
                logits = averaged(
                    [each.output(each(source, inputs, hidden=True)[real]) for each in self.models]
                )
                tokens = logits.gather(1, outputs[real][:, None])
                found = (tokens - log_normaliser(logits))[:, 0].double().cpu()
            return [tuple(each.tolist()) for each in found.split(real.sum(dim=1).tolist())]

        with evaluating(self._modules):
            vocabulary = self._vocabulary
            return scored_in_batches(
                sources, targets, vocabulary, score_batch, batch_size, progress
            )

    def trace(
        self, source: Sequence[int], search: SearchConfig
    ) -> tuple[list[Hypothesis], list[Node]]:
        """The hypotheses of one source by beam search, and all nodes of its tree."""
        set_up_thread()
        trace = Trace()
        with evaluating(self._modules):
            (found,) = search_batch(
                self._stepper(),
                [Sentence(source)],
                replace(search, method="beam"),
                self._positions,
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
        self.state = self._decoder.start(_padded(sources, self._device, self._decoder.model.pad_id))

    def step(self, tokens: Int[Tensor, " rows"]) -> Float[Tensor, "rows vocabulary"]:
        """Append `tokens` to the rows and return the logits of the next tokens."""
        sent = tokens.to(self._device, non_blocking=True)
        return self._decoder.step(sent, self.state).float()

    def reorder(self, rows: Int[Tensor, " new_rows"]) -> None:
        """Let new row i continue old row `rows[i]`."""
        self.state.reorder(rows)


class PlainStepper:
    """The step protocol by the modules of the model themselves, which read the whole prefix.

    Slower than the fast decoder. Every hook and every edit of a module acts.
    """

    def __init__(self, model: EncoderDecoder) -> None:
        self._model = model
        self._device = next(model.parameters()).device

    @torch.inference_mode()
    def start(self, sources: Sequence[Sequence[int]]) -> None:
        """Encode the sources and begin one row for each."""
        source = _padded(sources, self._device, self._model.pad_id)
        self._memory, self._mask = self._model.encode(source)
        self._read = source.new_empty(len(source), 0)

    @torch.inference_mode()
    def step(self, tokens: Int[Tensor, " rows"]) -> Float[Tensor, "rows vocabulary"]:
        """Append `tokens` to the rows and return the logits of the next tokens."""
        self._read = torch.cat((self._read, tokens[:, None].to(self._device)), dim=1)
        states = self._model.decode(self._read, self._memory, self._mask)
        return self._model.output(states[:, -1]).float()

    def reorder(self, rows: Int[Tensor, " new_rows"]) -> None:
        """Let new row i continue old row `rows[i]`."""
        kept = rows.to(self._device)
        self._read, self._memory, self._mask = (
            each.index_select(0, kept) for each in (self._read, self._memory, self._mask)
        )


def _padded(
    rows: Sequence[Sequence[int]], device: torch.device, pad_id: int = PAD
) -> Int[Tensor, "rows longest"]:
    ids = [torch.tensor(row, dtype=torch.long) for row in rows]
    padded = pad_sequence(ids, batch_first=True, padding_value=pad_id)
    return padded.to(device, non_blocking=True)


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
        inputs: Inputs,
        *,
        batch_size: int = 64,
        progress: Callable[[int], None] | None = None,
    ) -> np.ndarray:
        """The logits of each row, float64 (rows, labels), in the order of the rows.

        Args:
            rows: ids (length,), ids with character n-grams (length, 1 + n-grams), or features
                (length, width).
            inputs: cuts rows, and makes the padded tensor of a batch.
            batch_size: maximum number of rows of a batch.
            progress: called after each batch with the number of rows that are done.
        """
        found = self._computed(self.model, rows, inputs, batch_size, progress)
        return np.reshape(found, (len(rows), self.model.output.out_features))

    @torch.inference_mode()
    def states(self, rows: Sequence[np.ndarray], inputs: Inputs) -> np.ndarray:
        """What the output layer reads of each row, float64 (rows, width), in their order."""

        def states(batch: Tensor) -> Tensor:
            return self.model.state(*self.model.encode(batch))

        found = self._computed(states, rows, inputs)
        return np.reshape(found, (len(rows), self.model.output.in_features))

    def _computed(
        self,
        compute: Callable[[Tensor], Tensor],
        rows: Sequence[np.ndarray],
        inputs: Inputs,
        batch_size: int = 64,
        progress: Callable[[int], None] | None = None,
    ) -> list[np.ndarray]:
        """What a function makes of each row, one vector each, in the order of the rows."""

        def of_batch(batch: list[int]) -> np.ndarray:
            with explain_full_memory(self._smaller, f"a batch of {len(batch)} inputs"):
                chosen = inputs.collate([rows[i] for i in batch])
                return compute(chosen.to(self.model.output.weight.device)).double().cpu().numpy()

        set_up_thread()
        # What is cut off does not count, so that few batches of long texts have their own shape.
        lengths = [len(inputs.cut(row)) for row in rows]
        with evaluating(self.model):
            return in_batches(lengths, batch_size, PADDED_TOKENS, of_batch, progress)


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
