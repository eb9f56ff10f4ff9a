"""The modules of `clearhead.model` with constructors that a person types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict, Unpack

from jaxtyping import Int
from torch import Tensor

from clearhead.errors import ConfigError
from clearhead.model import attention, layers, transformer
from clearhead.model.build import Parts, initialise
from clearhead.nn.generation import beam_search
from clearhead.settings import ClassifierConfig, DropoutConfig, ModelConfig

Norm = Literal["pre", "post"]
Activation = Literal["relu", "gelu", "gelu_tanh", "swish"]
Dropout = float | Mapping[str, float] | DropoutConfig
Size = Literal["tiny", "small", "base", "big"]
Pooling = Literal["mean", "first", "maximum", "attention"]


class LayerChoices(TypedDict, total=False):
    """What a layer can be given by name; see `EncoderLayer`."""

    dropout: float
    bias: bool
    norm: Norm
    activation: Activation


class MultiHeadAttention(attention.MultiHeadAttention):
    """Attention of several heads (Vaswani et al. 2017, section 3.2.2).

        attend = nn.MultiHeadAttention(512, 8)
        y = attend(x)  # self-attention: (batch, length, 512) -> (batch, length, 512)
        y = attend(x, memory, mask)  # attention of x to the memory

    `mask` is boolean, True where a query may attend to a key: (batch, keys), (batch, queries, keys)
    or (batch, heads, queries, keys).

    Args:
        d_model: width of input and output.
        heads: number of heads.
        dropout: rate on the attention weights.
        bias: biases in the four projections.
        d_k: width of the queries and keys of a head; d_model / heads by default.
        d_v: width of the values of a head; d_model / heads by default.

    Raises:
        ConfigError: d_model is not a multiple of the heads.
    """

    def __init__(
        self,
        d_model: int,
        heads: int,
        *,
        dropout: float = 0.1,
        bias: bool = True,
        d_k: int | None = None,
        d_v: int | None = None,
    ) -> None:
        config = ModelConfig.of_size(
            "base",
            d_model=d_model,
            n_heads=heads,
            d_k=d_k or 0,
            d_v=d_v or 0,
            dropout=dropout,
            attention_bias=bias,
        )
        super().__init__(*Parts(config).of_attention())
        initialise(self, config)


class FeedForward(layers.FeedForward):
    """max(0, xW₁ + b₁)W₂ + b₂ at each position (section 3.3).

        y = nn.FeedForward(512)(x)  # (batch, length, 512) -> (batch, length, 512)

    Args:
        d_model: width of input and output.
        d_ff: width of the hidden layer; 4 · d_model by default.
        dropout: rate on the hidden units.
        bias: biases in both layers.
        activation: of the hidden units.
    """

    def __init__(
        self,
        d_model: int,
        d_ff: int | None = None,
        *,
        dropout: float = 0.1,
        bias: bool = True,
        activation: Activation = "relu",
    ) -> None:
        config = _layer(d_model, 1, d_ff, dropout=dropout, bias=bias, activation=activation)
        super().__init__(*Parts(config).of_feed_forward())
        initialise(self, config)


class EncoderLayer(layers.EncoderLayer):
    """Self-attention, then the feed-forward network (section 3.1).

        layer = nn.EncoderLayer(512, 8)
        y = layer(x, mask)  # (batch, length, 512) -> (batch, length, 512)

    Args:
        d_model: width of input and output.
        heads: number of heads.
        d_ff: width of the feed-forward network; 4 · d_model by default.
        choices: `dropout=0.1`, the rate on attention weights, hidden units and residual branches;
            `bias=True` in the linear layers; `norm="pre"`: x + Sublayer(LayerNorm(x)), which trains
            without a warm-up (Xiong et al. 2020), or `norm="post"`: LayerNorm(x + Sublayer(x)), as
            in the paper (section 3.1); `activation="relu"`, `"gelu"`, `"gelu_tanh"` or `"swish"`.

    Raises:
        ConfigError: d_model is not a multiple of the heads, or a choice is unknown.
    """

    def __init__(
        self, d_model: int, heads: int, d_ff: int | None = None, **choices: Unpack[LayerChoices]
    ) -> None:
        config = _layer(d_model, heads, d_ff, **choices)
        super().__init__(*Parts(config).of_encoder_layer())
        initialise(self, config)


class DecoderLayer(layers.DecoderLayer):
    """Causal self-attention, attention to the memory, the feed-forward network (section 3.1).

        layer = nn.DecoderLayer(512, 8)
        y = layer(x, memory)  # (batch, target, 512), (batch, source, 512) -> (batch, target, 512)

    Further arguments of the call are `mask` of x, causal by default, and `memory_mask`. A mask of
    padding, (batch, keys), adds to the causal one.
    The constructor has the arguments of `EncoderLayer`.
    """

    def __init__(
        self, d_model: int, heads: int, d_ff: int | None = None, **choices: Unpack[LayerChoices]
    ) -> None:
        config = _layer(d_model, heads, d_ff, **choices)
        super().__init__(*Parts(config).of_decoder_layer())
        initialise(self, config)


class Encoder(transformer.Encoder):
    """A stack of encoder layers: vectors (batch, length, d_model) in and out.

        encoder = nn.Encoder(512, 8, layers=6)
        memory = encoder(x, mask)

    Args:
        d_model: width of input and output.
        heads: number of heads of each layer.
        layers: number of layers.
        d_ff: width of the feed-forward networks; 4 · d_model by default.
        choices: those of `EncoderLayer`. With `norm="pre"` the stack ends with one more norm.

    Raises:
        ConfigError: d_model is not a multiple of the heads, or a choice is unknown.
    """

    def __init__(
        self,
        d_model: int,
        heads: int,
        layers: int = 6,
        d_ff: int | None = None,
        **choices: Unpack[LayerChoices],
    ) -> None:
        config = _layer(d_model, heads, d_ff, encoder_layers=layers, **choices)
        super().__init__(*Parts(config).of_encoder())
        initialise(self, config)


class Decoder(transformer.Decoder):
    """A stack of decoder layers over a memory, causal by default.

        decoder = nn.Decoder(512, 8, layers=6)
        y = decoder(x, memory, memory_mask=mask)

    The constructor has the arguments of `Encoder`.
    """

    def __init__(
        self,
        d_model: int,
        heads: int,
        layers: int = 6,
        d_ff: int | None = None,
        **choices: Unpack[LayerChoices],
    ) -> None:
        config = _layer(d_model, heads, d_ff, decoder_layers=layers, **choices)
        super().__init__(*Parts(config).of_decoder())
        initialise(self, config)


class Transformer(transformer.EncoderDecoder):
    """The Transformer of "Attention Is All You Need": source ids in, logits of target ids out.

        model = nn.Transformer(1000, 1000, size="tiny")
        logits = model(source, target[:, :-1])  # ids (batch, length) -> (batch, length, 1000)
        loss = F.cross_entropy(logits.transpose(1, 2), target[:, 1:], ignore_index=0)

    Ids are int64. A target starts with `bos_id` and ends with `eos_id`; the logits at position i
    are of the token at i + 1. Shorter rows end with `pad_id`. Padding of the source and the future
    of the target are hidden by masks that the model makes; give others as `source_mask` and
    `target_mask` (boolean, True where attention is allowed). A `target_mask` of padding, (batch,
    target), adds to the causal one, any other replaces it. With `hidden=True` a call returns the
    states (batch, target, d_model) from which `model.output` computes the logits. `model.settings`
    is the `ModelConfig`.

    Args:
        source_vocabulary: number of source ids.
        target_vocabulary: number of target ids.
        size: `tiny` (4 + 4 layers of width 128), `small`, `base` or `big` (Vaswani et al. 2017,
            table 3). The arguments below replace its numbers.
        d_model: width of the vectors between layers.
        heads: number of heads of each attention.
        layers: number of layers of each stack.
        d_ff: width of the feed-forward networks; 4 · d_model if d_model is given.
        dropout: rate on embeddings, attention weights, hidden units and residual branches; or rates
            by their places, `{"embeddings": 0.1, "attention": 0.1, "hidden": 0.1, "residual": 0.1,
            "layer_output": 0.1}`; a missing one is 0.
        bias: biases in attention and feed-forward networks.
        norm: `pre`, which trains without a warm-up of the learning rate, or `post`, as in the
            paper; see `EncoderLayer`.
        share_embeddings: which matrices are one: `none`, `target` (target and output), `inputs`
            (source and target), `all`. The last two need one vocabulary.
        pad_id: the id of padding in both vocabularies. This and the next two are different.
        bos_id: the id that a target starts with.
        eos_id: the id that a target ends with.
        settings: any other field of `ModelConfig`, e.g. `activation="gelu"`, `encoder_layers=12`,
            `positions={"kind": "learned", "max_length": 512}`.

    Raises:
        ConfigError: a setting is unknown or wrong, or ids are equal or not in the vocabularies.
    """

    def __init__(
        self,
        source_vocabulary: int,
        target_vocabulary: int,
        size: Size = "base",
        *,
        d_model: int | None = None,
        heads: int | None = None,
        layers: int | None = None,
        d_ff: int | None = None,
        dropout: Dropout = 0.1,
        bias: bool = True,
        norm: Norm = "pre",
        share_embeddings: Literal["none", "inputs", "target", "all"] = "target",
        pad_id: int = 0,
        bos_id: int = 1,
        eos_id: int = 2,
        **settings: Any,
    ) -> None:
        special = (pad_id, bos_id, eos_id)
        inside = all(0 <= each < target_vocabulary for each in special)
        if len({*special}) < 3 or not inside or pad_id >= source_vocabulary:
            raise ConfigError(
                f"pad_id = {pad_id}, bos_id = {bos_id} and eos_id = {eos_id} are not three ids",
                where="Transformer",
                why=f"they must be different ids of the target vocabulary ({target_vocabulary}), "
                f"and pad_id also one of the source vocabulary ({source_vocabulary})",
            )
        config = _model(
            size,
            (d_model, heads, layers, d_ff),
            bias,
            {**settings, "dropout": dropout, "norm": norm, "share_embeddings": share_embeddings},
        )
        parts = Parts(config, pad_id=pad_id)
        super().__init__(*parts.of_translator(source_vocabulary, target_vocabulary))
        initialise(self, config)
        self.settings = config  # as `config` the Trainer of transformers would write into it
        self.pad_id, self.bos_id, self.eos_id = special

    def generate(
        self,
        source: Int[Tensor, "batch source"] | Sequence[Sequence[int]],
        beam_size: int = 1,
        max_length: int | None = None,
        **search: Any,
    ) -> list[list[int]]:
        """The best output for each source: its ids without start and end symbols.

        Args:
            source: padded ids (batch, source), or lists of ids.
            beam_size: number of hypotheses kept at each step; 1: greedy search.
            max_length: maximum number of ids of an output, the end symbol included; by default
                twice the source and 20 more.
            search: any other field of `SearchConfig`, e.g. `method="sampling", temperature=0.8`.

        Raises:
            ConfigError: a setting is unknown or wrong.
            DataError: the source has another shape or ids that are not in the vocabulary.
        """
        found = beam_search(self, source, beam_size, max_length, **search)
        return [list(best.tokens) for best, *_ in found]


class TransformerClassifier(transformer.EncoderClassifier):
    """An encoder with a classifier's head: ids or features in, logits of labels out.

        model = nn.TransformerClassifier(1000, labels=["good", "bad"], size="tiny")
        logits = model(ids)  # (batch, length) -> (batch, 2)

    A call also takes a `mask` of the input. By default padding is hidden.

    Args:
        inputs: number of ids of the vocabulary; or of the features of a frame.
        labels: number of labels, or their names, which `clearhead.explain` and others then show.
        size: as in `Transformer`, also `d_model`, `heads`, `layers`, `d_ff`, `dropout`, `bias`,
            `norm`.
        head_dropout: the dropout rate before the output layer; by default that of hidden units.
        features: whether the inputs are features, float (batch, length, inputs). A frame of NaN is
            padding then.
        pooling: what combines the vectors of all positions into one.
        pad_id: the id of padding.
        settings: any other field of `ModelConfig`.

    Raises:
        ConfigError: a setting is unknown or wrong.
    """

    def __init__(
        self,
        inputs: int,
        labels: int | Sequence[str],
        size: Size = "base",
        *,
        d_model: int | None = None,
        heads: int | None = None,
        layers: int | None = None,
        d_ff: int | None = None,
        dropout: Dropout = 0.1,
        bias: bool = True,
        head_dropout: float | None = None,
        norm: Norm = "pre",
        features: bool = False,
        pooling: Pooling = "mean",
        pad_id: int = 0,
        **settings: Any,
    ) -> None:
        given = {**settings, "dropout": dropout, "norm": norm}
        config = _model(size, (d_model, heads, layers, d_ff), bias, given)
        rate = config.dropout.hidden if head_dropout is None else head_dropout
        head = ClassifierConfig(pooling=(pooling,), dropout=rate)
        parts = Parts(config, pad_id=pad_id)
        names = tuple(map(str, range(labels))) if isinstance(labels, int) else tuple(labels)
        super().__init__(*parts.of_classifier(head, inputs, len(names), features))
        initialise(self, config)
        self.settings = config  # as `config` the Trainer of transformers would write into it
        self.pad_id, self.labels = pad_id, names


def _layer(
    d_model: int,
    heads: int,
    d_ff: int | None,
    *,
    dropout: float = 0.1,
    bias: bool = True,
    norm: Norm = "pre",
    activation: Activation = "relu",
    **settings: Any,
) -> ModelConfig:
    return ModelConfig.of_size(
        "base",
        d_model=d_model,
        n_heads=heads,
        d_ff=d_ff or 4 * d_model,
        dropout=dropout,
        attention_bias=bias,
        feed_forward_bias=bias,
        norm=norm,
        activation=activation,
        **settings,
    )


def _model(
    size: str,
    shape: tuple[int | None, int | None, int | None, int | None],
    bias: bool,
    settings: Any,
) -> ModelConfig:
    """The configuration of a model of a size with other numbers where they are not None."""
    if "n_heads" in settings:
        raise ConfigError("n_heads is a field of ModelConfig", todo="here it is called heads")
    d_model, heads, layers, d_ff = shape
    given = {
        "d_model": d_model,
        "n_heads": heads,
        "encoder_layers": layers,
        "decoder_layers": layers,
        "d_ff": d_ff or (4 * d_model if d_model else None),
    }
    given = {name: number for name, number in given.items() if number is not None}
    biases = {"attention_bias": bias, "feed_forward_bias": bias}
    return ModelConfig.of_size(size, **{**biases, **given, **settings})
