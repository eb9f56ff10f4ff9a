"""The command: help, errors, `init`, `train` and `phrasebook`."""

from __future__ import annotations

import errno
import io
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import torch

import clearhead
from clearhead.api import loading, training
from clearhead.cli import COMMANDS, main, translate
from clearhead.cli.failures import print_message
from clearhead.cli.options import SHARED
from clearhead.device import DEVICES, SPIN_COUNT
from clearhead.errors import DataError, TrainingError
from clearhead.settings import RunConfig, read_config
from clearhead.training.events import Note, RunEnded, RunStarted
from fake_translator import run


def child(*arguments: str, **settings: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, **settings)


# ---- help, version, what is loaded


def test_the_command_alone_prints_its_help() -> None:
    done = child("-m", "clearhead")
    assert done.returncode == 0
    assert all(command in done.stdout for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_s_help_has_an_example_that_can_be_copied(command: str) -> None:
    code, out, _ = run(command, "--help")
    assert code == 0
    assert out.isascii()
    joined = out.replace("\\\n", "")
    examples = [line for line in joined.splitlines() if line.startswith(f"  clearhead {command} ")]
    assert examples
    for example in examples:
        for word in shlex.split(example):
            if word.startswith("--"):
                assert f"{word} " in joined.replace(example, ""), word


def test_help_is_printed_in_any_encoding(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setattr(translate, "__doc__", "Ü … §")
    with pytest.raises(SystemExit):
        main(["translate", "--help"])
    stream.flush()
    assert b"? ? ?" in stream.buffer.getvalue()  # pyright: ignore[reportAttributeAccessIssue]


def test_options_have_the_devices_and_engines_that_loading_takes() -> None:
    # Their modules are not imported by the options, which must be fast.
    assert set(SHARED["--device"]["choices"]) == set(DEVICES)
    assert set(SHARED["--engine"]["choices"]) == set(loading.ENGINES)


def test_the_version_is_printed() -> None:
    assert run("--version")[:2] == (0, f"clearhead {clearhead.__version__}\n")


RUN_COMMAND = (
    "import os, sys\n"
    "from clearhead.cli import main, phrasebook\n"
    "def show(args):\n"
    "    found = {name: os.environ.get(name) for name in ('GOMP_SPINCOUNT', 'OMP_WAIT_POLICY')}\n"
    "    print(found, 'torch' in sys.modules)\n"
    "    import torch\n"
    "phrasebook.run = show\n"
    "main(['phrasebook', 'en-es', 'd'])\n"
)


def waiting(**chosen: str) -> tuple[str, str]:
    """The variables that a command has for how threads wait, and what libgomp prints of them."""
    waits = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
    others = {name: value for name, value in os.environ.items() if name not in waits}
    done = child("-c", RUN_COMMAND, env={**others, **chosen, "OMP_DISPLAY_ENV": "VERBOSE"})
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1], done.stderr


def test_the_command_limits_busy_waiting_before_torch_is_loaded() -> None:
    found = {"GOMP_SPINCOUNT": str(SPIN_COUNT), "OMP_WAIT_POLICY": None}
    shown, of_libgomp = waiting()
    assert shown == f"{found} False"
    assert sys.platform != "linux" or f"GOMP_SPINCOUNT = '{SPIN_COUNT}'" in of_libgomp


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("arguments", [("--help",), ("train", "--help"), ("--version",), ()])
def test_a_full_disk_gives_a_message_without_traceback(arguments: tuple[str, ...]) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "clearhead", *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 3
    assert done.stderr.startswith("clearhead: the output cannot be written\nWhy: ")
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


def test_a_closed_standard_error_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone:
        def write(self, text: str) -> None:
            raise BrokenPipeError

    for stream in (Gone(), None):
        monkeypatch.setattr(sys, "stderr", stream)
        print_message("anything")


@pytest.mark.parametrize(
    ("name", "why"),
    [("x" * 300, "File name too long"), ("readme/below-a-file", "is a file, not a folder")],
)
def test_a_name_that_the_file_system_rejects_gives_a_message(
    name: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "readme").write_text("a file")
    code, _, err = run("phrasebook", "en-es", name)
    assert code == DataError.exit_code
    assert err.startswith(f"clearhead: {name}")
    assert why in err
    assert sorted(tmp_path.iterdir()) == [tmp_path / "readme"]


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.EIO, "Input/output error", "disk"),
        OSError(errno.EROFS, "Read-only file system"),
        FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']"),
    ],
)
def test_an_error_of_the_disk_gives_a_message(
    error: OSError, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: Any) -> None:
        raise error

    monkeypatch.setattr(Path, "exists", failing)
    code, out, err = run("phrasebook", "en-es", str(tmp_path / "new"))
    assert (code, out) == (DataError.exit_code, "")
    assert str(error.strerror) in err
    assert "What to do: " in err


