"""The readers of files that may be a stranger's, each with a small valid folder to begin with."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
from mutations import VALUES, WORDS, mutated


class Reader(NamedTuple):
    """What is read.

    Attributes:
        write: writes valid files into a folder.
        read: reads the folder; `random` may choose between ways to read it.
    """

    write: Callable[[Path], object]
    read: Callable[[Path, Random], object]


TOML = """
task = "translation"
folder = "runs/a"
[data]
train = ["a.en", "a.de"]
max_length = 20
[tokenizer]
kind = "bpe"
[model]
size = "tiny"
dropout = 0.1
positions = { kind = "learned", max_length = 64 }
[training]
max_steps = 10
[training.optimizer]
kind = "adam"
[search]
beam_size = 3
"""

PAIRS = [("a b", "c d"), ("e", "f g"), ("one two three", "uno dos tres")] * 3
TEXTS = [("yes", "a b c"), ("no", "d e"), ("yes", "f")] * 3


def write_toml(folder: Path) -> None:
    (folder / "run.toml").write_text(TOML)


def read_toml(folder: Path, random: Random) -> None:
    from clearhead.settings import read_config

    read_config(folder / "run.toml")


def read_override(folder: Path, random: Random) -> None:
    """The file stays as it is: `--set` has the hostile value."""
    from clearhead.settings import RunConfig, read_config
    from clearhead.settings.declare import settings_of

    write_toml(folder)
    path = random.choice([each.path for each in settings_of(RunConfig)])
    value = json.dumps(random.choice(VALUES))
    if random.random() < 0.3:
        value = random.choice(WORDS).decode("latin-1")
    if random.random() < 0.2:
        path = random.choice((path + ".a", ".a", "a." * 3000 + path, "model", "data", "["))
    read_config(folder / "run.toml", [f"{path}={value}"])


def write_pairs(folder: Path) -> None:
    for side, name in enumerate(("a.en", "a.de")):
        (folder / name).write_text("".join(f"{pair[side]}\n" for pair in PAIRS))
    (folder / "a.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in PAIRS))
    rows = ({"source": a, "target": b} for a, b in PAIRS)
    (folder / "a.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def read_all_pairs(folder: Path, random: Random) -> None:
    from clearhead.data.reading.pairs import read_pairs

    names = random.choice((("a.en", "a.de"), ("a.tsv",), ("a.jsonl",)))
    list(read_pairs([str(folder / name) for name in names]))


def write_labelled(folder: Path) -> None:
    (folder / "a.tsv").write_text("".join(f"{label}\t{text}\n" for label, text in TEXTS))
    rows = "".join(f'{label},"{text}"\n' for label, text in TEXTS)
    (folder / "a.csv").write_text("label,text\n" + rows)
    objects = ({"label": label, "text": text} for label, text in TEXTS)
    (folder / "a.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in objects))


def read_labelled(folder: Path, random: Random) -> None:
    from clearhead.data.reading.labelled import read_labelled_texts

    name = random.choice(("a.tsv", "a.csv", "a.jsonl"))
    list(read_labelled_texts(str(folder / name), multi_label=random.random() < 0.3))


def write_features(folder: Path) -> None:
    rows = "".join(f"s{n // 3},{'ab'[n // 3 % 2]},{n},{n / 7},nan\n" for n in range(12))
    (folder / "a.csv").write_text("sequence,label,time,f,g\n" + rows)
    cases = "".join(f"{n},{n + 1}:3,?:{'ab'[n % 2]}\n" for n in range(6))
    head = "@problemName a\n@univariate false\n@dimensions 2\n@classLabel true a b\n@data\n"
    (folder / "a.ts").write_text(head + cases)
    x = np.arange(24, dtype=np.float32).reshape(4, 3, 2)
    y = np.array(["a", "b"] * 2)
    np.savez(folder / "a.npz", x=x, y=y, lengths=np.array([1, 2, 3, 3]))
    np.savez_compressed(folder / "b.npz", x=x.reshape(12, 2), y=y, lengths=np.array([3] * 4))
    np.save(folder / "a.npy", x[0])
    (folder / "arrays" / "a").mkdir(parents=True)
    np.save(folder / "arrays" / "a" / "1.npy", x[0])
    (folder / "arrays" / "labels.csv").write_text("file,label\na/1.npy,a\n")


def read_features(folder: Path, random: Random) -> None:
    from clearhead.data.reading.feature_sequences import read_feature_sequences

    name = random.choice(("a.csv", "a.ts", "a.npz", "b.npz", "a.npy", "arrays"))
    labelled = name != "a.npy" and random.random() < 0.7
    list(read_feature_sequences(str(folder / name), labelled=labelled))


def write_model_folders(folder: Path) -> None:
    from model_folders import write_models

    write_models(folder)
    shutil.rmtree(folder / "rival")


def fit(manifest: Path, random: Random, left: str = "", **facts: Any) -> None:
    """In half of the cases, change a manifest so that it fits the files, as a stranger can.

    A hostile manifest sometimes gets only the right hash of itself.

    Args:
        manifest: a `manifest.json`, or the description of an export.
        random: chooses.
        left: the name of a file whose entry stays.
        facts: what the manifest has besides its files.
    """
    from clearhead.folder.manifest import entry_of, sealed

    if random.random() < 0.5:
        return
    with suppress(OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError):
        tree = json.loads(manifest.read_bytes())
        tree.pop("sha256", None)
        if random.random() < 0.9:
            names = {path.name for path in manifest.parent.iterdir()} & tree["files"].keys()
            entries = {name: entry_of(manifest.parent / name) for name in names - {left}}
            tree["files"] |= {name: entry._asdict() for name, entry in entries.items()}
            tree |= facts
        manifest.write_text(json.dumps(sealed(tree)))


def read_model(folder: Path, random: Random) -> None:
    from clearhead import api
    from clearhead.api.start import brought_by, starting_point
    from clearhead.folder.manifest import MANIFEST
    from clearhead.settings import SearchConfig, config_from

    name = random.choice(("translator", "texts", "several", "features"))
    path = folder / name
    if random.random() < 0.3:
        (path / MANIFEST).unlink(missing_ok=True)
    else:
        fit(path / MANIFEST, random)
    if random.random() < 0.2:
        task = "translation" if name == "translator" else "classification"
        run = {"task": task, "input": "features" if name == "features" else "text"}
        run |= {"start_from": str(path), "folder": str(folder / "run")}
        brought_by(str(path), task, run["input"])
        with starting_point(config_from(run), False, lambda note: None):
            return
    model = api.load(path, device="cpu")
    if isinstance(model, api.Translator):
        model.translate(["a b", "d"], search=SearchConfig(beam_size=2, max_length=5))
    elif name == "features":
        model.probabilities([np.ones((2, 3), np.float32)])
    else:
        model.probabilities(["a b", "d"])


def write_corpus(folder: Path) -> None:
    write_pairs(folder)
    _encode(folder)


EXPECTED = [[3, 4], [7], [10, 11, 12]]
"""The ids of the sources of a corpus."""


def _encode(folder: Path) -> Any:
    from clearhead.data.corpus import build_corpus
    from clearhead.data.reading.parts import DataPart
    from clearhead.settings import DataConfig
    from clearhead.tokenizer import WordTokenizer

    tokenizer = WordTokenizer("a b c d e f g one two".split())
    part = DataPart("train", (str(folder / "a.tsv"),))
    return build_corpus(folder / "corpus", part, (tokenizer, tokenizer), DataConfig())


def read_corpus(folder: Path, random: Random) -> None:
    write_pairs(folder)  # the data themselves stay as they are
    corpus = _encode(folder)
    rows = [corpus.source(row).tolist() for row in range(len(corpus))]
    assert rows == EXPECTED, rows


def write_record(folder: Path) -> None:
    from clearhead import api
    from clearhead.inspect.recording import record
    from model_folders import write_models

    write_models(folder / "models")
    translator = api.load(folder / "models" / "translator", device="cpu")
    assert isinstance(translator, api.Translator)
    record(translator, "a b", "c d").save(folder / "a.npz")
    shutil.rmtree(folder / "models")


def read_record(folder: Path, random: Random) -> None:
    from clearhead.inspect.record import Record

    Record.load(folder / "a.npz")


def write_exported(folder: Path) -> None:
    from clearhead.api.exporting import export_model
    from exported_models import random_folder

    export_model(random_folder(folder / "model"), "ctranslate2")


def read_exported(folder: Path, random: Random) -> None:
    from clearhead import api
    from clearhead.errors import ClearheadError
    from clearhead.folder.exports import DESCRIPTION, origin_of
    from clearhead.folder.manifest import MANIFEST
    from clearhead.folder.model_folder import open_folder

    path, facts = folder / "model", {}
    fit(path / MANIFEST, random)
    with suppress(ClearheadError):
        found = open_folder(path)
        facts = {"origin": origin_of(found)}
    # A changed model.bin is left out: CTranslate2 parses it in C++ (docs/security.md).
    fit(path / "ctranslate2" / DESCRIPTION, random, "model.bin", **facts)
    model = api.load(folder / "model", device="cpu", engine="ctranslate2")
    assert isinstance(model, api.Translator)
    model.translate(["s1 s2"])


def write_tokenizers(folder: Path) -> None:
    from clearhead.folder.model_folder import write_folder
    from clearhead.settings import RunConfig, TokenizerConfig
    from clearhead.tokenizer import (
        EOS,
        JOINT,
        JsonTokenizer,
        MarianTokenizer,
        Tokenizer,
        learn_tokenizer,
    )
    from clearhead.tokenizer.pretrained import Numbering
    from huggingface_models import LETTERS, bert_tokens

    pieces = learn_tokenizer([LETTERS], TokenizerConfig(kind="unigram", max_vocabulary=300))
    size = bert_tokens(folder)
    description = json.loads((folder / "tokenizer.json").read_text())
    numbers = {token["content"]: token["id"] for token in description["added_tokens"]}
    pad, bos, eos, unk = (numbers[name] for name in ("[PAD]", "[CLS]", "[SEP]", "[UNK]"))
    numbering = Numbering(size, pad, bos, eos)
    names = [*pieces.pieces(range(EOS + 1, len(pieces))), "<pad>", "</s>"]
    marian = Numbering(len(names) + 1, len(names), len(names) - 2, len(names) - 1)
    model = pieces.__dict__["model"]
    for path in folder.iterdir():
        path.unlink()
    made: dict[str, Tokenizer] = {
        "pieces": pieces,
        "json": JsonTokenizer(description, numbering, int(numbering.ours[unk])),
        "marian": MarianTokenizer(model, names, marian, EOS + 1, "end"),
    }
    for name, tokenizer in made.items():
        write_folder(folder / name, RunConfig(), {JOINT: tokenizer})


def read_tokenizer(folder: Path, random: Random) -> None:
    from clearhead.folder.manifest import MANIFEST
    from clearhead.folder.model_folder import open_folder
    from clearhead.tokenizer import read_tokenizers

    path = folder / random.choice(("pieces", "json", "marian"))
    fit(path / MANIFEST, random)
    tokenizer, _ = read_tokenizers(open_folder(path, trained=False))
    ids = tokenizer.encode_batch(["the red ball", "", "\u00e9\ud800 \U0001f600 a" * 20])
    for row in (*ids, range(len(tokenizer))):
        tokenizer.decode(row)
        tokenizer.pieces(row)


READERS = {
    "toml": Reader(write_toml, read_toml),
    "set": Reader(write_toml, read_override),
    "pairs": Reader(write_pairs, read_all_pairs),
    "labelled": Reader(write_labelled, read_labelled),
    "features": Reader(write_features, read_features),
    "model": Reader(write_model_folders, read_model),
    "tokenizer": Reader(write_tokenizers, read_tokenizer),
    "corpus": Reader(write_corpus, read_corpus),
    "record": Reader(write_record, read_record),
    "export": Reader(write_exported, read_exported),
}


def attack(reader: Reader, valid: Path, work: Path, random: Random) -> None:
    """Copy the valid folder, change one or two of its files, and read it."""
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(valid, work)
    files = sorted(path for path in work.rglob("*") if path.is_file())
    for path in random.sample(files, min(len(files), random.choice((1, 1, 2)))):
        path.write_bytes(mutated(path, random))
    reader.read(work, random)
