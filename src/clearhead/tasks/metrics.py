"""The measures of sacreBLEU as they are used here."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args, get_type_hints

from clearhead.config import EvaluationConfig
from clearhead.errors import ConfigError

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric


def metrics_of(tokenize: str, lowercase: bool) -> dict[str, Metric]:
    """BLEU, chrF2 and TER by the names "bleu", "chrf" and "ter".

    Args:
        tokenize: sacreBLEU's tokenizer for BLEU.
        lowercase: BLEU and chrF without regard to case. TER never minds it, as sacreBLEU has it
            and its signature says.

    Raises:
        ConfigError: the tokenizer is not one of those offered.
    """
    # Imported here: loading it takes long, and few runs of the command do.
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.metrics.ter import TER

    offered = get_args(get_type_hints(EvaluationConfig)["tokenize"])
    if tokenize not in offered:
        raise ConfigError(
            f"evaluation.tokenize: {tokenize!r} is not a tokenizer of sacreBLEU that is offered",
            todo=f"choose one of {', '.join(offered)}",
        )
    return {
        # Forced: tokenised text is scored as it is, without a warning, since it was asked for.
        "bleu": BLEU(tokenize=tokenize, lowercase=lowercase, force=True),
        "chrf": CHRF(lowercase=lowercase),
        "ter": TER(case_sensitive=False),
    }