@pytest.mark.parametrize("error", [OSError("no file"), OSError(errno.EBADF, "", 3)])
def test_an_unexpected_system_error_keeps_its_traceback(
    error: OSError, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: Any) -> None:
        raise error

    monkeypatch.setattr(Path, "exists", failing)
    with pytest.raises(OSError, match=re.escape(str(error))):
        run("phrasebook", "en-es", str(tmp_path / "new"))


def test_a_bug_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def bug(*_: Any, **__: Any) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(loading, "load_translator", bug)
    with pytest.raises(RuntimeError, match="a bug"):
        run("translate", "m", stdin="a\n")


@pytest.mark.parametrize("how", ["numpy", "torch"])
def test_full_memory_gives_a_message(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def too_much(*args: object, **others: object) -> None:
        if how == "torch":
            torch.empty(2**60, dtype=torch.uint8)
        np.empty(2**60, dtype=np.uint8)

    monkeypatch.setattr(loading, "load_translator", too_much)
    code, out, err = run("translate", "m", stdin="a\n")
    assert (code, out) == (1, "")
    assert "the memory of this machine is full" in err
    assert "use a smaller model" in err


# ---- init


@pytest.fixture
def text_files(tmp_path: Path) -> tuple[str, str]:
    (tmp_path / "a.en").write_text("A man.\nTwo dogs.\n")
    (tmp_path / "a.de").write_text("Ein Mann.\nZwei Hunde.\n")
    return str(tmp_path / "a.en"), str(tmp_path / "a.de")


def test_init_writes_a_configuration_that_can_be_read(
    tmp_path: Path, text_files: tuple[str, str]
) -> None:
    name = str(tmp_path / "my-model")
    validation = "phrasebook:de-en:test"
    code, out, err = run("init", name, "--train", *text_files, "--validation", validation)
    assert (code, out) == (0, "")
    assert "2 pairs" in err
    config = read_config(f"{name}.toml")
    assert (config.data.train, config.data.validation) == (text_files, (validation,))
    assert config.folder == "runs/my-model"
    assert {path.name for path in tmp_path.iterdir()} == {"a.en", "a.de", "my-model.toml"}


@pytest.mark.parametrize("name", ["m", "here/m", "../m"])
def test_init_writes_paths_that_start_in_the_folder_of_the_file(
    tmp_path: Path, text_files: tuple[str, str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / "shell/here").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "shell")
    files = ("--train", "../a.en", text_files[1], "--validation", "phrasebook:de-en")
    assert run("init", name, *files)[0] == 0
    assert str(tmp_path / "a.en") not in Path(f"{name}.toml").read_text()
    assert read_config(f"{name}.toml").data.train == text_files


@pytest.mark.parametrize(
    "form", ["{0} --train {1} {2}", "{0} --train {1} --train {2}", "--train {1} {2} -- {0}"]
)
def test_an_option_of_files_takes_two_or_is_repeated(
    tmp_path: Path, text_files: tuple[str, str], form: str
) -> None:
    words = ["--validation=phrasebook:de-en", *form.format(tmp_path / "m", *text_files).split()]
    assert run("init", *words)[0] == 0
    assert read_config(tmp_path / "m.toml").data.train == text_files


def test_init_overwrites_a_file_only_with_force(tmp_path: Path) -> None:
    path = tmp_path / "my-model.toml"
    path.write_text("mine")
    code, _, err = run("init", str(tmp_path / "my-model"))
    assert code == 2
    assert "exists already" in err
    assert path.read_text() == "mine"
    assert run("init", str(path), "--force")[0] == 0
    assert read_config(path).data.train == ()


def test_init_that_fails_writes_nothing(tmp_path: Path) -> None:
    code, _, err = run("init", str(tmp_path / "m"), "--train", "no.en", "no.de")
    assert code == 3
    assert err.startswith("clearhead: no.en: there is no such file")
    code, _, err = run("init", str(tmp_path / "no folder" / "m"))
    assert code == 2
    assert err.startswith(f"clearhead: {tmp_path / 'no folder'}: the folder is missing")
    assert "mkdir -p '" in err
    assert list(tmp_path.iterdir()) == []


def test_the_commands_that_init_prints_and_writes_can_be_copied(tmp_path: Path) -> None:
    path = tmp_path / "my model.toml"
    _, _, err = run("init", str(path))
    command = err.splitlines()[-1].split(": ", 2)[2]
    assert shlex.split(command) == ["clearhead", "train", str(path), "--dry-run"]
    commands = [
        shlex.split(line.removeprefix("#"))
        for line in path.read_text().splitlines()
        if line.startswith("#   clearhead")
    ]
    assert [words[:3] for words in commands] == [
        *[["clearhead", "train", str(path)]] * 2,
        ["clearhead", "translate", "runs/my model"],
    ]


# ---- train


@pytest.fixture
def toml(tmp_path: Path) -> Path:
    path = tmp_path / "my model.toml"
    path.write_text("[training]\nmax_steps = 7\n")
    return path


def ended(finished: bool) -> RunEnded:
    return RunEnded(7, "7 steps are done" if finished else "interrupted", finished, "runs/m")


def test_train_passes_its_options_on_and_reports_on_the_standard_error(
    toml: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    received = {}

    def train(config: RunConfig, *, restart: bool, observers: Sequence[Any]) -> RunEnded:
        received.update(config=config, restart=restart)
        for event in (Note("learning"), ended(finished=True)):
            observers[0].observe(event)
        return ended(finished=True)

    monkeypatch.setattr(training, "train", train)
    code, out, err = run("train", str(toml), "--set", "seed=5", "--restart")
    assert (code, out) == (0, "")
    assert received["restart"] is True
    assert (received["config"].seed, received["config"].training.max_steps) == (5, 7)
    assert "learning\n" in err
    assert "clearhead translate 'runs/my model'" in err


@pytest.mark.parametrize("given", [[], ["--restart"]])
@pytest.mark.parametrize("reached", ["nothing", "training", "training, which ends by itself"])
def test_an_interrupted_training_prints_the_command_that_resumes(
    toml: Path, monkeypatch: pytest.MonkeyPatch, given: list[str], reached: str
) -> None:
    def train(config: RunConfig, observers: Sequence[Any], **_: Any) -> RunEnded:
        begun = RunStarted("runs/m", "cpu", "float32", 9, 0, 7, 1, "bleu")
        for observer in observers:
            observer.observe(Note("learning") if reached == "nothing" else begun)
        if "by itself" in reached:
            return ended(finished=False)
        raise KeyboardInterrupt

    monkeypatch.setattr(training, "train", train)
    arguments = [str(toml), "--set", 'folder="a b"', "--set", "seed=5"]
    code, _, err = run("train", *arguments, *given)
    assert code == 130
    # --restart would throw away what was reached; before training, the old run is still there.
    again = given if reached == "nothing" else []
    command = err.split("to resume: ")[1]
    assert shlex.split(command) == ["clearhead", "train", *arguments, *again]


def test_a_dry_run_prints_its_lines_and_trains_nothing(
    toml: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Dry:
        def lines(self) -> list[str]:
            return ["parameters: 7", "memory: 8 MB"]

    def dry_run(config: RunConfig, *, observers: Sequence[Any]) -> Dry:
        for observer in observers:
            observer.observe(Note("learning"))
        return Dry()

    monkeypatch.setattr(training, "dry_run", dry_run)
    monkeypatch.setattr(training, "train", None)
    code, out, err = run("train", str(toml), "--dry-run")
    assert (code, out) == (0, "parameters: 7\nmemory: 8 MB\n")
    assert "learning\n" in err


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_dry_run_that_is_ended_removes_what_it_has_written(
    toml: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, sent: signal.Signals
) -> None:
    if signal.getsignal(sent) is signal.SIG_IGN:
        pytest.skip("the tests run with nohup")

    def dry_run(config: RunConfig, *, observers: Sequence[Any]) -> None:
        with TemporaryDirectory(dir=tmp_path, prefix="dry"):
            signal.raise_signal(sent)

    monkeypatch.setattr(training, "dry_run", dry_run)
    assert run("train", str(toml), "--dry-run")[0] == 130
    assert not list(tmp_path.glob("dry*"))


def test_an_error_of_the_training_gives_its_own_exit_code(
    toml: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def train(config: RunConfig, **_: Any) -> RunEnded:
        raise TrainingError("training diverged", where="step 7", todo="lower the peak")

    monkeypatch.setattr(training, "train", train)
    code, _, err = run("train", str(toml))
    assert code == TrainingError.exit_code
    assert "clearhead: step 7: training diverged\nWhat to do: lower the peak" in err


# ---- phrasebook


def test_the_phrasebook_is_written_and_nothing_is_overwritten(tmp_path: Path) -> None:
    folder = tmp_path / "book"
    code, out, _ = run("phrasebook", "en-es", str(folder))
    assert code == 0
    paths = [Path(line) for line in out.splitlines()]
    assert sorted(paths) == sorted(folder.iterdir())
    assert {"train.en", "train.es", "test.en"} <= {path.name for path in paths}
    (folder / "train.en").write_text("mine\n")
    assert run("phrasebook", "en-es", str(folder))[0] == 3
    assert (folder / "train.en").read_text() == "mine\n"
    assert run("phrasebook", "en-es", str(folder), "--force")[0] == 0
    assert run("phrasebook", "en-xx", str(folder))[0] == 3
    (tmp_path / "file").write_text("")
    assert run("phrasebook", "en-es", str(tmp_path / "file"), "--force")[0] == 3


def test_a_phrasebook_that_cannot_be_written_leaves_whole_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    folder = tmp_path / "book"
    assert run("phrasebook", "en-es", str(folder))[0] == 0
    before = {path: path.read_bytes() for path in folder.iterdir()}
    monkeypatch.setattr(os, "fsync", full)
    code, _, err = run("phrasebook", "en-es", str(folder), "--force")
    assert code == 3
    assert "No space left" in err
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
