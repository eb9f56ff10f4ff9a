"""Throughput and latency of the server, beside LibreTranslate and a bare CTranslate2 loop.

    python benchmarks/serving.py FOLDER --name NAME --test FILE --libretranslate PYTHON

The folder is a translator with exports for CTranslate2 and, for LibreTranslate, for Argos. The bare
loop translates the same sentences in batches of 64 in one process, without a server, with the same
longest output. Clients send one sentence in a request, or a list of 64. They run in a process of
their own on the same machine; its share of the processor is recorded, because it lacks elsewhere.
The servers and the loop take turns. PYTHON is that of an environment with LibreTranslate, which has
the Argos package; without one, it is left out. LibreTranslate gets the variables of this process,
such as ARGOS_COMPUTE_TYPE=float32 ARGOS_BEAM_SIZE=5.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from command import exit_code_of, log, make_parser, positive
from results import Results, print_results

from clearhead.folder.model_folder import open_folder

ROOT = Path(__file__).parents[1]
CLIENTS = (1, 8, 64)
LISTS = 64
BATCH = 64
BARE = """
import json, sys, time
import ctranslate2, clearhead
from clearhead.decoding.engine import longest_output
from clearhead.tokenizer import read_tokenizers
from clearhead.folder.model_folder import open_folder
folder, (seconds, batch, threads) = sys.argv[1], map(int, sys.argv[2:])
found = open_folder(folder)
source, target = read_tokenizers(found)
search = found.config.search
names = json.load(open(found.path / "ctranslate2/shared_vocabulary.json"))
ids = {name: i for i, name in enumerate(names)}
workers = threads if found.config.model.d_model <= 256 else 1
translator = ctranslate2.Translator(
    str(found.path / "ctranslate2"), inter_threads=workers, intra_threads=threads // workers
)
texts = sys.stdin.read().splitlines()
parts = [texts[i : i + batch] for i in range(0, len(texts), batch)]
def translate(part):
    encoded = [[names[i] for i in row] for row in source.encode_batch(part)]
    each = 0 if workers == 1 else max(1, len(part) // workers)
    longest = longest_output(max(map(len, encoded)), search)
    results = translator.translate_batch(
        encoded, beam_size=search.beam_size, max_batch_size=each, length_penalty=0.6,
        max_decoding_length=longest
    )
    outputs = [[ids[name] for name in result.hypotheses[0]] for result in results]
    for row in outputs:
        target.decode(row)
    return sum(map(len, outputs))
translate(parts[0])
begin, done, tokens, times = time.monotonic(), 0, 0, []
while (now := time.monotonic()) - begin < seconds:
    part = parts[len(times) % len(parts)]
    tokens += translate(part)
    done += len(part)
    times.append(time.monotonic() - now)
total = time.monotonic() - begin
print(json.dumps({"items_a_second": done / total, "tokens_a_second": tokens / total,
                  "p50": 1000 * sorted(times)[len(times) // 2]}))
"""
"""A loop around CTranslate2 with our tokenizers: folder, seconds, sentences in a batch, threads."""


def main(words: list[str] | None = None) -> int:
    """Measure all in turns, and record."""
    parser = make_parser(__doc__)
    parser.add_argument("folder", metavar="FOLDER", type=Path)
    parser.add_argument("--name", required=True, help="size of the model")
    parser.add_argument("--test", metavar="FILE", required=True, help="a sentence on each line")
    parser.add_argument("--libretranslate", metavar="PYTHON", help="Python with LibreTranslate")
    parser.add_argument("--seconds", type=positive, default=15, help="of each load (default: 15)")
    parser.add_argument("--rounds", type=positive, default=3, help="turns (default: 3)")
    options = parser.parse_args(words)
    return exit_code_of(partial(measure, options, Results("serving", words, options.output)))


def measure(options: argparse.Namespace, results: Results) -> None:
    """Take turns, and record the medians and ratios."""
    sentences = Path(options.test).read_text(encoding="utf-8")
    servers = {"clearhead": partial(clearhead_server, options.folder)}
    if options.libretranslate:
        servers["libretranslate"] = partial(
            libretranslate_server, options.libretranslate, options.folder
        )
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for number in range(options.rounds):
        for name, serve in servers.items():
            with serve() as port:
                load(name, options.folder, port, sentences, 8, 1, 2)  # loads what it needs
                for clients, size in [*((n, 1) for n in CLIENTS), (1, LISTS)]:
                    kind = f"{clients} clients" if size == 1 else f"lists of {size}"
                    figures = load(
                        name, options.folder, port, sentences, clients, size, options.seconds
                    )
                    found.setdefault((name, kind), []).append(figures)
                    log(f"round {number + 1}, {name}, {kind}: {json.dumps(figures)}")
        for kind, batch in (("64 clients", BATCH), ("1 clients", 1)):
            figures = bare(options.folder, sentences, batch, options.seconds)
            found.setdefault(("bare", kind), []).append(figures)
            log(f"round {number + 1}, bare, {kind}: {json.dumps(figures)}")
    record(results, options.name, found)
    print_results(results.records)
    results.write()


def record(
    results: Results, size: str, found: Mapping[tuple[str, str], list[dict[str, Any]]]
) -> None:
    """Add the figures of each, and the ratios and differences that have a target."""
    for (name, kind), rounds in found.items():
        more = {
            key: median(each[key] for each in rounds)
            for key in ("p50", "p95", "p99", "cpu_seconds")
            if key in rounds[0]
        }
        speeds = [each["items_a_second"] for each in rounds]
        results.add(f"{size}, {kind}", "sentences/s", speeds, subject=name, more=more)

    def compare(
        key: str, unit: str, kind: str, peer: str, of: Callable[[dict, dict], float]
    ) -> None:
        if (peer, kind) not in found:
            return
        pairs = zip(found["clearhead", kind], found[peer, kind], strict=True)
        values = [of(*pair) for pair in pairs]
        claim = f"serving-{size.lower()}-{key}"
        results.add(f"{size}, {kind}", unit, values, subject="clearhead", peer=peer, claim=claim)

    def ratio(one: dict, other: dict) -> float:
        return one["items_a_second"] / other["items_a_second"]

    compare("bare", "times", "64 clients", "bare", ratio)
    compare("latency", "ms", "1 clients", "bare", lambda one, other: one["p50"] - other["p50"])
    compare("clients", "times", "64 clients", "libretranslate", ratio)
    compare("lists", "times", f"lists of {LISTS}", "libretranslate", ratio)


def load(
    name: str, folder: Path, port: int, sentences: str, clients: int, size: int, seconds: int
) -> dict[str, Any]:
    """The figures of a load in a process of its own."""
    languages = open_folder(folder).config.data.languages
    words = ["--port", str(port), "--clients", str(clients), "--seconds", str(seconds)]
    command = [sys.executable, str(ROOT / "benchmarks/load.py"), *words]
    command += ["--list", str(size), "--api", name, "--languages", *languages]
    done = subprocess.run(command, input=sentences, capture_output=True, text=True, check=True)
    figures = json.loads(done.stdout)
    if figures["errors"] or figures["refused"]:
        raise RuntimeError(f"{name} gave errors: {figures}")
    return figures


def bare(folder: Path, sentences: str, batch: int, seconds: int) -> dict[str, Any]:
    """The figures of the bare loop."""
    threads = len(os.sched_getaffinity(0))
    words = [str(folder), str(seconds), str(batch), str(threads)]
    command = [sys.executable, "-c", BARE, *words]
    done = subprocess.run(command, input=sentences, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@contextmanager
def running(command: list[str], port: int, path: str) -> Iterator[int]:
    """A server as a process, when it answers."""
    nothing = subprocess.DEVNULL
    with subprocess.Popen(command, stdout=nothing, stderr=nothing) as process:
        try:
            end = time.monotonic() + 120
            while not answers(port, path):
                if process.poll() is not None or time.monotonic() > end:
                    raise RuntimeError(f"the server does not start: {' '.join(command)}")
                time.sleep(0.1)
            yield port
        finally:
            process.terminate()
            process.wait(90)


def answers(port: int, path: str) -> bool:
    try:
        return urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5).status == 200
    except OSError:
        return False


@contextmanager
def clearhead_server(folder: Path) -> Iterator[int]:
    """Our server."""
    command = [sys.executable, "-m", "clearhead", "serve", str(folder), "--port", "8201"]
    with running(command, 8201, "/ready") as port:
        yield port


@contextmanager
def libretranslate_server(python: str, folder: Path) -> Iterator[int]:
    """LibreTranslate with the same model, which its environment has as an Argos package."""
    program = str(Path(python).parent / "libretranslate")
    languages = ",".join(open_folder(folder).config.data.languages)
    words = ["--host", "127.0.0.1", "--port", "8202", "--disable-web-ui", "--threads", "64"]
    words += ["--load-only", languages]
    with running([program, *words], 8202, "/languages") as port:
        yield port


if __name__ == "__main__":
    sys.exit(main())
