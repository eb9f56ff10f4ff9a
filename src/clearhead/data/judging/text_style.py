"""How texts look: case, tokenisation, quotation marks, characters and lengths.

Training measures the style of its texts and keeps it in the model folder. Texts that the model gets
later are compared with it, and can be converted into it by sacremoses.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import accumulate, islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

from clearhead.errors import ConfigError, Remark, first_few, warn
from clearhead.folder.files import json_file
from clearhead.folder.model_folder import ModelFolder
from clearhead.settings import TokenizerConfig
from clearhead.text.spans import NOTHING, Protection, protection_of
from clearhead.tokenizer import SYMBOLS, Tokenizer
from clearhead.tokenizer.normal_form import NormalForm, lower_cased

TEXT_STYLE = "text_style"
"""The name in a model folder."""

MEASURED = 20_000  # training texts
JUDGED = 1000  # input texts, after which a model no longer compares its input

CAPITALS = 0.001  # lower-cased text has at most this many capitals for each small letter
UPPER = 20  # upper-cased text has at least this many capitals for each small letter
LETTERS = 20  # fewer capitals may be an abbreviation or a name
LETTERS_OF_TEXT = 10  # the same, if only one text is known
CLEARLY = 5  # times as many texts show the one tokenisation as the other
OFTEN = 0.2  # of the texts show a tokenisation
MOSTLY = 0.9  # of the quotation marks are of one kind, or of the texts with hyphens split them

CHARACTERS_PER_TOKEN, LEAST_TOKENS = 16, 256
"""No text has more characters for each token, on average over so many tokens."""

MOST_CHARACTERS = 20_000  # more different characters of the training text are not recorded
ALMOST_ALL = 0.99  # of the training texts are not longer than the recorded length
MUCH_LONGER = 1.5  # times the recorded length is unusual
LONGEST_WORD, FEWEST_WORDS = 12, 2  # on average, if spaces separate words
SHOWN_CHARACTERS = 3

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

    `tokenised` means that spaces separate full stops and commas from words, `split_hyphens` that
    hyphens in words are written ` @-@ `, as Moses can do. `language` is in BCP 47. For
    `characters`, `longest` and `spaced` see `Extent`; without characters they are unknown.
    """

    lower_cased: bool | None = None
    tokenised: bool | None = None
    quotes: Quotes | None = None
    split_hyphens: bool = False
    language: str = ""
    upper_cased: bool = False
    characters: str = ""
    longest: int = 0
    spaced: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.characters, str) or not isinstance(self.longest, int):
            raise TypeError("the characters are no string, or the length is no number")

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
    """What texts show about their style: their number, the `characters`, marks and punctuation."""

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
        counts = self.characters.items()
        small = sum(count for character, count in counts if character.islower())
        capital = sum(count for character, count in counts if character.isupper())
        quotes, marks = max(self._marks.items(), key=lambda item: item[1], default=("straight", 0))
        return TextStyle(
            lower_cased=capital <= CAPITALS * small if small + capital else None,
            tokenised=self._tokenised(),
            quotes=quotes if marks and marks >= MOSTLY * self._marks.total() else None,
            split_hyphens=self._split > MOSTLY * (self._split + self._whole),
            language=language,
            upper_cased=capital >= max(LETTERS, UPPER * small),
        )

    def _tokenised(self) -> bool | None:
        """None if few texts have such punctuation, or if they differ."""
        for shown, other, answer in (
            (self._apart, self._attached, True),
            (self._attached, self._apart, False),
        ):
            if shown > max(OFTEN * self.texts, CLEARLY * other):
                return answer
        return None


class Extent(NamedTuple):
    """The characters and the lengths of texts.

    `characters` has each once, or none if there are too many. 99 % of the texts are at most
    `longest`: words if they are `spaced`, otherwise characters.
    """

    characters: str
    longest: int
    spaced: bool

    def joined(self, other: TextStyle | Extent | None) -> Extent:
        """The extent of these texts and of others, which a model has learned from too."""
        if other is None or not other.characters or not self.characters:
            return self._replace(characters="")
        longest = other.longest if other.spaced == self.spaced else 0
        known = "".join(sorted({*self.characters, *other.characters}))
        return self._replace(characters=known, longest=max(self.longest, longest))


