"""The settings of a Transformer: its shape, and each choice between parts."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, model_validator
from pydantic.dataclasses import dataclass

from clearhead.errors import ConfigError, meant
from clearhead.settings.declare import (
    STRICT,
    AboveZero,
    Declaration,
    Rate,
    Runs,
    Section,
    WrongSettingError,
    require,
    setting,
)

MOST_LAYERS, WIDEST, MOST_POSITIONS = 1000, 2**17, 1_000_000
"""Limits that no useful model reaches. Beyond them, even its shape takes long to compute."""

Layers = Annotated[int, Field(ge=1, le=MOST_LAYERS)]
Width = Annotated[int, Field(ge=1, le=WIDEST)]
HeadWidth = Annotated[int, Field(ge=0, le=WIDEST)]


@dataclass(frozen=True, config=STRICT)
class Sinusoidal(Section):
    """Sines and cosines of the position (Vaswani et al. 2017, section 3.5)."""

    kind: Literal["sinusoidal"] = setting(
        "sinusoidal",
        "positional encoding",
        details='`"sinusoidal"`: sines and cosines (Vaswani et al. 2017, section 3.5); '
        '`"learned"`: one trained vector per position; `"none"`: the model does not see the order '
        "of its input.",
        init_if_changed=Runs.TEXTS,
    )


@dataclass(frozen=True, config=STRICT)
class Learned(Section):
    """A trained vector for each position up to `max_length`."""

    kind: Literal["learned"] = setting("learned", "positional encoding")
    max_length: Annotated[int, Field(ge=1, le=MOST_POSITIONS)] = setting(
        512,
        "number of learned positions",
        details='Only with `model.positions.kind` = `"learned"`.',
    )


@dataclass(frozen=True, config=STRICT)
class NoPositions(Section):
    """The model does not see the order of its input."""

    kind: Literal["none"] = setting("none", "positional encoding")


Positions = Annotated[Sinusoidal | Learned | NoPositions, Field(discriminator="kind")]


@dataclass(frozen=True, config=STRICT)
class DropoutConfig(Section):
    """A dropout rate for each place that has one."""

    embeddings: Rate = setting(0.0, "rate on the sum of embeddings and positions")
    attention: Rate = setting(0.0, "rate on the attention weights")
    hidden: Rate = setting(0.0, "rate on the hidden units of the feed-forward network")
    residual: Rate = setting(0.0, "rate on the output of each sub-layer")
    layer_output: Rate = setting(0.0, "rate on the output of each layer")

    @classmethod
    def everywhere(cls, rate: float) -> Self:
        """The same rate on embeddings, attention weights, hidden units and sub-layer outputs."""
        return cls(**expanded_dropout(rate))


def expanded_dropout(value: Any) -> Any:
    """A single dropout rate as the rates of four places; anything else unchanged."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return dict.fromkeys(("embeddings", "attention", "hidden", "residual"), value)
    return value


def _widths(value: Any) -> Any:
    """A single width as a list; 0 is none."""
    if isinstance(value, int) and not isinstance(value, bool):
        return (value,) if value else ()
    return value


Count = Annotated[int, Field(ge=1, le=1000, strict=True)]

SIZES: dict[str, dict[str, int]] = {
    "tiny": dict(encoder_layers=4, decoder_layers=4, d_model=128, d_ff=256, n_heads=4),
    "small": dict(encoder_layers=6, decoder_layers=6, d_model=256, d_ff=1024, n_heads=4),
    "base": dict(encoder_layers=6, decoder_layers=6, d_model=512, d_ff=2048, n_heads=8),
    "big": dict(encoder_layers=6, decoder_layers=6, d_model=1024, d_ff=4096, n_heads=16),
}
"""Ready-made sizes; base and big are those of Vaswani et al. 2017, table 3."""


def _of_size(name: Any) -> dict[str, int]:
    if not isinstance(name, str) or name not in SIZES:
        raise WrongSettingError(
            "size",
            f"must be one of {', '.join(SIZES)}; got {name!r}",
            todo=meant("model.size", name, SIZES),
        )
    return SIZES[name]


