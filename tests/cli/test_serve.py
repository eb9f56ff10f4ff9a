"""Tests of `clearhead serve` as a process: its start, its end, its workers."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from clearhead.api import export_model
from exported_models import random_folder
from fake_translator import run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_folder(tmp_path_factory.mktemp("serve") / "model")


@contextmanager
def serving(*words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The command as a process, and the address that it prints."""
    command = [sys.executable, "-m", "clearhead", "serve", *words, "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        found = re.search(r"http://[\d.]+:\d+", line)
        assert found, line
        lines = threading.Thread(target=process.stderr.read)  # so that it is never full
        lines.start()
        try:
            wait_until_ready(found[0])
            yield process, found[0]
        finally:
            process.terminate()
            process.wait(60)
            lines.join(60)


def ask(url: str, body: dict[str, Any] | None = None) -> int:
    """The status of an answer; 0 without one."""
    content = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, content, {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            answer.read()
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def wait_until_ready(url: str) -> None:
    end = time.monotonic() + 60
    while ask(f"{url}/ready") != 200:
        assert time.monotonic() < end
        time.sleep(0.05)


def children(process: int) -> list[int]:
    """The workers of a server: the children that hold its address."""
    found = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    names = {int(each): Path(f"/proc/{each}/cmdline").read_bytes() for each in found}
    return [each for each, name in names.items() if b"spawn_main" in name]


@pytest.mark.slow
def test_a_signal_ends_it_after_the_accepted_requests(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    statuses: list[int] = []
    with serving(str(folder)) as (process, url):
        body = {"text": "s1 s2 s3. " * 400}
        threads = [
            threading.Thread(target=lambda: statuses.append(ask(f"{url}/v1/translate", body)))
            for _ in range(8)
        ]
        for each in threads:
            each.start()
        time.sleep(0.3)
        process.send_signal(signal.SIGTERM)
        for each in threads:
            each.join(60)
        assert process.wait(60) == 0
    assert statuses == [200] * 8
    assert not list(tmp_path.glob("clearhead-*"))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_killed_worker_is_replaced(folder: Path) -> None:
    with serving(str(folder), "--workers", "2") as (process, url):
        workers = children(process.pid)
        assert len(workers) == 2
        os.kill(workers[0], signal.SIGKILL)
        end = time.monotonic() + 60
        while len(now := children(process.pid)) < 2 or workers[0] in now:
            assert time.monotonic() < end
            time.sleep(0.1)
        wait_until_ready(url)
        assert ask(f"{url}/v1/translate", {"text": "s1"}) == 200


@pytest.mark.slow
def test_without_torch(tmp_path: Path) -> None:
    """With an export for CTranslate2, nothing loads PyTorch until a request needs it."""
    folder = random_folder(tmp_path / "model")
    export_model(folder, "ctranslate2")
    code = (
        "import sys; from clearhead.serve.app import create;"
        "from clearhead.serve.settings import ServeSettings;"
        f"app = create(ServeSettings(({str(folder)!r},), {str(tmp_path)!r}));"
        "service = app.state.server.models.services['model'];"
        "service.translate_data('s1 s2. s3');"
        "print('torch' in sys.modules); service.close()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_mistakes(folder: Path, tmp_path: Path) -> None:
    assert run("serve", str(tmp_path / "none"))[0] == 4
    assert run("serve", str(folder), str(folder))[0] == 2
    (tmp_path / "keys").write_text("anna: short\n")
    code, _, err = run("serve", str(folder), "--keys", str(tmp_path / "keys"))
    assert (code, "keys:1" in err) == (2, True)
    assert run("serve", str(folder), "--host", "192.0.2.1")[0] == 2
    assert run("serve", str(folder), "--port", "70000")[0] == 2
