"""What a run may not start from."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from clearhead import api
from clearhead.errors import ConfigError
from clearhead.settings import config_from
from small_runs import small_run


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
