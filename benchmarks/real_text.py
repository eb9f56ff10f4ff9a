"""What a translator keeps of placeholders, tags and links, and what that costs.

    python benchmarks/real_text.py PROTECTING OTHER --train FILE FILE --test FILE FILE \
        --placeholders FILE FILE

The two model folders are of the same data and time; PROTECTING was trained with the settings
`tokenizer.protect` and `tokenizer.accelerator` that `init` proposed, OTHER with neither. Two files
are sources and their references; those of `--placeholders` all have placeholders. The two models
take turns, with a beam of 5. The nearest neighbour is the translation of the most similar training
source, with the spans of the source to translate.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from command import exit_code_of, make_parser, positive
from results import Results, print_results

from clearhead.api.loading import LoadOptions, load_translator
from clearhead.api.translator import Translator
from clearhead.data.reading.lines import read_lines
from clearhead.decoding.ctranslate2_engine import AutoEngine
from clearhead.evaluation.scores import bleu_and_chrf
from clearhead.folder.model_folder import open_folder
from clearhead.text.memory import Memory
from clearhead.text.spans import protection_of

# Written anew here, so that a mistake in the patterns of clearhead shows.
PLACEHOLDER = re.compile(
    r"</?[a-zA-Z][^<>]*>|https?://[^\s<>\"']+|%\([A-Za-z_]+\)[sd]|\{[\w.:]*\}|\$\(\w+\)|\$\{?\w+\}?"
    r"|%[A-Z][A-Z0-9]+|%[sd]\d|%(?:\d+\$)?[-+0# ]?[.0-9]*(?:ll?|z)?[sdiufcx](?![a-zäöü])|%\d+|\\n"
)
ENGINES = {"auto": "CTranslate2, with PyTorch where that is needed", "torch": "PyTorch"}
PARTS = ("test", "placeholders")
MATCHES = (1.0, 0.7)
"""The least similarities of texts in the memory."""


def main(words: list[str] | None = None) -> int:
    """Translate with both models and record."""
    parser = make_parser(__doc__)
    parser.add_argument("folders", nargs=2, metavar="FOLDER", help="PROTECTING and OTHER")
    for name in ("train", *PARTS):
        parser.add_argument(f"--{name}", nargs=2, metavar="FILE", required=True)
    parser.add_argument("--rounds", type=positive, default=7, help="turns (default: 7)")
    options = parser.parse_args(words)
    return exit_code_of(partial(measure, options, Results("real_text", words, options.output)))


def measure(options: argparse.Namespace, results: Results) -> None:
    """Scores and kept placeholders of both models, then the ratio of their speeds."""
    texts = {part: [list(read_lines(file)) for file in getattr(options, part)] for part in PARTS}
    pairs = zip(*map(read_lines, options.train), strict=True)
    memory = Memory(pairs, protection_of(open_folder(options.folders[0]).config.tokenizer))
    for part, (sources, references) in texts.items():
        found = [match.text if (match := memory.nearest(text)) else "" for text in sources]
        record(results, f"nearest neighbour, {part}", sources, references, found)
    for engine, title in ENGINES.items():
        loaded = [
            load_translator(folder, LoadOptions(engine=engine, scores=False))
            for folder in options.folders
        ]
        for name, translator in zip(("protected", "unprotected"), loaded, strict=True):
            for part, (sources, references) in texts.items():
                before = repeated(translator)
                outputs = [str(best) for best, *_ in translator.translate(sources, beam_size=5)]
                again = repeated(translator) - before
                subject = f"{name}, {part}, {engine}"
                record(results, subject, sources, references, outputs, again)
        sources, _ = texts["test"]
        times = [[_seconds(each, sources) for each in loaded] for _ in range(options.rounds + 1)]
        # The first turn warms up.
        ratios = [other / own for own, other in times[1:]]
        claim = "protection-speed" if engine == "auto" else None
        results.add("speed with protected spans", "", ratios, subject=title, claim=claim)
    with TemporaryDirectory() as folder:
        path = Path(folder, "memory.jsonl")
        pairs = zip(*map(read_lines, options.train), strict=True)
        lines = (json.dumps({"source": one, "target": other}) for one, other in pairs)
        path.write_text("".join(f"{line}\n" for line in lines))
        sources, references = texts["test"]
        for match in MATCHES:
            translator = load_translator(options.folders[0], memory=path, match=match)
            found = [best for best, *_ in translator.translate(sources, beam_size=5)]
            taken = sum(each.match > 0 for each in found)
            subject = f"protected, test, memory, {100 * match:.0f} % alike: {taken} of {len(found)}"
            claim = "memory" if match < 1 else None
            record(results, subject, sources, references, list(map(str, found)), bleu_claim=claim)
    print_results(results.records)
    results.write()


def record(
    results: Results,
    subject: str,
    sources: Sequence[str],
    references: Sequence[str],
    outputs: Sequence[str],
    again: int = 0,
    bleu_claim: str | None = None,
) -> None:
    """BLEU, chrF, the share of kept placeholders, and what PyTorch had to translate again."""
    for score in bleu_and_chrf(outputs, references):
        claim = bleu_claim if score.name == "BLEU" else None
        results.add(score.name, "", [score.score], subject=subject, claim=claim)
    exact = [
        ours == theirs
        for source, output in zip(sources, outputs, strict=True)
        for ours, theirs in [[Counter(PLACEHOLDER.findall(text)) for text in (source, output)]]
        if ours or theirs
    ]
    claim = "placeholders" if subject == "protected, placeholders, auto" else None
    more = {"sentences": len(exact), "again by PyTorch": again, "of": len(sources)}
    share = 100 * sum(exact) / max(1, len(exact))
    results.add("placeholders kept", "%", [share], subject=subject, more=more, claim=claim)


def repeated(translator: Translator) -> int:
    """How many sentences PyTorch has translated again."""
    return translator.engine.repeated if isinstance(translator.engine, AutoEngine) else 0


def _seconds(translator: Translator, sources: Sequence[str]) -> float:
    began = time.perf_counter()
    translator.translate(sources, beam_size=5)
    return time.perf_counter() - began


if __name__ == "__main__":
    sys.exit(main())
