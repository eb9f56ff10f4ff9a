"""How texts look: case, tokenisation and quotation marks.

Training measures the style of its texts and keeps it in the model folder. Texts that the model gets
later are compared with it, and can be converted into it by sacremoses.
"""

from __future__ import annotations

import html
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from clearhead.checkpoint.folder import ModelFolder, is_imported
from clearhead.errors import ConfigError, ModelFolderError, warn
from clearhead.files import fingerprint_of, read_description, write_description
from clearhead.settings import TokenizerConfig
from clearhead.tokenizer import Tokenizer
from clearhead.tokenizer.normal_form import lower_cased

TEXT_STYLE = "text_style"
"""The name in a model folder."""

MEASURED = 20_000
"""Number of training texts that are measured."""

JUDGED = 1000
"""Number of input texts after which a model no longer compares its input."""

CAPITALS = 0.001  # lower-cased text has at most this many capitals for each small letter
UPPER = 20  # upper-cased text has at least this many capitals for each small letter
LETTERS = 20  # fewer capitals may be an abbreviation or a name
CLEARLY = 5  # times as many texts show the one tokenisation as the other
OFTEN = 0.2  # of the texts show a tokenisation
MOSTLY = 0.9  # of the quotation marks are of one kind, or of the texts with hyphens split them

Quotes = Literal["straight", "typographic", "escaped"]
MARKS: dict[Quotes, re.Pattern[str]] = {
    "straight": re.compile("['\"]"),
    "typographic": re.compile("[‘’‚‛“”„‟«»‹›]"),
    "escaped": re.compile("&(?:apos|quot);"),
}
SPLIT_HYPHEN = " @-@ "
HYPHEN = re.compile(r"\w-\w")
SPLIT_ENDING = re.compile(r" '(?=(?:s|t|re|ve|ll|m|d)\b)", re.IGNORECASE)
"""An English ending that is split already; Moses would split it further."""


@dataclass(frozen=True)
class TextStyle:
    """How texts look; None where they do not show it.

    Attributes:
        lower_cased: whether there are small letters and hardly any capitals.
        tokenised: whether spaces separate full stops and commas from words.
        quotes: the usual quotation marks and apostrophes: `'`, `’`, or the `&apos;` of Moses.
        split_hyphens: whether hyphens in words are written ` @-@ `, as Moses can do.
        language: in BCP 47; "": unknown.
        upper_cased: whether there are many capitals and hardly any small letters.
    """

    lower_cased: bool | None = None
    tokenised: bool | None = None
    quotes: Quotes | None = None
    split_hyphens: bool = False
    language: str = ""
    upper_cased: bool = False

    @property
    def is_cased(self) -> bool:
        """Whether there are capitals and small letters."""
        return self.lower_cased is False and not self.upper_cased

    @classmethod
    def of(cls, texts: Iterable[str], language: str = "") -> TextStyle:
        """The style of texts."""
        counts = StyleCounts()
        counts.add(texts)
        return counts.style(language)

    def after(self, config: TokenizerConfig, tokenizer: Tokenizer | None = None) -> TextStyle:
        """The part of the style that a model notices after its own tokenizer.

        Without the tokenizer, a pretrained one counts as one that ignores case and tokenisation.
        """
        lower, split = config.lower, config.split_punctuation
        if config.kind == "pretrained":  # its settings are those of its own library
            lower = tokenizer is None or tokenizer.encode("Snow") == tokenizer.encode("snow")
            split = tokenizer is None or tokenizer.encode("snow.") == tokenizer.encode("snow .")
        return replace(
            self,
            lower_cased=None if lower else self.lower_cased,
            tokenised=None if split else self.tokenised,
        )


