"""Mistakes of users: each gets one short message that shows where and what to do, and a code."""

from __future__ import annotations

import codecs
import gzip
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from clearhead.cli.streams import BLOCK_LINES
from clearhead.data.reading.phrasebook import phrasebook_pairs
from fake_translator import run
from model_folders import TEXTS, TRUTH, labelled, write_models

MOST_LINES = 12
NOBODY = 65534
SMALL = 'folder = "runs/failed"\nmodel = { size = "tiny" }\ntraining = { max_steps = 2 }\n'


class Mistake(NamedTuple):
    """A command, its exit code, and what its message contains.

    `HERE` in a part of a message stands for the current folder.
    """

    command: str
    code: int
    parts: tuple[str, ...]
    stdin: bytes = b""


def _mistakes() -> list[Mistake]:
    tables: dict[str, list[tuple[object, ...]]] = {
        "": [
            ("trian x.toml", 2, "trian", "train"),
            ("--verbose", 2, "--verbose", "--version"),
        ],
        "init": [
            ("", 2, "NAME"),
            ("m --train no.en no.de", 3, "no.en", "no such file", "HERE"),
            ("m --train a.en", 3, "a.en", ".tsv"),
            ("m --train a.en short.de", 3, "a.en", "short.de", "6", "5"),
            ("m --train empty.txt empty.txt", 3, "empty.txt", "empty"),
            ("m --train folder folder", 3, "folder", "not a file"),
            ("m --train latin2.txt latin2.txt", 3, "latin2.txt:1", "UTF-8"),
            ("m --train utf16.txt utf16.txt", 3, "utf16.txt:1", "utf-16"),
            ("m --train table.xlsx table.xlsx", 3, "table.xlsx", ".txt"),
            ("m --train cut.tsv.gz", 3, "cut.tsv.gz", "cut short"),
            ("m --train wrong.tsv", 3, "wrong.tsv:2", "tab"),
            ("m --train three.tsv", 3, "three.tsv:1", "3 cells", "cut -f 2,3"),
            ("m --task classify", 2, "--task", "classification"),
            ("m --task classification --train other.csv", 3, "other.csv", "text_column"),
            ("m --task classification --train bad.jsonl", 3, "bad.jsonl:2", "JSON"),
            ("m --task classification --train sequences.npy", 3, "--input features"),
            (
                "m --task classification --train texts.csv --validation texts.csv",
                *(3, "texts.csv", "no example is left", "validation or test data"),
            ),
            (
                "m --task classification --train bare-swapped.tsv --validation bare.tsv",
                *(3, "bare.tsv:1", "write all files alike"),
            ),
            ("m --text-column body", 2, "--text-column", "--task"),
            ("missing/m", 2, "missing", "mkdir"),
            ("good", 2, "good.toml", "--force"),
            # Data that do not belong together.
            ("m --train bare.tsv", 3, "bare.tsv", "--task classification"),
            (
                "m --task classification --train texts.csv --text-column label --label-column text",
                *(3, "texts.csv", "swapped", "--text-column"),
            ),
            (
                "m --task classification --train words.tsv",
                *(3, "words.tsv", "--text-column 1 --label-column 2"),
            ),
            (
                "m --task classification --train swapped.tsv",
                *(3, "swapped.tsv", '--text-column "label" --label-column "text"'),
            ),
            ("m --train book.en shifted.es --validation val.en val.es", 3, "shifted.es", "shifted"),
            ("m --train book.en book.es --validation val.es val.en", 3, "val.es", "swapped"),
            ("m --train book.en copy.en --validation val.en val.es", 3, "copy.en", "same"),
            (
                "m --task classification --train texts.csv --validation unseen.tsv",
                *(3, "unseen.tsv:1", "maybe"),
            ),
            # Models to start from.
            ("m --train pairs.tsv --start-from no", 4, "HERE/no", "hf:no"),
            (
                "m --train texts.csv --start-from runs/texts",
                *(4, "runs/texts", "--task classification"),
            ),
            (
                "m --task classification --train texts.csv --start-from runs/features",
                *(4, "runs/features", "features"),
            ),
        ],
        "train": [
            ("", 2, "CONFIG.toml"),
            ("no.toml", 2, "no.toml", "clearhead init"),
            ("good", 2, "good", "good.toml"),
            ("runs/texts", 2, "runs/texts", "TOML file"),
            ("table.xlsx", 2, "table.xlsx"),
            ("syntax.toml", 2, "syntax.toml", "line 2", 'folder = "runs/x"'),
            ("unknown.toml", 2, "unknown.toml", "model.d_modle", "model.d_model"),
            ("no-data.toml", 2, "data.train"),
            ("no-validation.toml", 2, "data.validation"),
            ("moved/moved.toml", 3, "HERE/moved/pairs.tsv", "no such file"),
            ("good.toml --set", 2, "--set"),
            ("good.toml --set model.d_model=-3", 2, "model.d_model", "-3"),
            ("good.toml --set model.d_model=30 --set model.n_heads=4", 2, "n_heads"),
            ("twice.toml", 2, "twice.toml", "line 2"),
            ("good.toml --set data.train=no.tsv", 3, "HERE/no.tsv", "no such file"),
            ("good.toml --set data.train=[a.en,a.de]", 2, """'data.train=["a.en", "a.de"]'"""),
            ("""good.toml --set 'data.train=["no.tsv"]'""", 3, "HERE/no.tsv", "no such file"),
            ("""good.toml --set 'data.train=["a.en", "short.de"]'""", 3, "a.en", "short.de", "5"),
            ("""good.toml --set 'data.train=["val.tsv"]'""", 3, "train"),
            ("good.toml --set data.max_length=1", 3, "pairs.tsv", "more than 1 token", "[data]"),
            ("good.toml --set training.max_steps=0", 2, "training", "max_epochs"),
            ("good.toml --dryrun", 2, "--dryrun", "--dry-run"),
            ("good.toml classes.toml", 2, "classes.toml"),
            ("""classes.toml --set 'data.train=["sequences.npy"]'""", 3, "sequences.npy"),
            ("classes.toml --set input=features", 3, "texts.csv:1", "text"),
            ("good.toml --set classifier.dropout=0.5", 2, "classifier.dropout"),
            ("good.toml --set folder=good.toml", 6, "good.toml"),
            ("good.toml --set folder=/dev/null/x", 6, "/dev/null/x"),
            ("one-class.toml", 3, "one-class.csv"),
            ("bare.toml", 3, "bare.tsv", "data.text_column = 1 and data.label_column = 2"),
            ("""bare.toml --set 'data.train=["bare.csv"]'""", 3, "bare.csv:1", "--text-column 1"),
            ("good.toml --set start_from=runs/texts", 4, "runs/texts", "translator"),
            ("good.toml --set start_from=runs/failed", 2, "start_from", "folder"),
            ("good.toml --set start_from=runs/translator", 2, "model.d_model", "start_from"),
            ("variable.toml", 2, "CLEARHEAD_NO_SUCH_VARIABLE"),
        ],
        "translate": [
            ("", 2, "FOLDER"),
            ("runs/no", 4, "runs/no", "clearhead train"),
            ("good.toml", 4, "good.toml", "model folder"),
            ("folder", 4, "folder", "config.json"),
            ("runs/texts", 4, "runs/texts", "classify"),
            ("m --beem-size 3", 2, "--beem-size", "--beam-size"),
            ("m --device gpu", 2, "--device", "'gpu'", "cuda"),
            ("m --batch-size 0", 2, "--batch-size", "less than 1"),
            ("runs/translator -i no.txt", 3, "no.txt", "no such file"),
            ("runs/translator -i empty.txt", 3, "empty.txt", "empty"),
            ("runs/translator -i folder", 3, "folder"),
            ("runs/translator -i a.en -o missing/out.txt", 3, "missing", "mkdir"),
            ("runs/translator -i a.en -o folder", 3, "folder", "--output"),
            ("runs/translator -i a.en -o a.en", 3, "a.en", "overwrite"),
            ("runs/translator -i a.en -o /dev/full", 3, "/dev/full", "No space"),
            ("runs/translator --beam-size 0", 5, "--beam-size"),
            ("runs/translator --n-best 3 --beam-size 1", 5, "raise --beam-size", "lower --n-best"),
            ("runs/translator --temperature 2 --beam-size 4", 5, "--sample"),
            ("runs/translator --device cuda", 2, "cuda", "cpu"),
            ("runs/translator --prefix-file b.en -i a.en", 3, "prefixes", "2"),
            ("runs/translator/weights.safetensors", 4, "did you mean runs/translator?"),
            ("runs/translator a.en", 2, "a.en", "-i"),
            ("runs/damaged", 4, "runs/damaged", "weights"),
            ("runs/no-weights", 4, "runs/no-weights", "weights"),
            ("runs/bad-config", 4, "runs/bad-config", "damaged"),
            ("runs/foreign", 4, "runs/foreign", "clearhead"),
            ("runs/no-vocabulary", 4, "runs/no-vocabulary"),
            ("runs/translator --engine ctranslate2", 7, "runs/translator", "clearhead export"),
        ],
        "classify": [
            ("runs/no", 4, "runs/no"),
            ("runs/translator", 4, "runs/translator", "translate"),
            ("runs/features", 3, "--input"),
            ("runs/features --input texts.csv", 3, "texts.csv"),
            ("runs/texts --input sequences.npy", 3, "sequences.npy", "NumPy"),
            ("runs/texts -i names.csv", 3, "names.csv:1", "--text-column"),
            ("runs/texts -i names.tsv", 3, "names.tsv", "--text-column"),
        ],
        "evaluate": [
            ("runs/translator", 3, "--source"),
            ("runs/translator --source a.en", 3, "--reference"),
            ("runs/translator --source a.en --reference short.de", 3, "6", "5"),
            ("runs/translator --source no.en --reference a.de", 3, "no.en"),
            ("runs/texts --source a.en --reference a.de", 2, "--source", "--data"),
            ("runs/texts", 3, "--data"),
            ("runs/texts --data other.csv", 3, "other.csv", "--text-column"),
            ("runs/texts --data unseen.tsv", 3, "unseen.tsv:1", "maybe"),
            ("runs/texts --data a.en", 3, "a.en", ".tsv"),
            ("runs/texts --data bare.tsv", 3, "bare.tsv:1", "--text-column 1 --label-column 2"),
            ("runs/texts --data names.tsv", 3, "names.tsv:1", "data.text_column"),
            ("runs/texts runs/texts --data test.tsv", 3, "twice"),
            ("runs/translator runs/texts --source a.en --reference a.de", 2, "runs/texts"),
        ],
        "figures": [
            ("runs/translator a --output good.toml", 3, "good.toml"),
        ],
        "export": [
            ("runs/texts --format ctranslate2", 7, "runs/texts"),
            ("folder --format ctranslate2", 4, "config.json"),
            ("runs/translator --format keras", 2, "--format", "ctranslate2"),
            ("runs/no --format ctranslate2", 4, "runs/no"),
            ("runs/features --format huggingface", 7, "runs/features", "features"),
            ("runs/translator --format onnx", 7, "runs/translator", "onnx"),
            ("runs/translator --int8", 7, "int8", "--compute-type"),
            ("runs/texts --format onnx --output folder", 7, "folder"),
        ],
        "import": [
            ("runs/texts runs/new", 2, "hf"),
            ("hf runs/texts", 2, "FOLDER"),
            ("hf no runs/new", 4, "HERE/no", "hf:no"),
            ("hf runs/texts runs/new", 4, "runs/texts", "start_from"),
            ("hf runs/foreign runs/texts", 4, "runs/texts", "exists"),
        ],
        "phrasebook": [
            ("en-fr new", 3, "en-fr", "en-es"),
            ("en-es folder", 3, "folder", "--force"),
            ("en-es good.toml --force", 3, "good.toml", "file"),
        ],
    }
    found = []
    for command, rows in tables.items():
        for words, code, *parts in rows:
            assert isinstance(code, int)
            found.append(Mistake(f"{command} {words}".strip(), code, tuple(map(str, parts))))
    return found


