"""How well the confidence in translations orders them, and what that gains a post-editor.

    python benchmarks/confidence.py FOLDER --name NAME --validation FILE FILE --test FILE FILE

Two files are sources and their references. The confidence is that of the model folder; for a folder
without one, such as that of an older run, it is fitted to the validation data in the way training
does it. The quality of a translation is its chrF. Spearman's correlation compares its order with
that of the confidence and with that of the mean log-probability of the tokens.

A post-editor then mends the fifth of the test sentences that comes first in an order: the share of
the error (100 - chrF) in it, beside its share of the words and of the error weighted by words, and
BLEU with the references in place of these translations. The orders are by the confidence, by
the mean log-probability, by the line number (as good as chance), and by the quality itself, the
best possible one.
"""

from __future__ import annotations

import argparse
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import partial
from statistics import correlation

from command import exit_code_of, make_parser
from results import Results, print_results

from clearhead.api.loading import LoadOptions, load_translator
from clearhead.data.reading.lines import read_lines
from clearhead.decoding.confidence import FEWEST, Confidence
from clearhead.errors import DataError
from clearhead.evaluation.scores import bleu_and_chrf, sentence_chrf

FIRST = 0.2
"""The share of the sentences that is mended."""


def main(words: list[str] | None = None) -> int:
    """Translate, estimate and record."""
    parser = make_parser(__doc__)
    parser.add_argument("folder", metavar="FOLDER", help="model folder of a translator")
    parser.add_argument("--name", required=True, help="name of the data in the records")
    for name in ("validation", "test"):
        parser.add_argument(f"--{name}", nargs=2, metavar="FILE", required=True)
    parser.add_argument("--engine", default="auto", help="engine (default: auto)")
    options = parser.parse_args(words)
    return exit_code_of(partial(measure, options, Results("confidence", words, options.output)))


def measure(options: argparse.Namespace, results: Results) -> None:
    """The correlations, then what each order gains."""
    translator = load_translator(options.folder, LoadOptions(engine=options.engine))
    texts = {
        part: [list(read_lines(file)) for file in getattr(options, part)]
        for part in ("validation", "test")
    }
    found = {
        part: [best for best, *_ in translator.translate(sources)]
        for part, (sources, _) in texts.items()
    }
    qualities = {
        part: sentence_chrf([each.text for each in found[part]], references)
        for part, (_, references) in texts.items()
    }
    confidence = Confidence.of(translator.folder)
    is_stored = confidence is not None
    if confidence is None:
        known = [quality / 100 for quality in qualities["validation"]]
        confidence = Confidence.fit(texts["validation"][0], found["validation"], known)
    if confidence is None:
        raise DataError("the validation data are too few", todo=f"give at least {FEWEST} pairs")
    sources, references = texts["test"]
    quality, outputs = qualities["test"], [each.text for each in found["test"]]
    estimates = [confidence(*pair) or 0.0 for pair in zip(sources, found["test"], strict=True)]
    orders: dict[str, Sequence[float]] = {
        "confidence": estimates,
        "mean log-probability": [each.score / (len(each.tokens) + 1) for each in found["test"]],
        "order of the file": range(len(sources)),
        "quality itself": quality,
    }
    note = None if is_stored else "fitted by the benchmark, in the way training does it"
    for order in ("confidence", "mean log-probability"):
        results.add(
            "Spearman's correlation with the chrF of sentences",
            "",
            [correlation(ranks(orders[order]), ranks(quality))],
            subject=f"{options.name}, {order}",
            claim="confidence" if order == "confidence" else None,
            note=note,
        )
    wrong = [abs(100 * estimate - real) for estimate, real in zip(estimates, quality, strict=True)]
    subject = f"{options.name}, confidence"
    mean = [sum(wrong) / len(wrong)]
    results.add("mean error of the expected chrF", "", mean, subject=subject, note=note)
    bleu = bleu_and_chrf(outputs, references)[0].score
    results.add("BLEU", "", [bleu], subject=options.name)
    errors = [100 - each for each in quality]
    words = [len(source.split()) for source in sources]
    for order, values in orders.items():
        first = sorted(range(len(sources)), key=values.__getitem__)[: round(FIRST * len(sources))]
        subject = f"{options.name}, {order}"
        record_gain(results, subject, first, errors, words)
        mended = [references[i] if i in set(first) else output for i, output in enumerate(outputs)]
        bleu = bleu_and_chrf(mended, references)[0].score
        results.add("BLEU after the first fifth is mended", "", [bleu], subject=subject)
    print_results(results.records)
    results.write()


def record_gain(
    results: Results,
    subject: str,
    first: Sequence[int],
    errors: Sequence[float],
    words: Sequence[int],
) -> None:
    """The share of the error, of the words, and of the error weighted by words that is in `first`.

    Each sentence has an error and a number of words.
    """
    by_words = [error * count for error, count in zip(errors, words, strict=True)]
    share, of_words, weighted = (
        100 * sum(each[i] for i in first) / sum(each) for each in (errors, words, by_words)
    )
    more = {"% of the words": round(of_words, 1), "% of error × words": round(weighted, 1)}
    results.add("error in the first fifth", "%", [share], subject=subject, more=more)


def ranks(values: Sequence[float]) -> list[float]:
    """The rank of each value; equal values share their mean rank."""
    ordered = sorted(values)
    return [(bisect_left(ordered, value) + bisect_right(ordered, value)) / 2 for value in values]


if __name__ == "__main__":
    sys.exit(main())
