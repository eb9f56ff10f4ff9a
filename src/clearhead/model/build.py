"""ModelConfig -> model: the only place where a setting becomes a module."""

from __future__ import annotations

from torch import nn

from clearhead.errors import ConfigError
from clearhead.model.attention import Attend, MultiHeadAttention, attention
from clearhead.model.dropout import Dropout, DroppedReLU
from clearhead.model.initialisation import initialise
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
    StdLayerNorm,
)
from clearhead.model.pooling import (
    AttentionPooling,
    FirstPooling,
    MaximumPooling,
    MeanPooling,
    Pooling,
)
from clearhead.model.positions import LearnedPositions, NoPositions, Positions, SinusoidalPositions
from clearhead.model.transformer import (
    Decoder,
    Encoder,
    EncoderClassifier,
    EncoderDecoder,
)
from clearhead.settings import ClassifierConfig, Learned, ModelConfig, Sinusoidal

ACTIVATIONS = {"relu": nn.ReLU, "gelu": nn.GELU}
PAD_ID = 0


def build_model(
    config: ModelConfig, source_vocabulary: int, target_vocabulary: int, attend: Attend = attention
) -> EncoderDecoder:
    """A freshly initialised encoder-decoder.

    Args:
        config: every choice of the model.
        source_vocabulary: number of source tokens.
        target_vocabulary: number of target tokens.
        attend: the attention function of every layer.

    Raises:
        ConfigError: the embeddings are shared, but the vocabularies differ.
    """
    if config.share_embeddings == "all" and source_vocabulary != target_vocabulary:
        raise ConfigError(
            "model.share_embeddings = 'all' needs one joint vocabulary",
            why=f"the source has {source_vocabulary} tokens, the target {target_vocabulary}",
            todo="set tokenizer.joint = true, or share_embeddings = 'target'",
        )
    parts = _Parts(config, attend)
    source = nn.Embedding(source_vocabulary, config.d_model)
    shares = config.share_embeddings == "all"
    target = source if shares else nn.Embedding(target_vocabulary, config.d_model)
    output = nn.Linear(config.d_model, target_vocabulary, bias=config.output_bias)
    model = EncoderDecoder(
        source_input=parts.encoder_input(parts.token_input(source)),
        encoder=parts.encoder(),
        target_input=parts.token_input(target),
        decoder=Decoder(
            [parts.decoder_layer() for _ in range(config.decoder_layers)], parts.final_norm()
        ),
        output=output,
    )
    initialise(model, config.initialisation)
    if config.share_embeddings != "none":
        output.weight = target.weight
    return model


def build_classifier(
    config: ModelConfig,
    classifier: ClassifierConfig,
    inputs: int,
    labels: int,
    features: bool = False,
    attend: Attend = attention,
) -> EncoderClassifier:
    """A freshly initialised classifier, whose stack is the encoder that `config` describes.

    Args:
        config: every choice of the encoder; settings of a decoder are ignored.
        classifier: every choice of the head.
        inputs: number of tokens of the vocabulary, or of features of a frame.
        labels: number of labels.
        features: whether the input is features.
        attend: the attention function of every layer.
    """
    parts = _Parts(config, attend)
    poolings = [parts.pooling(name) for name in classifier.pooling]
    model = EncoderClassifier(
        input=parts.encoder_input(parts.input(inputs, features)),
        encoder=parts.encoder(),
        pooling=Pooling(poolings),
        dropout=Dropout(classifier.dropout),
        output=nn.Linear(len(poolings) * config.d_model, labels),
    )
    initialise(model, config.initialisation)
    return model


class _Parts:
    """Makes each part of a model as the configuration asks."""

    def __init__(self, config: ModelConfig, attend: Attend) -> None:
        self.config = config
        self.attend = attend

    def norm(self) -> nn.Module:
        kind = StdLayerNorm if self.config.norm_form == "std_plus_epsilon" else nn.LayerNorm
        return kind(self.config.d_model, self.config.norm_epsilon)

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
        return FeedForward(c.d_model, c.d_ff, c.feed_forward_bias, self.dropped_activation())

    def dropped_activation(self) -> nn.Module:
        """The activation of hidden units, and their dropout."""
        rate = self.config.dropout.hidden
        if self.config.activation == "relu":
            return DroppedReLU(rate)
        return nn.Sequential(ACTIVATIONS[self.config.activation](), Dropout(rate))

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

    def positions(self) -> Positions:
        match self.config.positions:
            case Sinusoidal():
                return SinusoidalPositions(self.config.d_model)
            case Learned(max_length=max_length):
                return LearnedPositions(self.config.d_model, max_length)
            case _:
                return NoPositions()

    def token_input(self, embedding: nn.Embedding) -> TokenEmbedding:
        dropout = Dropout(self.config.dropout.embeddings)
        return TokenEmbedding(
            embedding, self.positions(), dropout, self.config.scale_embeddings, PAD_ID
        )

    def spelled_input(self, words: int) -> SpelledEmbedding:
        """The input of an encoder of `words` words, the last of which is the unknown one."""
        c = self.config
        return SpelledEmbedding(
            nn.Embedding(words, c.d_model, padding_idx=words - 1),
            # One more than there are vectors: index 0 means no n-gram.
            nn.EmbeddingBag(1 + c.ngram_vectors, c.d_model, mode="mean", padding_idx=0),
            self.positions(),
            Dropout(c.dropout.embeddings),
            c.scale_embeddings,
            PAD_ID,
        )

    def input(self, width: int, features: bool) -> TokenEmbedding | FeatureProjection:
        """The input of an encoder alone: `width` tokens in all, or features a frame."""
        d_model = self.config.d_model
        if features:
            dropout = Dropout(self.config.dropout.embeddings)
            return FeatureProjection(nn.Linear(width, d_model), self.positions(), dropout)
        if self.config.character_ngrams:
            return self.spelled_input(width)
        return self.token_input(nn.Embedding(width, d_model))

    def encoder_input(self, inner: TokenEmbedding | FeatureProjection) -> Input:
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
