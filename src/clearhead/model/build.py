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
from clearhead.model.kernels import RandomKernels
from clearhead.model.layers import (
    DecoderLayer,
    EncoderLayer,
    FeedForward,
    PostNorm,
    PreNorm,
    Residual,
    StdPlusEpsilonNorm,
)
from clearhead.model.linear import LinearClassifier
from clearhead.model.ngrams import Ngrams
from clearhead.model.pooling import (
    AttentionPooling,
    FirstPooling,
    MaximumPooling,
    MeanPooling,
    Pooling,
)
from clearhead.model.positions import LearnedPositions, Positions, SinusoidalPositions
from clearhead.model.transformer import Decoder, Encoder, EncoderClassifier, EncoderDecoder
from clearhead.settings import ClassifierConfig, Learned, ModelConfig, RunConfig, Sinusoidal
from clearhead.settings.run import KERNEL_WIDTH
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

        model = clearhead.build_model(clearhead.ModelConfig(d_model=64), 1000, 1000)

    Args:
        config: all settings of the model.
        source_vocabulary: number of source tokens.
        target_vocabulary: number of target tokens.
        attend: the attention function of every layer.

    Raises:
        ConfigError: the embeddings are shared, but the vocabularies differ.
    """
    parts = Parts(config, attend)
    model = EncoderDecoder(*parts.of_translator(source_vocabulary, target_vocabulary))
    initialise(model, config)
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
    parts, features = Parts(run.model, attend), run.input == "features"
    model = EncoderClassifier(*parts.of_classifier(run.classifier, inputs, labels, features))
    initialise(model, run.model)
    return model


def linear_classifier(
    head: ClassifierConfig, inputs: int, labels: int, features: bool, pad_id: int = PAD
) -> LinearClassifier | None:
    """The linear model beside the encoder, not yet fitted; the arguments of `of_classifier`."""
    if features and head.kernels:
        kernels = RandomKernels(inputs, head.kernels, KERNEL_WIDTH, head.kernel_reach)
        return LinearClassifier(kernels, labels)
    if not features and head.ngrams:
        return LinearClassifier(Ngrams(head.ngrams, inputs, pad_id), labels)
    return None


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


class Parts:
    """Makes the parts of a model; `of_…` returns the arguments of a module's constructor."""

    def __init__(self, config: ModelConfig, attend: Attend = attention, pad_id: int = PAD) -> None:
        self.config = config
        self.attend = attend
        self.pad_id = pad_id

    def of_translator(
        self, source_vocabulary: int, target_vocabulary: int
    ) -> tuple[Input, Encoder, TokenEmbedding, Decoder, nn.Linear]:
        c = self.config
        if c.shares_inputs and source_vocabulary != target_vocabulary:
            raise ConfigError(
                f"model.share_embeddings = {c.share_embeddings!r} needs one joint vocabulary",
                why=f"the source has {source_vocabulary} tokens, the target {target_vocabulary}",
                todo="give both sides one vocabulary, or set share_embeddings = 'target'",
            )
        source = nn.Embedding(source_vocabulary, c.d_model)
        target = source if c.shares_inputs else nn.Embedding(target_vocabulary, c.d_model)
        output = nn.Linear(c.d_model, target_vocabulary, bias=c.output_bias)
        return (
            self.encoder_input(self.token_input(source)),
            self.encoder(),
            self.token_input(target),
            Decoder(*self.of_decoder()),
            output,
        )

    def of_classifier(
        self, head: ClassifierConfig, inputs: int, labels: int, features: bool
    ) -> tuple[
        Input,
        Encoder,
        Pooling,
        nn.Module,
        Dropout,
        nn.Linear,
        LinearClassifier | None,
    ]:
        poolings = [self.pooling(name) for name in head.pooling]
        width = len(poolings) * self.config.d_model
        return (
            self.encoder_input(self.input(inputs, features)),
            self.encoder(),
            Pooling(poolings),
            _hidden_layer(head.hidden, width),
            Dropout(head.dropout),
            _output_layer(width, labels),
            linear_classifier(head, inputs, labels, features, self.pad_id),
        )

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

    def of_attention(self) -> tuple[int, int, int, int, bool, Dropout, Attend]:
        c = self.config
        dropout, widths = Dropout(c.dropout.attention), (c.key_width, c.value_width)
        return c.d_model, c.n_heads, *widths, c.attention_bias, dropout, self.attend

    def attention(self) -> MultiHeadAttention:
        return MultiHeadAttention(*self.of_attention())

    def of_feed_forward(self) -> tuple[int, int, bool, nn.Module]:
        c = self.config
        if c.activation == "relu":
            activation = DroppedReLU(c.dropout.hidden)
        else:
            activation = nn.Sequential(ACTIVATIONS[c.activation](), Dropout(c.dropout.hidden))
        return c.d_model, c.d_ff, c.feed_forward_bias, activation

    def feed_forward(self) -> FeedForward:
        return FeedForward(*self.of_feed_forward())

    def of_encoder_layer(
        self,
    ) -> tuple[MultiHeadAttention, FeedForward, tuple[Residual, Residual], Dropout]:
        return (
            self.attention(),
            self.feed_forward(),
            (self.residual(), self.residual()),
            Dropout(self.config.dropout.layer_output),
        )

    def of_encoder(self) -> tuple[list[EncoderLayer], nn.Module]:
        layers = range(self.config.encoder_layers)
        return [EncoderLayer(*self.of_encoder_layer()) for _ in layers], self.final_norm()

    def encoder(self) -> Encoder:
        return Encoder(*self.of_encoder())

    def of_decoder_layer(
        self,
    ) -> tuple[
        MultiHeadAttention,
        MultiHeadAttention,
        FeedForward,
        tuple[Residual, Residual, Residual],
        Dropout,
    ]:
        return (
            self.attention(),
            self.attention(),
            self.feed_forward(),
            (self.residual(), self.residual(), self.residual()),
            Dropout(self.config.dropout.layer_output),
        )

    def of_decoder(self) -> tuple[list[DecoderLayer], nn.Module]:
        layers = range(self.config.decoder_layers)
        return [DecoderLayer(*self.of_decoder_layer()) for _ in layers], self.final_norm()

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
        parts = self.positions(), self.embedding_norm(), Dropout(c.dropout.embeddings)
        return TokenEmbedding(embedding, *parts, c.scale_embeddings, self.pad_id)

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
            self.pad_id,
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


def initialise(model: nn.Module, config: ModelConfig) -> None:
    """Draw new weights as `initialisation` names it, in the order of the modules; then share."""
    if config.initialisation != "pytorch":
        _draw(model, config.initialisation)
    if isinstance(model, EncoderDecoder) and config.share_embeddings in ("all", "target"):
        model.output.weight = model.target_input.embedding.weight


def _draw(model: nn.Module, how: str) -> None:
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
