"""ModelConfig -> model: the one place where a choice becomes an object."""

from __future__ import annotations

from torch import nn

from clearhead.config import Learned, ModelConfig, Sinusoidal
from clearhead.errors import ConfigError
from clearhead.model.attention import Attend, MultiHeadAttention, attention
from clearhead.model.dropout import Dropout
from clearhead.model.inputs import TokenEmbedding
from clearhead.model.layers import (
    DecoderLayer,
    EncoderLayer,
    FeedForward,
    PostNorm,
    PreNorm,
    Residual,
)
from clearhead.model.norms import StdLayerNorm
from clearhead.model.positions import (
    LearnedPositions,
    NoPositions,
    Positions,
    SinusoidalPositions,
)
from clearhead.model.transformer import Decoder, Encoder, EncoderDecoder

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
        ConfigError: the embeddings are to be shared, but the vocabularies differ.
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
        source_input=parts.token_input(source),
        encoder=Encoder(
            [parts.encoder_layer() for _ in range(config.encoder_layers)], parts.final_norm()
        ),
        target_input=parts.token_input(target),
        decoder=Decoder(
            [parts.decoder_layer() for _ in range(config.decoder_layers)], parts.final_norm()
        ),
        output=output,
    )
    if config.initialisation != "pytorch":
        _initialise_xavier(model)
    if config.initialisation == "xavier_unit":
        for embedding in (source, target):
            nn.init.normal_(embedding.weight, std=config.d_model**-0.5)
    if config.share_embeddings != "none":
        output.weight = target.weight
    return model


class _Parts:
    """Makes each part of a model as a config has it."""

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
        return self.norm() if self.config.norm == "pre" else nn.Identity()

    def attention(self) -> MultiHeadAttention:
        c = self.config
        dropout = Dropout(c.dropout.attention)
        return MultiHeadAttention(
            c.d_model, c.n_heads, c.key_width, c.value_width, c.attention_bias, dropout, self.attend
        )

    def feed_forward(self) -> FeedForward:
        c = self.config
        activation = ACTIVATIONS[c.activation]()
        return FeedForward(
            c.d_model, c.d_ff, c.feed_forward_bias, activation, Dropout(c.dropout.hidden)
        )

    def encoder_layer(self) -> EncoderLayer:
        return EncoderLayer(
            self.attention(),
            self.feed_forward(),
            (self.residual(), self.residual()),
            Dropout(self.config.dropout.layer_output),
        )

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


def _initialise_xavier(model: nn.Module) -> None:
    """Glorot and Bengio 2010, uniform, on every matrix; W^Q, W^K and W^V each by itself."""
    for module in model.modules():
        if isinstance(module, MultiHeadAttention):
            for part in module.packed.weight.split(module.widths):
                nn.init.xavier_uniform_(part)
            nn.init.xavier_uniform_(module.output.weight)
        elif isinstance(module, FeedForward):
            nn.init.xavier_uniform_(module.hidden.weight)
            nn.init.xavier_uniform_(module.output.weight)
        elif isinstance(module, EncoderDecoder):
            nn.init.xavier_uniform_(module.output.weight)
        elif isinstance(module, nn.Embedding):
            nn.init.xavier_uniform_(module.weight)
