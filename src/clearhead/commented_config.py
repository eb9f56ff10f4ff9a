"""A configuration as a file for people: TOML with comments on what each setting is, and why."""

from __future__ import annotations

import json
import shlex
import textwrap
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from clearhead.config import RunConfig

MEANINGS = {
    "seed": "all that is random follows from it",
    "data.train": "needed: source and target, line by line",
    "data.validation": "needed: picks the best model; never trained on",
    "data.test": "training pairs that are also in it are left out",
    "data.max_length": "training pairs with more tokens on a side are left out",
    "tokenizer.kind": "bpe, unigram or words",
    "tokenizer.max_vocabulary": "pieces, at most",
    "tokenizer.joint": "one vocabulary for both languages",
    "tokenizer.lower": "true: lower-case both sides, for good",
    "tokenizer.sampling": "the chance of other segmentations in training, e.g. 0.1",
    "model.size": "tiny, small, base or big",
    "model.norm": "pre or post: the place of layer normalisation",
    "model.share_embeddings": "none, target (input and output) or all",
    "model.dropout": "the share of numbers hidden in training, from 0 to 1",
    "training.max_steps": "limits of the run: the first one reached ends it; 0: none",
    "training.max_epochs": "passes through the training data",
    "training.max_minutes": "of training, all sittings together",
    "training.patience": "validations in a row without a better score",
    "training.validate_every": "steps",
    "training.average_last": "checkpoints whose mean weights are tried at the end",
    "training.batch_tokens": "a step sees at most so many tokens a side, padding included",
    "training.accumulate": "batches a step: raise it if the memory is too small for the batch",
    "training.label_smoothing": "keeps the model from being too sure",
    "training.precision": "float32, or bf16: faster where the processor has it",
    "training.device": "auto, cpu or cuda",
    "training.threads": "of the processor; 0: as many as PyTorch chooses",
    "training.tensorboard": "true: write TensorBoard's files too",
    "training.schedule.kind": "inverse_sqrt, cosine, linear, constant or paper",
    "training.schedule.peak": "the highest learning rate",
    "training.schedule.warmup": "steps up to it",
    "search.beam_size": "1: greedy",
    "search.length_penalty": "0: none; the higher, the longer the output",
    "evaluation.tokenize": "13a, none, intl, char or zh: how BLEU parts text into words",
    "evaluation.measure": "bleu, chrf or loss: picks the best model",
}
"""The settings that are written, in their order; all others stay at their defaults."""


@dataclass(frozen=True)
class CommentedConfig:
    """The values of the settings in `MEANINGS` by dotted path, with reasons for some of them.

    `seen` is what was seen of the data that they are for, a line each.
    """

    values: dict[str, Any]
    reasons: dict[str, str]
    seen: tuple[str, ...] = ()

    def to_toml(self, name: str) -> str:
        """A commented file that `read_config` reads.

        Args:
            name: the file is to be called `name.toml`; it may have folders before it.
        """
        run = PurePath(name).name
        train = shlex.join(["clearhead", "train", f"{name}.toml"])
        translate = shlex.join(["clearhead", "translate", f"runs/{run}"])
        commands = {
            f"{train} --dry-run": "says what it would take",
            train: "trains; said again, goes on",
            f"{translate} < in.txt > out.txt": "",
        }
        width = len(train) + len(" --dry-run")
        lines = [
            _comment(f"{run}: a run of clearhead, which writes the model folder runs/{run}."),
            *map(_comment, self.seen),
            "#",
            *(_comment(f"  {said:<{width}}   {does}".rstrip()) for said, does in commands.items()),
            "",
        ]
        section = ""
        for path, meaning in MEANINGS.items():
            inside, _, setting = path.rpartition(".")
            if inside != section:
                lines += ["", f"[{inside}]"]
                section = inside
            lines += self._written(path, setting, meaning)
        return "\n".join(lines) + "\n"

    def _written(self, path: str, setting: str, meaning: str) -> list[str]:
        """The lines of one setting: its reason, its value, its meaning."""
        value = self.values[path]
        if value == ():
            side = {"validation": "val"}.get(setting, setting)
            return [f'# {setting} = ["{side}.en", "{side}.de"]  # {meaning}']
        reason = [f"# {part}" for part in textwrap.wrap(self.reasons.get(path, ""), 90)]
        line = f"{setting} = {_toml(value)}"
        if setting in ("train", "validation", "test"):
            return [f"# {meaning}", line]
        return [*reason, f"{line:<27} # {meaning}"]


def default_values() -> dict[str, Any]:
    """The values that a configuration has where nothing is said."""
    return {path: _default(path) for path in MEANINGS}


def _default(path: str) -> Any:
    """What the configuration has where nothing is said."""
    if path == "model.size":
        return "base"
    if path == "model.dropout":
        return RunConfig().model.dropout.residual
    value: Any = RunConfig()
    for name in path.split("."):
        value = getattr(value, name)
    return value


def _toml(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(_toml(item) for item in value)}]"
    # Strings and booleans are written alike in JSON and TOML, but for one character.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _comment(text: str) -> str:
    return "# " + "".join(c if c.isprintable() else "?" for c in text)
