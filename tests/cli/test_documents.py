"""`clearhead translate` with documents, through a small model."""

from __future__ import annotations

import io
import json
import re
import shutil
import zipfile
from pathlib import Path

import pytest

from clearhead import api
from fake_translator import run
from model_folders import change_tree
from small_runs import small_run

PO = 'msgid ""\nmsgstr "Language: \\n"\n\nmsgid "a b"\nmsgstr ""\n\nmsgid "c"\nmsgstr "d"\n'
FAST = ("--beam-size", "1", "--device", "cpu")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    config = small_run(tmp_path_factory.mktemp("run"), max_steps=2)
    api.train(config, observers=())
    return config.folder


@pytest.fixture(autouse=True)
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_document_and_what_is_left_as_it_is(model: str) -> None:
    Path("app.po").write_text(PO)
    code, out, err = run("translate", model, "app.po", "-o", "app.de.po", *FAST)
    assert (code, out) == (0, "")
    assert "1 texts translated, 1 translated already" in err
    written = Path("app.de.po").read_text()
    assert 'msgstr "d"' in written
    assert written.count('msgstr ""') == 0


def test_a_memory_comes_before_the_model(model: str) -> None:
    Path("app.po").write_text(PO + '\nmsgid "%s. b\\nc."\nmsgstr ""\n')
    Path("memory.po").write_text('msgid ""\nmsgstr ""\n\nmsgid "%d. b\\nc."\nmsgstr "d %d.\\ne."\n')
    words = ("translate", model, "app.po", "-o", "app.de.po", "--memory", "memory.po", *FAST)
    _, _, err = run(*words)
    assert "2 texts translated, 1 of them by the memory, 1 translated already" in err
    assert '"d %s.\\n"\n"e."' in Path("app.de.po").read_text()
    _, out, _ = run(*words, "--json")
    assert json.loads(out)["remembered"] == 1
    words = ("translate", model, "--memory", "memory.po", "--json", *FAST)
    _, out, _ = run(*words, stdin="%i. b\\nc.\n")
    (found,) = json.loads(out)["hypotheses"]
    assert (found["text"], found["match"], found["score"]) == ("d %i.\\ne.", 1.0, None)
    code, _, err = run("translate", model, "--memory", "app.txt", *FAST, stdin="a\n")
    assert code == 3
    assert "Traceback" not in err


def test_a_folder_of_documents_in_json(model: str) -> None:
    Path("in/sub").mkdir(parents=True)
    Path("in/a.po").write_text(PO)
    Path("in/sub/b.html").write_text("<p>a <b>b</b></p>")
    Path("in/c.png").write_bytes(b"\x89PNG")
    Path("in/d.json").write_text("{")
    code, out, err = run("translate", model, "in", "-o", "out", "--json", *FAST)
    assert code == 3  # of the document that could not be read; the others are translated
    assert "in/d.json" in err
    found = [json.loads(line) for line in out.splitlines()]
    assert [each["document"] for each in found] == ["in/a.po", "in/sub/b.html"]
    assert [each["translated"] for each in found] == [1, 1]
    assert sorted(str(path) for path in Path("out").rglob("*.*")) == ["out/a.po", "out/sub/b.html"]


@pytest.mark.parametrize(
    "words", [("-",), ("-o", "out.html"), ("-i", "in.html"), ("in.html", "-o", "out.html")]
)
def test_a_document_from_and_to_pipes_and_files(model: str, words: tuple[str, ...]) -> None:
    Path("in.html").write_text("<p>a</p><br>")
    words = (*words, "--format", "html", *FAST)
    code, out, _ = run("translate", model, *words, stdin="<p>a</p><br>")
    assert code == 0
    assert (out or Path("out.html").read_text()).endswith("</p><br>")


def with_confidence(model: str, folder: str) -> str:
    """A copy of a model folder with an estimate in which only the length counts."""
    shutil.copytree(model, folder)
    estimate = {"full_length": 5.0, "bias": 5.0, "weights": [0.0, 1.0, 0.0]}
    change_tree(Path(folder), "scores.json", lambda tree: tree.update(confidence=estimate))
    return folder


def test_the_least_confident_places_are_printed_and_all_are_in_json(model: str) -> None:
    sure = with_confidence(model, "sure")
    lengths = [3, 9, 1, 7, 2, 8, 4, 6]
    Path("in.txt").write_text("\n\n".join("ab " * length for length in lengths))
    options = ("-o", "out.txt", "--device", "cpu", "--beam-size", "2", "--max-length", "2")
    code, _, err = run("translate", sure, "in.txt", *options)
    assert code == 0
    (line,) = (line for line in err.splitlines() if "least confident" in line)
    found = re.findall(r"in\.txt:(\d+) \((\d+) %\)", line)
    values = [int(percent) for _, percent in found]
    assert values == sorted(values)
    _, out, _ = run("translate", sure, "in.txt", *options, "--json")
    every = json.loads(out)["confidences"]
    assert [each["place"] for each in every] == [f"in.txt:{n}" for n in range(1, 16, 2)]
    worst = sorted(every, key=lambda each: each["confidence"])[:5]
    assert [f"in.txt:{number}" for number, _ in found] == [each["place"] for each in worst]
    # Greedy search without scores has none.
    _, out, _ = run("translate", sure, "in.txt", "-o", "out.txt", "--json", *FAST)
    assert json.loads(out)["confidences"] == []


