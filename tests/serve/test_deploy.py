"""Tests of the files in deploy/, with systemd-analyze and nginx where they are installed."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import time
from pathlib import Path

import pytest

from exported_models import random_folder
from running_server import RunningServer, running

DEPLOY = Path(__file__).parents[2] / "deploy"


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    text = (DEPLOY / "clearhead.service").read_text()
    unit = tmp_path / "clearhead.service"
    unit.write_text(text.replace("/opt/clearhead/bin/clearhead", "/bin/true"))  # which exists
    command = ["systemd-analyze", "verify", str(unit)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if "Failed to initialize manager" in done.stderr:
        pytest.skip("systemd-analyze does not work here")
    assert (done.returncode, done.stderr) == (0, "")


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@pytest.mark.slow
def test_nginx_before_two_servers(tmp_path: Path) -> None:
    if (nginx := shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")) is None:
        pytest.skip("nginx is not installed")
    folder, port = random_folder(tmp_path / "model"), free_port()
    example = (DEPLOY / "nginx.conf").read_text()
    store = tmp_path / "store"
    with running(folder, storage=store) as one, running(folder, storage=store) as two:
        ports = {"8080": port, "8001": port_of(one), "8002": port_of(two)}
        for old, new in ports.items():
            example = re.sub(rf"(127\.0\.0\.1:){old}", rf"\g<1>{new}", example)
        (tmp_path / "example.conf").write_text(example)
        paths = "".join(
            f"{name}_temp_path {tmp_path}/{name};"
            for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        (tmp_path / "nginx.conf").write_text(
            f"daemon off; pid {tmp_path}/pid; error_log {tmp_path}/errors; events {{}}\n"
            f"http {{ access_log off; {paths} include {tmp_path}/example.conf; }}"
        )
        command = [nginx, "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf")]
        with subprocess.Popen(command) as process:
            try:
                site = RunningServer(f"http://127.0.0.1:{port}", one.server)
                wait_for(port)
                assert site.post("/v1/translate", {"text": "s1"}).status == 200
                assert b"event: done" in site.post("/v1/translate/stream", {"text": "s"}).body
                assert site.get("/metrics").status == 200
                two.stop()
                for _ in range(5):
                    assert site.post("/v1/translate", {"text": "s1"}).status == 200
            finally:
                process.terminate()


def port_of(server: RunningServer) -> int:
    return int(server.url.rpartition(":")[2])


def wait_for(port: int) -> None:
    """Wait until something listens."""
    end = time.monotonic() + 20
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            assert time.monotonic() < end
            time.sleep(0.02)
        else:
            return
