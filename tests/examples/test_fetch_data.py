"""Download of the data from a small local server."""

from __future__ import annotations

import gzip
import hashlib
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts import load_script

fetch_data = load_script("examples/fetch_data.py")

TEXT = b"zwei hunde spielen im schnee .\n" * 20


class Publisher:
    """Serves the contents of `files`, and keeps the paths of all requests."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.promised: dict[str, int] = {}
        self.asked: list[str] = []
        publisher = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                name = self.path.removeprefix("/")
                publisher.asked.append(name)
                if name not in publisher.files:
                    self.send_error(404)
                    return
                body = publisher.files[name]
                self.send_response(200)
                self.send_header("Content-Length", str(publisher.promised.get(name, len(body))))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_address[1]}/"


@pytest.fixture
def publisher(monkeypatch: pytest.MonkeyPatch) -> Iterator[Publisher]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    publisher = Publisher()
    thread = threading.Thread(target=publisher.server.serve_forever, args=(0.01,))
    thread.start()
    yield publisher
    publisher.server.shutdown()
    publisher.server.server_close()
    thread.join()


def announce(monkeypatch: pytest.MonkeyPatch, *files: tuple[str, str, bytes]) -> None:
    """Make the script download these files: (path, URL, content)."""
    table = [fetch_data.File(p, url, hashlib.sha256(text).hexdigest()) for p, url, text in files]
    monkeypatch.setattr(fetch_data, "FILES", tuple(table))


def files_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_files_are_fetched_plain_packed_or_packed_here(
    publisher: Publisher,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture,
) -> None:
    packed = gzip.compress(TEXT)
    publisher.files = {"plain.txt": TEXT, "packed.gz": packed}
    at = publisher.address
    announce(
        monkeypatch,
        ("a/plain.txt", at + "plain.txt", TEXT),
        ("a/packed.gz", at + "packed.gz", TEXT),
        ("b/made.gz", at + "plain.txt", TEXT),
    )
    assert fetch_data.main([str(tmp_path)]) == 0
    assert files_in(tmp_path) == ["a/packed.gz", "a/plain.txt", "b/made.gz"]
    assert (tmp_path / "a/plain.txt").read_bytes() == TEXT
    assert (tmp_path / "a/packed.gz").read_bytes() == packed
    made = (tmp_path / "b/made.gz").read_bytes()
    assert gzip.decompress(made) == TEXT
    assert made[4:8] == bytes(4)  # no time in it (RFC 1952): the same file whenever it is made
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines[:3]] == [
        "a/plain.txt",
        "a/packed.gz",
        "b/made.gz",
    ]
    assert str(tmp_path) in lines[3]


def test_complete_files_are_not_downloaded_again(
    publisher: Publisher, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    publisher.files = {"plain.txt": TEXT, "packed.gz": gzip.compress(TEXT)}
    at = publisher.address
    announce(
        monkeypatch,
        ("a/plain.txt", at + "plain.txt", TEXT),
        ("a/packed.gz", at + "packed.gz", TEXT),
    )
    # Other gzip bytes of the same text are as good.
    (tmp_path / "a").mkdir()
    (tmp_path / "a/packed.gz").write_bytes(gzip.compress(TEXT, compresslevel=1, mtime=7))
    (tmp_path / "a/plain.txt").write_bytes(TEXT[:-1])
    monkeypatch.setenv("CLEARHEAD_DATA", str(tmp_path))
    assert fetch_data.main([]) == 0
    assert publisher.asked == ["plain.txt"]
    assert (tmp_path / "a/plain.txt").read_bytes() == TEXT
    assert fetch_data.main([]) == 0
    assert publisher.asked == ["plain.txt"]


@pytest.mark.parametrize("name", ["plain.txt", "packed.gz"])
@pytest.mark.parametrize(
    "served", ["another text", "not gzip", "cut short", "gzip cut short", "nothing"]
)
def test_wrong_content_is_rejected_and_leaves_no_file(
    publisher: Publisher,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture,
    name: str,
    served: str,
) -> None:
    packed = gzip.compress(TEXT)
    right = packed if name.endswith(".gz") else TEXT
    wrong = gzip.compress(b"another text\n") if name.endswith(".gz") else b"another text\n"
    body = {
        "another text": wrong,
        "not gzip": b"<html>",
        "cut short": right[:-5],
        "gzip cut short": packed[:-9],
    }
    if served in body:
        publisher.files[name] = body[served]
    if served == "cut short":
        publisher.promised[name] = len(right)
    publisher.files["good.txt"] = TEXT
    at = publisher.address
    announce(
        monkeypatch,
        (f"bad/{name}", at + name, TEXT),
        ("bad/later.txt", at + "later.txt", TEXT),
        ("good/good.txt", at + "good.txt", TEXT),
    )
    assert fetch_data.main([str(tmp_path)]) == 1
    # The other publisher's file is there all the same.
    assert files_in(tmp_path) == ["good/good.txt"]
    assert "later.txt" not in publisher.asked
    out, err = capsys.readouterr()
    assert at + name in out
    assert "2 of 3 files are missing" in err
    assert f"bad/{name}" in err
    assert "What to do" in err


def test_the_table_names_each_file_once_over_https() -> None:
    paths = [file.path for file in fetch_data.FILES]
    assert len(set(paths)) == len(paths)
    assert len({file.url for file in fetch_data.FILES}) == len(paths)
    assert {path.partition("/")[0] for path in paths} == {"multi30k", "trec", "japanese-vowels"}
    assert all(file.url.startswith("https://") for file in fetch_data.FILES)


def test_the_table_has_the_checksums_of_the_real_data(clearhead_data: Path) -> None:
    wrong = [
        file.path
        for file in fetch_data.FILES
        if not fetch_data.is_right(clearhead_data / file.path, file.sha256)
    ]
    assert wrong == []
