"""Runs trained models with PyTorch: translators and classifiers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from clearhead.checkpoint import ModelFolder, load_parameters, read_tensors, read_tokenizers
from clearhead.decoding.cache import DecodingState
from clearhead.decoding.device import full_memory_said
from clearhead.decoding.engine import PADDED_TOKENS, Hypothesis, batches_by_length
from clearhead.decoding.products import LayOut, plain_product
from clearhead.decoding.search import search as search_batch
from clearhead.decoding.unrolled import UnrolledDecoder
from clearhead.errors import SearchError
from clearhead.model.transformer import EncoderClassifier, EncoderDecoder, evaluating
from clearhead.settings import SearchConfig
from clearhead.tokenizer import PAD

if TYPE_CHECKING:
    from torch import nn

Model = TypeVar("Model", bound="nn.Module")

# What to do if the memory of a GPU is full.
SMALLER_SEARCH = "use a smaller --batch-size or --beam-size, or the CPU: --device cpu"
SMALLER_BATCH = "use a smaller --batch-size, or the CPU: --device cpu"


class TorchEngine:
    """Translates with PyTorch and the searches of this package.

    Args:
        model: after its weights change, create a new engine.
        products: makes the products with its weights.
        smaller: what the user can do if the memory of a GPU is full.
        scores: whether the scores of hypotheses are needed; without them those of greedy search
            are NaN, and its `token_scores` are empty.
    """

    def __init__(
        self,
        model: EncoderDecoder,
        products: LayOut = plain_product,
        smaller: str = SMALLER_SEARCH,
        *,
        scores: bool = True,
    ) -> None:
        self.model = model
        self.scores = scores
        self._smaller = smaller
        self._decoder = UnrolledDecoder(model, products)

    @property
    def longest_source(self) -> int | None:
        """The most tokens of a source: the positions of the encoder."""
        return self.model.source_input.max_length

    def translate(
        self,
        sources: Sequence[Sequence[int]],
        search: SearchConfig,
        *,
        prefixes: Sequence[Sequence[int]] | None = None,
        keys: Sequence[int] | None = None,
        batch_size: int = 64,
        progress: Callable[[int], None] | None = None,
    ) -> list[list[Hypothesis]]:
        """The hypotheses of each source, in the order of the sources; see `Engine`."""
        keys = range(len(sources)) if keys is None else keys
        if prefixes is not None and len(prefixes) != len(sources):
            raise SearchError(f"{len(prefixes)} prefixes were given for {len(sources)} sources")
        rows = search.n_best if search.method == "sampling" else search.beam_size
        results: list[list[Hypothesis]] = [[] for _ in sources]
        with evaluating(self.model):
            done = 0
            lengths = [len(source) for source in sources]
            for batch in batches_by_length(lengths, batch_size, max(1, PADDED_TOKENS // rows)):
                with full_memory_said(self._smaller, f"a batch of {len(batch)} sentences"):
                    found = search_batch(
                        ModelStepper(self._decoder),
                        [sources[i] for i in batch],
                        search,
                        prefixes=None if prefixes is None else [prefixes[i] for i in batch],
                        keys=[keys[i] for i in batch],
                        # One for each step; the first is that of the start symbol.
                        positions=self.model.target_input.max_length,
                        scored=self.scores,
                    )
                for i, hypotheses in zip(batch, found, strict=True):
                    results[i] = hypotheses
                done += len(batch)
                if progress is not None:
                    progress(done)
        return results


class ModelStepper:
    """The step protocol of the searches (`Stepper`), implemented by the fast decoder."""

    def __init__(self, decoder: UnrolledDecoder) -> None:
        self._decoder = decoder
        self._device = decoder.model.output.weight.device
        self._state: DecodingState | None = None

    @property
    def state(self) -> DecodingState:
        """The keys and values of what has been decoded so far."""
        if self._state is None:
            raise RuntimeError("start() comes before step() and reorder()")
        return self._state

    def start(self, sources: Sequence[Sequence[int]]) -> None:
        """Encode the sources and begin one row for each."""
        ids = [torch.tensor(source, dtype=torch.long) for source in sources]
        padded = pad_sequence(ids, batch_first=True, padding_value=PAD)
        self._state = self._decoder.start(padded.to(self._device, non_blocking=True))

    def step(self, tokens: Int[Tensor, " rows"]) -> Float[Tensor, "rows vocabulary"]:
        """Append `tokens` to the rows and return the logits of the next tokens."""
        sent = tokens.to(self._device, non_blocking=True)
        return self._decoder.step(sent, self.state).float()

    def reorder(self, rows: Int[Tensor, " new_rows"]) -> None:
        """Let new row i continue old row `rows[i]`."""
        self.state.reorder(rows)


class ClassifierEngine:
    """Classifies rows of numbers with PyTorch.

    Args:
        model: the classifier.
        smaller: what the user can do if the memory of a GPU is full.
    """

    def __init__(self, model: EncoderClassifier, smaller: str = SMALLER_BATCH) -> None:
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
            batch_size: rows of a batch, at most.
            progress: called after each batch with the number of rows that are done.
        """
        found = np.zeros((len(rows), self.model.output.out_features))
        device = self.model.output.weight.device
        with evaluating(self.model):
            done = 0
            for batch in batches_by_length([len(row) for row in rows], batch_size, PADDED_TOKENS):
                with full_memory_said(self._smaller, f"a batch of {len(batch)} inputs"):
                    inputs = collate([rows[i] for i in batch]).to(device)
                    found[batch] = self.model(inputs).double().cpu().numpy()
                done += len(batch)
                if progress is not None:
                    progress(done)
        return found


def trained_translator(found: ModelFolder, device: torch.device) -> EncoderDecoder:
    """The encoder-decoder of a model folder, with its weights, on a device.

    Raises:
        ModelFolderError: a file is missing or damaged.
    """
    from clearhead.model.build import build_model

    source, target = read_tokenizers(found.path, found.config)
    return with_weights(build_model(found.config.model, len(source), len(target)), found, device)


def with_weights(model: Model, found: ModelFolder, device: torch.device) -> Model:
    """A model with the weights of a folder, on a device, in evaluation mode.

    Raises:
        ModelFolderError: the weights are damaged, or belong to another model.
    """
    tensors, _ = read_tensors(found.weights)
    load_parameters(model, tensors, found.weights)
    return model.to(device).eval()