MISTAKES = _mistakes()


def write_files(folder: Path) -> None:
    """Good and bad data, configurations and model folders."""

    def lines(side: Iterable[str]) -> str:
        return "".join(f"{text}\n" for text in side)

    english, spanish = zip(*phrasebook_pairs("phrasebook:en-es", "test"), strict=True)
    known = list(zip(*phrasebook_pairs("phrasebook:en-es", "validation"), strict=True))
    rows = [(f"a film of {n} hours", "yes" if n % 2 else "no") for n in range(48)]
    texts = {
        "a.en": "".join(f"{text}\n" for text in TEXTS),
        "a.de": "".join(f"{text}\n" for text in TEXTS),
        "b.en": "a\n",
        "short.de": "".join(f"{text}\n" for text in TEXTS[:-1]),
        "empty.txt": "",
        "pairs.tsv": "".join(f"{a} {b}\t{b} {a}\n" for a in TEXTS for b in TEXTS),
        "val.tsv": "a a\tb b\n",
        "wrong.tsv": "a\tb\nonly one side\n",
        "three.tsv": "1\ta\tb\n",
        "test.tsv": labelled(zip(TRUTH, TEXTS, strict=True)),
        "unseen.tsv": labelled([("maybe", "a b"), ("yes", "c")]),
        "texts.csv": "text,label\n"
        + "".join(f"{n} a,{'yes' if n % 2 else 'no'}\n" for n in range(40)),
        "other.csv": "body,topic\na b,yes\nc d,no\n",
        "bare.tsv": "".join(f"{text}\t{label}\n" for text, label in rows),
        "bare.csv": "".join(f"{text},{label}\n" for text, label in rows),
        "bare-swapped.tsv": labelled((label, text) for text, label in rows),
        "words.tsv": "".join(f"word{n}\t{label}\n" for n, (_, label) in enumerate(rows)),
        "swapped.tsv": "text\tlabel\n" + labelled((label, text) for text, label in rows),
        "names.csv": "sentence,mood\na good film,yes\na bad film,no\n",
        "names.tsv": "sentence\tmood\na good film\tyes\na bad film\tno\n",
        "book.en": lines(english),
        "book.es": lines(spanish),
        "copy.en": lines(english),
        "shifted.es": lines([*spanish[1:], spanish[0]]),
        "val.en": lines(known[0]),
        "val.es": lines(known[1]),
        "one-class.csv": "text,label\n" + "".join(f"{n} a,yes\n" for n in range(40)),
        "bad.jsonl": '{"text": "a", "label": "b"}\n{"text": "a"\n',
        "good.toml": f'{SMALL}[data]\ntrain = ["pairs.tsv"]\nvalidation = ["val.tsv"]\n',
        "syntax.toml": "seed = 1\nfolder = runs/x\n",
        "twice.toml": "seed = 1\nseed = 2\n",
        "unknown.toml": "[model]\nd_modle = 3\n",
        "no-data.toml": "seed = 1\n",
        "no-validation.toml": '[data]\ntrain = ["pairs.tsv"]\n',
        "moved/moved.toml": '[data]\ntrain = ["pairs.tsv"]\nvalidation = ["val.tsv"]\n',
        "one-class.toml": f'task = "classification"\n{SMALL}[data]\ntrain = ["one-class.csv"]\n',
        "classes.toml": f'task = "classification"\n{SMALL}[data]\ntrain = ["texts.csv"]\n',
        "bare.toml": f'task = "classification"\n{SMALL}[data]\ntrain = ["bare.tsv"]\n',
        "variable.toml": '[data]\ntrain = ["${CLEARHEAD_NO_SUCH_VARIABLE}/a.tsv"]\n',
        "folder/notes.txt": "a\n",
        "runs/foreign/config.json": '{"architectures": ["BertModel"]}\n',
    }
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    polish, russian = (
        "Zażółć gęślą jaźń.\n",
        "Двое мужчин стоят перед магазином, говорят о погоде.\n",
    )
    packed = gzip.compress(os.urandom(4000).hex().encode())
    contents = {
        "latin2.txt": polish.encode("iso8859-2"),
        "utf16.txt": russian.encode("utf-16"),
        "table.xlsx": b"PK\x03\x04" + bytes(range(256)),
        "cut.tsv.gz": packed[: len(packed) // 2],
        "sequences.npy": b"\x93NUMPY\x01\0" + bytes(200),
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    runs = folder / "runs"
    write_models(runs)
    for name in ("damaged", "no-weights", "bad-config", "no-vocabulary"):
        shutil.copytree(runs / "translator", runs / name)
    weights = runs / "damaged/weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    (runs / "no-weights/weights.safetensors").unlink()
    (runs / "bad-config/config.json").write_text('{"format": 1, "config": ')
    (runs / "no-vocabulary/tokenizer.json").unlink()


def told(mistake: Mistake) -> tuple[int, str, str]:
    """The exit code, the output and the message of a mistake."""
    return run(*shlex.split(mistake.command), stdin=mistake.stdin)


def files_below(folder: Path) -> dict[str, int]:
    # The file that a run has locked stays: removed, it could be taken from under another run.
    return {
        str(path.relative_to(folder)): path.stat().st_size
        for path in folder.rglob("*")
        if path.is_file() and path.name != ".lock"
    }


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder that other users may read as well, unlike those of pytest."""
    with tempfile.TemporaryDirectory() as temporary:
        os.chmod(temporary, 0o755)
        write_files(Path(temporary))
        yield Path(temporary).resolve()


@pytest.fixture(autouse=True)
def _in_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(folder)
    monkeypatch.delenv("CLEARHEAD_NO_SUCH_VARIABLE", raising=False)
    yield
    shutil.rmtree(folder / "runs/failed", ignore_errors=True)


@pytest.mark.slow
@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.command or "nothing")
def test_a_mistake_gets_a_short_message_and_leaves_nothing_behind(
    folder: Path, mistake: Mistake
) -> None:
    before = files_below(folder)
    code, out, err = told(mistake)
    assert code == mistake.code, out + err
    for part in mistake.parts:
        assert part.replace("HERE", str(folder)) in err, err
    assert out == ""
    assert len(err.splitlines()) <= MOST_LINES
    for riddle in ("Traceback", "Errno", "Input should", ".part", ".unfinished", "codec"):
        assert riddle not in err
    assert files_below(folder) == before


def test_a_current_folder_that_was_removed_is_named(folder: Path) -> None:
    (folder / "gone").mkdir()
    os.chdir(folder / "gone")
    (folder / "gone").rmdir()
    code, _, err = run("init", "m", "--train", "a.en", "a.de")
    assert code == 3
    assert "current folder" in err


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("init closed/m", 2),
        ("init m --train closed/a.tsv", 3),
        ("train closed/x.toml", 2),
        ("train good.toml --set folder=closed/x", 6),
        ("translate closed/model", 4),
        ("translate runs/translator -i closed/in.txt", 3),
        ("translate runs/translator -i a.en -o closed/out.txt", 3),
        ("phrasebook en-es closed/book", 3),
    ],
)
def test_a_lack_of_permissions_is_named(folder: Path, command: str, code: int) -> None:
    closed, user = folder / "closed", os.geteuid()
    closed.mkdir(mode=0)
    # The other user may have no access to the files of Python, so all modules are loaded before.
    codecs.lookup("utf-8-sig")
    run(*shlex.split(command.replace("closed", "missing")))
    if user == 0:  # permissions do not count for root
        os.seteuid(NOBODY)
    try:
        found, _, err = run(*shlex.split(command))
    finally:
        os.seteuid(user)
        closed.chmod(0o700)
        shutil.rmtree(closed)
    assert found == code, err
    assert "closed" in err
    assert "Permission denied" in err
    assert "Errno" not in err
    assert len(err.splitlines()) <= 4


def translating() -> subprocess.Popen[bytes]:
    """A process that translates its standard input."""
    words = [sys.executable, "-m", "clearhead", "translate", "runs/translator"]
    pipe = subprocess.PIPE
    return subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe)


@pytest.mark.slow
def test_ctrl_c_ends_a_command_with_one_line() -> None:
    with translating() as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(b"a b\n" * BLOCK_LINES)
        process.stdin.flush()
        process.stdout.readline()  # it has begun, and waits for more
        process.send_signal(signal.SIGINT)
        err = process.communicate(timeout=60)[1]
    assert process.returncode == 130
    *warnings, last = err.splitlines()
    assert last == b"clearhead: interrupted"
    assert all(b"clearhead: warning: line " in line for line in warnings)
