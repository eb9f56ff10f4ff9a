"""What inspection finds out about a translator, and what it costs.

    .venv/bin/python benchmarks/inside.py faithfulness runs/multi30k test.de test.en
    .venv/bin/python benchmarks/inside.py heads runs/multi30k test.de test.en
    .venv/bin/python benchmarks/inside.py warning runs/multi30k test.de test.en
    .venv/bin/python benchmarks/inside.py alignment runs/phrasebook-de-en
    .venv/bin/python benchmarks/inside.py untranslated runs/phrasebook-de-en
    .venv/bin/python benchmarks/inside.py cost runs/multi30k

`faithfulness` deletes source words in the order of each measure. `heads` measures the importance of
every head on the validation data of the run, and BLEU of the given test set without the least
important ones. `warning` counts the outputs of which a report says that the source hardly counts.
`alignment` compares word alignments with those of the phrasebook's grammar, beside
eflomal if it is installed. `untranslated` counts the source words that are marked as perhaps not
translated: in correct translations, in the same without one word, and in translations of which the
model left out an adjective. `cost` measures seconds.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice, permutations
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import torch
from command import add_threads, exit_code_of, log, make_parser
from results import Results, print_results

from clearhead import api
from clearhead.api.documents import CHOSEN_BY
from clearhead.data.reading.lines import read_lines
from clearhead.data.reading.pairs import read_pairs
from clearhead.data.reading.phrasebook import AlignedPair, phrasebook
from clearhead.decoding.texts import translate_texts
from clearhead.decoding.torch_engine import TorchEngine
from clearhead.errors import ConfigError
from clearhead.evaluation.scores import bleu_and_chrf
from clearhead.inspect.alignment import (
    Aligner,
    aligned,
    alignment_error_rate,
    by_removal,
    choose,
    pair_of,
    plain,
    unlinked,
)
from clearhead.inspect.explanation import SOURCE_COUNTS
from clearhead.inspect.faithfulness import measured_belief
from clearhead.inspect.importance import head_importance
from clearhead.inspect.recording import record_translation
from clearhead.inspect.replay import Change, TranslationReplay, effects
from clearhead.inspect.report.writing import write_report
from clearhead.inspect.subject import Subject
from clearhead.inspect.view import without_heads
from clearhead.model.build import build_model
from clearhead.settings import ModelConfig

SENTENCES = 200
TIMED = 100  # sentences whose alignment is timed
TOKENS = 30


def main(words: list[str] | None = None) -> int:
    """Measure, print and record."""
    parser = make_parser(__doc__)
    parts: dict[str, Callable[[argparse.Namespace, Results], None]] = {
        "faithfulness": measure_faithfulness,
        "heads": measure_heads,
        "warning": measure_warning,
        "alignment": measure_alignment,
        "untranslated": measure_untranslated,
        "cost": measure_cost,
    }
    parser.add_argument("part", choices=[*parts])
    parser.add_argument("folder", nargs="?", help="a model folder of a translator")
    parser.add_argument("source", nargs="?", help="sentences, one per line")
    parser.add_argument("reference", nargs="?", help="their translations")
    parser.add_argument("--sentences", type=int, default=SENTENCES)
    add_threads(parser)
    options = parser.parse_args(words)
    results = Results("inside", words, options.output)
    return exit_code_of(partial(parts[options.part], options, results))


def loaded(options: argparse.Namespace) -> api.Translator:
    return api.load_translator(
        options.folder, engine="torch", device="cpu", threads=options.threads
    )


def measure_faithfulness(options: argparse.Namespace, results: Results) -> None:
    """The deletion test of all measures, on the model's own translations."""
    translator = loaded(options)
    sources = list(islice(read_lines(options.source), options.sentences))
    found = translator.translate(sources, n_best=1)
    subjects = [
        Subject.translation(translator, source, best)
        for source, (best, *_) in zip(sources, found, strict=True)
    ]
    tree = measured_belief(subjects)
    log(tree["text"])
    log(f"completeness error of integrated gradients: {tree['completeness_error']:.3f} nats")
    for row in tree["rows"]:
        for name, title in (
            ("comprehensiveness", "fall of the probability without the first words"),
            ("sufficiency", "what is missing with the first words alone"),
        ):
            mean, low, high = row[name]
            results.add(
                title,
                "probability",
                [mean, low, high],
                subject=row["title"],
                range="95 % interval",
                more={"sentences": len(sources)},
            )
    print_results(results.records)
    results.write()


