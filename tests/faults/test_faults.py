"""A few faults of each kind; `make faults` makes many."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from scripts import ROOT

sys.path.append(str(ROOT / "tests" / "faults"))
FAULTS = ROOT / "tests" / "faults"

import disk  # noqa: E402

pytestmark = pytest.mark.slow

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="forks, and reads /proc")
COMPILED = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")


def script(name: str, output: Path, *words: str) -> list[Any]:
    """The records of a script, which must find nothing wrong."""
    command = [sys.executable, str(FAULTS / name), *words, "--output", str(output)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()]


@LINUX
def test_a_run_that_was_killed_ends_with_the_same_bits(tmp_path: Path) -> None:
    names = ["float32", "bf16", "accumulation", "classifier"]
    words = ["--kills", "1", "--variants", *names]
    found = script("kills.py", tmp_path / "kills.jsonl", *words)
    assert names == [record["subject"].partition(",")[0] for record in found]
    assert all(record["met"] and sum(record["more"].values()) == 1 for record in found)
    assert not {"before the first event", "after RunEnded"} & {p for r in found for p in r["more"]}


@LINUX
def test_torchrun_resumes_a_run_of_which_a_process_was_killed(tmp_path: Path) -> None:
    words = ["--kills", "1", "--variants", "ddp", "--seed", "26"]  # mostly while it trains
    same_bits, seconds = script("kills.py", tmp_path / "kills.jsonl", *words)
    assert same_bits["met"]
    assert sum(same_bits["more"].values()) == 1
    assert seconds["met"]
    assert 0 < seconds["median"] <= 60


@LINUX
@COMPILED
def test_a_fault_between_two_calls_loses_at_most_one_interval(tmp_path: Path) -> None:
    words = ["--kills", "3", "--cuts", "2"]
    found = script("syscalls.py", tmp_path / "syscalls.jsonl", *words)
    assert [record["met"] for record in found] == [True] * 4


@LINUX
@COMPILED
def test_an_error_of_the_disk_loses_nothing_and_says_what_to_do(tmp_path: Path) -> None:
    words = ["--moments", "2", "--errors", "EIO", "--commands", "train", "export"]
    found = script("errors.py", tmp_path / "errors.jsonl", *words)
    assert found
    assert all(record["met"] for record in found)


def test_damaged_files_are_detected_or_harmless(tmp_path: Path) -> None:
    (found,) = script("damage.py", tmp_path / "damage.jsonl", "--sample", "40")
    assert found["met"]
    assert sum(found["more"].values()) == 40


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
def test_all_scripts_run_also_after_one_that_fails(tmp_path: Path) -> None:
    python, ran = tmp_path / "python", tmp_path / "ran"
    python.write_text(
        f'#!/bin/sh\necho "$1 $OMP_NUM_THREADS" >> {ran}\n[ "${{1#*errors}}" = "$1" ]\n'
    )
    python.chmod(0o755)
    words = ["make", "faults", f"BIN={tmp_path}", f"INSTALLED={tmp_path}"]
    surroundings = {name: value for name, value in os.environ.items() if "MAKE" not in name}
    done = subprocess.run(words, cwd=ROOT, env=surroundings, capture_output=True, check=False)
    assert done.returncode != 0
    names = ("kills", "syscalls", "errors", "damage", "fuzz")
    faults = [f"tests/faults/{name}.py 1" for name in names]
    assert ran.read_text().splitlines() == [*faults, "benchmarks/beside.py "]
    assert b"errors.py;" in done.stderr
    assert b"damage.py" not in done.stderr


ROOT_FOLDER = Path("/r")


def disk_after(*calls: tuple[Any, ...]) -> disk.Disk:
    found = disk.Disk(ROOT_FOLDER)
    for kind, path, *more in calls:
        offset = more[0] if kind == "T" else 0
        second = ROOT_FOLDER / more[0] if kind in "RL" else Path()
        data = more[0] if kind == "W" else b""
        found.make(disk.Call(kind, offset, ROOT_FOLDER / path, second, data))
    return found


def left(image: disk.Image) -> dict[str, bytes | None]:
    return {str(path.relative_to(ROOT_FOLDER)): content for path, content in image.items()}


WRITE_ASIDE = (("O", "aside"), ("W", "aside", b"new"), ("S", "aside"), ("R", "aside", "file"))
OLD = (("O", "file"), ("W", "file", b"old"), ("S", "file"), ("S", ""))


def test_a_file_that_was_written_aside_is_old_or_new() -> None:
    found = disk_after(*OLD, *WRITE_ASIDE)
    assert left(found.now()) == left(found.names_alone()) == {"file": b"new"}
    assert left(found.only_synced()) == {"file": b"old"}
    assert left(disk_after(*OLD, *WRITE_ASIDE, ("S", "")).only_synced()) == {"file": b"new"}


def test_a_content_that_was_not_synced_may_be_lost_or_cut_off() -> None:
    found = disk_after(*OLD, ("O", "aside"), ("W", "aside", b"1234"), ("R", "aside", "file"))
    assert left(found.names_alone()) == {"file": b""}
    images = [left(found.parts(random.Random(seed))) for seed in range(60)]
    contents = {tuple(sorted(image.items())) for image in images}
    assert contents == {
        *((("file", b"old"),), (("file", b""),), (("file", b"12"),), (("file", b"1234"),)),
        *((("aside", part), ("file", b"old")) for part in (b"", b"12", b"1234")),
    }


def test_a_folder_whose_name_was_not_synced_is_lost_with_its_files() -> None:
    calls = (("D", "new"), ("O", "new/file"), ("W", "new/file", b"x"), ("S", "new/file"))
    assert left(disk_after(*calls, ("S", "new")).only_synced()) == {}
    found = disk_after(*calls, ("S", "new"), ("R", "new", "moved"), ("S", ""))
    assert left(found.only_synced()) == {"moved": None, "moved/file": b"x"}


def test_links_removals_and_sizes() -> None:
    found = disk_after(*OLD, ("L", "file", "second"), ("U", "file"), ("T", "second", 2), ("S", ""))
    assert left(found.now()) == {"second": b"ol"}
    assert left(found.only_synced()) == {"second": b"old"}


def test_moments_are_spread_evenly() -> None:
    assert disk.evenly(3, 9) == [3, 6, 9]
    assert disk.evenly(5, 2) == [1, 2]
