"""No output of a command brings an escape sequence from data to a terminal.

The commands write to a pseudo-terminal. What arrives there is compared with what displays send.
"""

from __future__ import annotations

import json
import os
import pty
import re
import sys
import threading
import time
import tty
from dataclasses import replace
from pathlib import Path

import pytest

from clearhead.api import loading
from clearhead.cli import main
from clearhead.data.reading.tables import CONTROL
from clearhead.folder.manifest import sealed
from clearhead.terminal import REPLACEMENT, UNSAFE, filtered
from clearhead.training.display import displays
from clearhead.training.events import Note
from clearhead.training.task import Sample
from fake_translator import Backwards
from fake_translator import run as run_with_pipes
from hostile import HOSTILE, LINES, NAMES, grouped
from run_events import ENDED, STARTED, VALIDATED
from small_runs import SMALL_MODEL

OF_DISPLAYS = re.compile(r"\r|\x1b\[(?:\?25[lh]|1A|2?K|0m|1m|36m|1;36m|[\d;]*m(?=━|╺|╸|\x1b\[0m))")
"""What the live screen and the counter send: colours of labels and of the bar, and the cursor."""

END = "(the end of what was shown)"

LABELS = tuple(text for text in LINES if not CONTROL.search(text))
"""Those without control characters, which labels may not have."""

PAIRS = tuple(zip(LABELS, LABELS[1:] + LABELS[:1], strict=True))


