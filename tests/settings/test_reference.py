"""The texts generated from the declarations of the settings: the reference and comments."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

from clearhead.settings import SIZES, RunConfig, config_from
from clearhead.settings.commented import SEQUENCES, TEXTS, TRANSLATION, Form
from clearhead.settings.declare import settings_of, value_at
from docs.settings_reference import reference

ROOT = Path(__file__).parents[2]


def test_the_committed_reference_is_the_generated_one() -> None:
    written = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    assert written == reference(), "run `make settings`"


def test_the_reference_has_a_row_for_each_setting_with_its_default_and_choices() -> None:
    rows = dict(re.findall(r"^\| `([\w.]+)` \| (.+) \|$", reference(), flags=re.MULTILINE))
    leaves = {each.path: each for each in settings_of(RunConfig) if not each.sections}
    assert rows.keys() == leaves.keys() | {"model.positions", "model.dropout"}
    config = RunConfig()
    for path, each in leaves.items():
        default, values, meaning = rows[path].split(" | ", 2)
        assert meaning
        if path == "model.size":
            assert default == ""
            assert all(f'"{size}"' in values for size in SIZES)
            continue
        expected = 512 if path == "model.positions.max_length" else value_at(config, path)
        read = tomllib.loads(f"it = {default.strip('`')}")["it"]
        assert read == (list(expected) if isinstance(expected, tuple) else expected), path
        assert all(f"`{json.dumps(choice)}`" in values for choice in each.choices), path


def test_the_reference_names_the_runs_that_a_setting_affects() -> None:
    assert "`data.missing`" in reference()
    row = next(line for line in reference().splitlines() if line.startswith("| `data.missing`"))
    assert re.findall(r"\*(\w+)\*", row) == ["sequences"]
    assert "## `[tokenizer]` (*translation*, *texts*)" in reference()


def test_rates_that_a_table_of_dropout_omits_are_zero() -> None:
    names = [name for name in vars(RunConfig().model.dropout) if name != "layer_output"]
    for name in names:
        others = config_from({"model": {"dropout": {name: 0.3}}}, "a test").model.dropout
        assert sorted(vars(others).values()) == [0.0, 0.0, 0.0, 0.0, 0.3]


@pytest.mark.parametrize("form", [TRANSLATION, TEXTS, SEQUENCES])
def test_the_comments_of_init_fit_a_line(form: Form) -> None:
    for path, value in form.defaults().items():
        if path not in ("data.train", "data.validation", "data.test"):  # above their values
            name = path.rpartition(".")[2]
            line = f"{name} = {json.dumps(value):<{24 - len(name)}} # {form.meanings[path]}"
            assert len(line) <= 100, line