def measure_heads(options: argparse.Namespace, results: Results) -> None:
    """The importance of all heads on validation data, and BLEU of the test set without some.

    Heads are not ranked on the test set: its BLEU would then be too good.
    """
    translator = loaded(options)
    sources, references = (list(read_lines(name)) for name in (options.source, options.reference))
    validation = translator.config.data.validation
    if not validation:
        raise ConfigError("the run has no validation data to rank the heads", where=options.folder)
    pairs = (pair for pair in read_pairs(validation, "validation") if all(map(str.strip, pair[:2])))
    sample = list(islice(pairs, options.sentences))
    subjects = [Subject.translation(translator, pair.source, pair.target) for pair in sample]
    importance = head_importance(subjects)
    ranked = sorted(
        zip(importance.heads, importance.intervals(), importance.gradient, strict=True),
        key=lambda row: row[1][0],
    )
    for head, (mean, low, high), gradient in ranked:
        results.add(
            "rise of the loss without the head",
            "nats per token",
            [mean, low, high],
            subject=str(head),
            range="95 % interval",
            more={"gradient": float(gradient), "sentences": len(sample)},
            note="on the validation data of the run",
        )
    tokenizers = translator.source_tokenizer, translator.target_tokenizer
    config = translator.config
    for count in (0, 10, 20):
        model = without_heads(translator.model, [head for head, *_ in ranked[:count]])
        engine = TorchEngine(model, scores=False)
        texts = [
            best.text
            for best, *_ in translate_texts(engine, tokenizers, sources, translator.search)
        ]
        bleu, chrf = bleu_and_chrf(
            texts, references, config.evaluation.tokenize, lowercase=config.lowercase
        )
        results.add(
            "BLEU without the least important heads",
            "BLEU",
            [bleu.score],
            subject=f"{count} of {len(ranked)} heads off",
            more={"chrF2": round(chrf.score, 2), "sentences": len(sources)},
            note=f"the heads were ranked on {len(sample)} validation sentences",
        )
    print_results(results.records)
    results.write()


def measure_warning(options: argparse.Namespace, results: Results) -> None:
    """How often a report warns that the source hardly counts, for outputs that fit and others."""
    translator = loaded(options)
    sources, references = (
        list(islice(read_lines(name), options.sentences))
        for name in (options.source, options.reference)
    )
    own = [best for best, *_ in translator.translate(sources, n_best=1)]
    for title, targets in (
        ("translations of the model", own),
        ("references", references),
        ("translations of the next sentence", [*own[1:], *own[:1]]),
    ):
        gains = []
        for source, target in zip(sources, targets, strict=True):
            replay = Subject.translation(translator, source, target).replay
            everything = Change(source=tuple(range(replay.n_source)))
            complete, without = replay.log_probabilities([Change(), everything])[..., 0]
            gains.append(float((complete - without).mean()))
        results.add(
            "outputs with a warning that the source hardly counts",
            "%",
            [100 * sum(gain < SOURCE_COUNTS for gain in gains) / len(gains)],
            subject=title,
            more={"sentences": len(gains), "smallest gain": round(min(gains), 2)},
        )
    print_results(results.records)
    results.write()


