"""The API of DeepL, as its official client uses it."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import deepl
import pytest
from deepl.exceptions import (
    AuthorizationException,
    DeepLException,
    DocumentNotReadyException,
    DocumentTranslationException,
    GlossaryNotFoundException,
    TooManyRequestsException,
)

from clearhead.api import Translator, load_translator
from clearhead.serve import deepl as served_deepl
from hostile import HOSTILE
from running_server import RunningServer, running

KEYS = {"anna": "0123456789abcdef", "ben": "fedcba9876543210"}
GERMAN = "Der Hund ist hier, und die Katze auch."


@contextmanager
def connected(server: RunningServer, key: str = "any") -> Iterator[deepl.DeepLClient]:
    client = deepl.DeepLClient(key, server_url=server.url)
    try:
        yield client
    finally:
        client.close()


@pytest.fixture(scope="module")
def client(served: RunningServer) -> Iterator[deepl.DeepLClient]:
    with connected(served) as found:
        yield found


@pytest.fixture(scope="module")
def translator(translators: tuple[Path, Path]) -> Translator:
    return load_translator(translators[0], device="cpu")


def text_of(client: deepl.DeepLClient, text: str, **options: Any) -> str:
    found = client.translate_text(text, source_lang="EN", target_lang="DE", **options)
    assert isinstance(found, deepl.TextResult)
    return found.text


def test_texts(
    client: deepl.DeepLClient, translator: Translator, translators: tuple[Path, Path]
) -> None:
    back = load_translator(translators[1], device="cpu")
    assert text_of(client, "s1 s2. s3") == translator.translate_text("s1 s2. s3")
    options = {"context": "s9", "formality": "prefer_more", "preserve_formatting": True}
    texts = [GERMAN, "", f"{GERMAN} s1"]
    found = client.translate_text(texts, target_lang="EN-US", model_type="prefer_quality_optimized")
    assert isinstance(found, list)
    assert [each.text for each in found] == [back.translate_text(text) for text in texts]
    assert {each.detected_source_lang for each in found} == {"DE"}
    assert [each.billed_characters for each in found] == list(map(len, texts))
    assert text_of(client, "s1", **options) == text_of(client, "s1")


def test_sentences_are_divided_as_asked(client: deepl.DeepLClient, translator: Translator) -> None:
    text = "s1 s2. s3\ns4"
    one, s4, first, rest = (
        translator.translate_text(part) for part in ("s1 s2. s3", "s4", "s1 s2.", "s3 s4")
    )
    assert text_of(client, text) == f"{one}\n{s4}"
    assert text_of(client, text, split_sentences="1") == f"{one}\n{s4}"
    assert text_of(client, text, split_sentences="nonewlines") == f"{first} {rest}"
    ((whole, *_),) = translator.hypotheses(["s1 s2. s3 s4"])
    assert text_of(client, text, split_sentences="0") == whole.text


def test_tags(client: deepl.DeepLClient, translator: Translator) -> None:
    xml = "<d><p>s1 &amp; s2</p><p>s3 <b>s4</b> <x>s5</x></p></d>"
    found = text_of(client, xml, tag_handling="xml", ignore_tags="x")
    first, second = found.removeprefix("<d><p>").removesuffix("</p></d>").split("</p><p>")
    assert first == translator.translate_text("s1 & s2").replace("&", "&amp;")
    assert "<b>" in second
    assert "<x>s5</x>" in second
    html = text_of(client, "<p>s1 <b>s2</b><br>s3</p>", tag_handling="html", ignore_tags=["b"])
    assert "<b>s2</b>" in html
    split = text_of(client, "s1 <k/> s2", tag_handling="xml", splitting_tags=["k"])
    assert split == " <k/> ".join(map(translator.translate_text, ("s1", "s2")))
    inline = text_of(client, "<a>s1</a><a>s2</a>", tag_handling="xml", outline_detection=False)
    assert inline.count("<a>") == 2
    with pytest.raises(DeepLException, match="XML"):
        text_of(client, "<a>", tag_handling="xml")


def test_languages_and_usage(client: deepl.DeepLClient) -> None:
    sources, targets = client.get_source_languages(), client.get_target_languages()
    assert [(each.code, each.name) for each in sources] == [("EN", "English"), ("DE", "German")]
    assert [each.code for each in targets] == ["DE", "EN-GB", "EN-US"]
    assert not any(each.supports_formality for each in targets)
    before = client.get_usage().character
    text_of(client, "s1 s2")
    after = client.get_usage().character
    assert before.valid
    assert (before.count or 0) + 5 == after.count
    assert not after.limit_reached
    pairs = [(each.source_lang, each.target_lang) for each in client.get_glossary_languages()]
    assert pairs == [("en", "de"), ("de", "en")]


def test_glossaries(client: deepl.DeepLClient, served: RunningServer) -> None:
    made = client.create_glossary("ours", "EN", "DE", {"s1": "t9", "s2 s3": "t8"})
    assert (made.name, made.entry_count, made.ready) == ("ours", 2, True)
    assert abs(made.creation_time.timestamp() - time.time()) < 60
    assert client.get_glossary_entries(made) == {"s1": "t9", "s2 s3": "t8"}
    assert client.get_glossary(made.glossary_id).source_lang == "EN"
    assert "t9" in text_of(client, "s1 s4", glossary=made).split()
    found = client.translate_text_with_glossary("s2 s3", made)
    assert "t8" in str(found).split()
    other = client.create_glossary_from_csv("csv", "en", "de", 's1,"t2"\ns4,t5,en,de\n')
    both = text_of(client, "s1 s4", glossary_ids=[made, other]).split()
    assert {"t9", "t5"} <= {*both}
    assert client.get_glossary_entries(other) == {"s1": "t2", "s4": "t5"}
    with pytest.raises(DeepLException, match="glossary"):
        client.translate_text(
            "s1", source_lang="DE", target_lang="EN-US", glossary=made.glossary_id
        )
    listed = {each.glossary_id for each in client.list_glossaries()}
    assert listed == {made.glossary_id, other.glossary_id}
    for each in (made, other):
        client.delete_glossary(each)
    with pytest.raises(GlossaryNotFoundException):
        client.get_glossary(made.glossary_id)
    with pytest.raises(DeepLException, match="glossary"):
        text_of(client, "s1", glossary=made)
    assert not client.list_glossaries()
    fields = {"name": "x", "source_lang": "en", "target_lang": "de"}
    for entries in ("", "s1", "s1\tt1\tx", "s1\tt1\ns1\tt2", "\tt1", "s1\tt1\n" * 50_000):
        answer = served.post("/v2/glossaries", {**fields, "entries": entries})
        assert answer.status == 400
        assert answer.json["message"]
    large = "\n".join(f"s{n}\tt{n}" for n in range(20_000))
    assert served.post("/v2/glossaries", {**fields, "entries": large}).status == 413


def test_the_number_of_glossaries_is_limited(
    client: deepl.DeepLClient, served: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served_deepl, "MOST_GLOSSARIES", 1)
    made = client.create_glossary("ours", "EN", "DE", {"s1": "t9"})
    fields = {"name": "x", "source_lang": "en", "target_lang": "de", "entries": "s1\tt1"}
    assert served.post("/v2/glossaries", fields).status == 429
    client.delete_glossary(made)


def test_documents(client: deepl.DeepLClient, translator: Translator) -> None:
    text = "# s1 s2\n\ns3\n"
    handle = client.translate_document_upload(text, filename="page.md", target_lang="DE")
    while not (status := client.translate_document_get_status(handle)).done:
        assert status.ok
        time.sleep(0.05)
    assert status.billed_characters == len("s1 s2") + len("s3")
    found = io.BytesIO()
    client.translate_document_download(handle, found)
    assert found.getvalue().decode() == translator.translate_text(text, format="markdown")
    wrong = deepl.DocumentHandle(handle.document_id, "0" * len(handle.document_key))
    with pytest.raises(DeepLException, match="Not found"):
        client.translate_document_get_status(wrong)
    with pytest.raises(DeepLException, match="Not found"):
        client.translate_document_download(wrong, io.BytesIO())


def test_documents_that_cannot_be_translated(
    client: deepl.DeepLClient, served: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deepl.translator.time.sleep", lambda seconds: None)
    with pytest.raises(DocumentTranslationException):
        client.translate_document("{", io.BytesIO(), filename="x.json", target_lang="DE")
    with pytest.raises(DeepLException, match="format"):
        client.translate_document_upload("s1", filename="x.exe", target_lang="DE")
    with pytest.raises(DeepLException, match="format"):
        client.translate_document_upload(
            "s1", filename="x.txt", output_format="docx", target_lang="DE"
        )
    waiting = {"state": "waiting", "process": served.server.store.process, "error": None}
    key = served.server.store.add("document", waiting, {})
    handle = deepl.DocumentHandle(key[:16], key[16:])
    monkeypatch.setattr("deepl.http_client.max_network_retries", 0)
    with pytest.raises(DocumentNotReadyException):
        client.translate_document_download(handle, io.BytesIO())


def test_urlencoded(served: RunningServer, translator: Translator) -> None:
    fields = [("text", "s1"), ("text", "s2 für"), ("target_lang", "DE"), ("source_lang", "en")]
    fields += [("tag_handling", "xml"), ("ignore_tags", "a,b"), ("outline_detection", "0")]
    headers = {"content-type": "application/x-www-form-urlencoded"}
    answer = served.ask("POST", "/v2/translate", urlencode(fields).encode(), headers)
    found = [each["text"] for each in answer.json["translations"]]
    assert found == [translator.translate_text(text) for text in ("s1", "s2 für")]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"text": []},
        {"text": [1]},
        {"text": {"a": "s1"}},
        {"target_lang": "JA"},
        {"source_lang": "JA"},
        {"source_lang": 1},
        {"split_sentences": "2"},
        {"tag_handling": "rtf"},
        {"ignore_tags": [["x"]]},
        {"glossary_id": 5},
    ],
)
def test_wrong_requests(served: RunningServer, body: dict[str, Any]) -> None:
    answer = served.post(
        "/v2/translate", {"text": ["s1"], "target_lang": "DE", **body} if body else {}
    )
    assert answer.status == 400
    assert isinstance(answer.json["message"], str)


def test_texts_of_strangers(served: RunningServer) -> None:
    for options in ({}, {"split_sentences": "0"}, {"tag_handling": "html", "ignore_tags": ["z"]}):
        body = {"text": list(HOSTILE), "target_lang": "DE", "source_lang": "EN", **options}
        assert served.post("/v2/translate", body).status == 200
    for text in (*HOSTILE[::5], "<" * 5000, "<a>" * 5000 + "</a>" * 5000, "<![CDATA[]]>", "&#0;"):
        body = {"text": text, "target_lang": "DE", "source_lang": "EN", "tag_handling": "xml"}
        assert served.post("/v2/translate", body).status in (200, 400)


def test_keys(translators: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("".join(f"{name}: {key}\n" for name, key in KEYS.items()))
    storage = tmp_path / "store"
    with running(*translators, storage=storage, keys=str(tmp_path / "keys")) as server:
        with connected(server, "wrong") as client, pytest.raises(AuthorizationException):
            client.get_usage()
        with connected(server, KEYS["anna"]) as anna, connected(server, KEYS["ben"]) as ben:
            assert text_of(anna, "s1") == text_of(ben, "s1")
            made = anna.create_glossary("ours", "en", "de", {"s1": "t1"})
            assert [each.name for each in anna.list_glossaries()] == ["ours"]
            assert not ben.list_glossaries()
            with pytest.raises(GlossaryNotFoundException):
                ben.get_glossary_entries(made)
            with pytest.raises(DeepLException, match="glossary"):
                text_of(ben, "s1", glossary=made.glossary_id)


def test_a_busy_server(
    translators: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deepl.http_client.max_network_retries", 0)
    with (
        running(*translators, storage=tmp_path, queue=1) as server,
        connected(server) as client,
        server.server.models.services["en-de"].ticket(),
        pytest.raises(TooManyRequestsException),
    ):
        text_of(client, "s1")
