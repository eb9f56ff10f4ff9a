"""The corpus: it has the pairs that were kept, and is used only if it is complete."""

from __future__ import annotations

import fcntl
import json
import os
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clearhead.data import corpus as corpus_module
from clearhead.data.corpus import Corpus, build_corpus, remove_other_corpora
from clearhead.data.judging.text_style import ExtentCounts
from clearhead.data.reading.pairs import Pair, read_pairs
from clearhead.data.reading.parts import DataPart, file_hash
from clearhead.errors import DataError
from clearhead.folder.files import open_to_append
from clearhead.folder.manifest import entry_of, sealed
from clearhead.settings import DataConfig, TokenizerConfig
from clearhead.tokenizer import Tokenizer, WordTokenizer, learn_tokenizer

SOURCES = [f"{'a ' * (n % 5)}source {n}" for n in range(25)]
TARGETS = [f"target {n} {'b ' * (n % 3)}".strip() for n in range(25)]
CONFIG = DataConfig(max_length=5, max_length_ratio=9.0)


def write(path: Path, lines: Iterable[str]) -> str:
    path.write_text("".join(f"{line}\n" for line in lines))
    return str(path)


@dataclass
class Data:
    """Files of pairs, and their tokenizers."""

    folder: Path
    files: list[str]
    tokenizers: tuple[Tokenizer, Tokenizer]

    def encoded(self, config: DataConfig = CONFIG, **rest: Any) -> Corpus:
        part, rest = DataPart("train", tuple(self.files)), {"note": print, **rest}
        return build_corpus(self.folder, part, self.tokenizers, config, **rest)

    def texts(self, corpus: Corpus) -> list[tuple[str, str]]:
        source, target = self.tokenizers
        return [
            (source.decode(corpus.source(row)), target.decode(corpus.target(row)))
            for row in range(len(corpus))
        ]