def measure_alignment(options: argparse.Namespace, results: Results) -> None:
    """The alignment error rate on the test part of the phrasebook, whose alignments are known."""
    translator = loaded(options)
    pair = translator.config.data.train[0].split(":")[1]
    known = phrasebook(pair)
    validation, test = known.validation[: options.sentences], known.test
    prepared = [pair_of(translator, each.source, each.target) for each in validation]
    best, _ = choose(prepared, [frozenset(each.alignment) for each in validation], "gold")
    unsupervised, _ = choose(prepared, by_removal(prepared), "removal")
    few, began = prepared[:CHOSEN_BY], time.perf_counter()
    documents, _ = choose(few, by_removal(few), "removal", measures=False)
    seconds = time.perf_counter() - began
    results.add("time to choose the alignment for documents", "s", [seconds], subject=pair)
    last = len(translator.model.decoder.layers)

    def named(measure: str) -> Aligner:
        return Aligner(measure, 0, "target", "named", 0.0, 0)

    aligners = {
        f"chosen by given alignments: {title(best)}": best,
        f"chosen by removal: {title(unsupervised)}": unsupervised,
        f"chosen for documents: {title(documents)}": documents,
        "exact removal": named("removal"),
        "last layer, first head": named(f"decoder.{last}.cross.1"),
        "last layer, mean": named(f"decoder.{last}.cross"),
    }
    began = time.perf_counter()
    for each in test[:TIMED]:
        aligned(pair_of(translator, each.source, each.target), documents)
    each_ms = 1000 * (time.perf_counter() - began) / len(test[:TIMED])
    results.add("time to align a sentence", "ms", [each_ms], subject=pair)
    pairs = [pair_of(translator, each.source, each.target) for each in test]
    gold = [frozenset(each.alignment) for each in test]
    rates = {
        name: alignment_error_rate((plain(aligned(each, aligner)) for each in pairs), gold)
        for name, aligner in aligners.items()
    }
    rates |= eflomal_rates(known.train, test)
    for name, rate in rates.items():
        claim = "alignment" if name.startswith("chosen by given") else None
        chosen_on = len(few if name.startswith("chosen for documents") else validation)
        results.add(
            "alignment error rate",
            "%",
            [100 * rate],
            subject=name,
            claim=claim,
            more={"pairs": len(test), "chosen on": chosen_on},
        )
    print_results(results.records)
    results.write()


ADJECTIVES = {
    **{"expensive": "car", "small": "pequeñ", "black": "negr", "red": "roj"},
    **{"big": "grande", "new": "nuev", "white": "blanc"},
}
"""English adjectives, and how their Spanish translations begin."""


def count_left_out(translator: api.Translator, counts: Counter[str]) -> None:
    """Marks in sentences of two adjectives, of which the model often leaves out one."""
    nouns = ("cat", "dog", "kitchen", "book", "house")
    sentences = [
        f"the {first} {noun} is {second}"
        for noun in nouns
        for first, second in permutations(ADJECTIVES, 2)
    ]
    found = translator.translate(sentences, n_best=1)
    for sentence, (best, *_) in zip(sentences, found, strict=True):
        marked = unlinked(pair_of(translator, sentence, best.text))
        for i, word in enumerate(sentence.split()):
            if word in ADJECTIVES:
                said = any(each.startswith(ADJECTIVES[word]) for each in best.text.split())
                kind = "kept" if said else "left out"
                counts[kind] += 1
                counts[f"{kind} marked"] += i in marked


def measure_untranslated(options: argparse.Namespace, results: Results) -> None:
    """Marks on words of correct translations, and on a word whose translation is taken out."""
    translator = loaded(options)
    pair = translator.config.data.train[0].split(":")[1]
    test = phrasebook(pair).test
    draw = random.Random(1)
    counts = Counter[str]()
    for each in test:
        linked = {source for source, _ in each.alignment}
        counts["words"] += len(linked)
        marked = unlinked(pair_of(translator, each.source, each.target))
        counts["words marked"] += len(marked & linked)
        ends = [Counter(side) for side in zip(*each.alignment, strict=True)]
        alone = [(a, b) for a, b in each.alignment if ends[0][a] == ends[1][b] == 1]
        words = each.target.split()
        if alone and len(words) > 1:
            source, target = draw.choice(sorted(alone))
            rest = " ".join(words[:target] + words[target + 1 :])
            marked = unlinked(pair_of(translator, each.source, rest))
            counts["dropped"] += 1
            counts["dropped marked"] += source in marked
            counts["others"] += len(linked) - 1
            counts["others marked"] += len(marked & linked - {source})
    if pair == "en-es":
        count_left_out(translator, counts)
    for kind, subject in (
        ("words", "words of correct translations"),
        ("left out", "adjectives that the model left out"),
        ("kept", "the other adjectives of these sentences"),
        ("dropped", "words whose translation was taken out"),
        ("others", "the other words of these sentences"),
    ):
        if not counts[kind]:
            continue
        share = 100 * counts[f"{kind} marked"] / counts[kind]
        more = {"words": counts[kind]}
        title = "words marked as perhaps not translated"
        results.add(title, "%", [share], subject=f"{pair}: {subject}", more=more)
    print_results(results.records)
    results.write()


