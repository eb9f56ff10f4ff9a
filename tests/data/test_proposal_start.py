"""What `init --start-from` proposes: a run that trains as it is."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from clearhead import api
from clearhead.data.proposal_classification import propose_classification
from clearhead.errors import ConfigError
from clearhead.settings import RunConfig, read_config
from fake_translator import run
from small_runs import small_run


def labelled(folder: Path, count: int) -> str:
    chance = random.Random(1)
    lines = []
    for number in range(count):
        words = chance.choices("abcdefgh", k=chance.randint(2, 9))
        lines.append(f"{'even' if number % 2 else 'odd'}\t{number} {' '.join(words)}\n")
    path = folder / "texts.tsv"
    path.write_text("label\ttext\n" + "".join(lines), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("task", ["translation", "classification"])
def test_a_proposed_run_starts_from_the_model_and_trains(tmp_path: Path, task: str) -> None:
    first = small_run(tmp_path, "first", max_steps=2)
    api.train(first)
    if task == "translation":
        files = ["--train", *first.data.train, "--validation", *first.data.validation]
    else:
        files = ["--task", task, "--train", labelled(tmp_path, 120)]
    name = str(tmp_path / "next")
    code, _, err = run("init", name, "--start-from", first.folder, *files)
    assert code == 0, err
    text = Path(f"{name}.toml").read_text()
    assert "[model]" not in text
    assert "[tokenizer]" not in text
    folder = f"folder={tmp_path / 'run'}"
    config = read_config(f"{name}.toml", [folder, "training.max_epochs=1"])
    assert config.start_from == first.folder
    assert config.training.schedule.peak < RunConfig().training.schedule.peak
    api.train(config, observers=())
    assert api.load(tmp_path / "run").config.model.d_model == first.model.d_model


def test_a_step_has_32_examples_of_mean_length_and_the_length_has_a_limit(tmp_path: Path) -> None:
    path = tmp_path / "long.tsv"
    rows = [f"{'ab'[i % 2]}\t{'word ' * 600}{i}\n" for i in range(60)]
    path.write_text("label\ttext\n" + "".join(rows), encoding="utf-8")
    values = propose_classification("text", [str(path)], start_from="runs/x").values
    assert values["training.batch_tokens"] >= 32 * 600
    assert values["data.max_length"] == 256


def test_a_model_that_is_not_there_is_reported_by_training(tmp_path: Path) -> None:
    name = str(tmp_path / "next")
    gone = tmp_path / "gone"
    data = labelled(tmp_path, 60)
    arguments = ("--task", "classification", "--train", data, "--start-from", str(gone))
    assert run("init", name, *arguments)[0] == 0
    code, _, err = run("train", f"{name}.toml", "--dry-run")
    assert code != ConfigError.exit_code
    assert str(gone) in err