def test_of_few_texts_none_is_singled_out(model: str) -> None:
    sure = with_confidence(model, "sure")
    Path("in.txt").write_text("a b\n\nb\n")
    words = ("translate", sure, "in.txt", "-o", "out.txt", "--device", "cpu")
    assert "least confident" not in run(*words)[2]
    assert len(json.loads(run(*words, "--json")[1])["confidences"]) == 2


def test_json_and_a_document_are_not_mixed(model: str) -> None:
    Path("in.html").write_text("<p>a</p>")
    code, out, _ = run("translate", model, "in.html", "--format", "html", "--json", *FAST)
    assert (code, out) == (2, "")


def test_pairs_of_one_file_are_evaluated(model: str) -> None:
    Path("test.po").write_text('msgid "a %s"\nmsgstr "b %s"\n\nmsgid "c"\nmsgstr ""\n')
    code, out, _ = run("evaluate", model, "--data", "test.po", "--json", "--device", "cpu")
    assert code == 0
    (found,) = json.loads(out)["systems"].values()
    assert found["spans"]["sentences"] == 1
    code, _, err = run("evaluate", model, "--data", "test.po", "--source", "x", "--device", "cpu")
    assert code == 2
    assert "--source" in err


def test_a_document_from_a_pipe(model: str) -> None:
    code, out, _ = run("translate", model, "--format", "html", *FAST, stdin="<p>a</p><br>")
    assert code == 0
    assert out.startswith("<p>")
    assert out.endswith("</p><br>")


@pytest.mark.parametrize(
    "words",
    [
        ("app.po", "-o", "app.po"),
        ("app.po",),
        ("missing.po", "-o", "x.po"),
        ("app.po", "-o", "missing/x.po", "--format", "pdf"),
        ("app.po", "-o", "x.po", "--n-best", "2"),
        ("app.po", "-o", "x.po", "--text-column", "a"),
        ("folder", "-o", "x"),
        ("folder",),
        ("app.bin", "-o", "x"),
    ],
)
def test_a_mistake_writes_nothing(model: str, words: tuple[str, ...]) -> None:
    Path("app.po").write_text(PO)
    Path("app.bin").write_text("a")
    Path("folder").mkdir()
    code, out, err = run("translate", model, *words, *FAST)
    assert code in (2, 3)
    assert out == ""
    assert err.count("clearhead: ") == 1
    assert sorted(path.name for path in Path().iterdir()) == ["app.bin", "app.po", "folder"]
    assert Path("app.po").read_text() == PO


def _archive(**members: bytes) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        for name, content in members.items():
            archive.writestr(name.replace("__", "/"), content)
    return written.getvalue()


BAD = {
    "keyword.po": b"msgid open\n",
    "twice.po": b'msgid "a"\nmsgid "b"\n',
    "alone.po": b'"a"\n',
    "rule.po": b'msgid ""\nmsgstr "Plural-Forms: nplurals=2; plural=n +;\\n"\n',
    "latin.po": 'msgid "é"\nmsgstr ""\n'.encode("latin-1"),
    "nul.txt": b"a\0b",
    "latin.txt": "é".encode("latin-1"),
    "half.txt": b"\xff\xfea",
    "comma.json": b'{"a": "b",}',
    "deep.json": b"[" * 100_000,
    "empty.json": b"",
    "open.xlf": b'<xliff version="1.2"><file>',
    "other.xlf": b"<html/>",
    "bomb.xlf": b'<!DOCTYPE a [<!ENTITY b "c">]><xliff version="1.2">&b;</xliff>',
    "external.xlf": b'<!DOCTYPE a [<!ENTITY b SYSTEM "/etc/passwd">]><xliff>&b;</xliff>',
    "none.srt": b"no times",
    "empty.vtt": b"WEBVTT\n",
    "no.docx": b"no archive",
    "other.docx": _archive(word__other=b""),
    "broken.docx": _archive(**{"word__document.xml": b"<w:document"}),
    "short.csv": b'a,b\n"c',
    "wide.xlf": b'<?xml version="1.0" encoding="utf-16"?><xliff/>',
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_document_gets_one_error_and_nothing_is_written(model: str, name: str) -> None:
    Path(name).write_bytes(BAD[name])
    column = ("--text-column", "2") if name.endswith(".csv") else ()
    code, out, err = run("translate", model, name, "-o", f"out-{name}", *column, *FAST)
    assert (code, out) == (3, "")
    assert err.startswith(f"clearhead: {name}")
    assert [path.name for path in Path().iterdir()] == [name]
