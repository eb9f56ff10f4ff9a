"""The settings of the data and of the tokenizer."""

import os
import re
from pathlib import PurePath
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field
from pydantic.dataclasses import dataclass

from clearhead.errors import nearest
from clearhead.settings.declare import (
    STRICT,
    Amount,
    Natural,
    Positive,
    Rate,
    Runs,
    Section,
    Share,
    WrongSettingError,
    require,
    setting,
)


def _path_as_text(value: Any) -> Any:
    """A path as a string, because a configuration is also written as JSON."""
    return str(value) if isinstance(value, PurePath) else value


PARTS = ("train", "validation", "test", "replay")
"""The settings of `data` that name files. In a TOML file, a relative name starts in its folder."""

PHRASEBOOK = "phrasebook:"
"""The start of the names of built-in data, which are not paths."""

HUB = "hf:"
"""The start of the names of models on the Hugging Face hub, which are not paths."""


LANGUAGE_CODES = frozenset(
    "aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy "
    "da de dv dz ee el en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu "
    "hy hz ia id ie ig ii ik io is it iu ja jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb "
    "lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd ne ng nl nn no nr nv ny oc oj om "
    "or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg si sk sl sm sn so sq sr ss st su sv sw "
    "ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu".split()
)
"""The codes of ISO 639-1."""

LANGUAGE_NAME = re.compile(
    r"(?P<language>[a-z]{2,3})([-_](?P<script>[A-Z][a-z]{3}))?([-_](?P<region>[A-Z]{2}|[0-9]{3}))?"
)
"""A language as files name it: `pt`, `pt_BR`, `zh-Hant`, `tur_Latn`."""

LANGUAGE = re.compile("([A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*)?")
"""A language in BCP 47, roughly; or none."""


def language_in(name: str) -> str:
    """The language in BCP 47 that a name is, such as the ending of a file; "" if it is none."""
    # A code of three letters counts only with a script: many endings have three letters.
    found = LANGUAGE_NAME.fullmatch(name)
    if found is None or not (found["language"] in LANGUAGE_CODES or found["script"]):
        return ""
    return name.replace("_", "-")


def language_of(file: str) -> str:
    """The language in the name of a file: `train.tr`, `train.pt-BR.gz`, `reviews.tr.csv`."""
    # A `.tsv` or `.jsonl` file may have both sides of pairs, so its name is not read.
    endings = PurePath(file).suffixes[-3:]
    known = (".gz", ".csv", ".txt")
    last = next((ending for ending in reversed(endings) if ending not in known), "")
    return language_in(last[1:])


def absolute_path(path: str, folder: str | PurePath = "") -> str:
    """The path of data or of a model that is relative to a folder (default: the current folder)."""
    # Names of built-in data and of models on the hub, and paths that begin with `~`, do not change.
    if not path or path.startswith((PHRASEBOOK, HUB, "~")):
        return path
    return os.path.normpath(os.path.join(os.path.realpath(folder), path))


def path_from(folder: str | PurePath, path: str) -> str:
    """A path of the current folder, as a TOML file in this folder names it; absolute ones stay."""
    if os.path.isabs(path) or (absolute := absolute_path(path)) == path:
        return path
    return os.path.relpath(absolute, os.path.realpath(folder))


def _name_or_position(value: Any) -> Any:
    """A column as it was given, if it is a name or a position."""
    if isinstance(value, str) or (isinstance(value, int) and value is not True and value >= 1):
        return value
    raise WrongSettingError("", f"must be a name, or a position from 1; got {value!r}")


Column = Annotated[str | int, BeforeValidator(_name_or_position)]
"""The name of a column in a file with a header, or its position, from 1, in one without."""


def as_files(value: Any) -> Any:
    """A single path as a list of it; a string with a comma may be meant as several paths."""
    is_path = isinstance(value, PurePath) or (isinstance(value, str) and "," not in value)
    return (value,) if is_path else value


