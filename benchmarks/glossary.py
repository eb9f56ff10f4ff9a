"""How many terms of a glossary a translator places, and what that costs in quality and speed.

    python benchmarks/glossary.py FOLDER --name NAME --train FILE FILE --test FILE FILE

Two files are sources and their references. The glossary has words that often occur together in the
training pairs (Dice), with all forms of the target word that begin alike. The terms are those of
the first test sentences whose references have each term in one of its forms. The rest is the text
without the terms: their forms are removed from translations and references before BLEU is computed.
Runs with and without the glossary alternate, with a beam of 5.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial

from command import exit_code_of, make_parser, positive
from results import Results, print_results

from clearhead.api.loading import LoadOptions, load_translator
from clearhead.api.translator import Translator
from clearhead.data.reading.lines import read_lines
from clearhead.evaluation.scores import bleu_and_chrf
from clearhead.text.glossary import Glossary, Term
from clearhead.text.placing import word_ranges

LETTERS = 4
"""The least letters of a term, and those with which its forms begin alike."""

OFTEN = 5
"""The least training pairs with a word."""

DICE, DICE_OF_FORM = 0.5, 0.1
"""The least Dice coefficients of a term, and of its other forms."""


def main(words: list[str] | None = None) -> int:
    """Translate with and without the glossary, and record."""
    parser = make_parser(__doc__)
    parser.add_argument("folder", metavar="FOLDER")
    parser.add_argument("--name", required=True, help="name of the data and the languages")
    for name in ("train", "test"):
        parser.add_argument(f"--{name}", nargs=2, metavar="FILE", required=True)
    parser.add_argument("--terms", type=positive, default=500, help="terms (default: 500)")
    parser.add_argument("--rounds", type=positive, default=5, help="turns (default: 5)")
    options = parser.parse_args(words)
    return exit_code_of(partial(measure, options, Results("glossary", words, options.output)))


def measure(options: argparse.Namespace, results: Results) -> None:
    """The share of placed terms, BLEU of all and of the rest, and the ratios of the speeds."""
    train, test = (
        [list(read_lines(file)) for file in files] for files in (options.train, options.test)
    )
    entries = glossary_of(*train)
    glossary = Glossary(entries.items())
    sentences = list[tuple[str, str, list[Term]]]()
    for source, reference in zip(*test, strict=True):
        terms = glossary.find(source)
        enough = sum(len(found) for *_, found in sentences) >= options.terms
        if terms and not enough and not glossary.missing(terms, reference):
            sentences.append((source, reference, terms))
    total = sum(len(found) for *_, found in sentences)
    more = {"sentences": len(sentences), "terms": total, "entries": len(entries)}
    sources = [source for source, *_ in sentences]
    for engine in ("auto", "torch"):
        loaded = {
            "without": LoadOptions(engine=engine, scores=False),
            "with": LoadOptions(engine=engine, scores=False, glossary=entries),
        }
        translators = {name: load_translator(options.folder, each) for name, each in loaded.items()}
        rests = dict[str, float]()
        for name, translator in translators.items():
            outputs = [str(best) for best, *_ in translator.translate(sources, beam_size=5)]
            subject = f"{options.name}, {engine}, {name} glossary"
            claim = "glossary-placed" if name == "with" and engine == "auto" else None
            rests[name] = record(results, subject, glossary, sentences, outputs, more, claim)
        change = rests["with"] - rests["without"]
        claim = "glossary-rest" if engine == "auto" else None
        subject = f"{options.name}, {engine}"
        results.add(
            "BLEU of the rest, change", "", [change], subject=subject, claim=claim, more=more
        )
        times = [
            {name: _seconds(each, sources) for name, each in translators.items()}
            for _ in range(options.rounds + 1)
        ]
        # The first turn warms up.
        ratios = [each["without"] / each["with"] for each in times[1:]]
        results.add("speed with a glossary", "", ratios, subject=subject, more=more)
    print_results(results.records)
    results.write()


def record(
    results: Results,
    subject: str,
    glossary: Glossary,
    sentences: Sequence[tuple[str, str, list[Term]]],
    outputs: Sequence[str],
    more: dict[str, int],
    claim: str | None,
) -> float:
    """The share of placed terms, and BLEU of all and of the rest, which is returned."""
    pairs = [(reference, terms) for _, reference, terms in sentences]
    total = sum(len(terms) for _, terms in pairs)
    lacking = sum(len(glossary.missing(t, out)) for (_, t), out in zip(pairs, outputs, strict=True))
    share = 100 * (1 - lacking / total)
    results.add("terms placed", "%", [share], subject=subject, more=more, claim=claim)
    references = [reference for reference, _ in pairs]
    bleu, _ = bleu_and_chrf(outputs, references)
    results.add("BLEU", "", [bleu.score], subject=subject, more=more)
    rests = [
        [_rest(text, terms) for text, (_, terms) in zip(texts, pairs, strict=True)]
        for texts in (outputs, references)
    ]
    bleu, _ = bleu_and_chrf(rests[0], rests[1])
    results.add("BLEU of the rest", "", [bleu.score], subject=subject, more=more)
    return bleu.score


def _rest(text: str, terms: Sequence[Term]) -> str:
    """A text without the words of terms."""
    forms = {form for term in terms for form in term.forms}
    words = (text[start:end] for start, end in word_ranges(text))
    return " ".join(word for word in words if word not in forms)


def glossary_of(sources: Sequence[str], targets: Sequence[str]) -> dict[str, str]:
    """Source words with the forms of their translations, found by counting."""
    sides = [[set(_words(text)) for text in texts] for texts in (sources, targets)]
    counts = [Counter(word for words in side for word in words) for side in sides]
    both = Counter(
        (one, other)
        for ours, theirs in zip(*sides, strict=True)
        for one in ours
        for other in theirs
        if counts[0][one] >= OFTEN and counts[1][other] >= OFTEN
    )
    dice = {
        (one, other): 2 * count / (counts[0][one] + counts[1][other])
        for (one, other), count in both.items()
    }
    found = dict[str, list[str]]()
    best = dict[str, tuple[float, str]]()
    for (one, other), value in dice.items():
        best[one] = max(best.get(one, (0.0, "")), (value, other))
    for (one, other), value in sorted(dice.items(), key=lambda each: -each[1]):
        highest, word = best[one]
        alike = other[:LETTERS].lower() == word[:LETTERS].lower()
        if highest >= DICE and alike and (value >= DICE_OF_FORM or other == word):
            found.setdefault(one, []).append(other)
    return {one: "|".join(others) for one, others in found.items()}


def _words(text: str) -> list[str]:
    """The longer words of a text; those of sources are lower-case in a glossary."""
    words = (text[start:end] for start, end in word_ranges(text))
    return [word for word in words if len(word) >= LETTERS and word.isalpha()]


def _seconds(translator: Translator, sources: Sequence[str]) -> float:
    began = time.perf_counter()
    translator.translate(sources, beam_size=5)
    return time.perf_counter() - began


if __name__ == "__main__":
    sys.exit(main())
