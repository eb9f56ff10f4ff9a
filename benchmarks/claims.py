"""The claims of the project with their targets, which are declared only here."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Claim:
    """A figure that the project reports, and its target.

    The target is `at_least` or `at_most`; a claim with neither is reported without a verdict. A
    `summary` is a sentence for README and the start page, with `{}` for the figure.
    """

    key: str
    text: str
    at_least: float | None = None
    at_most: float | None = None
    summary: str = ""

    @property
    def target(self) -> str:
        """The target as a table shows it."""
        if self.at_least is not None:
            return f"≥ {self.at_least:g}"
        return f"≤ {self.at_most:g}" if self.at_most is not None else "–"

    def met(self, lowest: float, highest: float) -> bool | None:
        """Whether both values meet the target; None without a target."""
        if self.at_least is not None:
            return lowest >= self.at_least
        return highest <= self.at_most if self.at_most is not None else None


SIZES = ("tiny", "base")
SEARCHES = {
    "b1": "one sentence at a time",
    "b64": "greedy, batches of 64",
    "beam5": "beam of 5, batches of 64",
}
CURVES = {
    "training-length": "training, length of the sentences",
    "training-batch": "training, sentences in a batch",
    "beam": "decoding, width of the beam",
    "batch": "greedy decoding, sentences in a batch",
    "length": "greedy decoding, length of the output",
}


def _training(size: str, float32: float, bf16: float) -> list[Claim]:
    name = size.upper()
    speed = f"training speed of {name} relative to"
    fastest = f"{speed} the fastest toolkit in"
    summary = (
        "Training the paper's base model in bf16: {} the speed of the fastest other toolkit."
        if size == "base"
        else ""
    )
    memory = [
        Claim(
            f"memory-{size}-{own}-{peer}",
            f"peak memory of training {name} in {own} relative to the leanest toolkit in {text}",
            at_most=0.8,
        )
        for own in ("bf16", "float32")
        for peer, text in (("float32", "float32"), ("any", "any type"))
    ]
    return [
        Claim(f"training-{size}-float32", f"{fastest} float32", float32),
        Claim(f"training-{size}-bf16", f"{fastest} bf16", bf16, summary=summary),
        Claim(f"training-{size}-bf16-kept", f"{fastest} bf16, if both keep freed memory", bf16),
        Claim(f"training-{size}-marian", f"{speed} Marian (C++), both in float32"),
        *memory,
    ]


def _decoding(
    size: str, auto: tuple[float, ...], native: tuple[float | None, ...], python: tuple[float, ...]
) -> list[Claim]:
    summary = (
        "Decoding with this model and a beam of 5: {} the speed of the fastest toolkit in Python."
    )
    claims = []
    for (search, text), *targets in zip(SEARCHES.items(), auto, native, python, strict=True):
        key, name = f"decoding-{size}-{search}", f"decoding speed of {size.upper()}, {text}"
        named = summary if (size, search) == ("base", "beam5") else ""
        best = "PyTorch in its best type relative to"
        claims += [
            Claim(f"{key}-auto", f"{name}: `auto` relative to CTranslate2 in float32", targets[0]),
            Claim(f"{key}-native", f"{name}: {best} CTranslate2 in its best type", targets[1]),
            Claim(
                f"{key}-python",
                f"{name}: {best} the fastest toolkit in Python",
                targets[2],
                summary=named,
            ),
        ]
    return claims


CLAIMS = {
    claim.key: claim
    for claim in (
        Claim("demo-minutes", "`make demo`, minutes without the installation", None, 6),
        Claim("demo-right", "`make demo`: unseen phrasebook sentences exactly right", 95),
        Claim("reference-minutes", "the five reference systems, minutes", None, 20),
        Claim("ci-minutes", "`.ci/run` with the installation, minutes", None, 10),
        Claim("coverage", "coverage of the tests, with branches", 90),
        Claim(
            "multi30k-en-de",
            "Multi30k English-German, 29,000 pairs: BLEU (Wu et al. 2021, same size: 41.02)",
            40.5,
            summary="Multi30k English-German, 29,000 pairs: BLEU {}. Wu et al. (2021) report 41.02"
            " for the same size.",
        ),
        Claim("multi30k-en-de-minutes", "Multi30k English-German, minutes of training", None, 90),
        Claim("multi30k-de-en", "Multi30k German-English, the same settings: BLEU"),
        Claim("multi30k-raw", "Multi30k English-German, raw text, settings of `init`: BLEU"),
        Claim(
            "trec",
            "TREC-6, 5,452 questions: accuracy (CNN without pre-trained vectors, Kim 2014: 91.2)",
            91.2,
        ),
        Claim("trec-minutes", "the same: minutes of the longest run", None, 15),
        Claim(
            "vowels",
            "JapaneseVowels, 270 sequences: accuracy (Zerveas et al. 2021, supervised: 99.4)",
            98.4,
        ),
        Claim("vowels-minutes", "the same: minutes of the longest run", None, 15),
        Claim(
            "pretrained-accuracy",
            "fine-tuning of MiniLM on TREC-6: accuracy minus that of a loop with transformers",
            at_least=0,
        ),
        Claim(
            "pretrained-time",
            "fine-tuning of MiniLM on TREC-6: time relative to a loop with transformers",
            at_most=0.6,
        ),
        Claim("pretrained-time-float32", "the same in float32"),
        Claim(
            "linear",
            "classifiers trained from nothing: accuracy minus that of a linear model (TF-IDF)",
        ),
        Claim(
            "marian-bleu",
            "an imported Marian translator: BLEU, difference between clearhead and transformers",
            at_most=0.1,
        ),
        Claim(
            "marian-time",
            "fine-tuning of a Marian translator: time relative to the trainer of transformers",
        ),
        Claim(
            "beside-alone",
            "clearhead's spin count: speed relative to a spin count of 4,000, alone",
            0.97,
        ),
        Claim("beside-1", "speed beside one busy process relative to alone, two threads", 0.45),
        Claim("beside-2", "the same beside two busy processes", 0.3),
        Claim(
            "killed-runs",
            "runs that were killed at a random moment and resumed: result with the same bits",
            100,
        ),
        Claim(
            "killed-process",
            "one of several processes was killed: longest time until the others ended, seconds",
            None,
            60,
        ),
        Claim(
            "faults-of-saving",
            "runs that were stopped between two calls that change files: model loads, at most one"
            " interval is lost, same bits after resuming",
            100,
        ),
        Claim(
            "disk-errors",
            "calls that fail because a disk is full, read-only or broken: model loads, the message"
            " gives advice, same bits after repeating",
            100,
        ),
        Claim(
            "damaged-files",
            "truncated files and flipped bits of a run, a model folder and an export: neither"
            " detected nor harmless",
            None,
            0,
        ),
        Claim(
            "hostile-files",
            "hostile files read by every reader: crash, hang, too much memory, or another error"
            " than one of clearhead",
            None,
            0,
        ),
        Claim(
            "serving-lost",
            "a server with slow and vanishing clients, a killed worker, its end, a new model:"
            " requests that were lost",
            None,
            0,
        ),
        Claim(
            "serving-overload",
            "a server with ten times the load that it can take: p99 of accepted requests relative"
            " to the usual load",
            None,
            3,
        ),
        Claim("serving-refusals", "the same: p99 of refusals, milliseconds", None, 100),
        Claim("serving-memory", "100,000 requests to a server: growth of its memory in %", None, 5),
        Claim(
            "alignment",
            "word alignment of the phrasebook's test part: alignment error rate in %",
            None,
            5,
        ),
        Claim(
            "placeholders",
            "strings of programs with placeholders: translations that keep all of them, in %",
            100,
        ),
        Claim(
            "protection-speed",
            "speed of translation with protected spans relative to none",
            0.9,
        ),
        Claim("glossary-placed", "terms of a glossary: in the translations, in %", 98),
        Claim(
            "glossary-rest",
            "BLEU of translations without their terms: with a glossary, minus without",
            -0.3,
        ),
        Claim("memory", "strings of programs with the training data as memory: BLEU", 31),
        Claim(
            "confidence",
            "confidence in the translations of a test set: Spearman's correlation with chrF",
            0.55,
        ),
        Claim("record-base", "record of 30 tokens in BASE, seconds", None, 1),
        Claim("head-by-word-tiny", "each head off in turn, 30 tokens, TINY, seconds", None, 3),
        Claim("head-by-word-base", "the same in BASE", None, 30),
        Claim("report", "a report of one sentence, seconds", None, 5),
        Claim("ddp-overhead", "a step of BASE with DDP in one process: ratio of times", None, 1.03),
        Claim("copying", "copying 1,000 unseen sequences: right", 1000),
        Claim("reversing", "reversing 1,000 unseen sequences: right", 1000),
        Claim(
            "batch-invariance",
            "1,000 sentences in batches of 1 to 256: sentences whose translation differs",
            None,
            0,
        ),
        Claim("same-bleu", "BLEU of all engines in float32: largest difference", None, 0.1),
        Claim("same-bleu-bf16", "BLEU of a model trained in float32, minus bf16", None, 0.1),
        *_training("tiny", 2.5, 1.5),
        *_training("base", 2.2, 1.25),
        *_decoding("tiny", (0.95,) * 3, (None, 0.75, 0.8), (1.5, 1.5, 1.4)),
        *_decoding("base", (0.95,) * 3, (None, 1.0, 0.9), (2, 2, 2.5)),
        Claim(
            "cold-tiny",
            "one sentence with TINY in a new process: seconds more than CTranslate2's own script",
            None,
            0.5,
        ),
        Claim("cold-base", "the same with BASE", None, 0.5),
        Claim("help", "`clearhead --help`, seconds", None, 0.15),
        *(
            Claim(f"growth-{size}-{key}", f"exponent of the cost of {size.upper()}: {text}")
            for key, text in CURVES.items()
            for size in SIZES
        ),
        Claim("corpus-memory", "peak memory of encoding 10 million pairs relative to 10,000 pairs"),
        Claim("epoch-memory", "peak memory at the start of an epoch, the same numbers of pairs"),
        Claim("gpu-training-big", "training BIG on a GPU: share of its bf16 matrix rate", 40),
    )
}
"""By key, in the order of the tables."""