class StyleCounts:
    """Counts of what texts show about their style.

    Attributes:
        texts: their number.
        characters: how often each character occurs.
    """

    def __init__(self) -> None:
        self.texts = self._apart = self._attached = self._split = self._whole = 0
        self.characters: Counter[str] = Counter()
        self._marks: Counter[Quotes] = Counter()

    def add(self, texts: Iterable[str]) -> None:
        """Count more texts."""
        for text in texts:
            self.texts += 1
            self.characters.update(text)
            words = text.split()
            self._apart += "." in words or "," in words
            # Abbreviations keep their full stops in tokenised text, but a sentence ends apart.
            self._attached += any(len(word) > 1 and word[-1] in ",?!" for word in words) or (
                bool(words) and len(words[-1]) > 1 and words[-1][-1] == "."
            )
            self._split += SPLIT_HYPHEN in text
            self._whole += bool(HYPHEN.search(text))
            for kind, marks in MARKS.items():
                self._marks[kind] += len(marks.findall(text))

    def style(self, language: str = "") -> TextStyle:
        """The style of the texts so far."""
        return TextStyle(
            lower_cased=self._lower_cased(),
            tokenised=self._tokenised(),
            quotes=self._quotes(),
            split_hyphens=self._split > MOSTLY * (self._split + self._whole),
            language=language,
            upper_cased=self._upper_cased(),
        )

    def _lower_cased(self) -> bool | None:
        """None if no letter has a case."""
        small, capital = self._small_and_capital()
        return capital <= CAPITALS * small if small + capital else None

    def _upper_cased(self) -> bool:
        small, capital = self._small_and_capital()
        return capital >= max(LETTERS, UPPER * small)

    def _small_and_capital(self) -> tuple[int, int]:
        """The numbers of small letters and of capitals."""
        counts = self.characters.items()
        small = sum(count for character, count in counts if character.islower())
        return small, sum(count for character, count in counts if character.isupper())

    def _tokenised(self) -> bool | None:
        """None if few texts have such punctuation, or if they differ."""
        for shown, other, answer in (
            (self._apart, self._attached, True),
            (self._attached, self._apart, False),
        ):
            if shown > max(OFTEN * self.texts, CLEARLY * other):
                return answer
        return None

    def _quotes(self) -> Quotes | None:
        for kind, count in self._marks.most_common(1):
            if count and count >= MOSTLY * self._marks.total():
                return kind
        return None


@dataclass(frozen=True)
class TextStyles:
    """The style of each side of the training data: `source` and `target`, or `text`."""

    sides: Mapping[str, TextStyle]

    def fingerprint(self) -> str:
        """A hash of the styles."""
        return fingerprint_of(json.dumps(self._tree()).encode())

    def save(self, folder: Path, name: str) -> None:
        """Write `name.json`."""
        write_description(folder, name, self._tree(), self.fingerprint())

    def _tree(self) -> dict[str, Any]:
        sides = {side: asdict(style) for side, style in self.sides.items()}
        for style in sides.values():
            if not style["upper_cased"]:  # files of earlier versions lack it
                del style["upper_cased"]
        return {"sides": sides}

    @classmethod
    def load(cls, folder: Path) -> TextStyles | None:
        """The styles in a model folder; None if it has none, as in earlier versions.

        Raises:
            ModelFolderError: the file is damaged, or of another version.
        """
        if not (folder / f"{TEXT_STYLE}.json").exists():
            return None

        def build(tree: dict[str, Any]) -> TextStyles:
            return cls({side: TextStyle(**style) for side, style in tree["sides"].items()})

        return read_description(folder, TEXT_STYLE, "the style of the training texts", build)


def styles_of_pairs(
    pairs: Iterable[tuple[str, str, Any]], languages: tuple[str, str]
) -> TextStyles:
    """The styles of both sides, measured on the first pairs; each pair has more than two items."""
    sources, targets = StyleCounts(), StyleCounts()
    for source, target, *_ in islice(pairs, MEASURED):
        sources.add([source])
        targets.add([target])
    return TextStyles(
        {"source": sources.style(languages[0]), "target": targets.style(languages[1])}
    )


