"""The benchmarks' commands check their options alike and end alike."""

from __future__ import annotations

import ast
import importlib
import json
import os
import re
import sys
from argparse import ArgumentTypeError
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.errors import DataError
from scripts import ROOT, load_script

BENCHMARKS = ROOT / "benchmarks"
sys.path.append(str(BENCHMARKS))
command = importlib.import_module("command")
roster = importlib.import_module("peers.roster")
options = importlib.import_module("peers.options")

SCRIPTS = {path.stem for path in BENCHMARKS.glob("*.py")} - {"command"}
WORK = {
    "speed": "compare",
    "gpu": "compare",
    "growth": "grow",
    "attention": "report",
    "products": "report",
    "multi30k": "run",
    "classification": "report",
    "corpus_scale": "measure",
    "same_bleu": "report",
    "batch_invariance": "measure",
}
"""By script, what does its work."""

WORDS = {
    "batch_invariance": ["model", "in.txt"],
    "classification": ["some.toml"],
    "gpu": ["--device", "cpu"],
    "same_bleu": ["model", "in.txt", "out.txt"],
}


def script(name: str) -> Any:
    return load_script(f"benchmarks/{name}.py")


@pytest.fixture
def data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CLEARHEAD_DATA", str(tmp_path))


@pytest.mark.usefixtures("data")
@pytest.mark.parametrize("name", WORK)
def test_ctrl_c_is_one_line(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(script(name), WORK[name], interrupt)
    assert script(name).main(WORDS.get(name, [])) == 130
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("interrupted")
    assert err.count("\n") == 1


@pytest.mark.usefixtures("data")
@pytest.mark.parametrize("name", WORK)
def test_what_a_user_can_mend_is_a_message_and_an_exit_code(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise DataError("the file is empty", where="train.en", todo="fill it")

    monkeypatch.setattr(script(name), WORK[name], fail)
    assert script(name).main(WORDS.get(name, [])) == DataError.exit_code
    assert capsys.readouterr() == ("", "train.en: the file is empty\nWhat to do: fill it\n")


@pytest.mark.parametrize("name", ["speed", "multi30k", "classification"])
def test_without_data_it_says_so(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.delenv("CLEARHEAD_DATA", raising=False)
    monkeypatch.setattr(script(name), WORK[name], lambda *_: pytest.fail("it works"))
    assert script(name).main(WORDS.get(name, [])) == 0
    assert capsys.readouterr().out.startswith("skipped: CLEARHEAD_DATA")


@pytest.mark.usefixtures("data")
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("classification", ["some.toml", "--seeds", "0"]),
        ("classification", ["some.toml", "--folds", "1"]),
        ("classification", ["some.toml", "--jobs", "-1"]),
        ("corpus_scale", ["--pairs", "100", "0"]),
        ("corpus_scale", ["--folder", "no/such/folder"]),
        ("growth", ["--threads", "-1"]),
        ("same_bleu", ["model", "in.txt", "out.txt", "--threads", "-1"]),
        ("batch_invariance", ["model", "in.txt", "--threads", "-1"]),
        ("speed", ["--threads", "two"]),
    ],
)
def test_what_cannot_work_is_refused_at_once(
    name: str, words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr(script(name), WORK[name], lambda *_: pytest.fail("it works"))
    with pytest.raises(SystemExit) as stopped:
        script(name).main(words)
    assert stopped.value.code == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert words[-1] in said
    assert "--" in said


@pytest.mark.usefixtures("data")
@pytest.mark.parametrize("name", ["multi30k", "classification"])
def test_a_training_that_was_interrupted_is_not_scored(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    trained: list[object] = []

    def train(config: Any, **_: object) -> Any:
        trained.append(config)
        return SimpleNamespace(finished=False)

    for loader in ("load_translator", "load_classifier"):
        monkeypatch.setattr(script(name).api, loader, lambda *_, **__: pytest.fail("it scores"))
    monkeypatch.setattr(script(name).api, "train", train)
    example = {"multi30k": "multi30k-en-de", "classification": "trec"}[name]
    path = str(ROOT / "examples" / f"{example}.toml")
    words = [path] if name == "classification" else ["--config", path]
    assert script(name).main(words) == 130
    assert len(trained) == 1
    assert capsys.readouterr().err.splitlines()[-1].startswith("interrupted")


@pytest.mark.usefixtures("data")
def test_a_benchmark_trains_with_the_threads_that_the_settings_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = script("classification")
    trained: list[Any] = []

    def train(config: Any, **_: object) -> Any:
        trained.append(config)
        return SimpleNamespace(finished=False)

    monkeypatch.setattr(module.api, "train", train)
    path = str(ROOT / "examples" / "trec.toml")
    assert module.main([path, "--set", "training.threads=3"]) == 130
    assert [config.training.threads for config in trained] == [3]
    assert module.of_one_thread(module.Trial(trained[0], "x")).config.training.threads == 1


def test_no_script_imports_from_another() -> None:
    for name in SCRIPTS:
        tree = ast.parse((BENCHMARKS / f"{name}.py").read_text(encoding="utf-8"))
        imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        assert not imported & SCRIPTS, name


@given(st.integers(), st.integers(), st.integers())
def test_a_whole_number_is_within_its_bounds(number: int, least: int, most: int) -> None:
    for parse, possible in (
        (command.whole(least), number >= least),
        (command.whole(least, most), least <= number <= most),
    ):
        if possible:
            assert parse(str(number)) == number
        else:
            with pytest.raises(ArgumentTypeError, match=f"{least}.*not {number}"):
                parse(str(number))


@pytest.mark.parametrize("text", ["", "x", "1.5", "1e3"])
def test_what_is_no_whole_number_is_named(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match=f"'{text}' is not a whole number"):
        command.positive(text)


def test_a_rate_is_a_share_that_leaves_something() -> None:
    assert [command.rate(text) for text in ("0", "0.1", "0.999")] == [0, 0.1, 0.999]
    for text in ("1", "-0.1", "nan", "inf"):
        with pytest.raises(ArgumentTypeError, match=f"less than 1, not {text}"):
            command.rate(text)
    with pytest.raises(ArgumentTypeError, match="'x' is not a number"):
        command.rate("x")


def test_a_file_to_be_written_has_a_folder_and_the_right_ending(tmp_path: Path) -> None:
    picture = command.new_file(".png", ".svg")
    for name in ("a.png", "b.svg"):
        assert picture(str(tmp_path / name)) == str(tmp_path / name)
    with pytest.raises(ArgumentTypeError, match=r"does not end in \.png or \.svg"):
        picture(str(tmp_path / "a.gif"))
    with pytest.raises(ArgumentTypeError, match="there is no folder"):
        picture(str(tmp_path / "none" / "a.png"))
    with pytest.raises(ArgumentTypeError, match="is a folder"):
        command.new_file()(str(tmp_path))


@pytest.mark.parametrize("closed", ["folder", "folder/x.json"])
def test_a_file_that_could_not_be_written_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, closed: str
) -> None:
    place = tmp_path / "folder" / "x.json"
    place.parent.mkdir()
    place.touch()
    # To an administrator nothing is closed.
    monkeypatch.setattr(os, "access", lambda path, how: Path(path) != tmp_path / closed)
    with pytest.raises(ArgumentTypeError, match=r"x\.json cannot be written"):
        command.new_file()(str(place))


def test_what_the_system_refuses_after_all_is_a_message(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    gone = tmp_path / "gone" / "x.json"
    assert command.exit_code_of(lambda: command.write_json(str(gone), {})) == DataError.exit_code
    out, err = capsys.readouterr()
    assert out == ""
    assert str(gone.parent) in err.splitlines()[0]
    assert "cannot be read or written" in err


def test_json_is_replaced_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    tree = {"name": "größer", "values": [1.5, None]}
    command.write_json(str(path), tree)
    with pytest.raises(TypeError):
        command.write_json(str(path), {"name": object()})
    assert json.loads(path.read_text(encoding="utf-8")) == tree
    assert list(tmp_path.iterdir()) == [path]


def test_a_python_is_given_to_a_peer_that_has_an_environment_with_pytorch(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.symlink_to(sys.executable)
    # The link itself: by it a virtual environment is known.
    assert options.peer_and_python(f"marian={python}") == ("marian", str(python))
    for text, said in (
        (f"marian={tmp_path}/none", "there is no program"),
        ("marian", "there is no program"),
        (f"nobody={python}", "'nobody' is none of"),
        (f"ctranslate2={python}", "'ctranslate2' is none of"),
        (f"{roster.OWN}={python}", "is none of"),
    ):
        with pytest.raises(ArgumentTypeError, match=said):
            options.peer_and_python(text)


DOCUMENTS = (
    "benchmarks/README.md",
    "benchmarks/other_machines.md",
    *(f"docs/decisions/{path.name}" for path in (ROOT / "docs" / "decisions").glob("*.md")),
)


def named_options() -> set[tuple[str, str]]:
    """Each option of a benchmark that the documents name, beside its script."""
    found = set()
    for document in DOCUMENTS:
        text = (ROOT / document).read_text(encoding="utf-8").replace("\\\n", " ")
        # A command ends with its line in a block, and with its quote in the running text.
        for name, words in re.findall(r"\b(\w+)\.py\b([^`]*?)(?=`|\n\S*python|\n\n)", text):
            if name in SCRIPTS:
                found |= {(name, option) for option in re.findall(r"\s(--[\w-]+)", words)}
    return found


def test_each_option_that_the_documents_name_is_there(capsys: pytest.CaptureFixture) -> None:
    known = {}
    for name in {name for name, _ in named_options()}:
        with pytest.raises(SystemExit):
            script(name).main(["--help"])
        known[name] = set(re.findall(r"--[\w-]+", capsys.readouterr().out))
    assert {name for name, _ in named_options()} >= {"speed", "multi30k", "classification"}
    assert [use for use in sorted(named_options()) if use[1] not in known[use[0]]] == []
