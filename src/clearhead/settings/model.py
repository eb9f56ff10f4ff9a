"""The shape of a Transformer and each choice of its parts."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Literal

from clearhead.errors import ConfigError
from clearhead.settings.nearest import meant
from clearhead.settings.require import require


@dataclass(frozen=True)
class Sinusoidal:
    """Sines and cosines of the position (Vaswani et al. 2017, section 3.5)."""

    kind: Literal["sinusoidal"] = "sinusoidal"


@dataclass(frozen=True)
class Learned:
    """A trained vector for each position up to `max_length`."""

    kind: Literal["learned"] = "learned"
    max_length: int = 512

    def __post_init__(self) -> None:
        require(self.max_length > 0, "max_length must be at least 1")


@dataclass(frozen=True)
class NoPositions:
    """The order of the input is not told to the model."""

    kind: Literal["none"] = "none"


Positions = Sinusoidal | Learned | NoPositions


@dataclass(frozen=True)
class DropoutConfig:
    """The share of numbers set to zero while training, for each place that has a dropout."""

    embeddings: float = 0.0
    attention: float = 0.0
    hidden: float = 0.0
    residual: float = 0.0
    layer_output: float = 0.0

    def __post_init__(self) -> None:
        for name, rate in dataclasses.asdict(self).items():
            require(0.0 <= rate < 1.0, f"{name} = {rate}: a dropout rate lies in [0, 1)")

    @classmethod
    def everywhere(cls, rate: float) -> DropoutConfig:
        """The same rate on embeddings, attention weights, hidden units and residual branches."""
        return cls(embeddings=rate, attention=rate, hidden=rate, residual=rate)


@dataclass(frozen=True)
class ModelConfig:
    """The shape of a Transformer and each choice of its parts (Vaswani et al. 2017, section 3).

    `initialisation`: as PyTorch does it; Xavier-uniform on every matrix, embeddings too, but for
    convolutions, learned positions and the query of a pooling, which stay as PyTorch begins them
    (`xavier`); that, but embeddings drawn from N(0, 1/d_model), so that scaled by √d_model they are
    of the size of the positions added to them (`xavier_unit`); or that, but the output matrix of
    each of a stack's N sub-layers divided by √N (`xavier_scaled`, which learns fastest at first;
    without it a post-norm model learns slowly).

    `final_norm` is the norm after the last layer of a pre-norm stack. Without it the sizes of what
    is found in an input are kept, which a classifier that pools by the maximum gains by.

    `input_convolution` has the widths, in tokens or frames, of convolutions that together add to
    each input of the encoder what stands beside it (none: nothing is added).

    `character_ngrams` has the lengths of runs of characters; the mean of their vectors is added to
    that of the word they spell, and a word outside the vocabulary has that mean alone (none: it is
    merely unknown). The runs share `ngram_vectors` vectors, of which a run's hash names one.

    `d_k` and `d_v`, the widths of a head's keys and values, are `d_model / n_heads` where 0.
    """

    encoder_layers: int = 6
    decoder_layers: int = 6
    d_model: int = 512
    d_ff: int = 2048
    n_heads: int = 8
    d_k: int = 0
    d_v: int = 0
    norm: Literal["pre", "post"] = "pre"
    final_norm: bool = True
    norm_form: Literal["standard", "std_plus_epsilon"] = "standard"
    norm_epsilon: float = 1e-5
    activation: Literal["relu", "gelu"] = "relu"
    attention_bias: bool = True
    feed_forward_bias: bool = True
    output_bias: bool = False
    positions: Positions = field(default_factory=Sinusoidal)
    share_embeddings: Literal["none", "target", "all"] = "all"
    scale_embeddings: bool = True
    input_convolution: tuple[int, ...] = ()
    character_ngrams: tuple[int, ...] = ()
    ngram_vectors: int = 20_000
    dropout: DropoutConfig = field(default_factory=lambda: DropoutConfig.everywhere(0.1))
    initialisation: Literal["pytorch", "xavier", "xavier_unit", "xavier_scaled"] = "xavier_unit"

    def __post_init__(self) -> None:
        require(
            isinstance(self.dropout, DropoutConfig),
            "dropout is not a DropoutConfig: give DropoutConfig.everywhere(0.1), for instance",
        )
        for name in ("encoder_layers", "decoder_layers", "d_model", "d_ff", "n_heads"):
            require(getattr(self, name) > 0, f"{name} must be at least 1")
        narrowest = min(self.input_convolution, default=1)
        require(narrowest > 0, f"input_convolution has a width of {narrowest}, not of 1 or more")
        require(
            len(self.input_convolution) <= self.d_model,
            f"input_convolution names more widths than d_model = {self.d_model} can be dealt to",
        )
        shortest = min(self.character_ngrams, default=1)
        require(shortest > 0, f"character_ngrams has a length of {shortest}, not of 1 or more")
        lengths = self.character_ngrams
        require(len(set(lengths)) == len(lengths), "character_ngrams names the same length twice")
        require(self.ngram_vectors > 0, "ngram_vectors must be at least 1")
        require(self.norm_epsilon > 0, "norm_epsilon must be greater than 0")
        for name in ("d_k", "d_v"):
            width = getattr(self, name)
            require(width >= 0, f"{name} must not be negative")
            require(
                width > 0 or self.d_model % self.n_heads == 0,
                f"d_model = {self.d_model} is not a multiple of n_heads = {self.n_heads}: "
                f"choose other numbers, or give {name}",
            )

    @property
    def key_width(self) -> int:
        """The width of a head's queries and keys."""
        return self.d_k or self.d_model // self.n_heads

    @property
    def value_width(self) -> int:
        """The width of a head's values."""
        return self.d_v or self.d_model // self.n_heads

    @classmethod
    def of_size(cls, size: str, **choices: Any) -> ModelConfig:
        """A ready-made size (`tiny`, `small`, `base`, `big`), other choices given by name.

        Raises:
            ConfigError: there is no such size.
        """
        return cls(**{**expanded_size(size), **choices})


SIZES: dict[str, dict[str, int]] = {
    "tiny": dict(encoder_layers=4, decoder_layers=4, d_model=128, d_ff=256, n_heads=4),
    "small": dict(encoder_layers=6, decoder_layers=6, d_model=256, d_ff=1024, n_heads=4),
    "base": dict(encoder_layers=6, decoder_layers=6, d_model=512, d_ff=2048, n_heads=8),
    "big": dict(encoder_layers=6, decoder_layers=6, d_model=1024, d_ff=4096, n_heads=16),
}
"""Ready-made sizes; base and big are those of Vaswani et al. 2017, table 3."""


def expanded_size(name: Any, where: str | None = None) -> dict[str, int]:
    """The settings that a size stands for.

    Raises:
        ConfigError: there is no such size.
    """
    if not isinstance(name, str) or name not in SIZES:
        raise ConfigError(
            f"model.size: {name!r} is not one of {', '.join(SIZES)}",
            where=where,
            todo=meant("model.size", name, SIZES),
        )
    return SIZES[name]


def expanded_dropout(value: Any) -> Any:
    """A single rate written out for its four places; anything else as it is."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return dict.fromkeys(("embeddings", "attention", "hidden", "residual"), value)
    return value
