"""Train on the built-in data, evaluate on unseen sentences, and translate.

    make demo

The script trains one model for each language pair of the phrasebook, counts the test sentences that
are translated exactly, and translates the reference sentences and two unseen ones. The exit code is
1 if fewer than 95 % of the test sentences, or not all reference sentences, are translated exactly.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from clearhead import api
from clearhead.data.reading.phrasebook import phrasebook
from clearhead.device import keep_freed_memory
from clearhead.errors import ClearheadError
from clearhead.evaluation.scores import bleu_and_chrf
from clearhead.settings import read_config
from clearhead.training.display import choose_display

WANTED = 0.95
"""Required share of exact translations of the test sentences."""

UNSEEN = {"en-es": ["i love cat", "this is a cat"], "de-en": []}


def main() -> int:
    """Train, evaluate and translate for each language pair; the models stay in runs/."""
    began = time.monotonic()
    good = True
    for pair in UNSEEN:
        config = read_config(Path(__file__).with_name(f"phrasebook-{pair}.toml"))
        print(f"== {pair}: training {config.folder}", file=sys.stderr)
        ended = api.train(config, restart=True, observers=[choose_display(sys.stderr)])
        if not ended.finished:
            sys.exit("interrupted; `make demo` starts again")
        good = show(pair, config.folder) and good
    print(f"\n{time.monotonic() - began:.0f} seconds in total. Try it yourself:")
    print("  echo 'ich mochte ein bier' | .venv/bin/clearhead translate runs/phrasebook-de-en")
    return int(not good)


def show(pair: str, folder: str) -> bool:
    """Print the scores on the test sentences and the translations of the reference sentences.

    Returns:
        Whether enough test sentences and all reference sentences are translated exactly.
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
    """Run `main`; an expected error is printed without a traceback."""
    try:
        return main()
    except ClearheadError as error:
        print(f"demo: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("interrupted; `make demo` starts again", file=sys.stderr)
        return 130


if __name__ == "__main__":
    keep_freed_memory()
    sys.exit(command())
