"""A configuration as a file for people: TOML with comments on what each setting is, and why."""

from __future__ import annotations

import json
import shlex
import textwrap
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from clearhead.settings import RunConfig

PARTS = ("train", "validation", "test")


@dataclass(frozen=True)
class Form:
    """What is written for one kind of run.

    Attributes:
        run: a run of this kind in which nothing else is said, whence the defaults.
        meanings: the settings that are written by dotted path, in their order, and what each is;
            all others stay at their defaults.
        files: what stands in place of files that were not named, `{}` being the part.
        use: the command that uses the model, and what follows the model folder there.
        optional: settings that are written only where they are not what they are by default.
    """

    run: RunConfig
    meanings: Mapping[str, str]
    files: tuple[str, ...]
    use: tuple[str, str]
    optional: Collection[str] = ()

    def defaults(self) -> dict[str, Any]:
        """The values that the settings have where nothing is said."""
        return {path: self.default(path) for path in self.meanings}

    def default(self, path: str) -> Any:
        """The value that a setting has where nothing is said."""
        if path == "model.size":
            return "base"
        if path == "model.dropout":
            return self.run.model.dropout.residual
        value: Any = self.run
        for name in path.split("."):
            value = getattr(value, name)
        return value


_TRAINING = {
    "training.max_steps": "limits of the run: the first one reached ends it; 0: none",
    "training.max_epochs": "passes through the training data",
    "training.max_minutes": "of training, all sittings together",
    "training.patience": "validations in a row without a better score",
    "training.validate_every": "steps",
    "training.average_last": "checkpoints whose mean weights are tried, or kept, at the end",
    "training.keep": "best: by the validation score; or average: that mean, whatever its score",
    "training.batch_tokens": "a batch has at most so many tokens or frames, padding included",
    "training.accumulate": "batches a step: short of memory, raise it and lower batch_tokens",
    "training.word_dropout": "the share of tokens or frames hidden in training",
    "training.label_smoothing": "keeps the model from being too sure",
    "training.precision": "float32, bf16, or auto: bf16 where the processor multiplies it",
    "training.device": "auto, cpu or cuda",
    "training.threads": "of the processor; 0: as many as PyTorch chooses",
    "training.tensorboard": "true: write TensorBoard's files too",
}

_SCHEDULE = {
    "training.schedule.kind": "inverse_sqrt, cosine, linear, constant or paper",
    "training.schedule.peak": "the highest learning rate",
    "training.schedule.warmup": "steps up to it",
}

TRANSLATION = Form(
    run=RunConfig(),
    meanings={
        "seed": "all that is random follows from it",
        "data.train": "needed: source and target, line by line",
        "data.validation": "needed: picks the best model; never trained on",
        "data.test": "training pairs that are also in it are left out",
        "data.max_length": "training pairs with more tokens on a side are left out",
        "tokenizer.kind": "bpe, unigram or words",
        "tokenizer.max_vocabulary": "pieces or words, at most; 0: all words",
        "tokenizer.joint": "one vocabulary for both languages",
        "tokenizer.lower": "true: lower-case both sides, for good",
        "tokenizer.sampling": "the chance of other segmentations in training, e.g. 0.1",
        "model.size": "tiny, small, base or big",
        "model.norm": "pre or post: the place of layer normalisation",
        "model.share_embeddings": "none, target (input and output) or all",
        "model.dropout": "the share of numbers hidden in training, from 0 to 1",
        **_TRAINING,
        "training.batch_tokens": "a batch has at most so many tokens a side, padding included",
        "training.r_drop": "a second pass that has to agree, by so much: twice the time; 0: none",
        **_SCHEDULE,
        "search.beam_size": "1: greedy",
        "search.length_penalty": "0: none; the higher, the longer the output",
        "evaluation.tokenize": "13a, none, intl, char or zh: how BLEU parts text into words",
        "evaluation.lowercase": "true, false, or auto (as tokenizer.lower): scored without case",
        "evaluation.measure": "picks the best model; auto: bleu, or chrf or loss",
    },
    files=("{}.en", "{}.de"),
    use=("translate", "< in.txt > out.txt"),
)

_OF_WORDS = (
    *("tokenizer.split_punctuation", "model.character_ngrams", "model.scale_embeddings"),
    *("model.initialisation", "model.final_norm", "model.positions.kind"),
)
"""What few texts that are read word by word need otherwise than others."""

