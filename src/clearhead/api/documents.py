"""Translate documents: files of many formats, and text with markup."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from clearhead.api.translator import protected
from clearhead.decoding.engine import Hypothesis
from clearhead.errors import ConfigError, DataError
from clearhead.folder.files import write_bytes
from clearhead.text.documents import (
    FORMATS,
    Format,
    Result,
    check_format,
    format_of,
    translate_data,
    translate_texts,
)
from clearhead.text.paragraphs import Links, Means, Translation, translate_units
from clearhead.text.placing import Range, word_ranges

if TYPE_CHECKING:
    from clearhead.api.translator import Translator
    from clearhead.inspect.alignment import Aligner
    from clearhead.inspect.subject import Subject
    from clearhead.inspect.words import Word
    from clearhead.tokenizer import Tokenizer

_ALIGNERS: WeakKeyDictionary[Translator, Aligner] = WeakKeyDictionary()
"""The alignment of each translator that has translated a document."""

CHOSEN_BY = 30
"""Sentences by which an attention is chosen to align, if no choice is kept in the model folder."""


def translate_file(
    translator: Translator,
    path: str | Path,
    output: str | Path,
    form: str | None = None,
    progress: Callable[[int, int], None] | None = None,
    column: str | int | None = None,
    **options: Any,
) -> Result:
    """Translate a document into another file, which is written only if all is well.

    Args:
        translator: the model.
        path: the document.
        output: its translation.
        form: a name of `FORMATS`; by default the end of the file's name shows it.
        progress: called with the numbers of sentences that are done, and of all.
        column: of a table: its name, or its number from 0.
        options: those of `Translator.translate`.

    Raises:
        ConfigError: there is no such format.
        DataError: it is no document of the format, or a file cannot be read or written.
    """
    form = form_of(path, form)
    data = read_document(path)
    result = translated_data(translator, data, form, str(path), progress, column, **options)
    write_bytes(Path(output), result.data, DataError)
    return result


def form_of(path: str | Path, form: str | None = None) -> str:
    """The format that is given, or that of the name; a `ConfigError` if that shows none."""
    form = form or format_of(str(path))
    if form is None:
        raise ConfigError(
            f"the name {Path(path).name!r} shows no format",
            why=f"the formats are {', '.join(FORMATS)}",
            todo="name one: --format FORMAT",
        )
    return form


def read_document(path: str | Path) -> bytes:
    """The bytes of a document; a `DataError` if it cannot be read."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise DataError("the document cannot be read", where=path, why=error.strerror) from None


def translated_data(
    translator: Translator,
    data: bytes | str,
    form: str,
    where: str = "the text",
    progress: Callable[[int, int], None] | None = None,
    column: str | int | None = None,
    **options: Any,
) -> Result:
    """A document, as bytes or text, in the target language of a model; see `translate_file`."""

    def run(texts: Sequence[str]) -> list[list[Hypothesis]]:
        def done(count: int) -> None:
            if progress is not None:
                progress(count, len(texts))

        return translator.hypotheses(texts, progress=done, **{**options, "n_best": 1})

    means = means_of(translator, run, partial(links_of, translator))
    return translated_with(means, data, form, where, column)


def translated_with(
    means: Means, data: bytes | str, form: str, where: str, column: str | int | None = None
) -> Result:
    """A document that is translated with these means; see `translate_file`."""
    check_format(form)
    is_table = form in ("csv", "tsv")
    if column is not None and not is_table:
        raise ConfigError("a column is only in a table", todo="leave it out")
    chosen = {"column": 0 if column is None else column} if is_table else {}
    translate = partial(translate_units, means=means)
    return translate_data(data, form, where, translate, means.target_language, **chosen)


def texts_with(means: Means, texts: Sequence[str], form: str | Format, where: str) -> list[Result]:
    """Texts that are translated with these means; see `translate_texts` of the documents."""
    if isinstance(form, str):
        check_format(form)
    translate = partial(translate_units, means=means)
    return translate_texts(texts, form, where, translate, means.target_language)


def means_of(
    translator: Translator,
    run: Callable[[Sequence[str]], Sequence[Sequence[Hypothesis]]],
    link: Callable[[Sequence[tuple[str, str]]], Sequence[Links]],
) -> Means:
    """What the units of documents are translated with.

    Args:
        translator: knows the languages, the protected spans, the memory and the longest sentence.
        run: gives the hypotheses of sentences, best first.
        link: gives the links of the words of sentences and their translations.
    """

    def translate(texts: Sequence[str]) -> list[Translation]:
        return [
            Translation(best.text, best.warnings, best.confidence, best.match > 0)
            for best, *_ in run(texts)
        ]

    source, target = translator.config.data.languages
    memory = translator.memory
    return Means(
        translate,
        link,
        protected(translator.config),
        has_symbols=translator.config.tokenizer.has_symbols,
        fits=partial(_fits, translator),
        remembers=lambda text: memory is not None and memory.exact(text) is not None,
        source_language=source,
        target_language=target,
    )