@pytest.fixture
def data(tmp_path: Path) -> Data:
    files = [write(tmp_path / "train.en", SOURCES), write(tmp_path / "train.de", TARGETS)]
    tokenizers = WordTokenizer.learn(SOURCES), WordTokenizer.learn(TARGETS)
    return Data(tmp_path / "c", files, tokenizers)


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The folders of the corpora that were written, in order, without reused ones."""
    folders: list[Path] = []
    write_corpus = corpus_module.write_corpus

    def counted(whole: Path, *rest: object) -> None:
        folders.append(whole)
        write_corpus(whole, *rest)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(corpus_module, "write_corpus", counted)
    return folders


@pytest.mark.parametrize("block", [1, 4, 1000])
def test_kept_pairs_come_back_in_order(
    block: int, data: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpus_module, "BLOCK_PAIRS", block)
    monkeypatch.setattr(corpus_module, "BLOCK", block)
    read: list[int] = []
    corpus = data.encoded(progress=read.append)
    kept = [
        pair for pair in zip(SOURCES, TARGETS, strict=True) if max(len(t.split()) for t in pair) < 6
    ]
    assert data.texts(corpus) == kept
    report = corpus.report
    assert len(corpus) == report.kept == len(kept) < report.read == len(SOURCES) == read[-1]
    assert corpus.source_lengths.tolist() == [len(source.split()) for source, _ in kept]
    assert corpus.target_lengths.tolist() == [len(target.split()) for _, target in kept]
    assert report.tokens[0] == corpus.source_lengths.sum()
    for side, extent in zip(zip(*kept, strict=True), corpus.extents, strict=True):
        counts = ExtentCounts()
        counts.add(side)
        assert extent == counts.extent()
    lines = [SOURCES.index(source) + 1 for source, _ in kept]
    assert [corpus.place(row) for row in range(len(kept))] == [f"train.en:{n}" for n in lines]
    for row in (-1, len(corpus)):
        with pytest.raises(IndexError):
            corpus.source(row)


def test_a_block_of_long_pairs_is_short(data: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus_module, "BLOCK_CHARACTERS", 100)
    read: list[int] = []
    corpus = data.encoded(DataConfig(), progress=read.append)
    assert data.texts(corpus) == list(zip(SOURCES, TARGETS, strict=True))
    assert 3 < len(read) < len(SOURCES)


def test_every_finding_is_in_a_file_though_the_report_has_the_first_ones(
    data: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpus_module, "BLOCK_PAIRS", 4)
    pairs = [("a", "b"), *[("a", "b")] * 9, ("", "b"), ("c", "")]
    for file, side in zip(data.files, zip(*pairs, strict=True), strict=True):
        write(Path(file), side)
    corpus = data.encoded()
    found = [line.split("\t") for line in corpus.findings.read_text().splitlines()]
    empty = ("train.en:11", "a side is empty"), ("train.de:12", "a side is empty")
    repeated = {(f"train.en:{line}", "the same pair came before") for line in range(2, 11)}
    assert {(place, text) for place, text in found} == {*repeated, *empty}
    assert {finding.text: finding.has_more for finding in corpus.report.findings} == {
        "a side is empty": False,
        "the same pair came before": True,
    }
    assert len(found) == sum(finding.count for finding in corpus.report.findings)


def test_a_finding_in_a_file_whose_name_is_no_unicode_is_noted(data: Data) -> None:
    data.files = [os.fsdecode(os.fsencode(data.folder.parent) + b"/caf\xe9.tsv")]
    with open(data.files[0], "w") as file:
        file.write("a\tb\na\tb\n")
    found = data.encoded().findings.read_bytes()
    assert found == b"caf\xe9.tsv:2\tthe same pair came before\n"


def test_a_large_vocabulary_is_stored_in_32_bits(data: Data) -> None:
    words = [f"w{n:06}" for n in range(2**16 - 4)]
    fits, large = WordTokenizer(words), WordTokenizer([*words, "source"])
    assert len(fits) == 2**16
    data.tokenizers = fits, data.tokenizers[1]
    corpus = data.encoded(DataConfig())
    assert corpus.source(0).dtype == np.uint16
    assert corpus.source(0).tolist() == [fits.unk_id] * 2
    data.tokenizers = large, data.tokenizers[1]
    corpus = data.encoded(DataConfig())
    assert corpus.source(0).dtype == np.uint32
    assert corpus.source(0).tolist() == large.encode("source 0")
    assert max(corpus.source(0)) == 2**16


def test_a_corpus_is_used_again_while_nothing_changed(data: Data, built: list[Path]) -> None:
    first, again = (data.encoded(held_out=[Pair("x", "y", 1)]) for _ in range(2))
    assert len(built) == 1
    assert (first.report, first.extents) == (again.report, again.extents)
    assert data.texts(first) == data.texts(again)


@pytest.mark.parametrize(
    ("lines", "config", "held_out", "target"),
    [
        (["other", *TARGETS[1:]], {}, (), None),
        (None, {"max_length": 6}, (), None),
        (None, {"max_length_ratio": 8}, (), None),
        (None, {"drop_duplicates": False}, (), None),
        (None, {}, [Pair(SOURCES[0], TARGETS[0], 1)], None),
        (None, {}, [Pair(SOURCES[0], "z", 1)], None),
        (None, {}, (), WordTokenizer(["other"])),
    ],
    ids=["a line", "length", "ratio", "duplicates", "held out", "held-out source", "tokenizer"],
)
def test_anything_it_depends_on_makes_a_new_corpus(
    lines: list[str] | None,
    config: dict[str, Any],
    held_out: Iterable[Pair],
    target: Tokenizer | None,
    data: Data,
    built: list[Path],
) -> None:
    data.encoded()
    if lines:
        write(Path(data.files[1]), lines)
    data.tokenizers = data.tokenizers[0], target or data.tokenizers[1]
    data.encoded(replace(CONFIG, **config), held_out=held_out)
    assert len(set(built)) == 2
    assert all(len(folder.name) == 16 for folder in built)
    assert built[-1].is_dir()


@pytest.mark.parametrize("name", [*corpus_module.FILES, "corpus.json"])
@pytest.mark.parametrize("damage", ["missing", "short", "empty", "a bit", "a pipe"])
def test_a_damaged_corpus_is_made_again(
    name: str, damage: str, data: Data, built: list[Path]
) -> None:
    corpus = data.encoded()
    expected = data.texts(corpus)
    path = corpus.folder / name
    content = path.read_bytes()
    path.unlink()
    middle = len(content) // 2
    changed = {
        "short": content[:middle],
        "empty": b"",
        "a bit": content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :],
    }
    if damage == "a pipe":
        os.mkfifo(path)
    elif damage != "missing":
        path.write_bytes(changed[damage])
    notes: list[str] = []
    assert data.texts(data.encoded(note=notes.append)) == expected
    assert len(built) == 2
    assert len(notes) == 1


def forge(folder: Path, name: str, values: np.ndarray) -> None:
    """Replace a file of a corpus, with hashes as if it had been written so."""
    (folder / name).write_bytes(values.tobytes())
    tree = json.loads((folder / "corpus.json").read_text())
    del tree["sha256"]
    tree["files"][name] = entry_of(folder / name)._asdict()
    (folder / "corpus.json").write_text(json.dumps(sealed(tree)))


@pytest.mark.parametrize("block", [1, 2, 1000])
@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("source.ids", lambda ids: np.append(ids[:-1], np.uint16(40_000))),
        ("target.ids", lambda ids: np.append(np.uint16(40_000), ids[1:])),
        ("source.ids", lambda ids: ids.astype(np.uint32)),
        ("source.offsets", lambda offsets: np.append(np.int64(1), offsets[1:])),
        ("source.offsets", lambda offsets: np.append(np.int64(-1), offsets[1:])),
        ("target.offsets", lambda offsets: np.append(offsets[:-1], offsets[-1] + 1)),
        ("target.offsets", lambda offsets: offsets[[0, 2, 1, *range(3, len(offsets))]]),
        ("target.offsets", lambda offsets: offsets[[*range(len(offsets)), -1]]),
    ],
)
def test_a_forged_corpus_is_made_again(
    name: str,
    change: Callable[[np.ndarray], np.ndarray],
    block: int,
    data: Data,
    built: list[Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(corpus_module, "BLOCK", block)
    corpus = data.encoded()
    expected, folder = data.texts(corpus), corpus.folder
    values = np.fromfile(folder / name, np.uint16 if name.endswith("ids") else np.int64)
    forge(folder, name, values)
    data.encoded()
    assert len(built) == 1  # unchanged values are accepted
    forge(folder, name, change(values))
    assert data.texts(data.encoded()) == expected
    assert len(built) == 2


def test_a_link_in_the_place_of_the_lock_is_not_followed(data: Data, tmp_path: Path) -> None:
    data.folder.mkdir()
    (data.folder / ".lock").symlink_to(tmp_path / "outside")
    with pytest.raises(DataError):
        data.encoded()
    assert not (tmp_path / "outside").exists()


def test_a_build_that_ends_early_leaves_nothing_that_is_trusted(
    data: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(read: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        data.encoded(progress=interrupt)
    assert [path.name for path in data.folder.iterdir()] == [".lock"]

    # Killed outright, a build cleans up nothing: what it left must not disturb the next one.
    def killed(read: int) -> None:
        monkeypatch.setattr(corpus_module, "remove_named", lambda *_: None)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        data.encoded(progress=killed)
    monkeypatch.undo()
    assert list(data.folder.glob(".*.partial"))
    corpus = data.encoded()
    assert len(corpus) == corpus.report.kept
    assert not list(data.folder.glob(".*.partial"))


def test_a_run_removes_the_corpora_that_it_does_not_use(data: Data, tmp_path: Path) -> None:
    first, second = (data.encoded(DataConfig(max_length=most)) for most in (5, 6))
    others = {"notes", "0123", "f" * 16}
    for name in ("notes", "0123", f".{'0' * 16}.partial"):  # a killed build leaves the last one
        (data.folder / name).mkdir()
    (data.folder / ("f" * 16)).symlink_to(tmp_path)
    remove_other_corpora(data.folder, [second.folder])
    assert {path.name for path in data.folder.iterdir()} == {".lock", second.folder.name, *others}
    assert not first.folder.exists()
    assert len(data.texts(second)) == len(second)


def test_processes_check_a_corpus_at_the_same_time(data: Data, built: list[Path]) -> None:
    corpus = data.encoded()
    with open_to_append(data.folder / ".lock") as other, ThreadPoolExecutor(1) as pool:
        fcntl.flock(other, fcntl.LOCK_SH)  # as another process that checks it
        try:
            assert len(pool.submit(data.encoded).result(timeout=60)) == len(corpus)
        finally:
            fcntl.flock(other, fcntl.LOCK_UN)
    assert len(built) == 1


def test_a_bad_line_late_in_a_file_leaves_no_corpus(data: Data) -> None:
    write(Path(data.files[1]), TARGETS[:-1])
    with pytest.raises(DataError) as raised:
        data.encoded()
    assert raised.value.where == ", ".join(data.files)
    assert [path.name for path in data.folder.iterdir()] == [".lock"]


def test_no_pair_left_is_an_error_with_the_reasons(data: Data) -> None:
    with pytest.raises(DataError) as raised:
        data.encoded(DataConfig(max_length=1))
    assert "25 left out: a side has more than 1 tokens" in str(raised.value.why)


def test_a_folder_that_cannot_be_written_is_an_error(data: Data) -> None:
    write(data.folder, [])
    with pytest.raises(DataError) as raised:
        data.encoded()
    assert raised.value.where == str(data.folder)


def test_the_hash_of_a_folder_depends_on_names_and_bytes(tmp_path: Path) -> None:
    def folder(name: str, inner: str, lines: list[str]) -> bytes:
        (tmp_path / name / "below").mkdir(parents=True)
        write(tmp_path / name / "below" / inner, lines)
        return file_hash(str(tmp_path / name))

    one = folder("one", "x.npy", ["a"])
    assert one == folder("same", "x.npy", ["a"])
    others = folder("renamed", "y.npy", ["a"]), folder("changed", "x.npy", ["b"])
    assert len({one, *others}) == 3


def test_the_hash_of_a_folder_is_of_the_files_that_are_read(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    write(tmp_path / "real" / "x.npy", ["a"])
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "cat").symlink_to(tmp_path / "real")
    seen = [file_hash(str(tmp_path / "data"))]
    for ignored in (".DS_Store", "notes.txt", "cat/.hidden.npy"):
        write(tmp_path / "data" / ignored, ["b"])
        assert file_hash(str(tmp_path / "data")) == seen[0]
    write(tmp_path / "real" / "x.npy", ["c"])
    seen.append(file_hash(str(tmp_path / "data")))
    # A list names the files that are read, in any folder.
    write(tmp_path / "elsewhere.npy", ["d"])
    write(tmp_path / "data" / "labels.csv", ["file,label", "../elsewhere.npy,cat"])
    seen.append(file_hash(str(tmp_path / "data")))
    write(tmp_path / "elsewhere.npy", ["e"])
    seen.append(file_hash(str(tmp_path / "data")))
    write(tmp_path / "data" / "labels.csv", ["file,label", "../elsewhere.npy,dog"])
    seen.append(file_hash(str(tmp_path / "data")))
    assert len(set(seen)) == len(seen) == 5


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are bytes on Linux alone")
def test_the_hash_of_a_folder_accepts_names_that_are_not_utf_8(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    with open(os.fsencode(tmp_path / "data") + b"/caf\xe9.npy", "wb"):
        pass
    assert file_hash(str(tmp_path / "data"))


def test_real_data_come_back(clearhead_data: Path, tmp_path: Path) -> None:
    files = [str(clearhead_data / "multi30k" / f"val.{side}.gz") for side in ("en", "de")]
    pairs = list(read_pairs(files))
    lines = [text for pair in pairs for text in pair[:2]]
    joint = learn_tokenizer(lines, TokenizerConfig(max_vocabulary=2000))
    data = Data(tmp_path / "c", files, (joint, joint))
    corpus = data.encoded(DataConfig())
    assert data.texts(corpus) == [pair[:2] for pair in pairs]
    described = json.loads((corpus.folder / "corpus.json").read_text())
    assert described["report"]["kept"] == len(pairs) == corpus.report.kept
