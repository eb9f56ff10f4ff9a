"""Overload a server, disconnect, kill and end it, retrain its model; count what is lost.

    python benchmarks/serving_faults.py runs/phrasebook-de-en     # 12 minutes
    python benchmarks/serving_faults.py runs/phrasebook-de-en --seconds 5 --requests 2000

The model is a translator with an export for CTranslate2, as `make demo` writes it. The sentences
are those of its validation data. The load comes from another process on the same machine.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from command import exit_code_of, make_parser, positive
from results import Results, line

from clearhead.api import load_translator
from clearhead.inspect.subject import pairs_of

ROOT = Path(__file__).parents[1]
CLIENTS = 64
SENTENCES = 500


class Running(NamedTuple):
    """A server that runs as a process, and its address."""

    process: subprocess.Popen[str]
    port: int
    log: list[str]

    def memory(self) -> float:
        """Megabytes of memory of the server."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+)", text)
        return int(found[1]) / 1000 if found else 0.0

    def lost(self) -> int:
        """The requests that the server began and did not answer, or answered with an error."""
        statuses = [json.loads(each)["status"] for each in self.log if each.startswith("{")]
        return sum(status not in (200, 429, 503) for status in statuses)


@contextmanager
def serving(folder: Path, *words: str) -> Iterator[Running]:
    """A server of a folder."""
    command = [sys.executable, "-m", "clearhead", "serve", str(folder), "--port", "0", *words]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        found = re.search(r"http://[\d.]+:(\d+)", process.stderr.readline())
        assert found
        log = list[str]()
        reading = threading.Thread(target=lambda: log.extend(process.stderr or ()))
        reading.start()
        running = Running(process, int(found[1]), log)
        try:
            end = time.monotonic() + 60
            while not is_ready(running.port):
                if time.monotonic() > end:
                    raise RuntimeError("the server does not start")
                time.sleep(0.05)
            yield running
        finally:
            process.terminate()
            process.wait(90)
            reading.join(60)


def is_ready(port: int) -> bool:
    try:
        return urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=5).status == 200
    except OSError:
        return False


def loading(port: int, sentences: str, *words: str) -> Callable[[], dict[str, Any]]:
    """Start a load; the result waits for its end, and gives its figures."""
    command = [sys.executable, str(ROOT / "benchmarks/load.py"), "--port", str(port), *words]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    found: list[str] = []
    waiting = threading.Thread(target=lambda: found.extend(process.communicate(sentences)))
    waiting.start()

    def wait() -> dict[str, Any]:
        waiting.join()
        if not found[0]:
            raise RuntimeError(found[1])
        return json.loads(found[0])

    return wait


def main(words: list[str] | None = None) -> int:
    """Make each fault, and record."""
    parser = make_parser(__doc__)
    parser.add_argument("folder", metavar="FOLDER", type=Path)
    parser.add_argument("--seconds", type=positive, default=60, help="of overload (default: 60)")
    parser.add_argument(
        "--requests", type=positive, default=100_000, help="of the long load (default: 100000)"
    )
    options = parser.parse_args(words)
    results = Results("serving_faults", words, options.output)
    return exit_code_of(partial(measure, options, results))


def measure(options: argparse.Namespace, results: Results) -> None:
    """All faults."""
    pairs = islice(pairs_of(load_translator(options.folder)), SENTENCES)
    sentences = "\n".join(source for source, _ in pairs)

    def add(measure: str, unit: str, value: float, claim: str | None = None, **fields: Any) -> None:
        subject = options.folder.name
        record = results.add(measure, unit, [value], subject=subject, claim=claim, **fields)
        print(line(record) if claim else f"{measure}: {value:.1f} {unit}", flush=True)
        results.write()

    overload(options, sentences, add)
    lost = dict[str, int]()
    for fault in (disconnects, slow_clients, killed_worker, ended, retrained):
        name = str(fault.__doc__).partition(":")[0]
        lost[name] = fault(options.folder, sentences)
        print(f"{name}: {lost[name]} requests lost", flush=True)
    add("five faults", "requests", sum(lost.values()), "serving-lost", more=lost)