Files = Annotated[
    tuple[Annotated[str, BeforeValidator(_path_as_text)], ...], BeforeValidator(as_files)
]


@dataclass(frozen=True, config=STRICT)
class DataConfig(Section):
    """The data files, and which of their examples are used."""

    train: Files = setting(
        (),
        "training data (required)",
        details="Sentence pairs: two parallel files (source, target), one `.tsv` or `.jsonl` file, "
        'or `["phrasebook:en-es"]`, the built-in data. Labelled texts: a `.csv`, `.tsv`, '
        "`.jsonl` or `.txt` file. All of these may be gzipped (`.gz`). Sequences: a file or a "
        "folder; `docs/how-to/data-formats.md` describes the formats. Several data sets are read "
        "one after the other. A single file needs no list. A relative path in a TOML file starts "
        "in the folder of that file, with `--set` in the current folder.",
        init=Runs.ALL,
    )
    validation: Files = setting(
        (),
        "validation data, by which the best model is selected; never trained on",
        details="Formats as for `data.train`. Required for translation; for classification, "
        "`data.validation_share` of the training data is held out if no file is given.",
        init=Runs.ALL,
    )
    test: Files = setting(
        (),
        "test data; training examples that also occur in it are left out",
        details="Formats as for `data.train`. Never trained on. Examples on which a classifier "
        "cannot be evaluated are reported.",
        init=Runs.ALL,
    )
    replay: Files = setting(
        (),
        "earlier training pairs to mix in, so that less is forgotten",
        details="Formats as for `data.train`; with `start_from`.",
        runs=Runs.TRANSLATION,
        init_if_changed=Runs.TRANSLATION,
    )
    weights: tuple[Amount, ...] = setting(
        (),
        "how often an epoch has the pairs of each data set of `train`",
        details="One number for each data set, in their order: 2 is twice, 0.5 another half in "
        "each epoch, 0 never. Without it, each is read once.",
        runs=Runs.TRANSLATION,
    )
    replay_share: Share = setting(
        0.5,
        "share of the pairs of an epoch that are from `replay`",
        details="Each epoch has all training pairs and another sample of the earlier ones.",
        runs=Runs.TRANSLATION,
        only_with=("replay",),
    )
    max_length: Positive = setting(
        256,
        "maximum tokens or frames of a training example",
        details="Longer labelled texts and sequences are cut to this length, in training and when "
        "the model is used. For pairs it is the limit of each side, and longer pairs are left out "
        "of training; texts to translate are cut to 1,024 tokens, or to the number of learned "
        "positions.",
        init=Runs.ALL,
    )
    max_length_ratio: Annotated[float, Field(ge=1)] = setting(
        9.0,
        "maximum ratio of the lengths of the two sides of a pair; other pairs are left out",
        runs=Runs.TRANSLATION,
    )
    drop_duplicates: bool = setting(
        True,
        "leave out repeated training examples",
        details="Examples are compared exactly, except for leading and trailing spaces.",
    )
    drop_held_out: bool = setting(
        True,
        "leave out training examples that also occur in the validation or test data",
        details="The vocabulary is not learned from them either. A pair with only one side in "
        "those data is kept and reported.",
    )
    text_column: Column = setting(
        "text",
        "text column: name, key in a `.jsonl` file, or position from 1",
        details="Names are for files with a header, positions for files without one.",
        runs=Runs.TEXTS,
        init_if_changed=Runs.TEXTS,
    )
    label_column: Column = setting(
        "label",
        "label column: name, key in a `.jsonl` file, or position from 1",
        details="A position as for `data.text_column`, and only for texts.",
        runs=Runs.LABELLED,
        init_if_changed=Runs.LABELLED,
    )
    validation_share: Share = setting(
        0.1,
        "share of the training data that is held out if there are no validation files",
        runs=Runs.LABELLED,
    )
    smallest_class: Positive = setting(
        2,
        "minimum number of training examples of a class; fewer are an error",
        runs=Runs.LABELLED,
        init_if_changed=Runs.LABELLED,
    )
    source_language: str = setting(
        "",
        "language of the sources or texts: tr, pt-BR",
        details="In BCP 47. With `tokenizer.lower`, letters are lower-cased by its rules (Turkish, "
        "Azerbaijani). Empty: the ending of the file (`train.tr`) or the name of the built-in "
        "data, otherwise unknown.",
        runs=Runs.TEXT,
        init_if_changed=Runs.TEXT,
    )
    target_language: str = setting(
        "",
        "language of the targets: tr, pt-BR",
        details="As `data.source_language`.",
        runs=Runs.TRANSLATION,
        init_if_changed=Runs.TRANSLATION,
    )
    mismatch: Literal["refuse", "warn"] = setting(
        "refuse",
        "treatment of data that are clearly wrong",
        details="Sides of pairs that are shifted against each other, a validation set in another "
        'language, a feature that counts the rows. `"refuse"`: an error; `"warn"`: only a warning.',
        init_if_changed=Runs.ALL,
    )
    missing: Literal["refuse", "zero", "mean", "interpolate"] = setting(
        "refuse",
        "how missing values are handled",
        details='`"refuse"`: as an error; `"zero"`: replaced by 0; `"mean"`: replaced by the mean '
        'of the feature; `"interpolate"`: interpolated between the frames before and after, which '
        "are treated as equally spaced.",
        runs=Runs.SEQUENCES,
        init_if_changed=Runs.SEQUENCES,
    )
    normalise: bool = setting(
        True,
        "scale each feature to mean 0 and standard deviation 1 over the training data",
        runs=Runs.SEQUENCES,
    )

    def __post_init__(self) -> None:
        for name in ("source_language", "target_language"):
            value = getattr(self, name)
            is_code = LANGUAGE.fullmatch(value) is not None
            require(is_code, name, f"is {value!r}, not a code of BCP 47, such as tr or pt-BR")

    @property
    def languages(self) -> tuple[str, str]:
        """The languages of source and target: the settings, or those in the names of the data."""
        source = target = ""
        match self.train:
            case [name] if name.startswith(PHRASEBOOK):
                source, _, target = name.split(":")[1].partition("-")
            case [first, *others]:
                source, target = language_of(first), language_of(others[0]) if others else ""
        return self.source_language or source, self.target_language or target


