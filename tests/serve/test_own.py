"""Tests of our own API, of errors, and of the limits of a server."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from clearhead.api import load_translator
from clearhead.serve import guard
from clearhead.serve.own import WINDOW, windows
from exported_models import random_folder
from model_folders import write_models
from running_server import RunningServer, running

KEY = "0123456789abcdef"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_folder(tmp_path_factory.mktemp("served") / "model")


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    write_models(folder)
    return folder / "texts"


@pytest.fixture(scope="module")
def served(
    folder: Path, classifier: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningServer]:
    with running(folder, classifier, storage=tmp_path_factory.mktemp("store")) as server:
        yield server


def translated(server: RunningServer, **body: Any) -> Any:
    answer = server.post("/v1/translate", body)
    assert answer.status == 200, answer.body
    return answer.json


def test_translations_are_those_of_the_translator(served: RunningServer, folder: Path) -> None:
    translator = load_translator(folder, device="cpu")
    texts = ["s1 s2. s3", "s4\n\ns5", ""]
    found = translated(served, text=texts)
    assert found["model"] == "model"
    assert [each["text"] for each in found["translations"]] == [
        translator.translate_text(text) for text in texts
    ]
    sentences = found["translations"][0]["sentences"]
    assert [each["source"] for each in sentences] == ["s1 s2.", "s3"]


def test_markup_alternatives_links_terms_and_prefixes(served: RunningServer) -> None:
    (html,) = translated(served, text="<p>s1 <b>s2</b></p>", format="html")["translations"]
    assert html["text"].startswith("<p>")
    (several,) = translated(served, text="s1 s2", alternatives=2, alignment=True)["translations"]
    assert len(several["alternatives"]) == 2
    for link in several["sentences"][0]["links"]:
        for side in ("source", "target"):
            start, end = link[side]
            assert 0 <= start < end
    (terms,) = translated(served, text="s1 s2", glossary={"s1": "t9"})["translations"]
    assert "t9" in terms["text"].split()
    (begun,) = translated(served, text="s1 s2", prefix="t7 t8")["translations"]
    assert begun["text"].startswith("t7 t8")
    drawn = [translated(served, text="s1 s2", temperature=2, seed=n) for n in (1, 1)]
    assert drawn[0] == drawn[1]
    (drawn,) = translated(served, text="s1 s2", temperature=2, alternatives=3)["translations"]
    assert drawn["alternatives"]


def test_a_long_text_is_streamed(served: RunningServer) -> None:
    text = " ".join(f"s{n % 9} s2 s3." for n in range(300))
    answer = served.post("/v1/translate/stream", {"text": text})
    events = [
        (event.removeprefix("event: "), json.loads(data.removeprefix("data: ")))
        for event, data in (each.split("\n") for each in answer.body.decode().strip().split("\n\n"))
    ]
    assert [name for name, _ in events] == ["part"] * len(windows(text)) + ["done"]
    assert len(windows(text)) > 2
    whole = translated(served, text=text)["translations"][0]["text"]
    assert "".join(found["text"] for name, found in events if name == "part") == whole


def test_windows_are_the_text() -> None:
    for text in ("", " ", "a\n\nb", "x" * 5000, "It is so. " * 500, "See {this. It is} so. " * 500):
        found = windows(text)
        assert "".join(found) == text
        assert "so" not in text or all(len(part) < 2 * WINDOW + 100 for part in found)
        assert all(part.count("{") == part.count("}") for part in found)


def test_scores_links_and_labels(served: RunningServer, folder: Path) -> None:
    translator = load_translator(folder, device="cpu")
    body = {"model": "model", "sources": ["s1 s2"], "targets": ["t3 t4"]}
    (score,) = served.post("/v1/score", body).json["scores"]
    (expected,) = translator.score(body["sources"], body["targets"])
    assert score["score"] == pytest.approx(expected.score)
    assert score["tokens"] == ["t3", "t4"]
    (links,) = served.post("/v1/align", body).json["alignments"]
    assert links
    (labels,) = served.post("/v1/classify", {"texts": ["a b"], "top": 5}).json["results"]
    assert sum(each["probability"] for each in labels["labels"]) == pytest.approx(1)


def test_the_models(served: RunningServer) -> None:
    one, other = served.get("/v1/models").json
    assert (one["name"], one["task"]) == ("model", "translation")
    assert (other["name"], other["task"]) == ("texts", "classification")
    assert other["labels"]


def upload(server: RunningServer, name: str, content: bytes) -> dict[str, Any]:
    """Upload a document, and wait until it is translated."""
    boundary = "xyz"
    head = f'--{boundary}\r\ncontent-disposition: form-data; name="file"; filename="{name}"\r\n\r\n'
    body = head.encode() + content + f"\r\n--{boundary}--\r\n".encode()
    headers = {"content-type": f"multipart/form-data; boundary={boundary}"}
    answer = server.ask("POST", "/v1/documents", body, headers)
    if answer.status != 202:
        return answer.json
    state = answer.json
    while state["state"] in ("waiting", "translating"):
        time.sleep(0.05)
        state = server.get(f"/v1/documents/{state['id']}").json
    return state


def test_documents(served: RunningServer, folder: Path) -> None:
    state = upload(served, "page.md", b"# s1 s2\n\ns3 s4\n")
    assert (state["state"], state["texts"]) == ("done", 2)
    answer = served.get(f"/v1/documents/{state['id']}/result")
    expected = load_translator(folder, device="cpu").translate_text(
        "# s1 s2\n\ns3 s4\n", format="markdown"
    )
    assert answer.body.decode() == expected
    assert "page.md" in answer.headers["content-disposition"]
    assert served.ask("DELETE", f"/v1/documents/{state['id']}", None, {}).status == 204
    assert served.get(f"/v1/documents/{state['id']}").status == 404


def test_wrong_documents(served: RunningServer) -> None:
    assert "error" in upload(served, "page.exe", b"x")
    state = upload(served, "page.json", b"{")
    assert state["state"] == "error"
    assert served.get(f"/v1/documents/{state['id']}/result").status == 400
    for key in ("x", "0" * 32, "..%2f..%2fetc%2fpasswd", "%00"):
        assert served.get(f"/v1/documents/{key}").status == 404


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/v1/translate", {}, 400),
        ("/v1/translate", {"text": 1}, 400),
        ("/v1/translate", {"text": []}, 400),
        ("/v1/translate", {"text": "s1", "unknown": 1}, 400),
        ("/v1/translate", {"text": "s1", "model": "../model"}, 404),
        ("/v1/translate", {"text": "s1", "source": "xx", "target": "yy"}, 404),
        ("/v1/translate", {"text": "s1", "beam_size": 21}, 400),
        ("/v1/translate", {"text": "{", "format": "json"}, 400),
        ("/v1/translate", {"text": "s1", "glossary": {" ": " "}}, 400),
        ("/v1/translate", {"text": "s" * 100_001}, 413),
        ("/v1/translate/stream", {"text": ["s1"]}, 400),
        ("/v1/score", {"sources": ["s1"], "targets": ["t1", "t2"]}, 400),
        ("/v1/classify", {"texts": ["s1"], "model": "model"}, 404),
        ("/no/such/path", {}, 404),
    ],
)
def test_wrong_requests(served: RunningServer, path: str, body: Any, status: int) -> None:
    answer = served.post(path, body)
    assert answer.status == status
    assert "error" in answer.json


def test_texts_of_strangers(served: RunningServer) -> None:
    hostile = ["\0", "\ud800", "\u202e", "a\r\nb", "<script>", "⟦1⟧", "%s%n", "'; --", "🏴‍☠️" * 50]
    hostile += ["(" * 5000, "a" * 50_000, "\n" * 1000, "{{{" * 100, "&#0;", "\ufeff", "1" * 400]
    for text in hostile:
        for form in ("text", "html", "markdown"):
            answer = served.post("/v1/translate", {"text": text, "format": form})
            assert answer.status in (200, 400), (text, answer.body)


def test_ready_metrics_and_headers(served: RunningServer) -> None:
    assert served.get("/health").json == {"status": "ok"}
    assert served.get("/ready").status == 200
    text = served.get("/metrics").body.decode()
    assert 'clearhead_source_tokens_total{model="model"}' in text
    assert "s1" not in text
    headers = served.get("/").headers
    assert "default-src 'none'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"


def test_keys(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "keys").write_text(f"# ours\nanna: {KEY}\n")
    body = {"text": "s1"}
    with running(folder, storage=tmp_path / "store", keys=str(tmp_path / "keys")) as server:
        assert server.post("/v1/translate", body).status == 401
        assert server.post("/v1/translate", body, Authorization="Bearer wrong").status == 401
        assert server.post("/v1/translate", body, Authorization=f"Bearer {KEY}").status == 200
        assert server.get("/metrics").status == 401
        assert server.get("/health").status == 200


def test_the_rate_of_a_client(folder: Path, tmp_path: Path) -> None:
    with running(folder, storage=tmp_path, rate=3) as server:
        answers = [server.post("/v1/translate", {"text": "s1"}) for _ in range(5)]
    assert [each.status for each in answers] == [200, 200, 200, 429, 429]
    assert int(answers[-1].headers["retry-after"]) >= 1


def test_a_strange_name(folder: Path, tmp_path: Path) -> None:
    with running(folder, storage=tmp_path, hosts=("127.0.0.1", "[::1]")) as server:
        assert server.get("/health").status == 200
        for name, status in {"evil.example": 403, "[::1]:80": 200, "127.0.0.1.evil": 403}.items():
            assert server.get("/health", Host=name).status == status


def test_a_large_body(folder: Path, tmp_path: Path) -> None:
    with running(folder, storage=tmp_path, body=1000) as server:
        assert server.post("/v1/translate", {"text": "s" * 2000}).status == 413
        assert server.post("/v1/translate", {"text": "s1"}).status == 200


def connected(server: RunningServer) -> socket.socket:
    found = urlsplit(server.url)
    assert found.hostname
    assert found.port
    return socket.create_connection((found.hostname, found.port), timeout=20)


def test_a_body_that_never_ends(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "SLOWEST", 0.3)
    head = b"POST /v1/translate HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
    with running(folder, storage=tmp_path, body=10_000) as server:
        with connected(server) as slow:
            slow.sendall(head + b"content-length: 100\r\n\r\n{")
            assert slow.recv(100).startswith(b"HTTP/1.1 408")
        with connected(server) as endless:
            endless.sendall(head + b"transfer-encoding: chunked\r\n\r\n")
            chunk = b"1000\r\n" + b" " * 4096 + b"\r\n"
            for _ in range(4):
                endless.sendall(chunk)
            assert endless.recv(100).startswith(b"HTTP/1.1 413")
        assert server.post("/v1/translate", {"text": "s1"}).status == 200
