"""The commands as a user runs them: processes, pipes, signals and files."""

from __future__ import annotations

import json
import os
import select
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from clearhead.data.reading.phrasebook import phrasebook
from clearhead.folder.tensors import read_tensors

pytestmark = pytest.mark.slow

SMALL = [
    *("tokenizer.kind=words", "tokenizer.max_vocabulary=0", "tokenizer.sampling=0.0"),
    "model.encoder_layers=1",
    *("model.decoder_layers=1", "model.d_model=32", "model.d_ff=64", "model.n_heads=2"),
    *("training.batch_tokens=500", "training.validate_every=10", "training.max_steps=40"),
    *("training.max_epochs=0", "training.patience=0", "training.precision=float32"),
    "training.schedule={kind='constant', peak=5e-3, warmup=5}",
]


def clearhead(
    *words: str | Path, cwd: Path, stdin: bytes = b"", timeout: float = 300
) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "clearhead", *map(str, words)],
        cwd=cwd,
        input=stdin,
        capture_output=True,
        check=False,
        timeout=timeout,
    )


def train_words(config: str = "small.toml") -> list[str]:
    return ["train", config, *(word for setting in SMALL for word in ("--set", setting))]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with parallel files, a configuration from `init` and a model from `train`."""
    folder = tmp_path_factory.mktemp("user")
    book = phrasebook("en-es")
    for part, pairs in (("train", book.train[:400]), ("val", book.validation[:20])):
        for side, texts in (
            ("en", [pair.source for pair in pairs]),
            ("es", [pair.target for pair in pairs]),
        ):
            (folder / f"{part}.{side}").write_text("\n".join(texts) + "\n", encoding="utf-8")
    made = clearhead(
        *("init", "small", "--train", "train.en", "train.es", "--validation", "val.en", "val.es"),
        cwd=folder,
    )
    assert made.returncode == 0, made.stderr.decode()
    done = clearhead(*train_words(), cwd=folder)
    assert done.returncode == 0, done.stderr.decode()
    return folder


def test_training_through_the_command_leaves_a_model_that_has_learned(folder: Path) -> None:
    text = (folder / "runs/small/training/log.jsonl").read_text(encoding="utf-8")
    log = [json.loads(line) for line in text.splitlines()]
    losses = [
        entry["scores"]["loss"] for entry in log if "scores" in entry and "best_step" in entry
    ]
    assert len(losses) >= 4
    assert losses[-1] < losses[0]
    assert (folder / "runs/small/weights.safetensors").exists()


def test_the_command_gives_one_line_a_line_and_what_python_gives(folder: Path) -> None:
    from clearhead import api

    texts = ["the cat is black", "", "what is your name", "unseen wörds ☃", "no newline at the end"]
    stdin = "\n".join(texts).replace("name\n", "name\r\n").encode()
    done = clearhead("translate", "runs/small", cwd=folder, stdin=stdin)
    assert done.returncode == 0, done.stderr.decode()
    found = api.load_translator(folder / "runs/small", device="cpu").translate(texts)
    assert done.stdout.decode().split("\n") == [*(best.text for best, *_ in found), ""]


def test_ctrl_c_prints_the_command_that_resumes_and_a_kill_loses_nothing(folder: Path) -> None:
    words = train_words()
    words[words.index("training.max_steps=40")] = "training.max_steps=4000"
    words += ["--set", "folder=runs/long", "--set", "training.checkpoint_minutes=0.01"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    command, saved = ["clearhead", *words], 0
    for sent in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        process = subprocess.Popen(
            [sys.executable, "-m", *command],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
        )
        # Until it has written a checkpoint of its own.
        for _ in range(1200):
            if saved_step(folder) > saved:
                break
            time.sleep(0.1)
        process.send_signal(sent)
        out, error = process.communicate(timeout=120)
        narration = error.decode()
        assert out == b""
        assert "Traceback" not in narration
        assert beginning(saved) in narration
        reached = saved_step(folder)
        assert saved < reached < 4000
        saved = reached
        if sent == signal.SIGKILL:
            assert process.returncode == -signal.SIGKILL
            continue
        assert process.returncode == 130
        assert f"stopped at step {saved:,} " in narration
        # What is printed is what begins the next time.
        command = shlex.split(narration.split("to resume: ")[1])
        assert command == ["clearhead", *words]
    words[words.index("training.max_steps=4000")] = f"training.max_steps={saved + 1}"
    done = clearhead(*words, cwd=folder)
    assert done.returncode == 0, done.stderr.decode()
    assert beginning(saved) in done.stderr.decode()
    assert saved_step(folder) == saved + 1


def beginning(step: int) -> str:
    """The line in which the long run reports the step at which it starts."""
    return f"runs/long resumes at step {step:,}: " if step else "runs/long starts: "


def saved_step(folder: Path) -> int:
    """The step of the checkpoint from which the long run would resume; 0 without one."""
    path = folder / "runs/long/training/state.safetensors"
    return read_tensors(path)[1]["step"] if path.exists() else 0


def test_training_copes_with_lines_of_a_megabyte(tmp_path: Path) -> None:
    """They are dropped from the training data and cut in validation; both are reported."""
    book, long = phrasebook("en-es"), "the cat " * 125_000
    for part, pairs in (("train", book.train[:100]), ("val", book.validation[:5])):
        sources, targets = [pair.source for pair in pairs], [pair.target for pair in pairs]
        (tmp_path / f"{part}.en").write_text("\n".join([*sources, long]) + "\n")
        (tmp_path / f"{part}.es").write_text("\n".join([*targets, f"el gato {part}"]) + "\n")
    made = clearhead(
        *("init", "small", "--train", "train.en", "train.es", "--validation", "val.en", "val.es"),
        cwd=tmp_path,
    )
    assert made.returncode == 0, made.stderr.decode()
    words = train_words()
    words[words.index("training.max_steps=40")] = "training.max_steps=10"
    done = clearhead(*words, cwd=tmp_path)
    narration = done.stderr.decode()
    assert done.returncode == 0, narration
    assert "train: 1 left out: a side has more than" in narration
    assert "(train.en:101)" in narration
    assert "(val.en:6)" in narration
    assert "Warning" not in narration


def test_a_terminal_shows_a_screen_and_gets_its_cursor_back(folder: Path) -> None:
    words = train_words()
    words[words.index("training.max_steps=40")] = "training.max_steps=4000"
    words += ["--set", "folder=runs/screen"]
    ours, theirs = pytest.importorskip("pty").openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "clearhead", *words],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "40"},
    )
    os.close(theirs)
    shown, interrupted, deadline = b"", False, time.monotonic() + 120
    while select.select([ours], [], [], max(0.0, deadline - time.monotonic()))[0]:
        try:
            block = os.read(ours, 65536)
        except OSError:  # a Linux terminal that nobody writes to any more
            break
        if not block:
            break
        shown += block
        if not interrupted and b"learning rate" in shown and b"best" in shown:
            process.send_signal(signal.SIGINT)
            interrupted = True
    os.close(ours)
    if not interrupted:
        process.kill()
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert out == b""
    screen = shown.decode()
    hidden, given_back = "\x1b[?25l", "\x1b[?25h"
    assert screen.index(hidden) < screen.rindex(given_back)
    for word in ("training", "time", "loss", "speed", "memory", "validation", "source", "output"):
        assert word in screen, word
    *_, last = screen.strip().splitlines()
    assert "clearhead train small.toml" in last
    assert "Traceback" not in screen


@pytest.fixture(scope="module")
def pieces(folder: Path) -> str:
    """A model folder with a BPE vocabulary, after a single training step."""
    settings = [setting for setting in SMALL if not setting.startswith("tokenizer.")]
    settings += ["training.max_steps=1", "tokenizer.max_vocabulary=400", "folder=runs/pieces"]
    words = [word for setting in settings for word in ("--set", setting)]
    done = clearhead("train", "small.toml", *words, cwd=folder)
    assert done.returncode == 0, done.stderr.decode()
    from clearhead import api

    translator = api.load_translator(folder / "runs/pieces", device="cpu")
    assert translator.config.tokenizer.kind == "bpe"
    assert len(translator.source_tokenizer.encode("the cat is black")) > 4
    return "runs/pieces"


@pytest.mark.parametrize("long", ["the cat " * 125_000, "thecat" * 170_000, "\u2603" * 350_000])
def test_a_line_or_a_word_of_a_megabyte_in_pieces_is_cut_with_a_warning(
    folder: Path, pieces: str, long: str
) -> None:
    assert len(long.encode()) >= 1_000_000
    short = ("translate", pieces, "--beam-size", "1", "--max-length", "9")
    done = clearhead(*short, cwd=folder, stdin=f"{long}\nthe cat is black\n".encode(), timeout=90)
    assert done.returncode == 0, done.stderr.decode()
    assert len(done.stdout.splitlines()) == 2
    [warning] = [line for line in done.stderr.splitlines() if b"cut to" in line]
    assert b"line 1 has " in warning
