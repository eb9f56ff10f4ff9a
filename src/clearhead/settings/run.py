"""The settings of a whole run, and those of a classifier."""

import os
from pathlib import PurePath
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field
from pydantic.dataclasses import dataclass

from clearhead.settings.data import DataConfig, TokenizerConfig
from clearhead.settings.declare import STRICT, Natural, Rate, Runs, Section, require, setting
from clearhead.settings.model import Learned, ModelConfig
from clearhead.settings.search import MEASURES, EvaluationConfig, SearchConfig
from clearhead.settings.training import FineTuningConfig, TrainingConfig


def _expanded(value: Any) -> Any:
    """A path with `~` expanded, so that no folder of this name is created or removed."""
    return os.path.expanduser(value) if isinstance(value, str | PurePath) else value


def _as_list(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


KERNEL_WIDTH = 9
"""Frames that a random kernel reads."""

Folder = Annotated[str, BeforeValidator(_expanded)]
BESIDE = (
    "The validation examples decide the factor of each. If they are a share of the training data, "
    "the linear model then learns from them too; it learns from at most 20,000 examples."
)
"""What holds for each linear model beside an encoder."""

Pooling = Literal["mean", "first", "maximum", "attention"]


@dataclass(frozen=True, config=STRICT)
class ClassifierConfig(Section):
    """How the output of the encoder becomes labels, and how labels are learned."""

    pooling: Annotated[tuple[Pooling, ...], BeforeValidator(_as_list)] = setting(
        ("mean",),
        "pooling, one or several",
        details="Combines the encoder's vectors into one. The results of several are concatenated.",
        init=Runs.LABELLED,
    )
    hidden: Literal["none", "tanh", "relu"] = setting(
        "none",
        "activation function of a hidden layer",
        details="The layer is between pooling and output, and has the width of the pooled vector. "
        '`"tanh"` with `pooling = "first"` is the head of BERT (Devlin et al. 2019).',
        init_if_changed=Runs.LABELLED,
    )
    kernels: Natural = setting(
        0,
        "random convolutions of the input, of a linear model beside the encoder",
        details="A linear support vector machine of the shares of frames where each answers "
        "(MiniRocket, Dempster et al. 2021) learns from few sequences; the encoder learns more "
        f"from many. {BESIDE}",
        runs=Runs.SEQUENCES,
        init=Runs.SEQUENCES,
    )
    kernel_reach: Annotated[int, Field(ge=KERNEL_WIDTH)] = setting(
        64,
        "frames from the first to the last that the widest kernel reads",
        details=f"Each kernel reads {KERNEL_WIDTH} frames, which are 1 or more apart.",
        runs=Runs.SEQUENCES,
        only_with=("kernels",),
        init=Runs.SEQUENCES,
    )
    ngrams: Natural = setting(
        0,
        "n-grams of a linear model beside the encoder, at most",
        details="The most frequent tokens, pairs of neighbours and character n-grams of the "
        "training texts. A linear support vector machine of their TF-IDF learns from few texts; "
        f"the encoder learns more from many. {BESIDE}",
        runs=Runs.TEXTS,
        init=Runs.TEXTS,
    )
    dropout: Rate = setting(0.1, "dropout rate before the output layer", init=Runs.LABELLED)
    class_weights: Literal["none", "balanced"] = setting(
        "none",
        "weights of the classes in the loss",
        details='`"balanced"`: every class has the same weight, however many examples it has. '
        "With `multi_label`, presence and absence of a label have the same weight, except for very "
        "rare labels. The linear model has no such weights.",
        init=Runs.LABELLED,
    )
    multi_label: bool = setting(
        False,
        "an example may have several labels, or none",
        init=Runs.TEXTS,
        init_if_changed=Runs.SEQUENCES,
    )

    def __post_init__(self) -> None:
        require(bool(self.pooling), "pooling", "is empty")
        require(
            len(set(self.pooling)) == len(self.pooling), "pooling", "contains a choice repeatedly"
        )


@dataclass(frozen=True, config=STRICT)
class RunConfig(Section):
    """A whole run: everything that `clearhead train` needs to know.

        config = clearhead.RunConfig(
            folder="runs/new",
            data=clearhead.DataConfig(train=("train.tsv",), validation=("validation.tsv",)),
            tokenizer=clearhead.TokenizerConfig(max_vocabulary=300),
            model=clearhead.ModelConfig(d_model=64, dropout=clearhead.DropoutConfig(residual=0.1)),
            training=clearhead.TrainingConfig(
                max_steps=4,
                optimizer=clearhead.OptimizerConfig(beta2=0.98),
                schedule=clearhead.ScheduleConfig(peak=1e-3, warmup=2),
            ),
            search=clearhead.SearchConfig(beam_size=5),
            evaluation=clearhead.EvaluationConfig(max_sentences=100),
        )
        clearhead.train(config)

    The training of a run that starts from a model may also have
    `fine_tuning=clearhead.FineTuningConfig(layer_decay=0.9)`, and the run of a classifier
    `classifier=clearhead.ClassifierConfig(pooling="maximum")`.
    """

    task: Literal["translation", "classification"] = setting(
        "translation",
        "task",
        details="Translation learns from sentence pairs, classification from labelled texts or "
        "sequences.",
        init=Runs.LABELLED,
    )
    input: Literal["text", "features"] = setting(
        "text",
        "input of a classifier",
        details='`"features"`: sequences of numeric vectors.',
        init=Runs.LABELLED,
    )
    folder: Folder = setting(
        "", "model folder to write; empty: `runs/` and the name of the configuration file"
    )
    start_from: Folder = setting(
        "",
        "trained model to start from",
        details="Its weights, its vocabulary and its `[model]` settings are used; dropout can be "
        "changed. A model folder or a checkpoint in one; a folder of Hugging Face files (BERT, "
        "DistilBERT, RoBERTa, XLM-R, Marian); or `hf:` and a name on the Hugging Face hub, such as "
        "`hf:bert-base-uncased`. A translator starts from a translator. A classifier uses the "
        "encoder of either, and also the output layer of a classifier with the same labels. A "
        "relative path in a TOML file starts in the folder of that file, with `--set` in the "
        "current folder.",
        init_if_changed=Runs.ALL,
    )
    seed: Annotated[int, Field(ge=0, lt=2**63)] = setting(
        1, "seed of the initial weights, the data order and all other randomness", init=Runs.ALL
    )
    data: DataConfig = setting(DataConfig, "")
    tokenizer: TokenizerConfig = setting(TokenizerConfig, "", runs=Runs.TEXT)
    model: ModelConfig = setting(ModelConfig, "")
    classifier: ClassifierConfig = setting(ClassifierConfig, "", runs=Runs.LABELLED)
    training: TrainingConfig = setting(lambda: TrainingConfig(max_steps=100_000), "")
    search: SearchConfig = setting(SearchConfig, "", runs=Runs.TRANSLATION)
    evaluation: EvaluationConfig = setting(EvaluationConfig, "")

    def __post_init__(self) -> None:
        self._check_task()
        require(
            bool(self.start_from) or self.training.fine_tuning == FineTuningConfig(),
            "training.fine_tuning",
            "is for a run that starts from a trained model: name it in start_from, or leave "
            "training.fine_tuning out",
        )
        for path, given in (
            ("data.replay", self.data.replay),
            ("tokenizer.new_words", self.tokenizer.new_words),
        ):
            require(
                bool(self.start_from) or not given,
                path,
                "is for a run that starts from a trained model: name it in start_from, or leave "
                f"{path} out",
            )
        require(
            not (self.tokenizer.new_words and self.training.fine_tuning.frozen_layers),
            "tokenizer.new_words",
            "would never be trained with training.fine_tuning.frozen_layers: leave one of them out",
        )
        positions, longest = self.model.positions, self.longest_example
        if isinstance(positions, Learned) and longest is not None:
            added = positions.max_length - longest
            # A model that the run starts from brings its positions, which cannot be changed.
            change = "" if self.start_from else "raise it, or "
            including = ", including one for the start symbol," if added else ""
            require(
                self.data.max_length <= longest,
                "data.max_length",
                f"= {self.data.max_length} needs {self.data.max_length + added} "
                f"positions{including} and model.positions.max_length = {positions.max_length}: "
                f"{change}set data.max_length to at most {longest}",
            )

    def _check_task(self) -> None:
        labelled = self.task == "classification"
        require(
            labelled or self.input == "text",
            "task",
            f"= {self.task!r} needs input = 'text'; got {self.input!r}",
        )
        # The vocabulary of another model is checked where its folder is read.
        if self.kind is Runs.TEXTS and not self.start_from:
            for path, given in (
                ("tokenizer.split_punctuation", self.tokenizer.split_punctuation),
                ("model.character_ngrams", self.model.character_ngrams),
            ):
                require(
                    not given or self.tokenizer.kind == "words",
                    path,
                    f"is for whole words: set tokenizer.kind = 'words' ({self.tokenizer.kind!r} "
                    "splits words into pieces)",
                )
        require(
            self.kind is not Runs.SEQUENCES or isinstance(self.data.label_column, str),
            "data.label_column",
            "must be a name: files of sequences have a header",
        )
        measures = MEASURES[self.task]
        require(
            self.evaluation.measure in measures,
            "evaluation.measure",
            f"= {self.evaluation.measure!r} does not score task = {self.task!r}: "
            f"choose one of {', '.join(measures)}",
        )

    @property
    def kind(self) -> Runs:
        """The kind of run, by task and input."""
        if self.task == "translation":
            return Runs.TRANSLATION
        return Runs.TEXTS if self.input == "text" else Runs.SEQUENCES

    @property
    def has_linear(self) -> bool:
        """Whether a linear model is beside the encoder of a classifier."""
        count = {Runs.TEXTS: self.classifier.ngrams, Runs.SEQUENCES: self.classifier.kernels}
        return count.get(self.kind, 0) > 0

    @property
    def longest_example(self) -> int | None:
        """The most tokens or frames for which there are learned positions; None: no limit."""
        positions = self.model.positions
        if not isinstance(positions, Learned):
            return None
        # The tokens of an imported encoder include its start symbol.
        has_start = self.tokenizer.kind == "pretrained" and self.task == "classification"
        return positions.max_length - (not has_start)

    @property
    def lowercase(self) -> bool:
        """Whether translations are scored without regard to case."""
        lowercase = self.evaluation.lowercase
        return self.tokenizer.lower if lowercase == "auto" else lowercase

    @property
    def measure(self) -> str:
        """The score that selects the best model."""
        if self.evaluation.measure != "auto":
            return self.evaluation.measure
        if self.task == "classification":
            return "loss" if self.classifier.multi_label else "accuracy"
        return "bleu"


Section.whole = RunConfig