class ExtentCounts:
    """Collects the extent of texts."""

    def __init__(self) -> None:
        self._characters: set[str] = set()
        self._words: Counter[int] = Counter()
        self._lengths: Counter[int] = Counter()

    def add(self, texts: Iterable[str]) -> None:
        """Count more texts."""
        for text in texts:
            self._characters.update(text)
            self._words[len(text.split())] += 1
            self._lengths[len(text)] += 1

    def extent(self) -> Extent:
        """The extent of the texts so far."""
        # A lone surrogate cannot be written to a file.
        characters = sorted(c for c in self._characters if not "\ud800" <= c <= "\udfff")
        words = sum(length * count for length, count in self._words.items())
        letters = sum(length * count for length, count in self._lengths.items())
        spaced = letters < LONGEST_WORD * words and words >= FEWEST_WORDS * self._words.total()
        counts = sorted((self._words if spaced else self._lengths).items())
        so_far = zip(counts, accumulate(count for _, count in counts), strict=True)
        needed = ALMOST_ALL * self._words.total()
        longest = next((length for (length, _), total in so_far if total >= needed), 0)
        few = len(characters) <= MOST_CHARACTERS
        return Extent("".join(characters) if few else "", longest, spaced)


@dataclass(frozen=True)
class TextStyles:
    """The style of each side of the training data: `source` and `target`, or `text`."""

    sides: Mapping[str, TextStyle]

    def files(self, name: str) -> dict[str, bytes]:
        """The content of `name.json`."""
        return json_file(name, asdict(self))

    @classmethod
    def of(cls, folder: ModelFolder) -> TextStyles | None:
        """The styles in a model folder; None if it has none, like that of an imported model.

        Raises:
            ModelFolderError: the file is damaged.
        """
        if f"{TEXT_STYLE}.json" not in folder.content:
            return None

        def build(tree: dict[str, Any]) -> TextStyles:
            return cls({side: TextStyle(**style) for side, style in tree["sides"].items()})

        return folder.built(TEXT_STYLE, "the style of the training texts", build)


def styles_of_pairs(
    pairs: Iterable[tuple[str, str, Any]],
    languages: tuple[str, str],
    extents: Mapping[str, Extent],
) -> TextStyles:
    """The styles of both sides, measured on the first pairs, with the extents of all pairs.

    Each pair has more than two items.
    """
    sources, targets = StyleCounts(), StyleCounts()
    for source, target, *_ in islice(pairs, MEASURED):
        sources.add([source])
        targets.add([target])
    styles = {"source": sources.style(languages[0]), "target": targets.style(languages[1])}
    return TextStyles(
        {side: replace(style, **extents[side]._asdict()) for side, style in styles.items()}
    )


