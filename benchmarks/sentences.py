"""Compare the division into sentences with two other splitters.

    python benchmarks/sentences.py en=en_ewt-ud-test.conllu de=de_hdt-ud-test.conllu ...

Each file is a treebank in CoNLL-U whose sentences follow each other in the text, such as those of
Universal Dependencies. Five sentences make a paragraph; a language has forty paragraphs. The score
is F1 of the ends of sentences within paragraphs. The other splitters are pysbd and
sentence-splitter (the rules of Moses):
pip install pysbd sentence-splitter.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

from clearhead.text.sentences import UNSPACED, sentences

SENTENCES, PARAGRAPHS = 5, 40
WORDS = 3  # at least: shorter "sentences" are headings and dates

Split = Callable[[str], list[str]]


def treebank(path: Path) -> Iterator[str]:
    """The sentences of a treebank that end with a mark."""
    for found in re.finditer(r"^# text = (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE):
        text = found[1].strip()
        if text[-1:] in '.!?。！？…"»”' and (len(text.split()) >= WORDS or text[-1] in "。！？"):
            yield text


def splitters(language: str) -> dict[str, Split]:
    """The splitters that support a language, by name."""
    found: dict[str, Split] = {
        "clearhead": lambda text: [sentence.text for sentence in sentences(text, language)]
    }
    import pysbd  # pyright: ignore[reportMissingImports]
    import sentence_splitter  # pyright: ignore[reportMissingImports]

    if language in pysbd.languages.LANGUAGE_CODES:
        segmenter = pysbd.Segmenter(language=language, clean=False)
        found["pysbd"] = lambda text: [part.strip() for part in segmenter.segment(text)]
    if language != "zh":
        splitter = sentence_splitter.SentenceSplitter(language=language)
        found["sentence-splitter"] = splitter.split
    return found


def ends(parts: list[str]) -> set[int]:
    """The number of letters before each end of a sentence but the last, without white space."""
    lengths = [len("".join(part.split())) for part in parts if part.strip()]
    return {sum(lengths[: n + 1]) for n in range(len(lengths) - 1)}


def main() -> None:
    """Print a line of JSON for each language and splitter."""
    for argument in sys.argv[1:]:
        language, _, path = argument.partition("=")
        texts = treebank(Path(path))
        paragraphs = [list(islice(texts, SENTENCES)) for _ in range(PARAGRAPHS)]
        space = "" if language in UNSPACED else " "
        for name, split in splitters(language).items():
            hits = found = wanted = 0
            start = time.perf_counter()
            for paragraph in paragraphs:
                correct, given = ends(paragraph), ends(split(space.join(paragraph)))
                hits += len(correct & given)
                found += len(given)
                wanted += len(correct)
            seconds = time.perf_counter() - start
            row = {
                "language": language,
                "splitter": name,
                "paragraphs": len(paragraphs),
                "precision": round(100 * hits / max(1, found), 1),
                "recall": round(100 * hits / max(1, wanted), 1),
                "f1": round(200 * hits / max(1, found + wanted), 1),
                "milliseconds": round(1000 * seconds, 1),
            }
            print(json.dumps(row))


if __name__ == "__main__":
    main()