def word_probabilities(
    tokenizer: Tokenizer, hypothesis: Hypothesis
) -> list[tuple[Range, float]] | None:
    """The range of each word and punctuation mark of a translation, and its probability.

    None if its tokens do not show the words, or have no scores.
    """
    from clearhead.inspect.words import words_in

    ranges, scores = word_ranges(hypothesis.text), hypothesis.token_scores
    spaced = " ".join(hypothesis.text[start:end] for start, end in ranges)
    words = words_in(spaced, tokenizer.pieces(hypothesis.tokens), (), tokenizer.form)
    if words is None or not scores:
        return None
    probabilities = [math.exp(sum(scores[i] for i in word.positions)) for word in words]
    return list(zip(ranges, probabilities, strict=True))


def links_of(
    translator: Translator, pairs: Sequence[tuple[str, str]], normalise: bool = False
) -> list[Links]:
    """The links between the words of each pair of a sentence and its translation.

    Words and punctuation marks count from 0, by `word_ranges`. With `normalise`, the sentences are
    brought into the style of the training text first, as in `Translator.translate`.
    """
    if normalise:
        styled = [(translator.normalised(source), target) for source, target in pairs]
        found = links_of(translator, styled)
        return [
            # Few texts have other words then.
            links
            if (count := len(word_ranges(pair[0]))) == len(word_ranges(read[0]))
            else _diagonal(count, len(word_ranges(pair[1])))
            for pair, read, links in zip(pairs, styled, found, strict=True)
        ]
    if not pairs:
        return []
    aligner = _ALIGNERS.get(translator)
    if aligner is None or aligner.sentences < min(len(pairs), CHOSEN_BY):
        aligner = _ALIGNERS[translator] = _aligner(translator, pairs)
    return [_links(translator, aligner, pair) for pair in pairs]


def _fits(translator: Translator, text: str) -> bool:
    """Whether a sentence is not longer than those that the model was trained on."""
    longest = min(translator.engine.longest_source, translator.config.data.max_length)
    # A token has at least one byte.
    is_short = len(text.encode("utf-8", "surrogatepass")) < longest
    return is_short or len(translator.source_tokenizer.encode(text)) <= longest


def _aligner(translator: Translator, pairs: Sequence[tuple[str, str]]) -> Aligner:
    """The alignment that is kept in the model folder, or the best by some of the sentences."""
    from clearhead.inspect.alignment import best_aligner, kept_aligner

    kept = kept_aligner(translator.folder, translator.model)
    return kept or best_aligner(translator, pairs, sentences=CHOSEN_BY, measures=False)[0]


def _links(translator: Translator, aligner: Aligner, pair: tuple[str, str]) -> Links:
    """The links of one pair."""
    from clearhead.inspect.alignment import links, scores, word_matrix
    from clearhead.inspect.subject import Subject

    spaced = [words for _, words in _spaced(translator, pair)]
    if not all(spaced):
        return []
    subject = Subject.translation(translator, *pair)
    sides = words_of_pair(translator, pair, subject)
    if None in sides:
        return _diagonal(*(len(text.split()) for text in spaced))
    found = [[(n, word) for n, word in enumerate(side or ()) if word.positions] for side in sides]
    if not all(found):
        return []
    matrix = word_matrix(
        scores(subject, aligner.measure),
        aligner.shift,
        *([word for _, word in side] for side in found),
    )
    return [(found[0][one][0], found[1][other][0]) for one, other, _ in links(matrix, aligner.rule)]


def words_of_pair(
    translator: Translator, pair: tuple[str, str], subject: Subject
) -> list[list[Word] | None]:
    """The words of both sides, by `word_ranges`, with their positions in the tokens of a subject.

    A side is None if its tokens do not show the words.
    """
    from clearhead.inspect.words import words_in

    texts, spaced = zip(*_spaced(translator, pair), strict=True)
    sides = (
        (subject.source_pieces, subject.source_special, translator.source_tokenizer),
        (subject.outputs, subject.output_special, translator.target_tokenizer),
    )
    found: list[list[Word] | None] = []
    for text, words, (pieces, special, tokenizer) in zip(texts, spaced, sides, strict=True):
        written, (unknown,) = text.split(), tokenizer.pieces([tokenizer.unk_id])
        if len(written) + len(special) == len(pieces):  # an unknown token is a word
            at = iter(written)
            named = [p if i in special else next(at) for i, p in enumerate(pieces)]
            pieces = [n if p == unknown else p for p, n in zip(pieces, named, strict=True)]
        found.append(words_in(words, pieces, special, tokenizer.form))
    return found


def _spaced(translator: Translator, pair: tuple[str, str]) -> list[tuple[str, str]]:
    """Both sides of a pair as the model reads them, and with spaces between their words."""
    from clearhead.inspect.recording import masked_pair

    # Symbols may have other numbers there.
    read = masked_pair(translator, *pair)
    return [(text, " ".join(text[a:b] for a, b in word_ranges(text))) for text in read]


def _diagonal(source: int, target: int) -> Links:
    """Links in proportion to the lengths, where the tokens do not show the words."""
    return [(min(source - 1, n * source // target), n) for n in range(target)]
