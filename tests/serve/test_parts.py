"""Tests of the parts of a server: keys, the store, the choice of a model."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from clearhead.api.loading import LoadOptions
from clearhead.api.service import Limits
from clearhead.errors import ConfigError, DataError
from clearhead.serve.documents import beginning, translated_name
from clearhead.serve.models import Models, UnknownError
from clearhead.serve.settings import Keys, ServeSettings
from clearhead.serve.store import KEPT, FullError, Store
from exported_models import random_folder

KEY = "0123456789abcdef"


def test_keys(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text(f"# ours\n\nanna: {KEY}\n{KEY}x\n")
    keys = Keys(str(path))
    assert keys.name_of(KEY) == "anna"
    assert str(keys.name_of(f"{KEY}x")).startswith("key ")
    assert keys.name_of("") is None
    assert keys.name_of("\ud800") is None
    assert not Keys()


@pytest.mark.parametrize("content", ["", "# nothing\n", "anna: short\n", f"a: {KEY}\na: {KEY}x\n"])
def test_wrong_keys(tmp_path: Path, content: str) -> None:
    (tmp_path / "keys").write_text(content)
    with pytest.raises(ConfigError):
        Keys(str(tmp_path / "keys"))
    with pytest.raises(DataError):
        Keys(str(tmp_path / "none"))


def test_settings_travel_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = ServeSettings(("a", "b"), "store", {"threads": 2}, rate=3)
    with monkeypatch.context() as patch:
        patch.setenv("CLEARHEAD_SERVE", "")
        settings.to_environment()
        assert ServeSettings.from_environment() == settings


def test_a_store_keeps_entries_and_files(tmp_path: Path) -> None:
    store = Store(tmp_path, 1000)
    key = store.add("document", {"a": 1}, {"result": b"x"})
    assert Store(tmp_path, 1000).entry("document", key) == {"a": 1}
    assert store.read("document", key, "result") == b"x"
    assert list(store.entries("document")) == [(key, {"a": 1})]
    store.remove("document", key)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("key", ["", "..", "/etc/passwd", "0" * 32, "../" + "0" * 32, "a\0"])
def test_a_store_has_no_other_files(tmp_path: Path, key: str) -> None:
    store = Store(tmp_path, 1000)
    with pytest.raises(UnknownError):
        store.entry("document", key)
    with pytest.raises(UnknownError):
        store.remove("document", key)


def test_a_store_is_bounded_and_forgets_old_documents(tmp_path: Path) -> None:
    store = Store(tmp_path, 100)
    key = store.add("document", {}, {"result": b"x" * 90})
    with pytest.raises(FullError):
        store.add("document", {}, {"result": b"x" * 90})
    old = time.time() - KEPT - 1
    for path in tmp_path.iterdir():
        os.utime(path, (old, old))
    store.add("document", {}, {"result": b"x" * 90})
    with pytest.raises(UnknownError):
        store.entry("document", key)


def test_a_store_knows_whether_a_process_runs(tmp_path: Path) -> None:
    one, other = Store(tmp_path, 1000), Store(tmp_path, 1000)
    assert other.runs(one.process)
    assert one.runs(one.process)
    one.close()
    assert not other.runs(one.process)
    assert not other.runs(one.process)  # now there is no file of it


def test_the_beginning_of_a_document(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.docx", "w") as archive:
        archive.writestr("word/document.xml", "<w:p a='b'><w:t>Das ist</w:t></w:p>")
    assert beginning((tmp_path / "a.docx").read_bytes(), "docx", "a").split() == ["Das", "ist"]
    assert beginning("für".encode("utf-16"), "text", "a") == "für"
    with pytest.raises(DataError):
        beginning(b"PK", "docx", "a")


def test_a_worker_that_died_has_no_waiting_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = (
        "from clearhead.serve.metrics import Metrics; import os\n"
        "metrics = Metrics(); metrics.waiting('a', 3); text = metrics.text().decode()\n"
        "print(next(line for line in text.splitlines() if line.startswith('clearhead_waiting')))"
    )
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    for _ in range(2):
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stdout == 'clearhead_waiting_requests{model="a"} 3.0\n'


def test_names_of_translated_documents() -> None:
    assert translated_name("letter.docx", "de") == "letter.de.docx"
    assert translated_name("a/../b\\c.txt", "de") == "a_.._b_c.de.txt"
    assert translated_name("page.html", "") == "page.html"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Models]:
    folder = tmp_path_factory.mktemp("models")
    languages = {"one": ("en", "de"), "two": ("en", "pt-BR"), "three": ("", "")}
    found = [str(random_folder(folder / name, languages=pair)) for name, pair in languages.items()]
    made = Models(found, LoadOptions(), Limits(), lambda *_: None)
    yield made
    made.close(1)


def test_a_model_is_found_by_its_name_or_its_languages(models: Models) -> None:
    assert list(models.pairs) == [("en", "de"), ("en", "pt-BR")]
    assert models.translating("EN", "DE-AT")[0] == "one"
    assert models.translating("en", "pt")[0] == "two"
    assert models.named(None, "translation")[0] == "one"
    assert models.named("three", "translation")[0] == "three"
    with pytest.raises(UnknownError):
        models.translating("de", "en")
    for name in ("four", "../one"):
        with pytest.raises(UnknownError):
            models.named(name, "translation")
    with pytest.raises(UnknownError):
        models.named(None, "classification")
