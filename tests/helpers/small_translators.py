"""Random translators and classifiers with as much of the public API as inspection needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, cast

import torch
from torch import nn

from clearhead.folder.model_folder import ModelFolder
from clearhead.model.attention import Attend, attention
from clearhead.model.build import build_classifier
from clearhead.model.transformer import EncoderClassifier, EncoderDecoder
from clearhead.settings import ClassifierConfig, RunConfig
from clearhead.text.spans import NOTHING
from clearhead.tokenizer import WordTokenizer
from small_models import labelled_run, random_model, small_config

SOURCE = [3, 4, 5, 6, 7]
TARGET = [4, 9, 3]

HEAD = ClassifierConfig(pooling=("mean", "attention"), dropout=0.5)


def random_classifier(
    features: bool,
    norm: Literal["pre", "post"] = "post",
    attend: Attend = attention,
    head: ClassifierConfig = HEAD,
    **choices: Any,
) -> EncoderClassifier:
    torch.manual_seed(3)
    config = small_config(norm=norm, **choices)
    model = build_classifier(labelled_run(config, head, features), 6, 3, attend).double()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.4)
    return model


class Translator:
    """The part of a translator that `record` uses."""

    config = RunConfig()
    protection = NOTHING
    folder = cast(ModelFolder, None)  # for the means of heads, which it does not have

    def __init__(self, model: EncoderDecoder | None = None) -> None:
        self.source_tokenizer = WordTokenizer("a b c d e f g h i".split())
        self.target_tokenizer = WordTokenizer("p q r s t u v".split())
        self.model = model or random_model(small_config())


class Classifier:
    """The part of a classifier of texts that inspection uses.

    With `multi_label` its labels are independent; it gives the first and the last one.
    """

    folder = cast(ModelFolder, None)

    def __init__(self, multi_label: bool = False) -> None:
        self.model = random_classifier(features=False).eval()
        if multi_label:
            nn.init.zeros_(self.model.output.weight)
            self.model.output.weight.data[0] = 0.1
            self.model.output.bias.data.copy_(torch.tensor([1.0, -1.0, 2.0]))
        self.tokenizer = WordTokenizer(["x", "y"])
        self.labels: tuple[str, ...] = ("one", "two", "three")
        self.temperature = 1.0
        self.multi_label = multi_label
        head = ClassifierConfig(multi_label=multi_label)
        self.config = RunConfig(task="classification", classifier=head)

    def encode(self, source: str) -> tuple[list[int], Sequence[str]]:
        ids = self.tokenizer.encode(source)
        return ids, self.tokenizer.pieces(ids)
