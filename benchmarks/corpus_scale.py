"""Time and memory of encoding a corpus and reading its first batch, by the number of pairs.

    .venv/bin/python benchmarks/corpus_scale.py
    .venv/bin/python benchmarks/corpus_scale.py --pairs 10000000 50000000 --folder /large/disk

The pairs are generated: 5 to 25 words of random syllables per sentence, with Zipf's frequencies,
about 200 bytes per pair. Each size is encoded in a new process, so that the peak memory is that of
this size. It includes pages of the corpus, which the system can drop. Then the first batch of an
epoch is read, for which all pairs are sorted into batches: "bytes a pair then" is what the arrays
take. The corpus is opened again, as each process of a run does: all of it is read and checked.
Further batches are read with and without subword sampling (0.1), by one thread as in a run.
The claims about memory need the sizes 10000 and 10000000 in one run.
"""

from __future__ import annotations

import shutil
import sys
import time
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import numpy as np
from command import exit_code_of, make_parser, positive
from peers.protocol import peak_mb
from results import Results, line

from clearhead.data.batches import SubwordSampling, epoch_batches
from clearhead.data.corpus import Corpus, build_corpus
from clearhead.data.order import batch_order
from clearhead.data.reading.parts import DataPart
from clearhead.errors import ClearheadError
from clearhead.folder.model_folder import open_folder, write_folder
from clearhead.settings import DataConfig, RunConfig, TokenizerConfig
from clearhead.tokenizer import JOINT, learn_tokenizer, read_tokenizers

WORDS = 20_000
BLOCK = 10_000
LEARNED_FROM = 10_000
VOCABULARY = 8000
BATCH_TOKENS = 4096
BATCHES = 150  # that are read for the speed of reading: more than are resampled together
SAMPLING = 0.1


def main(words: list[str] | None = None) -> int:
    """Measure each number of pairs."""
    parser = make_parser(__doc__)
    parser.add_argument("--pairs", type=positive, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--folder", help="folder for temporary files (default: the system's)")
    options = parser.parse_args(words)
    results = Results("corpus_scale", words, options.output)
    return exit_code_of(partial(measure, options.pairs, options.folder, results))


def measure(sizes: list[int], folder: str | None, results: Results) -> None:
    """Generate the pairs of each size and encode them in a new process."""
    peaks: dict[int, tuple[float, float]] = {}
    with TemporaryDirectory(dir=folder) as name:
        work = Path(name)
        learned = (text for pair in random_pairs(LEARNED_FROM) for text in pair)
        config = TokenizerConfig(kind="bpe", max_vocabulary=VOCABULARY)
        write_folder(work, RunConfig(), {JOINT: learn_tokenizer(learned, config)})
        for size in sizes:
            with (work / "train.tsv").open("w", encoding="utf-8") as file:
                file.writelines(f"{source}\t{target}\n" for source, target in random_pairs(size))
            with ProcessPoolExecutor(1, get_context("spawn")) as pool:
                found = pool.submit(build, work).result()
            if found["kept"] != size:
                raise ClearheadError(f"{size - found['kept']:,.0f} of {size:,} pairs were dropped")
            more = {
                "CPU s": round(found["cpu_seconds"], 1),
                "peak MB": round(found["peak_mb"]),
                "bytes a pair": round(found["bytes"] / size),
                "s to the first batch": round(found["batch_seconds"], 2),
                "peak MB then": round(found["batch_peak_mb"]),
                "bytes a pair then": round(found["order_bytes"] / size, 1),
                "s to open": round(found["open_seconds"], 2),
                "batches, pairs/s": round(found["batched"]),
                # Fewer pairs are resampled before the first batch.
                "sampled, pairs/s": round(found["sampled"]) if size > LEARNED_FROM else None,
            }
            speed = size / found["seconds"]
            results.add("building a corpus", "pairs/s", [speed], subject=f"{size:,}", more=more)
            print(f"{size:,} pairs: {speed:,.0f} pairs/s, {more}", flush=True)
            peaks[size] = found["peak_mb"], found["batch_peak_mb"]
    if {10_000, 10_000_000} <= peaks.keys():
        for i, claim in enumerate(("corpus-memory", "epoch-memory")):
            times = peaks[10_000_000][i] / peaks[10_000][i]
            print(line(results.add("growth of the peak", "times", [times], claim=claim)))
    results.write()


def build(work: Path) -> dict[str, float]:
    """Build the corpus of `train.tsv`, read a batch, remove the corpus; return the figures."""
    tokenizer = read_tokenizers(open_folder(work, trained=False))[0]
    part, corpus = DataPart("train", (str(work / "train.tsv"),)), work / "corpus"
    began, cpu_began = time.perf_counter(), time.process_time()
    built = build_corpus(corpus, part, (tokenizer, tokenizer), DataConfig())
    seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - cpu_began
    peak, began = peak_mb("cpu"), time.perf_counter()
    first, *_ = batch_order(built.source_lengths, built.target_lengths, BATCH_TOKENS, 1, 0)
    _ = [(built.source(row), built.target(row)) for row in first]
    batch_seconds = time.perf_counter() - began
    batch_peak = peak_mb("cpu")
    tracemalloc.start()
    lengths = np.copy(built.source_lengths), np.copy(built.target_lengths)
    batch_order(*lengths, BATCH_TOKENS, 1, 0)
    order_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    began = time.perf_counter()
    Corpus(built.folder, (len(tokenizer), len(tokenizer)))
    open_seconds = time.perf_counter() - began
    batched = reading_speed(built, SubwordSampling(tokenizer, tokenizer, DataConfig().max_length))
    cast(Any, tokenizer).sampling = SAMPLING
    sampled = reading_speed(built, SubwordSampling(tokenizer, tokenizer, DataConfig().max_length))
    size = sum(path.stat().st_size for path in corpus.rglob("*") if path.is_file())
    shutil.rmtree(corpus)
    return {
        **{"seconds": seconds, "cpu_seconds": cpu_seconds, "peak_mb": peak},
        **{"bytes": size, "kept": built.report.kept},
        **{"batch_seconds": batch_seconds, "batch_peak_mb": batch_peak},
        **{
            "order_bytes": order_bytes,
            "open_seconds": open_seconds,
            "batched": batched,
            "sampled": sampled,
        },
    }


def reading_speed(corpus: Corpus, sampling: SubwordSampling) -> float:
    """Pairs per second of the batches after the first."""
    batches = epoch_batches(corpus, BATCH_TOKENS, 1, 0, sampling=sampling)
    next(batches)
    began = time.perf_counter()
    pairs = sum(len(batch.rows) for batch in islice(batches, BATCHES))
    return pairs / (time.perf_counter() - began)


def random_pairs(count: int) -> Iterator[tuple[str, str]]:
    """Sentence pairs, always the same ones; a target is up to two words longer or shorter."""
    chance = np.random.default_rng(1)
    sources, targets = random_words(chance, "bdfgklmnprst"), random_words(chance, "chjqvwxyz")
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


def random_words(chance: np.random.Generator, consonants: str) -> np.ndarray:
    """`WORDS` different words of one to four syllables, (WORDS,) of str."""
    syllables = np.array([consonant + vowel for consonant in consonants for vowel in "aeiou"])
    drawn = syllables[chance.integers(0, len(syllables), (4 * WORDS, 4))].tolist()
    lengths = chance.integers(1, 5, 4 * WORDS).tolist()
    words = dict.fromkeys("".join(row[:n]) for row, n in zip(drawn, lengths, strict=True))
    return np.array(list(words)[:WORDS], dtype=object)


if __name__ == "__main__":
    sys.exit(main())
