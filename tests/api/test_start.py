"""What a run may not start from."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch
from torch import Tensor

from clearhead import api
from clearhead.data.judging.text_style import TextStyles
from clearhead.errors import ConfigError, ModelFolderError, TrainingError
from clearhead.folder.model_folder import WEIGHTS, open_folder
from clearhead.folder.tensors import read_tensors
from clearhead.settings import config_from
from fake_translator import run
from small_runs import feature_run, small_run


@pytest.mark.parametrize("restart", [False, True])
def test_a_run_does_not_replace_the_model_that_it_starts_from(
    tmp_path: Path, restart: bool
) -> None:
    config = small_run(tmp_path, "run", max_steps=2)
    api.train(config, observers=())
    before = (tmp_path / "run" / "weights.safetensors").read_bytes()
    again = dataclasses.replace(config, start_from=config.folder)
    with pytest.raises(ConfigError) as raised:
        api.train(again, observers=(), restart=restart)
    assert raised.value.setting == "start_from"
    assert (tmp_path / "run" / "weights.safetensors").read_bytes() == before


@pytest.mark.parametrize(
    ("named", "suggested"), [("org/name", "hf:org/name"), ("bert-base", "hf:bert-base")]
)
def test_a_name_on_the_hub_needs_its_prefix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str, suggested: str
) -> None:
    (tmp_path / "shell").mkdir()
    monkeypatch.chdir(tmp_path / "shell")
    toml = tmp_path / "run.toml"
    toml.write_text(f'start_from = "{named}"\n[data]\ntrain = ["phrasebook:en-es"]\n')
    folder = f"folder={tmp_path / 'run'}"
    for arguments, where in (
        (("train", str(toml), "--set", folder), tmp_path / named),
        (("train", str(toml), "--set", folder, "--set", f"start_from={named}"), Path.cwd() / named),
        (("import", "hf", named, "ours"), Path.cwd() / named),
    ):
        code, out, err = run(*arguments)
        assert (code, out) == (ModelFolderError.exit_code, "")
        assert suggested in err
        assert str(where) in err
        assert not (tmp_path / "run").exists()


def test_a_run_resumes_after_it_was_moved_with_the_model_it_starts_from(tmp_path: Path) -> None:
    before = tmp_path / "before"
    before.mkdir()
    first = small_run(before, "first", max_steps=2)
    api.train(first, observers=())
    own = dataclasses.replace(small_run(before, "run", max_steps=2), start_from=first.folder)
    api.train(own, observers=())
    after = tmp_path / "after"
    before.rename(after)
    moved = dataclasses.asdict(own)
    moved |= {
        "start_from": f"{after}/first",
        "folder": own.folder.replace(str(before), str(after)),
    }
    for part in ("train", "validation", "test"):
        files = [file.replace(str(before), str(after)) for file in moved["data"][part]]
        moved["data"][part] = files
    assert api.train(config_from(moved), observers=()).finished
    with pytest.raises(TrainingError, match="other settings"):
        api.train(config_from(moved | {"start_from": f"{after}/second"}), observers=())


def test_a_model_knows_the_characters_of_the_texts_of_the_model_that_it_starts_from(
    tmp_path: Path,
) -> None:
    first = small_run(tmp_path, "first", max_steps=2)
    api.train(first, observers=())
    (train,) = map(Path, first.data.train)
    train.write_text(train.read_text().translate(str.maketrans("ab9", "xyz")))
    alone = dataclasses.replace(first, folder=str(tmp_path / "alone"))
    own = dataclasses.replace(first, folder=str(tmp_path / "own"), start_from=first.folder)
    for config in (alone, own):
        api.train(config, observers=())
    characters = {}
    for config in (first, alone, own):
        styles = TextStyles.of(open_folder(config.folder))
        assert styles is not None
        characters[config.folder] = set(styles.sides["source"].characters)
    assert characters[first.folder] == set(" 0123456789abcdefgh")
    assert characters[alone.folder] == set(" 012345678zxycdefgh")
    assert characters[own.folder] == characters[first.folder] | characters[alone.folder]
    before = (tmp_path / "own" / "text_style.json").read_bytes()
    longer = dataclasses.replace(own.training, max_steps=3)
    api.train(dataclasses.replace(own, training=longer), observers=())
    assert (tmp_path / "own" / "text_style.json").read_bytes() == before


@pytest.mark.slow
def test_another_model_to_start_from_is_another_run_whatever_its_name(tmp_path: Path) -> None:
    for name in ("x", "y"):
        (tmp_path / name).mkdir()
        api.train(small_run(tmp_path / name, "m", max_steps=2), observers=())
    config = dataclasses.replace(
        small_run(tmp_path, "run", max_steps=2), start_from=f"{tmp_path}/x/m"
    )
    api.train(config, observers=())
    for other in (f"{tmp_path}/y/m", "hf:m"):
        with pytest.raises(TrainingError, match="other settings") as raised:
            api.train(dataclasses.replace(config, start_from=other), observers=())
        assert "start_from" in str(raised.value.why)


def test_new_words_that_would_never_be_trained_are_rejected() -> None:
    with pytest.raises(ConfigError) as raised:
        config_from(
            {
                "start_from": "runs/x",
                "tokenizer": {"new_words": ["word"]},
                "training": {"max_steps": 1, "fine_tuning": {"frozen_layers": 1}},
            }
        )
    assert raised.value.setting == "tokenizer.new_words"


def test_the_linear_model_is_that_of_the_new_examples(tmp_path: Path) -> None:
    steps = {"max_steps": 2, "validate_every": 2}

    def tensors(name: str, count: int, seed: int, start_from: str = "") -> dict[str, Tensor]:
        head = {"kernels": count, "kernel_reach": 20}
        still = {**steps, "schedule": {"peak": 1e-9}}
        config = feature_run(tmp_path, name, classifier=head, training=still)
        config = dataclasses.replace(config, seed=seed, start_from=start_from)
        api.train(config, observers=())
        return read_tensors(tmp_path / name / WEIGHTS)[0]

    first = tensors("first", 6, seed=1)
    for count in (6, 7):
        found = tensors(f"with {count}", count, 2, str(tmp_path / "first"))
        torch.testing.assert_close(found["output.weight"], first["output.weight"])
        kernels = found["linear.features.weight"]
        assert len(kernels) == count
        assert not torch.isin(kernels[kernels != 0], first["linear.features.weight"]).any()
