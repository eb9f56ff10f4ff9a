"""What the description of an imported tokenizer, its `tokenizer.json`, may contain.

The library `tokenizers` does everything that a description asks for: replacements that double a
text forty times, or regular expressions that take years. clearhead hands over only what the
families of models that it imports need.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import prod
from typing import Any

from clearhead.tokenizer.charsmaps import check_charsmap

STEPS: Mapping[str, tuple[str, frozenset[str]]] = {
    "normalizer": (
        "normalizers",
        frozenset(
            "BertNormalizer NFC NFD NFKC NFKD Nmt Lowercase StripAccents Strip Precompiled "
            "Replace".split()
        ),
    ),
    "pre_tokenizer": (
        "pretokenizers",
        frozenset(
            "BertPreTokenizer Whitespace WhitespaceSplit Punctuation Digits ByteLevel "
            "Metaspace".split()
        ),
    ),
    "post_processor": (
        "processors",
        frozenset("TemplateProcessing BertProcessing RobertaProcessing ByteLevel".split()),
    ),
    "decoder": (
        "decoders",
        frozenset(
            "WordPiece BPEDecoder ByteLevel Metaspace ByteFallback Fuse Strip Replace".split()
        ),
    ),
}
"""The key of a sequence of steps, and the kinds of steps, of each part of a description."""

MODELS = ("WordPiece", "BPE", "Unigram", "WordLevel")

REGULAR_EXPRESSIONS = (" {2,}",)
"""Those in the normalizers of XLM-R models."""

MOST_STEPS, MOST_GROWTH = 8, 4
"""Of a part; and how many times longer all replacements together may make a text."""

LONGEST_STRING, LONGEST_WORD = 1_000, 1_000
"""Characters of a token or another string, and of a word that WordPiece splits."""


def check_description(tree: Mapping[str, Any], size: int) -> None:
    """Check the description of a tokenizer before the library reads it."""
    try:
        for part in STEPS:
            _check_steps(part, tree.get(part))
        _check_model(tree["model"], size)
        added = tree.get("added_tokens") or []
        _check_numbers([token["id"] for token in added], size)
        _check_strings([token["content"] for token in added])
        if any(not token["content"] for token in added):
            raise ValueError("an added token is empty")
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"the tokenizer has another form ({error})") from None


def _check_steps(part: str, component: Any) -> None:
    if component is None:
        return
    key, allowed = STEPS[part]
    steps = component[key] if component["type"] == "Sequence" else [component]
    kinds = [step["type"] for step in steps]
    if unknown := next((kind for kind in kinds if kind not in allowed), None):
        raise ValueError(f"its {part} has the step {unknown!r}, which clearhead does not use")
    once = [kind for kind in kinds if kind != "Replace"]
    if len(kinds) > MOST_STEPS or len(set(once)) < len(once):
        raise ValueError(f"its {part} has the steps {', '.join(kinds[:20])}")
    for step in steps:
        if step["type"] == "Precompiled":
            check_charsmap(step["precompiled_charsmap"])
        else:
            _check_strings([value for value in step.values() if isinstance(value, str)])
        if step["type"] == "TemplateProcessing" and len(step["single"]) > MOST_STEPS:
            raise ValueError("its template repeats the text")
    if prod(_growth(step) for step in steps if step["type"] == "Replace") > MOST_GROWTH:
        raise ValueError(f"its {part} makes a text many times longer")


def _growth(step: Mapping[str, Any]) -> float:
    """How many times longer a replacement may make a text."""
    [(kind, pattern)] = step["pattern"].items()
    if kind == "Regex" and pattern not in REGULAR_EXPRESSIONS:
        raise ValueError(f"it has the regular expression {pattern!r}, which clearhead does not use")
    if not pattern:
        raise ValueError("it replaces an empty text")
    shortest = len(pattern) if kind == "String" else 1
    return max(1, len(step["content"]) / shortest)


def _check_model(model: Mapping[str, Any], size: int) -> None:
    kind, vocabulary = model["type"], model["vocab"]
    if kind not in MODELS:
        raise ValueError(f"its model is {kind!r}, which clearhead does not use")
    _check_strings([value for value in model.values() if isinstance(value, str)])
    if model.get("dropout"):
        raise ValueError("its tokens are random (dropout)")
    if model.get("max_input_chars_per_word", 0) > LONGEST_WORD:
        raise ValueError(f"it splits words of more than {LONGEST_WORD:,} characters")
    if kind == "Unigram":
        _check_strings([name for name, _ in vocabulary])
        _check_numbers([model["unk_id"], len(vocabulary) - 1], size)
        if model["unk_id"] >= len(vocabulary):
            raise ValueError("its unknown token is not in its vocabulary")
        return
    _check_strings(vocabulary)
    _check_numbers(vocabulary.values(), size)
    unknown = model.get("unk_token")
    if unknown not in vocabulary and not (kind == "BPE" and unknown is None):
        raise ValueError(f"its unknown token {unknown!r} is not in its vocabulary")


def _check_strings(strings: Collection[str]) -> None:
    if max(map(len, strings), default=0) > LONGEST_STRING:
        raise ValueError(f"a token or another string has more than {LONGEST_STRING:,} characters")


def _check_numbers(numbers: Collection[int], size: int) -> None:
    if any(type(number) is not int for number in numbers):
        raise ValueError("the numbers of its tokens are not whole numbers")
    if numbers and not 0 <= min(numbers) <= max(numbers) < size:
        raise ValueError(f"the numbers of its tokens are up to {max(numbers):,} of {size:,}")
