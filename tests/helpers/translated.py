"""Sentences for a small trained translator, and the texts of its outputs."""

from __future__ import annotations

from typing import Any

from clearhead.api import Translator

TEXTS = [
    "1 a b c",
    "22 h g f e d c b a",
    "",
    "3 a",
    "   ",
    "never seen ☃ words",
    *(f"{n} a b" for n in range(9)),
]


def outputs(translator: Translator, texts: list[str], **choices: Any) -> list[list[str]]:
    found = translator.translate(texts, **choices)
    return [[hypothesis.text for hypothesis in hypotheses] for hypotheses in found]
