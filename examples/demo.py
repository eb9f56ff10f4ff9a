"""The main job on the built-in data: train, score on unseen sentences, translate.

    make demo

Trains one model for each language pair of the phrasebook, counts the held-out test sentences that
come out exactly, and translates the sentences of two classic toy systems, two of them unseen. Ends
with 1 if fewer than 95 % of the held-out sentences come out exactly, or a sentence that was trained
on does not.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from clearhead import api
from clearhead.data.phrasebook import phrasebook
from clearhead.errors import ClearheadError
from clearhead.evaluation.scores import bleu_and_chrf
from clearhead.settings import read_config
from clearhead.training.display import choose_display

WANTED = 0.95
"""The share of the held-out sentences that must come out exactly."""

UNSEEN = {"en-es": ["i love cat", "this is a cat"], "de-en": []}


def main() -> int:
    """Train, score and translate for each pair; the runs stay in runs/."""
    began = time.monotonic()
    good = True
    for pair in UNSEEN:
        config = read_config(Path(__file__).with_name(f"phrasebook-{pair}.toml"))
        print(f"== {pair}: training {config.folder}", file=sys.stderr)
        ended = api.train(config, restart=True, observers=[choose_display(sys.stderr)])
        if not ended.finished:
            sys.exit("interrupted; `make demo` begins anew")
        good = show(pair, config.folder) and good
    print(f"\nIn all {time.monotonic() - began:.0f} seconds. Now try it yourself:")
    print("  echo 'ich mochte ein bier' | .venv/bin/clearhead translate runs/phrasebook-de-en")
    return int(not good)


def show(pair: str, folder: str) -> bool:
    """Print the score on the held-out sentences and what becomes of the reference ones.

    Returns:
        Whether enough of the former, and all of the latter that were trained on, are right.
    """
    translator = api.load_translator(folder)
    book = phrasebook(pair)
    outputs = best(translator, [p.source for p in book.test])
    references = [p.target for p in book.test]
    right = sum(a == b for a, b in zip(outputs, references, strict=True))
    bleu, _ = bleu_and_chrf(outputs, references, "none")
    share = 100 * right / len(references)
    print(f"\n{pair}: {right} of {len(references)} unseen sentences exactly right ({share:.1f} %)")
    print(f"{pair}: BLEU {bleu.score:.1f} ({bleu.signature})")
    known = {p.source: p.target for p in book.reference}
    sentences = [*known, *UNSEEN[pair]]
    translations = best(translator, sentences)
    for sentence, output in zip(sentences, translations, strict=True):
        expected = known.get(sentence)
        mark = "unseen" if expected is None else "right" if output == expected else "WRONG"
        print(f"  {sentence:<22} = {output:<24} ({mark})")
    return share >= 100 * WANTED and translations[: len(known)] == list(known.values())


def best(translator: api.Translator, sentences: list[str]) -> list[str]:
    """The best translation of each sentence."""
    return [hypotheses[0].text for hypotheses in translator.translate(sentences)]


def command() -> int:
    """The exit code of it all; what went wrong is said in a line or a few."""
    try:
        return main()
    except ClearheadError as error:
        print(f"demo: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("interrupted; `make demo` begins anew", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(command())