_CLASSIFICATION = {
    "task": "translation or classification",
    "input": "text or features",
    "seed": "all that is random follows from it",
    "data.train": "needed: examples with their labels",
    "data.validation": "picks the best model; without it, a tenth of the training data is held out",
    "data.test": "training examples that are also in it are left out",
    "data.max_length": "training examples with more tokens or frames are left out",
    "data.text_column": "the column, or the key in a .jsonl file, of the text",
    "data.label_column": "likewise of the label",
    "data.missing": "values: refuse, zero, mean or interpolate",
    "tokenizer.kind": "bpe, unigram or words",
    "tokenizer.max_vocabulary": "pieces or words, at most; 0: all words",
    "tokenizer.lower": "true: lower-case all texts, for good",
    "tokenizer.split_punctuation": "true: marks before and behind a word stand by themselves",
    "tokenizer.sampling": "the chance of other segmentations in training, e.g. 0.1",
    "model.encoder_layers": "of attention and feed-forward each",
    "model.d_model": "the width of a vector",
    "model.d_ff": "the width within a feed-forward network",
    "model.n_heads": "of attention, in each layer; d_model is a multiple of it",
    "model.norm": "pre or post: the place of layer normalisation",
    "model.input_convolution": "how many neighbours are seen together at first, or several numbers",
    "model.dropout": "the share of numbers hidden in training, from 0 to 1",
    "model.character_ngrams": "lengths of the runs of characters that a word is known by too",
    "model.scale_embeddings": "true: multiplied by the root of d_model, as in the paper",
    "model.initialisation": "pytorch, xavier, xavier_unit or xavier_scaled",
    "model.final_norm": "after the last layer of a pre-norm stack",
    "model.positions.kind": "sinusoidal, learned or none",
    "classifier.pooling": "mean, first, maximum, attention: one or several",
    "classifier.dropout": "likewise, between the pooling and the labels",
    "classifier.class_weights": "none, or balanced: every class counts alike in the loss",
    "classifier.multi_label": "true: an example may have several labels, or none",
    **_TRAINING,
    **_SCHEDULE,
    "evaluation.measure": "auto, accuracy, macro_f1, micro_f1 or loss: picks the best model",
}

TEXTS = Form(
    run=RunConfig(task="classification"),
    meanings={path: said for path, said in _CLASSIFICATION.items() if path != "data.missing"},
    files=("{}.csv",),
    use=("classify", "< in.txt"),
    optional=("data.text_column", "data.label_column", *_OF_WORDS),
)

SEQUENCES = Form(
    run=RunConfig(task="classification", input="features"),
    meanings={
        path: said
        for path, said in _CLASSIFICATION.items()
        if not path.startswith("tokenizer.")
        and path not in ("data.text_column", "classifier.multi_label", *_OF_WORDS)
    },
    files=("{}.ts",),
    use=("classify", "--input in.ts"),
    optional=("data.label_column", "data.missing"),
)


@dataclass(frozen=True)
class CommentedConfig:
    """The values of the settings of a form by dotted path, with reasons for some of them.

    `seen` is what was seen of the data that they are for, a line each.
    """

    form: Form
    values: dict[str, Any]
    reasons: dict[str, str]
    seen: tuple[str, ...] = ()

    def to_toml(self, name: str) -> str:
        """A commented file that `read_config` reads.

        Args:
            name: the file is to be called `name.toml`; it may have folders before it.
        """
        lines, section = self._header(name), ""
        for path, meaning in self.form.meanings.items():
            if path in self.form.optional and self.values[path] == self.form.default(path):
                continue
            inside, _, setting = path.rpartition(".")
            if inside != section:
                lines += ["", f"[{inside}]"]
                section = inside
            lines += self._written(path, setting, meaning)
        return "\n".join(lines) + "\n"

    def _header(self, name: str) -> list[str]:
        """What the file is, what was seen of the data, and the commands."""
        run = PurePath(name).name
        train = shlex.join(["clearhead", "train", f"{name}.toml"])
        command, rest = self.form.use
        commands = {
            f"{train} --dry-run": "says what it would take",
            train: "trains; said again, goes on",
            f"{shlex.join(['clearhead', command, f'runs/{run}'])} {rest}": "",
        }
        width = len(train) + len(" --dry-run")
        return [
            _comment(f"{run}: a run of clearhead, which writes the model folder runs/{run}."),
            *(line for seen in self.seen for line in _wrapped(seen, "  ")),
            "#",
            *(_comment(f"  {said:<{width}}   {does}".rstrip()) for said, does in commands.items()),
            "",
        ]

    def _written(self, path: str, setting: str, meaning: str) -> list[str]:
        """The lines of one setting: its reason, its value, its meaning."""
        value = self.values[path]
        if setting in PARTS and value == ():
            part = {"validation": "val"}.get(setting, setting)
            files = tuple(file.format(part) for file in self.form.files)
            return [f"# {setting} = {_toml(files)}  # {meaning}"]
        line = f"{setting} = {_toml(value)}"
        if setting in PARTS:
            return [f"# {meaning}", line]
        return [*_wrapped(self.reasons.get(path, "")), f"{line:<27} # {meaning}"]


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{name} = {_toml(inner)}' for name, inner in value.items())} }}"
    if isinstance(value, tuple):
        return f"[{', '.join(_toml(item) for item in value)}]"
    # Strings and booleans are written alike in JSON and TOML, but for one character.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _wrapped(text: str, indent: str = "") -> list[str]:
    """A text as lines of comment, those after the first indented."""
    lines = textwrap.wrap(text, 90, break_long_words=False, break_on_hyphens=False)
    return [_comment(indent * (number > 0) + line) for number, line in enumerate(lines)]


def _comment(text: str) -> str:
    return "# " + "".join(c if c.isprintable() else "?" for c in text)