PROTECTED = (
    *("software", "web", "url", "email", "tag", "entity", "code", "shell", "icu", "brace"),
    *("percent", "escape", "break", "version", "emoji", "number"),
)
"""The sets and kinds of spans of `clearhead.text.spans`."""


@dataclass(frozen=True, config=STRICT)
class TokenizerConfig(Section):
    """How text is split into tokens. The vocabulary is learned from the training data."""

    kind: Literal["words", "bpe", "unigram", "pretrained"] = setting(
        "bpe",
        "kind of tokens",
        details='`"words"`: words between spaces; `"bpe"`, `"unigram"`: subword pieces of '
        'SentencePiece; `"pretrained"`: the tokens of an imported model, set by `start_from`.',
        init=Runs.TEXT,
    )
    max_vocabulary: Natural = setting(
        8000,
        "maximum size of the vocabulary; with words, 0: all words",
        details="The size of each vocabulary if source and target have one each.",
        init=Runs.TEXT,
    )
    joint: bool = setting(
        True, "one vocabulary for source and target", runs=Runs.TRANSLATION, init=Runs.TRANSLATION
    )
    new_words: tuple[str, ...] = setting(
        (),
        "words to add to the vocabulary of the model of `start_from`",
        details="At first the vector of a new word is the mean of the vectors of its pieces. Turns "
        "subword sampling off.",
        runs=Runs.TRANSLATION,
        init_if_changed=Runs.TRANSLATION,
    )
    normal_form: Literal["none", "sources", "nfkc"] = setting(
        "none",
        "how characters that look the same are unified",
        details='`"sources"`, which `clearhead init` writes: sources and texts get Unicode\'s form '
        "NFC and plain spaces. Invisible characters are removed. Full-width Latin becomes ASCII "
        'unless the training text uses it. Targets get NFC. `"nfkc"`: sources get NFKC, which also '
        'replaces ligatures. `"none"`: as written.',
        init=Runs.TEXT,
    )
    lower: bool = setting(
        False,
        "lower-case all text",
        details="By the rules of `data.source_language` and `data.target_language`.",
        init=Runs.TEXT,
    )
    split_punctuation: bool = setting(
        False,
        "separate punctuation from words",
        details='Only with `tokenizer.kind = "words"`.',
        runs=Runs.TEXTS,
        init_if_changed=Runs.TEXTS,
    )
    protect: tuple[str, ...] = setting(
        (),
        "spans that translations keep: software, web, or single kinds",
        details='Sets: `"software"`, `"web"`. Kinds: `"url"`, `"email"`, `"tag"`, `"entity"`, '
        '`"code"`, `"shell"` (`$name`), `"icu"` (`{n, plural, …}`), `"brace"` (`{name}`), '
        '`"percent"` (`%s`), `"escape"`, `"break"` (a line break), `"version"`, `"emoji"`, '
        '`"number"`. Each span '
        "becomes one of a few symbols of the vocabulary, which the search copies.",
        runs=Runs.TRANSLATION,
        init_if_changed=Runs.TRANSLATION,
    )
    protect_patterns: tuple[str, ...] = setting(
        (),
        "regular expressions of further spans that translations keep",
        runs=Runs.TRANSLATION,
        init_if_changed=Runs.TRANSLATION,
    )
    accelerator: Literal["none", "_", "&", "~"] = setting(
        "none",
        "mark of keyboard accelerators in labels such as _Save",
        details="It is removed before a label is translated, and put before a letter of the "
        "translation.",
        runs=Runs.TRANSLATION,
        init_if_changed=Runs.TRANSLATION,
    )
    sampling: Rate = setting(
        0.0,
        "strength of subword sampling in training, e.g. 0.1; 0: none",
        details='`"bpe"`: share of merges that are skipped (BPE-dropout, Provilkov et al. 2020); '
        '`"unigram"`: smoothing of the lattice (Kudo 2018). Not with `"words"`.',
        init=Runs.TEXT,
    )
    byte_fallback: bool = setting(
        True,
        "encode characters outside the vocabulary as bytes, so that nothing is unknown",
        only_with=("kind", "bpe", "unigram"),
    )

    @property
    def has_symbols(self) -> bool:
        """Whether the vocabulary has symbols for spans that translations keep."""
        return bool(self.protect or self.protect_patterns)

    def __post_init__(self) -> None:
        for name in self.protect:
            close = nearest(name, PROTECTED)
            require(
                name in PROTECTED,
                "protect",
                f"has {name!r}, which is none of {', '.join(PROTECTED)}"
                + (f"; did you mean {close}?" if close else ""),
            )
        for pattern in self.protect_patterns:
            try:
                # As they are used: together, without groups and options of their own.
                found = re.compile(f"(?:{pattern})")
                wrong = "has groups: write (?:…)" if found.groups else ""
                wrong = wrong or ("matches an empty text" if found.match("") else "")
            except re.error as error:
                wrong = f"is no regular expression: {error}"
            require(not wrong, "protect_patterns", f"has {pattern!r}, which {wrong}")
        for word in self.new_words:
            require(word.split() == [word], "new_words", f"has {word!r}, which is not one word")
        if self.kind == "pretrained":
            return  # nothing is learned
        words = self.kind == "words"
        require(
            words or self.max_vocabulary > 0,
            "max_vocabulary",
            f"must be at least 1 with kind = {self.kind!r}; got 0",
        )
        require(
            not words or self.sampling == 0.0,
            "sampling",
            f"= {self.sampling} has no effect on whole words: set it to 0, or choose bpe or "
            "unigram",
        )
