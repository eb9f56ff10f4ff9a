"""The example of pre-training without labels, and the classifier that begins with its encoder."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from clearhead import api
from clearhead.settings import RunConfig, read_config
from fake_translator import run

EXAMPLES = Path(__file__).parent.parent / "examples"
PRETRAINING = EXAMPLES / "japanese-vowels-pretraining.toml"
SHORT = ("training.max_steps=4", "training.validate_every=2", "training.average_last=2")


@pytest.fixture
def _vowels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sequences of the form of the real ones, at random, under CLEARHEAD_DATA."""
    rng = np.random.default_rng(1)
    folder = tmp_path / "japanese-vowels"
    folder.mkdir()
    for part in ("TRAIN", "TEST"):
        lines = ["@dimensions 12", "@classLabel true 1 2", "@data"]
        for number in range(60):
            frames = rng.normal(size=(12, rng.integers(7, 30))).round(3)
            dimensions = [",".join(map(str, dimension)) for dimension in frames.tolist()]
            lines.append(":".join([*dimensions, str(1 + number % 2)]))
        (folder / f"JapaneseVowels_{part}.ts").write_text("\n".join(lines) + "\n")
    monkeypatch.setenv("CLEARHEAD_DATA", str(tmp_path))
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("_vowels")
def test_the_classifier_of_the_example_begins_with_the_encoder_of_the_example() -> None:
    """The command is the one in the file's own comment."""
    said = re.sub(r"\\\n#", "", PRETRAINING.read_text(encoding="utf-8"))
    (command,) = re.findall(r"^# (clearhead train .*)$", said, flags=re.MULTILINE)
    _, _, example, *settings = shlex.split(command)
    assert EXAMPLES / Path(example).name == EXAMPLES / "japanese-vowels.toml"
    short = [word for setting in SHORT for word in ("--set", setting)]
    code, _, err = run("train", str(PRETRAINING), *short)
    assert code == 0, err
    code, _, err = run("train", str(EXAMPLES / "japanese-vowels.toml"), *settings, *short)
    assert code == 0, err
    trained = api.load_classifier("runs/japanese-vowels-pretrained", device="cpu")
    assert trained.config.classifier.encoder_from == "runs/japanese-vowels-pretraining"
    pretrained = (Path("runs") / "japanese-vowels-pretraining" / "normaliser.json").read_bytes()
    assert (trained.folder.path / "normaliser.json").read_bytes() == pretrained


@pytest.mark.usefixtures("_vowels")
def test_both_examples_have_the_same_encoder_and_data() -> None:
    def shared(config: RunConfig) -> object:
        return config.model, config.data, config.input

    assert shared(read_config(PRETRAINING)) == shared(
        read_config(EXAMPLES / "japanese-vowels.toml")
    )