@dataclass(frozen=True, config=STRICT)
class ModelConfig(Section):
    """The shape of a Transformer and each choice of its parts (Vaswani et al. 2017, section 3)."""

    SHORTHANDS: ClassVar = {
        "size": (
            Literal[tuple(SIZES)],  # pyright: ignore[reportInvalidTypeForm]
            Declaration(
                "model size",
                "Sets the numbers of layers and heads and the widths; settings beside it override "
                "it.",
                init=Runs.TRANSLATION,
            ),
        )
    }

    encoder_layers: Layers = setting(6, "number of encoder layers", init=Runs.LABELLED)
    decoder_layers: Layers = setting(
        6,
        "number of decoder layers",
        runs=Runs.TRANSLATION,
        also_default=tuple(size["decoder_layers"] for size in SIZES.values()),
    )
    d_model: Width = setting(512, "width of the vectors between layers", init=Runs.LABELLED)
    d_ff: Width = setting(
        2048, "width of the hidden layer of the feed-forward networks", init=Runs.LABELLED
    )
    n_heads: Width = setting(
        8,
        "number of attention heads per layer",
        details="Must divide `d_model`, unless `d_k` and `d_v` are set.",
        init=Runs.LABELLED,
    )
    d_k: HeadWidth = setting(0, "width of the queries and keys of a head; 0: `d_model` / `n_heads`")
    d_v: HeadWidth = setting(0, "width of the values of a head; 0: `d_model` / `n_heads`")
    norm: Literal["pre", "post"] = setting(
        "pre",
        "position of layer normalisation",
        details='`"pre"`: before each sub-layer; `"post"`: after the residual sum, as in the '
        "paper.",
        init=Runs.ALL,
    )
    final_norm: bool = setting(
        True,
        "layer normalisation after the last layer of a pre-norm stack",
        details='Without it, a classifier with `pooling = "maximum"` sees the magnitude of the '
        "vectors.",
        init_if_changed=Runs.TEXTS,
    )
    norm_form: Literal["standard", "std_plus_epsilon"] = setting(
        "standard",
        "formula of layer normalisation",
        details='`"standard"`: divides by √(variance + ε); `"std_plus_epsilon"`: divides by '
        "standard deviation + ε.",
    )
    norm_epsilon: AboveZero = setting(1e-5, "layer normalisation's ε")
    activation: Literal["relu", "gelu", "gelu_tanh", "swish"] = setting(
        "relu",
        "activation function of the feed-forward networks",
        details='`"gelu_tanh"`: GELU by its approximation with tanh.',
    )
    attention_bias: bool = setting(True, "biases in the projections of attention")
    feed_forward_bias: bool = setting(True, "biases in the feed-forward networks")
    output_bias: bool = setting(False, "bias in the output layer", runs=Runs.TRANSLATION)
    share_embeddings: Literal["none", "inputs", "target", "all"] = setting(
        "all",
        "shared embedding matrices",
        details='`"all"`: source, target and output layer; `"target"`: target and output layer; '
        '`"inputs"`: source and target.',
        runs=Runs.TRANSLATION,
        init=Runs.TRANSLATION,
    )
    scale_embeddings: bool = setting(
        True, "multiply embeddings by √`d_model`", runs=Runs.TEXT, init_if_changed=Runs.TEXTS
    )
    embedding_norm: bool = setting(
        False,
        "layer normalisation of the sum of embeddings and positions",
        details="As in BERT (Devlin et al. 2019).",
    )
    input_convolution: Annotated[tuple[Count, ...], BeforeValidator(_widths)] = setting(
        (),
        "widths of convolutions over the encoder's input; one number or a list",
        also="whole number",
        details="In tokens or frames. Their output is added to each input vector; each computes an "
        "equal share of it. `[]` or 0: none.",
        init=Runs.LABELLED,
    )
    character_ngrams: tuple[Count, ...] = setting(
        (),
        "lengths of the character n-grams that words are composed of",
        details="The mean of the n-grams' vectors is added to the vector of the word. An unknown "
        'word has this mean alone. Only with `tokenizer.kind = "words"`. `[]`: none.',
        runs=Runs.TEXTS,
        init_if_changed=Runs.TEXTS,
    )
    ngram_vectors: Annotated[int, Field(ge=1, le=100_000_000)] = setting(
        20_000,
        "number of vectors that all character n-grams share, by their hash",
        runs=Runs.TEXTS,
        only_with=("character_ngrams",),
    )
    dropout: Annotated[DropoutConfig, BeforeValidator(expanded_dropout)] = setting(
        lambda: DropoutConfig.everywhere(0.1),
        "dropout rate, at least 0 and less than 1",
        also="number",
        details="One rate for embeddings, attention, hidden units and residual branches, or a "
        "table of rates, in which missing ones are 0. `--set model.dropout.hidden=0.3` changes one "
        "rate and keeps the others.",
        init=Runs.ALL,
    )
    initialisation: Literal["pytorch", "xavier", "xavier_unit", "xavier_scaled"] = setting(
        "xavier_unit",
        "initial weights",
        details='`"pytorch"`: the defaults of PyTorch. `"xavier"`: Xavier-uniform for every '
        "matrix, including embeddings; convolutions, learned positions and the query of attention "
        'pooling keep the defaults of PyTorch. `"xavier_unit"`: like `"xavier"`, but embeddings '
        "from N(0, 1/d_model), so that scaled by √d_model they are as large as the positions. "
        '`"xavier_scaled"`: like `"xavier_unit"`, but the output matrix of each of the N '
        "sub-layers of a stack is divided by √N. It learns fastest at first; post-norm models "
        "learn slowly without it.",
        init_if_changed=Runs.TEXTS,
    )
    positions: Positions = setting(
        Sinusoidal, "positional encoding", details="A table with its `kind`."
    )

    @model_validator(mode="before")
    @classmethod
    def _expand_size(cls, tree: Any) -> Any:
        if not isinstance(tree, Mapping) or "size" not in tree:
            return tree
        return {**_of_size(tree["size"]), **{k: v for k, v in tree.items() if k != "size"}}

    def __post_init__(self) -> None:
        require(
            len(self.input_convolution) <= self.d_model,
            "input_convolution",
            f"has {len(self.input_convolution)} widths, more than d_model = {self.d_model}",
        )
        for name in ("d_k", "d_v"):
            require(
                self.n_heads * getattr(self, name) <= WIDEST,
                name,
                f"= {getattr(self, name)} with n_heads = {self.n_heads} makes more than {WIDEST:,}",
            )
        lengths = self.character_ngrams
        require(
            len(set(lengths)) == len(lengths), "character_ngrams", "contains a length repeatedly"
        )
        for name in ("d_k", "d_v"):
            require(
                getattr(self, name) > 0 or self.d_model % self.n_heads == 0,
                "d_model",
                f"= {self.d_model} is not a multiple of n_heads = {self.n_heads}: "
                f"choose other numbers, or give {name}",
            )

    @property
    def shares_inputs(self) -> bool:
        """Whether source and target have one embedding matrix, and so one vocabulary."""
        return self.share_embeddings in ("inputs", "all")

    @property
    def key_width(self) -> int:
        """The width of a head's queries and keys."""
        return self.d_k or self.d_model // self.n_heads

    @property
    def value_width(self) -> int:
        """The width of a head's values."""
        return self.d_v or self.d_model // self.n_heads

    @classmethod
    def of_size(cls, size: str, **choices: Any) -> Self:
        """A ready-made size (`tiny`, `small`, `base`, `big`), with other settings by name.

        Raises:
            ConfigError: there is no such size.
        """
        try:
            return cls(**{**_of_size(size), **choices})
        except WrongSettingError as error:
            raise ConfigError(f"model.{error}", setting="model.size", todo=error.todo) from None
