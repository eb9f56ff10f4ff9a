"""The stacks, and the models made of them (Vaswani et al. 2017, figure 1)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

from jaxtyping import Float, Int
from torch import Tensor, nn

from clearhead.model.attention import KeysValues, full_mask, target_mask
from clearhead.model.dropout import Dropout
from clearhead.model.inputs import Input, TokenEmbedding
from clearhead.model.layers import (
    AnyMask,
    DecoderLayer,
    EncoderLayer,
    Memory,
    SourceMask,
    Vectors,
)
from clearhead.model.linear import LinearClassifier
from clearhead.model.pooling import Pooling
from clearhead.tokenizer.protocol import BOS, EOS, PAD


class Encoder(nn.Module):
    """N identical layers, and a final norm if they are pre-norm."""

    def __init__(self, layers: Sequence[EncoderLayer], norm: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.norm = norm

    def forward(self, x: Vectors, mask: AnyMask | None = None) -> Vectors:
        for layer in self.layers:
            x = layer(x, mask)
        return self.norm(x)


class Decoder(nn.Module):
    """N identical layers over the target and the memory, and a final norm as in the encoder.

    Without a mask, or with one of padding, a position attends to itself and to those before it.
    """

    def __init__(self, layers: Sequence[DecoderLayer], norm: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.norm = norm

    def forward(
        self,
        x: Vectors,
        memory: Memory,
        mask: AnyMask | None = None,
        memory_mask: AnyMask | None = None,
    ) -> Vectors:
        mask = target_mask(mask, x)
        for layer in self.layers:
            x = layer(x, memory, mask, memory_mask)
        return self.norm(x)

    def project_memory(self, memory: Memory) -> list[KeysValues]:
        """The keys and values of the memory for each layer, which decoding keeps for all steps."""
        layers = cast("Iterable[DecoderLayer]", self.layers)
        return [layer.cross_attention.project_memory(memory) for layer in layers]


class EncoderDecoder(nn.Module):
    """A translator: source tokens in, logits of the next target tokens out.

    `pad_id`, `bos_id` and `eos_id` are padding, the start symbol of a target, and its end symbol.
    With `hidden`, `forward` leaves out the projection to the vocabulary, `output`: the loss applies
    it in chunks.
    """

    pad_id, bos_id, eos_id = PAD, BOS, EOS

    def __init__(
        self,
        source_input: Input,
        encoder: Encoder,
        target_input: TokenEmbedding,
        decoder: Decoder,
        output: nn.Linear,
    ) -> None:
        super().__init__()
        self.source_input = source_input
        self.encoder = encoder
        self.target_input = target_input
        self.decoder = decoder
        self.output = output

    def forward(
        self,
        source: Int[Tensor, "batch source"],
        target: Int[Tensor, "batch target"],
        source_mask: AnyMask | None = None,
        target_mask: AnyMask | None = None,
        hidden: bool = False,
    ) -> Float[Tensor, "batch target outputs"]:
        memory, source_mask = self.encode(source, source_mask)
        states = self.decode(target, memory, source_mask, target_mask)
        return states if hidden else self.output(states)

    def encode(
        self, source: Int[Tensor, "batch source"], mask: AnyMask | None = None
    ) -> tuple[Memory, SourceMask]:
        """The encoder's output for a source and its mask, by default the one that hides padding."""
        mask = self.source_input.mask(source) if mask is None else full_mask(mask)
        return self.encoder(self.source_input(source), mask), mask

    def decode(
        self,
        target: Int[Tensor, "batch target"],
        memory: Memory,
        source_mask: AnyMask,
        mask: AnyMask | None = None,
    ) -> Float[Tensor, "batch target d_model"]:
        """Hidden states for a whole target at once; its mask is causal by default.

        A target's padding is at its end, where the causal mask already hides it from all tokens.
        """
        return self.decoder(self.target_input(target), memory, mask, source_mask)


class EncoderClassifier(nn.Module):
    """A classifier: an input's sequence in, the logits of its labels out."""

    pad_id = PAD

    def __init__(
        self,
        input: Input,
        encoder: Encoder,
        pooling: Pooling,
        hidden: nn.Module,
        dropout: Dropout,
        output: nn.Linear,
        linear: LinearClassifier | None = None,
    ) -> None:
        super().__init__()
        self.input = input
        self.encoder = encoder
        self.pooling = pooling
        self.hidden = hidden
        self.dropout = dropout
        self.output = output
        self.linear = linear

    def forward(self, x: Tensor, mask: AnyMask | None = None) -> Float[Tensor, "batch labels"]:
        memory, mask = self.encode(x, mask)
        return self.logits(x, self.state(memory, mask))

    def encode(self, x: Tensor, mask: AnyMask | None = None) -> tuple[Memory, SourceMask]:
        """The encoder's output for an input and its mask, by default the one that hides padding."""
        mask = self.input.mask(x) if mask is None else full_mask(mask)
        return self.encoder(self.input(x), mask), mask

    def state(self, memory: Memory, mask: SourceMask) -> Float[Tensor, "batch hidden"]:
        """What the output layer reads of the encoder's output."""
        return self.dropout(self.hidden(self.pooling(memory, mask)))

    def logits(
        self, x: Tensor, state: Float[Tensor, "batch hidden"]
    ) -> Float[Tensor, "batch labels"]:
        """The logits from the `state` of an input, and unless it is training the linear model's."""
        logits = self.output(state)
        # It fits the training examples almost perfectly, so the encoder would get no gradient.
        if self.linear is not None and not self.training:
            logits = self.linear(logits, x)
        return logits


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Put the model into evaluation mode; afterwards each module has its own mode again."""
    # Setting every mode takes as long as decoding a few tokens of a small model; reading is fast.
    training = [module for module in model.modules() if module.training]
    if training:
        model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True


def uncompiled(model: Any) -> Any:
    """The module inside the one that `torch.compile` returns; anything else as it is."""
    return getattr(model, "_orig_mod", model)
