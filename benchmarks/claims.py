"""What the project claims, each with its target: the one place where targets are declared."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Claim:
    """A figure that the project reports, and what it should be.

    `at_least` or `at_most` is the target; a claim with neither is reported without a verdict.
    `summary` is the row's name in the small table of the documents; "": the claim is not in it.
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
        """Whether the target is met, even by the worse of the two; None without a target."""
        if self.at_least is not None:
            return lowest >= self.at_least
        return highest <= self.at_most if self.at_most is not None else None


def _training(size: str, float32: float, bf16: float) -> list[Claim]:
    name = size.upper()
    fast = f"training {name}, target tokens/s beside the fastest peer in"
    lean = f"peak memory of training {name}"
    summaries = {
        "tiny": "training a small Transformer (4 + 4 layers of 128)",
        "base": "training the paper's base model (6 + 6 layers of 512)",
    }
    return [
        Claim(f"training-{size}-float32", f"{fast} float32", float32),
        Claim(
            f"training-{size}-bf16",
            f"{fast} bf16",
            bf16,
            summary=f"{summaries[size]}, speed beside the fastest peer in bf16",
        ),
        Claim(f"training-{size}-bf16-kept", f"{fast} bf16, both keep freed memory", bf16),
        Claim(f"training-{size}-marian", f"training {name} in float32 beside Marian (C++)"),
        Claim(f"memory-{size}-bf16-float32", f"{lean} in bf16, leanest peer in float32", None, 0.8),
        Claim(f"memory-{size}-bf16-any", f"{lean} in bf16, leanest peer in any type", None, 0.8),
        Claim(
            f"memory-{size}-float32-float32", f"{lean} in float32, leanest peer likewise", None, 0.8
        ),
        Claim(
            f"memory-{size}-float32-any", f"{lean} in float32, leanest peer in any type", None, 0.8
        ),
    ]


def _decoding(
    size: str, auto: tuple[float, ...], native: tuple[float | None, ...], python: tuple[float, ...]
) -> list[Claim]:
    name = size.upper()
    searches = {
        "b1": "one sentence at a time",
        "b64": "greedy, batches of 64",
        "beam5": "beam of 5, batches of 64",
    }
    claims = []
    for (search, text), a, n, p in zip(searches.items(), auto, native, python, strict=True):
        claims += [
            Claim(
                f"decoding-{size}-{search}-auto",
                f"decoding {name}, {text}: `auto` beside CTranslate2, both float32",
                a,
            ),
            Claim(
                f"decoding-{size}-{search}-native",
                f"decoding {name}, {text}: PyTorch beside CTranslate2, each in its best type",
                n,
            ),
            Claim(
                f"decoding-{size}-{search}-python",
                f"decoding {name}, {text}: PyTorch in its best type beside the fastest Python peer",
                p,
                summary="decoding the base model with a beam of 5 beside the fastest Python peer"
                if (size, search) == ("base", "beam5")
                else "",
            ),
        ]
    return claims


def _growth() -> list[Claim]:
    curves = {
        "training-length": "training, length of the sentences",
        "training-batch": "training, sentences in a batch",
        "beam": "decoding, width of the beam",
        "batch": "greedy decoding, sentences in a batch",
        "length": "greedy decoding, length of the output",
    }
    return [
        Claim(f"growth-{size}-{key}", f"exponent of the cost of {size.upper()} at the end: {text}")
        for key, text in curves.items()
        for size in ("tiny", "base")
    ]


CLAIMS = {
    claim.key: claim
    for claim in (
        Claim("demo-minutes", "`make demo`, minutes without the install", None, 6),
        Claim("demo-right", "`make demo`: held-out phrasebook sentences exactly right", 95),
        Claim("reference-minutes", "the five reference systems, minutes", None, 20),
        Claim("ci-minutes", "`.ci/run` with the install, minutes", None, 10),
        Claim("coverage", "coverage of the tests, branches counted", 90),
        Claim(
            "multi30k-en-de",
            "Multi30k English-German, 29,000 pairs: BLEU on the test set",
            40.5,
            summary="Multi30k English-German, BLEU (published for this size: 41.02)",
        ),
        Claim("multi30k-en-de-minutes", "the same: minutes of training", None, 90),
        Claim("multi30k-de-en", "Multi30k German-English, the same settings: BLEU"),
        Claim("multi30k-raw", "Multi30k English-German, raw text, what `init` proposes: BLEU"),
        Claim(
            "trec",
            "TREC-6, 5,452 questions: accuracy",
            91.2,
            summary="TREC-6, accuracy (a CNN: 91.2)",
        ),
        Claim("trec-minutes", "the same: minutes a run, at most", None, 15),
        Claim(
            "vowels",
            "JapaneseVowels, 270 sequences: accuracy",
            98.4,
            summary="JapaneseVowels, accuracy (published: 99.4; ROCKET: 96.2)",
        ),
        Claim("vowels-minutes", "the same: minutes a run, at most", None, 15),
        Claim("copying", "copying 1,000 unseen sequences: right", 1000),
        Claim("reversing", "reversing 1,000 unseen sequences: right", 1000),
        Claim(
            "batch-invariance",
            "1,000 sentences in batches of 1 to 256: sentences with other words",
            None,
            0,
        ),
        Claim("same-bleu", "BLEU of all engines in float32: largest difference", None, 0.1),
        Claim("same-bleu-bf16", "BLEU of a model trained in bf16: less than float32", None, 0.1),
        *_training("tiny", 2.5, 1.5),
        *_training("base", 2.2, 1.25),
        *_decoding("tiny", (0.95,) * 3, (None, 0.75, 0.8), (1.5, 1.5, 1.4)),
        *_decoding("base", (0.95,) * 3, (None, 1.0, 0.9), (2, 2, 2.5)),
        Claim(
            "cold-tiny",
            "one sentence of TINY in a new process, seconds more than CTranslate2's own script",
            None,
            0.5,
        ),
        Claim("cold-base", "the same with BASE", None, 0.5),
        Claim(
            "help", "`clearhead --help`, seconds", None, 0.3, summary="`clearhead --help`, seconds"
        ),
        *_growth(),
        Claim("corpus-memory", "peak memory of encoding 10 million pairs beside 10,000 pairs"),
        Claim("epoch-memory", "peak memory at the start of an epoch, likewise"),
        Claim("gpu-training-big", "training BIG on a GPU: share of its bf16 matrix rate", 40),
    )
}
"""By key, in the order of the tables."""