def style_of_texts(texts: Sequence[str], language: str, extent: Extent) -> TextStyles:
    """The style of the texts of a classification, measured on a part of them."""
    style = TextStyle.of(texts[:: max(1, len(texts) // MEASURED)], language)
    return TextStyles({"text": replace(style, **extent._asdict())})


def target_style(folder: ModelFolder) -> TextStyle | None:
    """The style of the target text that a translator learned; None if its folder has none.

    Raises:
        ModelFolderError: the file is damaged, or of another version.
    """
    styles = TextStyles.of(folder)
    return None if styles is None else styles.sides["target"]


class InputStyle:
    """Compares the input of a model with its training text, and converts it.

    `style` is as far as the model notices it, None if it is unknown; `view` gives the characters of
    a text that the tokenizer reads. Remarks are not on spans that `protection` protects.
    """

    def __init__(
        self,
        folder: Path,
        style: TextStyle | None,
        view: Callable[[str], str] = str,
        protection: Protection = NOTHING,
    ) -> None:
        self._folder = folder
        self._protection = replace(protection, accelerator="")
        self._style = style
        self._view = view
        known = "".join(map(view, style.characters)) if style else ""
        self._known = frozenset(known + SYMBOLS) if known else frozenset()
        self._counts = StyleCounts()
        self._convert: Callable[[str], str] | None = None

    @classmethod
    def load(cls, folder: ModelFolder, side: str, tokenizer: Tokenizer) -> InputStyle:
        """The style of one side (`source`, `target` or `text`) of a model, and its tokenizer.

        Raises:
            ModelFolderError: the file of the styles is damaged, or of another version.
        """
        styles, config = TextStyles.of(folder), folder.config.tokenizer
        style = None if styles is None else styles.sides[side].after(config, tokenizer)
        view = partial(as_read, tokenizer.form, config.kind == "words")
        protection = protection_of(config) if side != "text" else NOTHING
        return cls(folder.path, style, view, protection)

    def read(
        self, texts: Sequence[str], normalise: bool, tokens: int
    ) -> tuple[list[str], list[list[Remark]]]:
        """The texts as the model should get them, and the remarks on each.

        With `normalise` they are converted into the style of the training text; otherwise a warning
        says, once, that they look different. The model reads `tokens` at most, and a text is cut
        before anything else is done with it, so that the work is bounded. The result for a text
        does not depend on the other texts.

        Raises:
            ConfigError: the texts should be converted, but sacremoses is not installed, or the
                style is unknown.
        """
        most = longest_text(tokens)
        remarks = [
            [Remark("cut", f"has {len(text):,} characters and was cut to {most:,}")]
            if len(text) > most
            else []
            for text in texts
        ]
        texts = [text[:most] for text in texts]
        if normalise:
            convert = self._converter()
            cased = self._style is not None and self._style.is_cased
            for number, text in enumerate(texts):
                masked = self._protection.mask(text)
                text = masked.text
                text = convert(text.capitalize() if cased and in_capitals(text) else text)
                texts[number] = masked.restored(text)
        else:
            self._compare(texts)
        for text, found in zip(texts, remarks, strict=True):
            # The length of a text that is cut is in its first remark.
            unusual = self._unusual(self._protection.mask(text).text)
            found += [each for each in unusual if not found or each.kind != "long"]
        return texts, remarks

    def _compare(self, texts: Sequence[str]) -> None:
        """Warn if the first texts look different from the training text."""
        if self._style is not None and self._counts.texts < JUDGED:
            self._counts.add(islice(texts, JUDGED))
            if found := differences(self._style, self._counts.style()):
                self._counts.texts = JUDGED  # one warning is enough
                warn(
                    "the input looks different from the training text, so results may be worse: "
                    f"it has {', '.join(found)}; to convert the input, use --normalise "
                    "(in Python: normalise=True)"
                )

    def _unusual(self, text: str) -> Iterator[Remark]:
        """The remarks on characters and length; none if those of the training are unknown."""
        seen = self._view(text)
        if self._known and not self._known.issuperset(seen):
            names = [
                f"U+{ord(each):04X} {unicodedata.name(each, '')}".rstrip()
                for each in dict.fromkeys(seen)
                if each not in self._known
            ]
            has = "has characters that the training text did not have"
            yield Remark("characters", f"{has}: {first_few(names, SHOWN_CHARACTERS)}")
        style = self._style
        if style is not None and style.longest:
            words, characters = (len(text.split()), "words"), (len(text), "characters")
            length, unit = words if style.spaced else characters
            if length > MUCH_LONGER * style.longest:
                share = f"{100 * ALMOST_ALL:.0f} % of the training texts"
                yield Remark(
                    "long", f"has {length:,} {unit}; {share} have at most {style.longest:,}"
                )

    def _converter(self) -> Callable[[str], str]:
        if self._convert is None:
            if self._style is None:
                raise ConfigError(
                    "the input cannot be normalised",
                    where=self._folder,
                    why="the model was imported, so that its training text is unknown",
                    todo="leave --normalise out, or prepare the input as the training text was",
                )
            self._convert = converter(self._style)
        return self._convert


def as_read(form: NormalForm, words: bool, text: str) -> str:
    """What a tokenizer reads, without spaces; of whole words, without any white space."""
    text = form(text)
    return "".join(text.split()) if words else text.replace(" ", "")


def longest_text(tokens: int) -> int:
    """The characters of a text that are read for a maximum number of tokens."""
    return CHARACTERS_PER_TOKEN * max(LEAST_TOKENS, tokens)


def in_capitals(text: str) -> bool:
    """Whether a text has many capitals and hardly any small letters."""
    capitals, small = sum(map(str.isupper, text)), sum(map(str.islower, text))
    return capitals >= max(LETTERS_OF_TEXT, UPPER * small)


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
