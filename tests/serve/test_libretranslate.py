"""The API of LibreTranslate, as its clients and curl use it."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from deep_translator import LibreTranslator
from libretranslatepy import LibreTranslateAPI

from clearhead.api import Translator, load_translator
from hostile import HOSTILE
from running_server import RunningServer, running

KEY = "0123456789abcdef"


@pytest.fixture(scope="module")
def translator(translators: tuple[Path, Path]) -> Translator:
    return load_translator(translators[0], device="cpu")


def test_libretranslatepy(served: RunningServer, translator: Translator) -> None:
    client = LibreTranslateAPI(served.url, api_key="any")
    assert client.translate("s1 s2. s3", "en", "de") == translator.translate_text("s1 s2. s3")
    detected = client.detect("Der Hund ist hier, und die Katze auch.")
    assert detected[0]["language"] == "de"
    assert 50 < detected[0]["confidence"] <= 100
    assert client.languages() == [
        {"code": "en", "name": "English", "targets": ["de"]},
        {"code": "de", "name": "German", "targets": ["en"]},
    ]


def test_deep_translator(served: RunningServer, translator: Translator) -> None:
    client = LibreTranslator("en", "de", api_key="any", custom_url=f"{served.url}/")
    texts = ["s1 s2", "s3 & s4?"]
    assert client.translate_batch(texts) == [translator.translate_text(text) for text in texts]


NODE = """
import translate from "translate";
import libre from "libretranslate-ts";
const [url, text] = process.argv.slice(2);
translate.engine = "libre";
translate.url = url + "/translate";
const client = libre.libreTranslate;
client.setApiEndpoint(url);
console.log(JSON.stringify({
  translate: await translate(text, { from: "en", to: "de" }),
  libre: await client.translate(text, "en", "de", 2),
  detected: await client.detect("Der Hund ist hier, und die Katze auch."),
  languages: await client.listLanguages(),
  wrong: await client.translate(text, "en", "xx"),
}));
"""


@pytest.mark.slow
def test_clients_of_node(served: RunningServer, translator: Translator, tmp_path: Path) -> None:
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("there is no Node")
    packages = ["translate@3.1.0", "libretranslate-ts@0.5.12"]
    command = [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", *packages]
    installed = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    if installed.returncode:
        pytest.skip(f"npm cannot install: {installed.stderr[-200:]}")
    (tmp_path / "ask.mjs").write_text(NODE)
    done = subprocess.run(
        [node, "ask.mjs", served.url, "s1 s2"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found, expected = json.loads(done.stdout), translator.translate_text("s1 s2")
    assert found["translate"] == found["libre"]["translatedText"] == expected
    assert len(found["libre"]["alternatives"]) == 2
    assert found["detected"]["language"] == "de"
    assert [each["code"] for each in found["languages"]] == ["en", "de"]
    assert "xx" in found["wrong"]["error"]


def curl(*words: str) -> Any:
    command = shutil.which("curl")
    if command is None:
        pytest.skip("there is no curl")
    done = subprocess.run(
        [command, "-sS", *words], capture_output=True, text=True, timeout=60, check=True
    )
    return json.loads(done.stdout)


FIELDS = {"q": "s1 für s2 & s3", "source": "en", "target": "de", "api_key": "any"}


@pytest.mark.parametrize(
    "words",
    [
        ["-H", "content-type: application/json", "-d", json.dumps(FIELDS)],
        ["-H", "content-type: application/json; charset=utf-8", "-d", json.dumps(FIELDS)],
        [
            word
            for name, value in FIELDS.items()
            for word in ("--data-urlencode", f"{name}={value}")
        ],
        ["-d", "q=s1 für s2 %26 s3", "-d", "source=en&target=de"],
        [w for name, value in FIELDS.items() for w in ("-F", f"{name}={value}")],
        [
            *("-G", "-X", "POST"),
            *(w for name, value in FIELDS.items() for w in ("--data-urlencode", f"{name}={value}")),
        ],
        ["--url-query", "source=en", "--url-query", "target=de", "-d", "q=s1 für s2 %26 s3"],
    ],
    ids="json charset urlencoded raw multipart query both".split(),
)
def test_curl_in_every_encoding(
    served: RunningServer, translator: Translator, words: list[str]
) -> None:
    found = curl(f"{served.url}/translate", *words)
    assert found == {"translatedText": translator.translate_text(FIELDS["q"])}


def test_lists_markup_alternatives_and_detection(
    served: RunningServer, translators: tuple[Path, Path]
) -> None:
    back = load_translator(translators[1], device="cpu")
    texts = ["Der Hund ist hier, und die Katze auch. s1", "", "<b>Das</b> ist gut für die Stadt."]
    body = {"q": texts, "source": "auto", "target": "en", "format": "html", "alternatives": 2}
    found = served.post("/translate", {**body, "api_key": None}).json
    assert found["translatedText"] == [back.translate_text(x, format="html") for x in texts]
    assert [each["language"] for each in found["detectedLanguage"]] == ["de"] * 3
    assert len(found["alternatives"]) == 3
    for best, others in zip(found["translatedText"], found["alternatives"], strict=True):
        assert best not in others
    one = served.post(
        "/translate", {**FIELDS, "source": "auto", "q": "This is the dog of the man."}
    )
    assert set(one.json) == {"translatedText", "detectedLanguage"}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/translate", {}),
        ("/translate", []),
        ("/translate", {**FIELDS, "q": 5}),
        ("/translate", {**FIELDS, "q": None}),
        ("/translate", {**FIELDS, "q": []}),
        ("/translate", {**FIELDS, "q": ["s1", 1]}),
        ("/translate", {**FIELDS, "q": "\ud800"}),
        ("/translate", {**FIELDS, "q": "s" * 100_001}),
        ("/translate", {**FIELDS, "source": "xx"}),
        ("/translate", {**FIELDS, "target": "en"}),
        ("/translate", {**FIELDS, "source": "auto", "target": "xx"}),
        ("/translate", {**FIELDS, "format": "json"}),
        ("/translate", {**FIELDS, "alternatives": "many"}),
        ("/translate", {**FIELDS, "alternatives": 11}),
        ("/detect", {}),
        ("/translate_file", {"file": "x", "source": "en", "target": "de"}),
    ],
)
def test_wrong_requests(served: RunningServer, path: str, body: Any) -> None:
    answer = served.post(path, body)
    assert answer.status == 400
    assert isinstance(answer.json["error"], str)


def test_bodies_that_are_not_readable(served: RunningServer) -> None:
    json_, form = "application/json", "multipart/form-data"
    for kind, body in [
        (json_, b"{"),
        (json_, b"\xff"),
        (json_, b"[" * 100_000),
        (json_, b'{"q": 1e999999, "source": ' + b"9" * 10_000 + b"}"),
        (form, b"x"),
        (f"{form}; boundary=x", b"x"),
        (f"{form}; boundary=x; charset=idna", b"--x\r\ncontent-disposition: form-data\r\n\r\n"),
        ("application/x-www-form-urlencoded", b"q&" * 10_000),
        ("text/plain", b"q=s1"),
        ("", b"\0"),
    ]:
        answer = served.ask("POST", "/translate", body, {"content-type": kind})
        assert answer.status == 400, (kind, body[:50])
        assert answer.json["error"]


def test_texts_of_strangers(served: RunningServer) -> None:
    for form in ("text", "html"):
        answer = served.post("/translate", {**FIELDS, "q": list(HOSTILE), "format": form})
        assert answer.status == 200
        assert len(answer.json["translatedText"]) == len(HOSTILE)


def test_a_document(served: RunningServer, translator: Translator, tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("# s1 s2\n\ns3\n")
    fields = ["-F", f"file=@{tmp_path}/page.md", "-F", "source=auto", "-F", "target=de"]
    url = curl(f"{served.url}/translate_file", *fields)["translatedFileUrl"]
    assert url.startswith(f"{served.url}/download_file/")
    assert url.endswith(".md")
    answer = served.get(url.removeprefix(served.url))
    expected = translator.translate_text("# s1 s2\n\ns3\n", format="markdown")
    assert answer.body.decode() == expected
    assert "page.de.md" in answer.headers["content-disposition"]
    for name in ("x", "..%2fentry", f"{'0' * 32}.md"):
        assert served.get(f"/download_file/{name}").status == 404
    (tmp_path / "page.json").write_text("{")
    for name in ("page.json", "page.exe"):
        wrong = curl(f"{served.url}/translate_file", "-F", f"file=x;filename={name}", *fields[2:])
        assert isinstance(wrong["error"], str)


def test_what_a_page_asks_for(served: RunningServer) -> None:
    found = served.get("/frontend/settings").json
    assert found["language"]["source"] == {"code": "en", "name": "English"}
    assert not found["keyRequired"]
    assert ".docx" in found["supportedFilesFormat"]
    assert not found["suggestions"]
    assert served.post("/suggest", {"q": "s1", "s": "t1"}).status == 403
    assert "/translate" in served.get("/spec").json["paths"]


def test_keys(translators: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "keys").write_text(KEY)
    with running(*translators, storage=tmp_path / "store", keys=str(tmp_path / "keys")) as server:
        for key in (None, "", "wrong", "é\0"):
            answer = server.post("/translate", {**FIELDS, "api_key": key})
            assert answer.status == 403
            assert answer.json["error"]
        assert server.post("/detect", {"q": "s1"}).status == 403
        assert LibreTranslateAPI(server.url, KEY).translate("s1", "en", "de")
        assert server.get("/languages").status == 200
        assert server.get("/frontend/settings").json["keyRequired"]


def test_refused_requests_come_with_a_time_to_wait(
    translators: tuple[Path, Path], tmp_path: Path
) -> None:
    with running(*translators, storage=tmp_path, rate=1) as server:
        first, second = (server.post("/translate", FIELDS) for _ in range(2))
    assert (first.status, second.status) == (200, 429)
    assert int(second.headers["retry-after"]) >= 1
    assert isinstance(second.json["error"], str)
