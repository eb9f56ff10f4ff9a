"""Small runs of `clearhead train`, each in its own process, for the tests of faults."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import torch

from clearhead.cli import main
from clearhead.folder.model_folder import WEIGHTS
from clearhead.folder.tensors import read_tensors
from clearhead.training.checkpoints import SHARDS, STATE

ROOT = Path(__file__).parents[2]
sys.path += [str(ROOT / "tests" / "helpers"), str(ROOT / "benchmarks")]

# Imported before a process is forked, so that each run starts at once.
for _name in (
    *("clearhead.cli.train", "clearhead.api.preparation", "clearhead.api.loading"),
    *("clearhead.training.loop", "clearhead.training.display", "clearhead.tasks.translation"),
    *("clearhead.tasks.classification", "clearhead.decoding.torch_engine", "sacrebleu"),
    *("sentencepiece", "torch._dynamo", "clearhead.evaluation.baseline"),
):
    import_module(_name)

TRANSLATION = """
folder = "{folder}"
[data]
train = ["train.tsv"]
validation = ["validation.tsv"]
drop_duplicates = false
[tokenizer]
max_vocabulary = 60
sampling = 0.2
byte_fallback = false
[model]
encoder_layers = 1
decoder_layers = 1
d_model = 16
d_ff = 32
n_heads = 2
dropout = 0.2
[training]
batch_tokens = 200
average_last = 2
export = false
device = "cpu"
threads = 1
schedule = {{kind = "linear", peak = 5e-3, warmup = 5}}
{training}
[search]
beam_size = 2
max_length = 15
"""

CLASSIFICATION = """
task = "classification"
folder = "{folder}"
[data]
train = ["texts.tsv"]
max_length = 20
[tokenizer]
max_vocabulary = 60
sampling = 0.1
byte_fallback = false
[model]
encoder_layers = 1
d_model = 16
d_ff = 32
n_heads = 2
dropout = 0.1
[classifier]
pooling = ["mean", "maximum", "attention"]
[training]
batch_tokens = 200
average_last = 2
device = "cpu"
threads = 1
schedule = {{kind = "linear", peak = 2e-2, warmup = 5}}
{training}
"""


def helper(name: str) -> ModuleType:
    """A module of the benchmarks or of the tests' helpers."""
    return import_module(name)


def write_data(folder: Path) -> None:
    """Write the data files of both kinds of runs into a folder."""
    small = helper("small_runs")
    small.write_texts(folder).rename(folder / "texts.tsv")
    small.write_pairs(folder)


def write_run(folder: Path, name: str, template: str, training: str) -> Path:
    """Write the TOML file of a run; `training` are further settings of that section."""
    path = folder / f"{name}.toml"
    text = template.format(folder=folder / name, training=training)
    path.write_text(text, encoding="utf-8")
    return path


def start(words: list[str], log: Path, before: Callable[[], object] | None = None) -> int:
    """Start `clearhead` with these words in a process of its own; returns its id.

    The process is a copy of this one, which must have no other threads. It calls `before` first.
    What it prints goes to `log`.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if not child:
        _command(words, log, before)
    return child


def _command(words: list[str], log: Path, before: Callable[[], object] | None) -> NoReturn:
    code = 70
    try:
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for stream in (1, 2):
            os.dup2(output, stream)
        if before is not None:
            before()
        main(words)
        code = 0
    except SystemExit as stopped:
        code = stopped.code if isinstance(stopped.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError):
            sys.stderr.flush()
        os._exit(code)


def finish(words: list[str], log: Path, before: Callable[[], object] | None = None) -> int:
    """Run `clearhead` with these words to its end; returns its exit code, negative for a signal."""
    return exit_code(start(words, log, before))


def exit_code(process: int) -> int:
    """Wait for the end of a process."""
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def differences(run: Path, expected: Path) -> list[str]:
    """What differs between the results of two finished runs: weights, scores, state."""
    found = []
    scores = [json.loads((folder / "scores.json").read_bytes()) for folder in (run, expected)]
    if scores[0] != scores[1]:
        found.append("the scores")
    weights = [read_tensors(folder / WEIGHTS) for folder in (run, expected)]
    states = [helper("small_runs").read_state(folder) for folder in (run, expected)]
    for name, ((one, facts), (other, others)) in ((WEIGHTS, weights), (STATE, states)):
        if one.keys() != other.keys() or not all(same(one[key], other[key]) for key in one):
            found.append(f"the tensors of {name}")
        if steady(facts) != steady(others):
            found.append(f"the progress in {name}")
    if len({len(list((folder / SHARDS).glob("*"))) for folder in (run, expected)}) > 1:
        found.append(f"the number of folders in {SHARDS}")
    return found


def same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors have the same type, shape and bits."""
    return (
        one.dtype == other.dtype
        and one.shape == other.shape
        and one.numpy().tobytes() == other.numpy().tobytes()
    )


def steady(facts: dict[str, Any]) -> dict[str, Any]:
    """The facts of a file, without the time that the run took."""
    return {name: value for name, value in facts.items() if name != "elapsed_s"}


def events(run: Path) -> Iterator[dict[str, Any]]:
    """The events in the log of a run; an incomplete last line is left out."""
    path = run / "training" / "log.jsonl"
    if path.exists():
        for line in path.read_bytes().splitlines(keepends=True):
            if line.endswith(b"\n"):
                yield json.loads(line)


def last_line(log: Path) -> str:
    """The last line that a command printed."""
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "no output")