def style_of_texts(texts: Sequence[str], language: str) -> TextStyles:
    """The style of the texts of a classification, measured on a part of them."""
    return TextStyles({"text": TextStyle.of(texts[:: max(1, len(texts) // MEASURED)], language)})


def target_style(folder: Path) -> TextStyle | None:
    """The style of the target text that a translator learned; None if its folder has none.

    Raises:
        ModelFolderError: the file is damaged, or of another version.
    """
    styles = TextStyles.load(folder)
    return None if styles is None else styles.sides["target"]


class InputStyle:
    """Compares the input of a model with its training text, and converts it.

    Args:
        folder: the model folder, for errors.
        style: of the training text, as far as the model notices it; None if it is unknown.
    """

    def __init__(self, folder: Path, style: TextStyle | None) -> None:
        self._folder = folder
        self._style = style
        self._counts = StyleCounts()
        self._convert: Callable[[str], str] | None = None

    @classmethod
    def load(cls, folder: ModelFolder, side: str, tokenizer: Tokenizer) -> InputStyle:
        """The style of one side (`source`, `target` or `text`) of a model, and its tokenizer.

        Raises:
            ModelFolderError: the file of the styles is damaged, or of another version.
        """
        styles, config = TextStyles.load(folder.path), folder.config.tokenizer
        style = None if styles is None else styles.sides[side].after(config, tokenizer)
        return cls(folder.path, style)

    def read(self, texts: Sequence[str], normalise: bool) -> list[str]:
        """The texts as the model should get them.

        Args:
            texts: the input.
            normalise: convert them into the style of the training text. Otherwise they stay as they
                are.

        Raises:
            ConfigError: sacremoses is needed, but not installed.
            ModelFolderError: the texts should be converted, but the style is unknown.

        Warns:
            UserWarning: the first texts of this model look different from the training text. There
                is one such warning at most.
        """
        if normalise:
            convert = self._converter()
            if self._style and self._style.is_cased and TextStyle.of(texts).upper_cased:
                texts = [text.capitalize() for text in texts]
            return list(map(convert, texts))
        if self._style is not None and self._counts.texts < JUDGED:
            self._counts.add(islice(texts, JUDGED))
            if found := differences(self._style, self._counts.style()):
                self._counts.texts = JUDGED  # one warning is enough
                warn(
                    "the input looks different from the training text, so results may be worse: "
                    f"it has {', '.join(found)}; to convert the input, use --normalise "
                    "(in Python: normalise=True)"
                )
        return list(texts)

    def _converter(self) -> Callable[[str], str]:
        if self._convert is None:
            if self._style is None:
                imported = is_imported(self._folder)
                raise ModelFolderError(
                    "the input cannot be normalised",
                    where=self._folder,
                    why="the folder does not record how the training text looked, because "
                    + ("the model was imported" if imported else "an earlier version trained it"),
                    todo=("leave --normalise out" if imported else "train the model again")
                    + ", or prepare the input as the training text was",
                )
            self._convert = converter(self._style)
        return self._convert


def differences(trained: TextStyle, given: TextStyle) -> list[str]:
    """How texts differ from the training text, in ways that `InputStyle` corrects."""
    found = []
    if trained.lower_cased and given.lower_cased is False:
        found.append("capital letters (training: lower-cased)")
    if trained.is_cased and given.upper_cased:
        found.append("capital letters only (training: also small letters)")
    if None not in (trained.tokenised, given.tokenised) and trained.tokenised != given.tokenised:
        forms = {True: "separated by spaces", False: "attached to words"}
        here, there = forms[bool(given.tokenised)], forms[bool(trained.tokenised)]
        found.append(f"punctuation {here} (training: {there})")
    # A straight mark may stand for either of two typographic ones.
    known = given.quotes is not None and trained.quotes not in (None, "typographic")
    if known and given.quotes != trained.quotes:
        found.append(f"{given.quotes} quotation marks or apostrophes (training: {trained.quotes})")
    return found


def converter(style: TextStyle) -> Callable[[str], str]:
    """A function that brings a text into a style, with the rules of Moses.

    Text that is in the style already stays as it is, apart from rare exceptions.

    Raises:
        ConfigError: sacremoses is not installed.
    """
    try:
        from sacremoses import MosesDetokenizer, MosesPunctNormalizer, MosesTokenizer
    except ImportError:
        raise ConfigError(
            "sacremoses is not installed, which normalises texts",
            where="--normalise",
            todo="pip install sacremoses",
        ) from None
    language = style.language.partition("-")[0] or "en"
    normaliser = MosesPunctNormalizer(language)
    tokenizer, detokenizer = MosesTokenizer(language), MosesDetokenizer(language)

    def convert(text: str) -> str:
        text = SPLIT_ENDING.sub("'", html.unescape(text.replace(SPLIT_HYPHEN, "-")))
        if style.quotes in ("straight", "escaped"):
            text = normaliser.normalize(text)
        if style.tokenised:
            words = tokenizer.tokenize(
                text,
                aggressive_dash_splits=style.split_hyphens,
                escape=style.quotes == "escaped",
            )
            text = " ".join(words)
        elif style.tokenised is False and TextStyle.of([text]).tokenised:
            text = detokenizer.detokenize(text.split())
        return lower_cased(text, style.language) if style.lower_cased else text

    return convert
