"""Time and memory of building and opening a corpus, by its number of sentence pairs.

    .venv/bin/python benchmarks/corpus_scale.py
    .venv/bin/python benchmarks/corpus_scale.py --pairs 10000000 50000000 --folder /large/disk

The pairs are generated: words of random syllables with Zipf's frequencies, 5 to 25 a sentence,
about 200 bytes a pair. Each size is built in a new process, so its peak memory is its own. Then
the first batch of an epoch is read, for which all pairs are sorted into batches. The claims about
memory need the sizes 10000 and 10000000 in one run.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from command import existing_folder, exit_code_of, make_parser, positive
from peers.protocol import peak_mb
from results import Results, line

from clearhead.data.batches import batch_order
from clearhead.data.corpus import build_corpus
from clearhead.data.parts import DataPart
from clearhead.errors import ClearheadError
from clearhead.settings import DataConfig, TokenizerConfig
from clearhead.tokenizer import learn_tokenizer, load_tokenizer

WORDS = 20_000
BLOCK = 10_000
LEARNED_FROM = 10_000
VOCABULARY = 8000
BATCH_TOKENS = 4096


def main(words: list[str] | None = None) -> int:
    """Measure each number of pairs."""
    parser = make_parser(__doc__)
    parser.add_argument("--pairs", type=positive, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument(
        "--folder", type=existing_folder, help="for temporary files (the system's default)"
    )
    parser.add_argument("--build", metavar="FOLDER", help=argparse.SUPPRESS)
    options = parser.parse_args(words)
    if options.build:
        return exit_code_of(lambda: print(json.dumps(build(Path(options.build)))))
    results = Results("corpus_scale", sys.argv[1:] if words is None else words, options.output)
    return exit_code_of(partial(measure, options.pairs, options.folder, results))


def measure(sizes: list[int], folder: str | None, results: Results) -> None:
    """Make the pairs of each size and build their corpus in a process of its own."""
    peaks: dict[int, tuple[float, float]] = {}
    with TemporaryDirectory(dir=folder) as name:
        work = Path(name)
        learned = (text for pair in made_up_pairs(LEARNED_FROM) for text in pair)
        config = TokenizerConfig(kind="bpe", max_vocabulary=VOCABULARY)
        learn_tokenizer(learned, config).save(work, "bpe")
        for size in sizes:
            with (work / "train.tsv").open("w", encoding="utf-8") as file:
                file.writelines(f"{source}\t{target}\n" for source, target in made_up_pairs(size))
            found = built_apart(work)
            if found["kept"] != size:
                raise ClearheadError(f"{size - found['kept']:,.0f} of {size:,} pairs were left out")
            more = {
                "CPU s": round(found["cpu_seconds"], 1),
                "peak MB": round(found["peak_mb"]),
                "bytes a pair": round(found["bytes"] / size),
                "s to the first batch": round(found["batch_seconds"], 1),
                "peak MB then": round(found["batch_peak_mb"]),
            }
            speed = size / found["seconds"]
            results.add("building a corpus", "pairs/s", [speed], subject=f"{size:,}", more=more)
            print(f"{size:,} pairs: {speed:,.0f} pairs/s, {more}", flush=True)
            peaks[size] = found["peak_mb"], found["batch_peak_mb"]
    if {10_000, 10_000_000} <= peaks.keys():
        for place, claim in enumerate(("corpus-memory", "epoch-memory")):
            times = peaks[10_000_000][place] / peaks[10_000][place]
            print(line(results.add("growth of the peak", "times", [times], claim=claim)))
    results.write()


def built_apart(work: Path) -> dict[str, float]:
    """What `build` gives, run in a new process."""
    command = [sys.executable, __file__, "--build", str(work)]
    # In a session of its own, so that Ctrl-C is reported once, by this process, which then ends it.
    done = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, check=False, start_new_session=True
    )
    if done.returncode:
        raise ClearheadError(f"building failed with exit code {done.returncode}")
    return json.loads(done.stdout)


def build(work: Path) -> dict[str, float]:
    """Build the corpus of `train.tsv`, read a batch, remove it: seconds, bytes, pairs kept."""
    tokenizer = load_tokenizer(work, "bpe")
    files, corpus = [str(work / "train.tsv")], work / "corpus"
    began, cpu_began = time.perf_counter(), time.process_time()
    part = DataPart("train", tuple(files))
    built = build_corpus(corpus, part, (tokenizer, tokenizer), DataConfig())
    seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - cpu_began
    peak, began = peak_mb("cpu"), time.perf_counter()
    first, *_ = batch_order(built.source_lengths, built.target_lengths, BATCH_TOKENS, 1, 0)
    _ = [(built.source(row), built.target(row)) for row in first]
    batch_seconds = time.perf_counter() - began
    size = sum(path.stat().st_size for path in corpus.rglob("*") if path.is_file())
    shutil.rmtree(corpus)
    return {
        **{"seconds": seconds, "cpu_seconds": cpu_seconds, "peak_mb": peak},
        **{"bytes": size, "kept": built.report.kept},
        **{"batch_seconds": batch_seconds, "batch_peak_mb": peak_mb("cpu")},
    }


def made_up_pairs(count: int) -> Iterator[tuple[str, str]]:
    """Sentence pairs, always the same ones; a target is up to two words longer or shorter."""
    chance = np.random.default_rng(1)
    sources, targets = made_up_words(chance, "bdfgklmnprst"), made_up_words(chance, "chjqvwxyz")
    frequency = 1 / np.arange(1, WORDS + 1)
    frequency /= frequency.sum()
    for start in range(0, count, BLOCK):
        rows = min(BLOCK, count - start)
        lengths = chance.integers(5, 26, rows)
        sides = []
        for words, size in ((sources, lengths), (targets, lengths + chance.integers(-2, 3, rows))):
            ends = np.cumsum(size)
            drawn = words[chance.choice(WORDS, size=int(ends[-1]), p=frequency)]
            sides.append([" ".join(row) for row in np.split(drawn, ends[:-1])])
        yield from zip(*sides, strict=True)


def made_up_words(chance: np.random.Generator, consonants: str) -> np.ndarray:
    """`WORDS` different words of one to four syllables, (WORDS,) of str."""
    syllables = np.array([consonant + vowel for consonant in consonants for vowel in "aeiou"])
    drawn = syllables[chance.integers(0, len(syllables), (4 * WORDS, 4))].tolist()
    lengths = chance.integers(1, 5, 4 * WORDS).tolist()
    words = dict.fromkeys("".join(row[:n]) for row, n in zip(drawn, lengths, strict=True))
    return np.array(list(words)[:WORDS], dtype=object)


if __name__ == "__main__":
    sys.exit(main())
