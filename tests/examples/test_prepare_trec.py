"""The TREC questions are converted to files that clearhead reads, or nothing is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from clearhead.data.reading.labelled import read_labelled_texts
from scripts import load_script

prepare_trec = load_script("examples/prepare_trec.py")

TRAIN = (
    b"DESC:manner How did serfdom develop in and then leave Russia ?\n"
    b"ENTY:food What is caf\xe9 au lait ?\n"
    b"HUM:ind Who said , \x93 wait\x85 \x0b what ? \x94\n"
)
TEST = b"NUM:dist How far is it from Denver to Aspen ?\r\nLOC:city Where is \xc5rhus ?"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The data folder, with files in the publisher's format."""
    (tmp_path / "trec").mkdir()
    (tmp_path / "trec/train.txt").write_bytes(TRAIN)
    (tmp_path / "trec/test.txt").write_bytes(TEST)
    monkeypatch.setenv("CLEARHEAD_DATA", str(tmp_path))
    return tmp_path


def prepared(folder: Path, *words: str) -> dict[str, list[tuple[str, str]]]:
    """The label and the text of each question, as clearhead reads the written files."""
    out = folder / "out/of/this"
    assert prepare_trec.main(["--output", str(out), *words]) == 0
    assert sorted(path.name for path in out.iterdir()) == ["test.tsv", "train.tsv"]
    return {
        part: [
            (example.labels[0], str(example.input))
            for example in read_labelled_texts(str(out / f"{part}.tsv"))
        ]
        for part in ("train", "test")
    }


def test_questions_have_their_coarse_labels_and_every_letter(
    folder: Path, capsys: pytest.CaptureFixture
) -> None:
    assert prepared(folder) == {
        "train": [
            ("DESC", "How did serfdom develop in and then leave Russia ?"),
            ("ENTY", "What is café au lait ?"),
            ("HUM", "Who said , \x93 wait\x85 \x0b what ? \x94"),
        ],
        "test": [("NUM", "How far is it from Denver to Aspen ?"), ("LOC", "Where is Århus ?")],
    }
    printed = capsys.readouterr().out.splitlines()
    assert [line.rpartition(": ")[2] for line in printed] == ["3 questions", "2 questions"]


def test_questions_have_their_fine_labels_where_they_are_requested(folder: Path) -> None:
    found = prepared(folder, "--fine")
    assert [label for label, _ in found["train"]] == ["DESC:manner", "ENTY:food", "HUM:ind"]
    assert [label for label, _ in found["test"]] == ["NUM:dist", "LOC:city"]
    coarse = prepared(folder)
    assert [text for _, text in found["train"]] == [text for _, text in coarse["train"]]


@pytest.mark.parametrize("missing", ["train", "test"])
def test_nothing_is_written_where_a_file_is_missing(
    missing: str, folder: Path, capsys: pytest.CaptureFixture
) -> None:
    path = folder / f"trec/{missing}.txt"
    path.unlink()
    assert prepare_trec.main(["-o", str(folder / "out")]) != 0
    out, err = capsys.readouterr()
    assert out == ""
    assert str(path) in err
    assert "examples/fetch_data.py" in err
    assert not (folder / "out").exists()
