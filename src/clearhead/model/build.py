"""ModelConfig -> model: the only place where a setting becomes a module or an initial weight."""

from __future__ import annotations

import warnings
from functools import partial
from typing import cast

import torch
from torch import Tensor, nn

from clearhead.errors import ConfigError
from clearhead.model.attention import Attend, MultiHeadAttention, attention
from clearhead.model.dropout import Dropout, DroppedReLU
from clearhead.model.inputs import (
    ConvolvedInput,
    FeatureProjection,
    Input,
    SpelledEmbedding,
    TokenEmbedding,
)
from clearhead.model.layers import (
    DecoderLayer,
    EncoderLayer,
    FeedForward,
    PostNorm,
    PreNorm,
    Residual,
    StdPlusEpsilonNorm,
)
from clearhead.model.pooling import (
    AttentionPooling,
    FirstPooling,
    MaximumPooling,
    MeanPooling,
    Pooling,
)
from clearhead.model.positions import LearnedPositions, Positions, SinusoidalPositions
from clearhead.model.transformer import Decoder, Encoder, EncoderClassifier, EncoderDecoder
from clearhead.settings import Learned, ModelConfig, RunConfig, Sinusoidal
from clearhead.tokenizer.protocol import PAD

ACTIVATIONS = {
    "relu": nn.ReLU,
    "gelu": nn.GELU,
    "gelu_tanh": partial(nn.GELU, approximate="tanh"),
    "swish": nn.SiLU,
    "tanh": nn.Tanh,
}
"""Activations by name; `tanh` is for the head of a classifier alone."""


def build_model(
    config: ModelConfig, source_vocabulary: int, target_vocabulary: int, attend: Attend = attention
) -> EncoderDecoder:
    """A newly initialised encoder-decoder.

    Args:
        config: all settings of the model.
        source_vocabulary: number of source tokens.
        target_vocabulary: number of target tokens.
        attend: the attention function of every layer.

    Raises:
        ConfigError: the embeddings are shared, but the vocabularies differ.
    """
    if config.shares_inputs and source_vocabulary != target_vocabulary:
        raise ConfigError(
            f"model.share_embeddings = {config.share_embeddings!r} needs one joint vocabulary",
            why=f"the source has {source_vocabulary} tokens, the target {target_vocabulary}",
            todo="set tokenizer.joint = true, or share_embeddings = 'target'",
        )
    parts = _Parts(config, attend)
    source = nn.Embedding(source_vocabulary, config.d_model)
    target = source if config.shares_inputs else nn.Embedding(target_vocabulary, config.d_model)
    output = nn.Linear(config.d_model, target_vocabulary, bias=config.output_bias)
    model = EncoderDecoder(
        source_input=parts.encoder_input(parts.token_input(source)),
        encoder=parts.encoder(),
        target_input=parts.token_input(target),
        decoder=parts.decoder(),
        output=output,
    )
    _initialise(model, config.initialisation)
    if config.share_embeddings in ("all", "target"):
        output.weight = target.weight
    return model


def build_classifier(
    run: RunConfig, inputs: int, labels: int, attend: Attend = attention
) -> EncoderClassifier:
    """A newly initialised classifier.

    Args:
        run: its settings of the model, of the head and of the kind of input.
        inputs: number of tokens of the vocabulary, or of features of a frame.
        labels: number of labels; 0 for an encoder that other models start from.
        attend: the attention function of every layer.
    """
    parts, head = _Parts(run.model, attend), run.classifier
    poolings = [parts.pooling(name) for name in head.pooling]
    width = len(poolings) * run.model.d_model
    model = EncoderClassifier(
        input=parts.encoder_input(parts.input(inputs, run.input == "features")),
        encoder=parts.encoder(),
        pooling=Pooling(poolings),
        hidden=_hidden_layer(head.hidden, width),
        dropout=Dropout(head.dropout),
        output=_output_layer(width, labels),
    )
    _initialise(model, run.model.initialisation)
    return model


def _hidden_layer(activation: str, width: int) -> nn.Module:
    """The hidden layer of a classifier's head; "none" for no layer."""
    if activation == "none":
        return nn.Identity()
    return nn.Sequential(nn.Linear(width, width), ACTIVATIONS[activation]())


def _output_layer(width: int, labels: int) -> nn.Linear:
    with warnings.catch_warnings():
        # PyTorch warns of an empty matrix, which an encoder without labels has.
        warnings.filterwarnings("ignore", "Initializing zero-element tensors")
        return nn.Linear(width, labels)