def overload(options: argparse.Namespace, sentences: str, add: Callable[..., None]) -> None:
    """Ten times the load that the server can take; then many requests."""
    with serving(options.folder) as server:
        clients = ["--clients", str(CLIENTS)]
        usual = loading(server.port, sentences, *clients, "--seconds", "10")()
        rate = 10 * usual["a_second"]
        before = server.memory()
        words = ["--clients", str(10 * CLIENTS), "--seconds", str(options.seconds)]
        over = loading(server.port, sentences, *words, "--rate", str(rate))()
        more = {"usual": usual, "overloaded": over, "refused": over["refused"]}
        ratio = over["p99"] / usual["p99"]
        add("overload: p99 of accepted requests", "times", ratio, "serving-overload", more=more)
        refused = over["refused_p99"] or 0
        add("overload: p99 of refusals", "ms", refused, "serving-refusals")
        add("overload: memory", "MB", server.memory() - before)
        before, done = server.memory(), 0
        while done < options.requests:
            done += loading(server.port, sentences, *clients, "--seconds", "30")()["requests"]
        grown = 100 * (server.memory() / before - 1)
        more = {"requests": done, "before_mb": before}
        add("growth of memory", "%", grown, "serving-memory", more=more)


def connected(server: Running, head: bytes) -> socket.socket:
    """A connection on which a part of a request is sent."""
    found = socket.create_connection(("127.0.0.1", server.port), timeout=60)
    found.sendall(b"POST /v1/translate HTTP/1.1\r\nhost: localhost\r\n" + head)
    return found


def request(text: str) -> bytes:
    content = json.dumps({"text": text}).encode()
    head = f"content-type: application/json\r\ncontent-length: {len(content)}\r\n\r\n"
    return head.encode() + content


def disconnects(folder: Path, sentences: str) -> int:
    """Clients that disconnect: other requests that were lost."""
    with serving(folder) as server:
        wait = loading(server.port, sentences, "--clients", "4", "--seconds", "5")
        for _ in range(200):
            connected(server, request(sentences)).close()
            time.sleep(0.02)
        found = wait()
        assert is_ready(server.port)
    return sum(found["errors"].values())


def slow_clients(folder: Path, sentences: str) -> int:
    """Bodies that never end, and answers that nobody reads: other requests that were lost."""
    with serving(folder) as server:
        wait = loading(server.port, sentences, "--clients", "4", "--seconds", "8")
        slow = [connected(server, b"content-length: 1000\r\n\r\n{") for _ in range(50)]
        slow += [connected(server, b"transfer-encoding: chunked\r\n\r\n") for _ in range(50)]
        slow += [connected(server, request(sentences)) for _ in range(20)]
        found = wait()
        assert found["requests"]
        for each in slow:
            each.close()
        assert is_ready(server.port)
    return sum(found["errors"].values())


def killed_worker(folder: Path, sentences: str) -> int:
    """A worker that is killed: requests that the other worker lost."""
    with serving(folder, "--workers", "2") as server:
        pid = server.process.pid
        found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        workers = [p for p in found if b"spawn_main" in Path(f"/proc/{p}/cmdline").read_bytes()]
        os.kill(int(workers[0]), signal.SIGKILL)
        time.sleep(6)
        after = loading(server.port, sentences, "--clients", "8", "--seconds", "5")()
        assert after["requests"]
    return sum(after["errors"].values())


def ended(folder: Path, sentences: str) -> int:
    """SIGTERM under load: accepted requests that were lost."""
    with serving(folder) as server:
        loading(server.port, sentences, "--clients", str(CLIENTS), "--seconds", "20")
        time.sleep(3)
        server.process.terminate()
        assert server.process.wait(90) == 0
    return server.lost()


def retrained(folder: Path, sentences: str) -> int:
    """A model that is trained again under load: requests that were lost."""
    with TemporaryDirectory() as temporary:
        copy = Path(temporary) / folder.name
        shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("training"))
        with serving(copy) as server:
            wait = loading(server.port, sentences, "--clients", "16", "--seconds", "15")
            for _ in range(5):
                time.sleep(2)
                export(copy)
            found = wait()
    assert found["requests"]
    return sum(found["errors"].values()) + server.lost()


def export(folder: Path) -> None:
    """Change the weights a little, and write the export again, as a training does at its end."""
    code = (
        "import sys, clearhead; from pathlib import Path; from functools import partial;"
        "from clearhead.folder.model_folder import WEIGHTS, replace_files;"
        "from clearhead.folder.tensors import parameters_of, save_tensors;"
        "folder = sys.argv[1]; model = clearhead.load(folder, engine='torch').model;"
        "tensors = {k: 1.001 * v for k, v in parameters_of(model).items()};"
        "save = partial(save_tensors, tensors=tensors, facts={});"
        "replace_files(Path(folder), {WEIGHTS: save});"
        "clearhead.export_model(folder, 'ctranslate2')"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", code, str(folder)], check=True)


if __name__ == "__main__":
    sys.exit(main())