def title(aligner: Aligner) -> str:
    return f"{aligner.measure}, shift {aligner.shift}, rule {aligner.rule}"


def eflomal_rates(train: Sequence[AlignedPair], test: Sequence[AlignedPair]) -> dict[str, float]:
    """The rates of eflomal (Östling and Tiedemann 2016); it learns from the training pairs too."""
    try:
        import eflomal  # pyright: ignore[reportMissingImports]
    except ImportError:
        log("eflomal is not installed, so it is left out")
        return {}
    pairs = [*test, *train]
    with TemporaryDirectory() as scratch:
        forward, backward = Path(scratch) / "forward", Path(scratch) / "backward"
        eflomal.Aligner().aligned(
            [each.source + "\n" for each in pairs],
            [each.target + "\n" for each in pairs],
            links_filename_fwd=str(forward),
            links_filename_rev=str(backward),
        )
        found = [
            [
                frozenset(tuple(map(int, word.split("-"))) for word in line.split())
                for line in file.read_text().splitlines()[: len(test)]
            ]
            for file in (forward, backward)
        ]
    gold = [frozenset(each.alignment) for each in test]
    together = list(zip(*found, strict=True))
    return {
        "eflomal, forward": alignment_error_rate(found[0], gold),
        "eflomal, backward": alignment_error_rate(found[1], gold),
        "eflomal, intersection": alignment_error_rate((a & b for a, b in together), gold),
        "eflomal, union": alignment_error_rate((a | b for a, b in together), gold),
    }


def measure_cost(options: argparse.Namespace, results: Results) -> None:
    """Seconds of a record and of head by word for 30 tokens, and of a report of one sentence."""
    if options.threads:
        torch.set_num_threads(options.threads)
    generator = torch.Generator().manual_seed(1)
    for size, layers, width in (("tiny", 4, 128), ("base", 6, 512)):
        config = ModelConfig(
            encoder_layers=layers,
            decoder_layers=layers,
            d_model=width,
            d_ff=4 * width,
            n_heads=4 if size == "tiny" else 8,
        )
        model = build_model(config, 8000, 8000).eval()
        ids = torch.randint(3, 8000, (2, TOKENS), generator=generator).tolist()
        name = size.upper()
        seconds = timed(lambda m=model, x=ids: record_translation(m, *x))
        claim = {"tiny": None, "base": "record-base"}[size]
        results.add("record of 30 tokens", "s", seconds, subject=name, claim=claim)
        replay = TranslationReplay(model, *ids)
        seconds = timed(lambda r=replay: effects(r, [], []))
        results.add("head by word", "s", seconds, subject=name, claim=f"head-by-word-{size}")
        seconds = timed(lambda r=replay: effects(r))
        results.add("heads and words by word", "s", seconds, subject=name)
    if options.folder:
        translator = loaded(options)
        text = "a man in a blue shirt is standing on a ladder cleaning a window ."
        with TemporaryDirectory() as scratch:
            path = Path(scratch) / "report.html"
            seconds = timed(lambda: write_report(path, {"model": translator}, [text]))
            more = {"MB": round(path.stat().st_size / 1e6, 2)}
        results.add("report of one sentence", "s", seconds, claim="report", more=more)
    print_results(results.records)
    results.write()


def timed(work: Callable[[], Any], rounds: int = 3) -> list[float]:
    """Seconds of each round, after one that is not counted."""
    work()
    seconds = []
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
    log(f"{median(seconds):.2f} s")
    return seconds


if __name__ == "__main__":
    sys.exit(main())