class Screen:
    """A pseudo-terminal as standard output and standard error of commands in this process."""

    def __init__(self) -> None:
        self._master, slave = pty.openpty()
        tty.setraw(slave)  # no line break gets a carriage return
        self._received = bytearray()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.stream = os.fdopen(slave, "w", encoding="utf-8")

    def _read(self) -> None:
        # At the end, when all its other ends are closed, reading fails.
        try:
            while part := os.read(self._master, 2**16):
                self._received += part
        except OSError:
            pass

    def run(self, *words: str) -> int:
        """The exit code of a command."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "stdout", self.stream)
            patch.setattr(sys, "stderr", self.stream)
            try:
                main(words)
            except SystemExit as end:
                return int(end.code or 0)
            return 0

    def shown(self) -> str:
        """All that arrived; nothing more can be written."""
        # The kernel may drop what is under way when the last writer closes: wait for this mark.
        self.stream.write(END)
        self.stream.flush()
        until = time.monotonic() + 60
        while not self._received.endswith(END.encode()) and time.monotonic() < until:
            time.sleep(0.001)
        self.stream.close()
        self._reader.join(60)
        os.close(self._master)
        return self._received.decode().removesuffix(END)


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Screen:
    monkeypatch.chdir(tmp_path_factory.mktemp("here"))
    monkeypatch.setenv("TERM", "dumb")
    return Screen()


def assert_harmless(shown: str, texts: tuple[str, ...] = (), displays: bool = False) -> None:
    """Nothing unsafe is shown, and of these texts the harmless rest."""
    if displays:
        for text in HOSTILE:
            assert text not in shown
        shown = OF_DISPLAYS.sub("", shown)
    found = UNSAFE.search(shown)
    assert found is None, repr(shown[max(0, found.start() - 80) : found.end() + 80])
    for text in texts:
        assert UNSAFE.sub(REPLACEMENT, text) in shown


@pytest.mark.parametrize(
    "options", [(), ("--scores",), ("--n-best", "2"), ("--json",), ("-o", "/dev/tty")]
)
def test_translations(
    screen: Screen, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    monkeypatch.setattr(loading, "load_translator", lambda *_, **__: Backwards())
    # White space is lost where the translator reverses words.
    texts = tuple(text for text in LINES if len(text.split()) == 1)
    Path("in.txt").write_text("".join(f"{text}\n" for text in texts), newline="")
    if "-o" in options:
        options = ("-o", os.ttyname(screen.stream.fileno()))
    code = screen.run("translate", "m", "-i", "in.txt", *options)
    shown = screen.shown()
    assert code == 0, shown
    assert_harmless(shown, texts if "--json" not in options else ())


def test_in_a_pipe_a_translation_stays_as_it_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(loading, "load_translator", lambda *_, **__: Backwards())
    code, out, _ = run_with_pipes("translate", "m", stdin="b\x1b[31m a\n")
    assert (code, out) == (0, "a b\x1b[31m\n")
    code, _, err = run_with_pipes("translate", "m", "-i", "a\x1b[31m")
    assert code == 3
    assert "a\ufffd[31m" in err


@pytest.mark.slow
def test_names_of_files_folders_settings_and_options(screen: Screen) -> None:
    for name in NAMES:
        assert screen.run("translate", name)
    for name in grouped(NAMES):
        assert screen.run("translate", "m", "-i", name)
        assert screen.run("classify", name, "-i", name)
        assert screen.run("evaluate", name, "--data", name)
        assert screen.run("figures", name, "--input", name)
        assert screen.run("export", name, "-o", name)
        assert screen.run("import", "hf", name, name)
        assert screen.run("train", name)
        assert screen.run("init", f"missing/{name}", "--train", name)
        assert screen.run("init", "new", "--train", name, name, "--validation", name, name)
        assert screen.run(name)
        assert screen.run("train", f"--{name}")
        assert screen.run("translate", "m", name)
        assert screen.run("translate", "m", "--device", name)
        assert screen.run("translate", "m", "--beam-size", name)
        assert screen.run("phrasebook", name, "folder")
    assert_harmless(screen.shown(), NAMES)


@pytest.mark.slow
def test_configurations(screen: Screen) -> None:
    Path("run.toml").write_text("[data]\n")
    for text in NAMES:
        assert screen.run("train", "run.toml", "--set", f"{text}=1")
    for text in grouped(NAMES):
        assert screen.run("train", "run.toml", "--set", f"model.{text}=1")
        assert screen.run("train", "run.toml", "--set", f"training.device={text}")
        assert screen.run("train", "run.toml", "--set", f"data.train={json.dumps([text])}")
        Path("wrong.toml").write_text(f"{json.dumps(text)} = 1\n[model]\nd_model = {text}\n")
        assert screen.run("train", "wrong.toml")
        Path("keys.toml").write_text(f"[model]\n{json.dumps(text)} = {json.dumps(text)}\n")
        assert screen.run("train", "keys.toml")
    assert_harmless(screen.shown())


@pytest.mark.slow
def test_model_folders(screen: Screen) -> None:
    """Each file of a folder has hostile texts, where the files read before it are right."""
    folder = Path("model")
    folder.mkdir()
    (folder / "weights.safetensors").write_bytes(b"")
    right = {"format": 1, "config": {"task": "classification"}}
    entry = {"size": 1, "sha256": "0" * 64}

    def shows(name: str, tree: object) -> None:
        (folder / name).write_text(json.dumps(tree, ensure_ascii=False))
        assert screen.run("translate", "model")
        assert screen.run("classify", "model", "-i", "config.json")

    for text in HOSTILE:
        shows("config.json", {"format": text})
    for text in grouped(HOSTILE):
        for config in (
            {text: text},
            {"task": text},
            {"model": {text: 1}},
            {"folder": [text]},
            text,
        ):
            shows("config.json", {"format": 1, "config": config})
        shows("config.json", right)
        for manifest in ({"version": text}, {"version": 1, "files": {text: entry}}):
            shows("manifest.json", sealed(manifest))
        (folder / "manifest.json").unlink()
        for scores in ({"digest": text}, {"digest": "", "scores": {"temperature": text}}):
            shows("scores.json", scores)
        shows("scores.json", {"digest": "", "scores": {"temperature": 1.0}})
        for part in ("tokenizer.json", "labels.json"):
            for tree in ({"version": text}, {"version": 1, "kind": text, "labels": [text]}):
                shows(part, tree)
    assert_harmless(screen.shown())


@pytest.mark.slow
def test_a_classifier_from_its_data_to_its_figures(
    screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    lines = [f"{label}\tthe {text} {n}\n" for n in range(9) for label, text in PAIRS]
    lines += [f"{LABELS[n % len(LABELS)]}\ta word {text} of many\n" for n, text in enumerate(LINES)]
    Path("train.tsv").write_text("".join(lines), newline="")
    Path("test.tsv").write_text("".join(lines[:60]), newline="")
    Path("in.txt").write_text("".join(f"{text}\n" for text in LINES), newline="")
    for text in set(LINES) - set(LABELS):
        Path("labels.tsv").write_text(f"{text}\ta text\n" * 9, newline="")
        assert screen.run("init", "x", "--task", "classification", "--train", "labels.tsv")
    init = "init", "new", "--task", "classification", "--train", "train.tsv", "--mismatch", "warn"
    codes = [screen.run(*init)]
    small = [f"model.{name}={value}" for name, value in SMALL_MODEL.items()]
    small += ["training.max_steps=2", "training.validate_every=1", "training.average_last=1"]
    settings = [word for setting in small for word in ("--set", setting)]
    codes += [
        screen.run("train", "new.toml", *settings, "--dry-run"),
        screen.run("train", "new.toml", *settings),
        screen.run("classify", "runs/new", "-i", "in.txt", "--top", "3"),
        screen.run("classify", "runs/new", "-i", "in.txt", "--json"),
        screen.run("evaluate", "runs/new", "--data", "test.tsv"),
        screen.run("evaluate", "runs/new", "--data", "test.tsv", "--json"),
        screen.run("figures", "runs/new", HOSTILE[0], "--format", "svg"),
    ]
    shown = screen.shown()
    assert not any(codes), shown[-2000:]
    assert_harmless(shown, displays=True)
    for picture in Path().rglob("*.svg"):
        assert not UNSAFE.search(picture.read_text())


def test_samples_of_a_translator_in_training(
    screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    for terminal in ("dumb", "xterm"):
        monkeypatch.setenv("TERM", terminal)
        for text in HOSTILE:
            [display] = displays(filtered(screen.stream))
            display.observe(replace(STARTED, folder=text, device=text))
            samples = (Sample(text, text, text),)
            display.observe(replace(VALIDATED, samples=samples, signatures={text: text}))
            display.observe(Note(text))
            display.observe(replace(ENDED, folder=text, reason=text, signatures={text: text}))
            display.close()
    assert_harmless(screen.shown(), HOSTILE, displays=True)