class _Parts:
    """Makes the parts of a model."""

    def __init__(self, config: ModelConfig, attend: Attend) -> None:
        self.config = config
        self.attend = attend

    def norm(self) -> nn.Module:
        kind = StdPlusEpsilonNorm if self.config.norm_form == "std_plus_epsilon" else nn.LayerNorm
        return kind(self.config.d_model, self.config.norm_epsilon)

    def embedding_norm(self) -> nn.Module:
        return self.norm() if self.config.embedding_norm else nn.Identity()

    def residual(self) -> Residual:
        wrapper = PreNorm if self.config.norm == "pre" else PostNorm
        return wrapper(self.norm(), Dropout(self.config.dropout.residual))

    def final_norm(self) -> nn.Module:
        c = self.config
        return self.norm() if c.norm == "pre" and c.final_norm else nn.Identity()

    def attention(self) -> MultiHeadAttention:
        c = self.config
        dropout = Dropout(c.dropout.attention)
        return MultiHeadAttention(
            c.d_model, c.n_heads, c.key_width, c.value_width, c.attention_bias, dropout, self.attend
        )

    def feed_forward(self) -> FeedForward:
        c = self.config
        if c.activation == "relu":
            activation = DroppedReLU(c.dropout.hidden)
        else:
            activation = nn.Sequential(ACTIVATIONS[c.activation](), Dropout(c.dropout.hidden))
        return FeedForward(c.d_model, c.d_ff, c.feed_forward_bias, activation)

    def encoder_layer(self) -> EncoderLayer:
        return EncoderLayer(
            self.attention(),
            self.feed_forward(),
            (self.residual(), self.residual()),
            Dropout(self.config.dropout.layer_output),
        )

    def encoder(self) -> Encoder:
        layers = [self.encoder_layer() for _ in range(self.config.encoder_layers)]
        return Encoder(layers, self.final_norm())

    def decoder_layer(self) -> DecoderLayer:
        return DecoderLayer(
            self.attention(),
            self.attention(),
            self.feed_forward(),
            (self.residual(), self.residual(), self.residual()),
            Dropout(self.config.dropout.layer_output),
        )

    def decoder(self) -> Decoder:
        layers = [self.decoder_layer() for _ in range(self.config.decoder_layers)]
        return Decoder(layers, self.final_norm())

    def positions(self) -> Positions:
        match self.config.positions:
            case Sinusoidal():
                return SinusoidalPositions(self.config.d_model)
            case Learned(max_length=max_length):
                return LearnedPositions(self.config.d_model, max_length)
            case _:
                return Positions()

    def token_input(self, embedding: nn.Embedding) -> TokenEmbedding:
        c = self.config
        norm, dropout = self.embedding_norm(), Dropout(c.dropout.embeddings)
        return TokenEmbedding(embedding, self.positions(), norm, dropout, c.scale_embeddings, PAD)

    def input(self, width: int, features: bool) -> TokenEmbedding | FeatureProjection:
        """The input of a classifier: `width` is the vocabulary, or the features of a frame."""
        c = self.config
        dropout = Dropout(c.dropout.embeddings)
        if features:
            projection = nn.Linear(width, c.d_model)
            return FeatureProjection(projection, self.positions(), self.embedding_norm(), dropout)
        if not c.character_ngrams:
            return self.token_input(nn.Embedding(width, c.d_model))
        return SpelledEmbedding(
            # The last word is the unknown one.
            nn.Embedding(width, c.d_model, padding_idx=width - 1),
            # One more than there are vectors: index 0 means no n-gram.
            nn.EmbeddingBag(1 + c.ngram_vectors, c.d_model, mode="mean", padding_idx=0),
            self.positions(),
            self.embedding_norm(),
            dropout,
            c.scale_embeddings,
            PAD,
        )

    def encoder_input(self, inner: TokenEmbedding | FeatureProjection) -> Input:
        """The input, with convolutions if there are any."""
        widths, d_model = self.config.input_convolution, self.config.d_model
        if not widths:
            return inner
        n = len(widths)
        shares = [d_model // n + (i < d_model % n) for i in range(n)]
        convolutions = [nn.Conv1d(d_model, *each) for each in zip(shares, widths, strict=True)]
        dropout = Dropout(self.config.dropout.embeddings)
        activation = ACTIVATIONS[self.config.activation]()
        return ConvolvedInput(inner, convolutions, activation, dropout)

    def pooling(self, name: str) -> nn.Module:
        if name == "attention":
            return AttentionPooling(self.config.d_model)
        return {"mean": MeanPooling, "first": FirstPooling, "maximum": MaximumPooling}[name]()


def _initialise(model: nn.Module, how: str) -> None:
    """Draw new weights as `ModelConfig.initialisation` names it, in the order of the modules."""
    if how == "pytorch":
        return
    for module in model.modules():
        for weight in filter(Tensor.numel, _matrices(module)):
            nn.init.xavier_uniform_(weight)
    for module in model.modules():
        if isinstance(module, nn.Embedding | nn.EmbeddingBag):
            if how != "xavier":
                # Scaled by √d_model, each number has a standard deviation of 1.
                nn.init.normal_(module.weight, std=module.embedding_dim**-0.5)
            if module.padding_idx is not None:
                # As in PyTorch, this vector is zero and is never trained.
                nn.init.zeros_(module.weight[module.padding_idx])
    if how == "xavier_scaled":
        _scale_residual_branches(model)


def _matrices(module: nn.Module) -> list[Tensor]:
    """The matrices of the paper in a module, each initialised by Glorot and Bengio 2010."""
    match module:
        case MultiHeadAttention():
            return [*module.packed.weight.split(module.widths), module.output.weight]
        case FeedForward():
            return [module.hidden.weight, module.output.weight]
        case EncoderClassifier(hidden=nn.Sequential() as hidden):
            return [cast(nn.Linear, hidden[0]).weight, module.output.weight]
        case EncoderDecoder() | EncoderClassifier():
            return [module.output.weight]
        case FeatureProjection():
            return [module.projection.weight]
        case nn.Embedding() | nn.EmbeddingBag():
            return [module.weight]
        case _:
            return []


def _scale_residual_branches(model: nn.Module) -> None:
    """Divide the output matrix of each of a stack's N sub-layers by √N.

    The sum of their outputs then does not grow with N (Radford et al. 2019, section 2.3).
    """
    for stack in model.modules():
        if isinstance(stack, Encoder | Decoder):
            outputs = [
                sublayer.output
                for sublayer in stack.modules()
                if isinstance(sublayer, MultiHeadAttention | FeedForward)
            ]
            with torch.no_grad():
                for output in outputs:
                    output.weight.mul_(len(outputs) ** -0.5)
