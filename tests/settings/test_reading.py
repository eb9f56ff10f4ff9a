"""Settings: errors name the dotted path, plain trees can be read back, equal ones are equal."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.errors import ConfigError
from clearhead.settings import (
    SIZES,
    ClassifierConfig,
    DataConfig,
    DropoutConfig,
    FineTuningConfig,
    Learned,
    ModelConfig,
    NoPositions,
    OptimizerConfig,
    RunConfig,
    ScheduleConfig,
    Sinusoidal,
    TrainingConfig,
    config_from,
    read_config,
    with_absolute_paths,
)
from clearhead.settings.data import absolute_path, path_from

EXAMPLES = Path(__file__).parents[2] / "examples"
LIMIT: dict[str, Any] = {"max_steps": 10}


def nested(dotted: str, value: Any) -> dict[str, Any]:
    """`a.b.c` and a value as {"a": {"b": {"c": value}}}, with a limit in `training`."""
    *sections, name = dotted.split(".")
    tree: dict[str, Any] = {name: value}
    for section in reversed(sections):
        tree = {section: tree}
    if isinstance(tree.get("training"), dict):
        tree["training"] = {**LIMIT, **tree["training"]}
    return tree


def refusal(tree: dict[str, Any]) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        config_from(tree, where="run.toml")
    assert caught.value.where == "run.toml"
    return caught.value


def test_the_home_folder_is_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    tree = {
        "task": "classification",
        "folder": "~/runs/x",
        "start_from": "~/runs/y",
    }
    for config in (
        config_from(tree),
        RunConfig("classification", folder="~/runs/x", start_from="~/runs/y"),
    ):
        assert config.folder == str(tmp_path / "runs" / "x")
        assert config.start_from == str(tmp_path / "runs" / "y")


def test_wrong_values_in_python_name_the_setting() -> None:
    cases: list[tuple[Any, str, Any]] = [
        (ClassifierConfig, "classifier.hidden", "than"),
        (DropoutConfig, "model.dropout.hidden", 1.5),
        (FineTuningConfig, "training.fine_tuning.frozen_layers", "2"),
        (Learned, "model.positions.max_length", "9"),
        (ModelConfig, "model.d_modl", 3),
        (ModelConfig, "model.n_heads", 7),
        (OptimizerConfig, "training.optimizer.kind", "adm"),
        (RunConfig, "model", 3),
        (ScheduleConfig, "training.schedule.peak", None),
        (TrainingConfig, "training.max_steps", True),
    ]
    for kind, path, value in cases:
        name = path.rpartition(".")[2]
        with pytest.raises(ConfigError) as raised:
            kind(**{name: value})
        assert raised.value.where == kind.__name__
        assert name in raised.value.what
        if name != "n_heads":  # the other of two settings is named
            assert raised.value.setting == path
    with pytest.raises(ConfigError):
        dataclasses.replace(ModelConfig(), d_model="512")  # pyright: ignore[reportArgumentType]
    paths: Any = (Path("a.en"), Path("a.de"))
    assert DataConfig(train=paths) == DataConfig(train=("a.en", "a.de"))
    for path in ("a.tsv", Path("a.tsv")):
        single: Any = path
        assert DataConfig(train=single) == DataConfig(train=("a.tsv",))


def test_an_empty_tree_gives_the_defaults() -> None:
    assert config_from({}) == RunConfig()


def test_given_settings_are_read_and_others_keep_their_defaults() -> None:
    config = config_from(
        {
            "seed": 7,
            "data": {"train": ["a.en", "a.de"], "drop_duplicates": False},
            "model": {"norm": "post", "positions": {"kind": "learned", "max_length": 900}},
            "training": {"max_minutes": 2, "optimizer": {"kind": "sgd", "momentum": 0.99}},
        }
    )
    assert config == RunConfig(
        seed=7,
        data=DataConfig(train=("a.en", "a.de"), drop_duplicates=False),
        model=ModelConfig(norm="post", positions=Learned(max_length=900)),
        training=TrainingConfig(
            max_minutes=2.0, optimizer=OptimizerConfig(kind="sgd", momentum=0.99)
        ),
    )


@pytest.mark.parametrize(("value", "widths"), [(0, ()), (5, (5,)), ([3, 4, 5], (3, 4, 5))])
def test_a_convolution_has_one_width_or_several(value: Any, widths: tuple[int, ...]) -> None:
    assert config_from(nested("model.input_convolution", value)).model.input_convolution == widths


@pytest.mark.parametrize(
    ("dotted", "nearest"),
    [
        ("modle", "model"),
        ("model.d_modl", "model.d_model"),
        ("model.dropout.atention", "model.dropout.attention"),
        ("model.n_head", "model.n_heads"),
        ("training.optimiser", "training.optimizer"),
        ("training.optimizer.beta_1", "training.optimizer.beta1"),
        ("training.schedule.warm_up", "training.schedule.warmup"),
        ("search.beamsize", "search.beam_size"),
        ("tokenizer.vocabulary", "tokenizer.max_vocabulary"),
        ("model.siz", "model.size"),
        # The right name at the wrong place.
        ("max_steps", "training.max_steps"),
        ("size", "model.size"),
        ("training.peak", "training.schedule.peak"),
        ("model.attention", "model.dropout.attention"),
        ("max_length", "data.max_length or model.positions.max_length or search.max_length"),
        (
            "model.max_length",
            "model.positions.max_length or data.max_length or search.max_length",
        ),
    ],
)
def test_an_unknown_setting_gets_a_suggestion(dotted: str, nearest: str) -> None:
    error = refusal(nested(dotted, 1))
    assert error.what == f"{dotted}: there is no such setting"
    assert error.todo == f"did you mean {nearest}?"


def test_an_unknown_setting_like_no_other_gets_the_list() -> None:
    error = refusal({"evaluation": {"qqqq": 1}})
    assert error.what == "evaluation.qqqq: there is no such setting"
    assert error.todo == "the settings here are tokenize, lowercase, measure, max_sentences"


def test_the_kinds_of_positions_have_their_own_keys() -> None:
    error = refusal(nested("model.positions", {"kind": "learned", "maxlength": 3}))
    assert error.what == "model.positions.maxlength: there is no such setting"
    assert error.todo == "did you mean model.positions.max_length?"
    error = refusal(nested("model.positions", {"kind": "sinusoidal", "max_length": 3}))
    assert error.what == "model.positions.max_length: there is no such setting"
    assert error.todo == "the settings here are kind"


@pytest.mark.parametrize(
    ("dotted", "value"),
    [
        ("seed", "1"),
        ("seed", 1.0),
        ("seed", True),
        ("seed", None),
        ("folder", 3),
        ("data", []),
        ("data.train", 3),
        ("data.drop_duplicates", "yes"),
        ("model.d_model", 64.5),
        ("model.dropout", True),
        ("model.dropout", "0.1"),
        ("model.dropout.hidden", "0.1"),
        ("model.positions", "learned"),
        ("model.attention_bias", 0),
        ("model.activation", "ReLU"),
        ("training.schedule", "cosine"),
        ("training.schedule.peak", "1e-3"),
        ("search.method", "greedy"),
        ("evaluation.tokenize", 13),
        ("evaluation.lowercase", "yes"),
    ],
)
def test_an_error_of_type_or_choice_has_path_and_value(dotted: str, value: Any) -> None:
    error = refusal(nested(dotted, value))
    assert error.setting == dotted
    assert error.what.startswith(f"{dotted} must be ")
    assert error.what.endswith(f"; got {value!r}")


def test_an_error_in_a_list_has_the_index() -> None:
    assert refusal({"data": {"train": ["a", 1]}}).setting == "data.train.1"
    assert refusal({"model": {"character_ngrams": [3, 0]}}).setting == "model.character_ngrams.1"


def test_an_error_in_positions_names_the_kinds() -> None:
    for kind in ("learnt", 3, ["learned"], None):
        error = refusal(nested("model.positions", {"kind": kind}))
        assert error.setting == "model.positions.kind"
        assert "sinusoidal, learned, none" in error.what
        assert repr(kind) in error.what
    missing = refusal(nested("model.positions", {"max_length": 3}))
    assert missing.setting == "model.positions.kind"
    for length in ("3", 0):
        wrong = refusal(nested("model.positions", {"kind": "learned", "max_length": length}))
        assert wrong.setting == "model.positions.max_length"


@pytest.mark.parametrize(
    ("dotted", "value"),
    [
        ("seed", -1),
        ("seed", 2**63),
        ("data.max_length_ratio", 0),
        ("tokenizer.max_vocabulary", 0),
        ("tokenizer.sampling", 1.0),
        ("tokenizer.sampling", -0.1),
        ("model.encoder_layers", 0),
        ("model.n_heads", 7),
        ("model.d_k", -1),
        ("model.norm_epsilon", 0.0),
        ("model.input_convolution", -1),
        ("model.input_convolution", [3, 0]),
        ("model.input_convolution", [1] * 513),
        ("model.character_ngrams", [3, 0]),
        ("model.character_ngrams", [3, 3]),
        ("model.ngram_vectors", 0),
        ("model.dropout", 1.0),
        ("model.dropout.residual", -0.1),
        ("model.dropout.residual", math.nan),
        ("training.batch_tokens", 0),
        ("training.r_drop", -1),
        ("training.threads", -1),
        ("training.max_steps", 0),
        ("training.optimizer.beta1", 1.0),
        ("training.schedule.peak", math.nan),
        ("search.n_best", 6),
        ("search.min_length", -1),
        ("search.top_p", 1.5),
        ("search.length_penalty", 11.0),
        ("search.max_length_ratio", 1e308),
    ],
)
def test_a_value_out_of_range_is_rejected_with_its_path(dotted: str, value: Any) -> None:
    error = refusal(nested(dotted, value))
    match dotted:
        case "model.dropout":
            dotted = "model.dropout.embeddings"
        case "training.max_steps":
            dotted = "training"
            assert "max_steps, max_epochs, max_minutes or patience" in error.what
        case "model.n_heads" if value == 7:
            dotted = "model.d_model"
            assert "d_model = 512 is not a multiple of n_heads = 7" in error.what
        case "model.input_convolution" if value != [1] * 513:
            dotted += ".0" if value == -1 else ".1"
        case "model.character_ngrams" if value == [3, 0]:
            dotted += ".1"
        case _:
            pass
    assert error.setting == dotted
    assert error.what.startswith(dotted)


@pytest.mark.parametrize(
    ("dotted", "value", "bounds"),
    [
        ("training.label_smoothing", 1.5, "at least 0 and less than 1"),
        ("data.max_length", 0, "at least 1"),
        ("search.top_p", 0, "greater than 0 and at most 1"),
        ("search.beam_size", 2_000_000, "at least 1 and at most 1,000"),
    ],
)
def test_an_error_of_range_names_the_bounds(dotted: str, value: Any, bounds: str) -> None:
    assert refusal(nested(dotted, value)).what == f"{dotted} must be {bounds}; got {value}"


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
@pytest.mark.parametrize(
    "dotted",
    [
        "training.schedule.peak",
        "training.max_minutes",
        "search.temperature",
        "model.dropout.hidden",
    ],
)
def test_a_number_that_is_not_finite_is_rejected(tmp_path: Path, dotted: str, value: float) -> None:
    error = refusal(nested(dotted, value))
    assert error.what == f"{dotted} must be a finite number; got {value}"
    with pytest.raises(ConfigError, match=f"{dotted} must be a finite number"):
        read_config(written(tmp_path, RUN), [f"{dotted}={value}"])


@pytest.mark.parametrize(
    ("dotted", "wrong", "right"),
    [
        ("training.schedule.kind", "cosin", "cosine"),
        ("model.activation", "ReLU", "relu"),
        ("model.size", "bigger", "big"),
        ("model.positions.kind", "learnt", "learned"),
        ("evaluation.measure", "BLEU", "bleu"),
        ("training.device", "gpu", "cuda"),
    ],
)
def test_a_wrong_choice_gets_a_suggestion_and_the_list(dotted: str, wrong: str, right: str) -> None:
    error = refusal(nested(dotted, wrong))
    assert error.todo == f'did you mean {dotted} = "{right}"?'
    assert right in error.what


def test_a_word_for_the_model_section_gets_the_size_suggested() -> None:
    error = refusal({"model": "tiny"})
    assert error.setting == "model"
    assert error.todo == 'did you mean model.size = "tiny"?'
    assert "tiny, small, base, big" in str(refusal({"model": "zzz"}))


@pytest.mark.parametrize(
    ("dotted", "word", "kind"),
    [("training.schedule", "linear", "linear"), ("training.optimizer", "SGD", "sgd")],
)
def test_a_word_for_a_section_with_kinds_gets_the_kind_suggested(
    dotted: str, word: str, kind: str
) -> None:
    error = refusal(nested(dotted, word))
    assert error.setting == dotted
    assert error.todo == f'did you mean {dotted}.kind = "{kind}"?'
    assert kind in str(refusal(nested(dotted, "zzz")).todo)


@pytest.mark.parametrize(
    ("dotted", "value", "example"),
    [
        ("data.train", "train.en,train.de", 'data.train = ["train.en", "train.de"]'),
        ("model.character_ngrams", 3, "model.character_ngrams = [3]"),
    ],
)
def test_a_single_value_for_a_list_gets_a_list_as_an_example(
    dotted: str, value: Any, example: str
) -> None:
    error = refusal(nested(dotted, value))
    assert "must be a list" in error.what
    assert example in str(error.todo)


@pytest.mark.parametrize(
    ("dotted", "form"), [("model.dropout", "table"), ("model.input_convolution", "list")]
)
def test_where_a_number_is_allowed_beside_a_table_or_list_the_error_names_both(
    dotted: str, form: str
) -> None:
    error = refusal(nested(dotted, "abc"))
    assert "number" in error.what
    assert form in error.what


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        ({"search": {"beam_size": 100, "min_length": 1000}}, "beam_size = 100"),
        ({"search": {"beam_size": 1000, "max_length_offset": 101}}, "beam_size = 1,000"),
        (
            {"search": {"method": "sampling", "n_best": 6000, "max_length": 17}},
            "n_best = 6,000",
        ),
        ({"search": {"min_length": 5, "max_length": 4}}, "min_length = 5"),
        ({"tokenizer": {"kind": "words", "sampling": 0.1}}, "tokenizer.sampling"),
        ({"training": {"batch_tokens": 5}}, "would never end"),
        (
            {"training": {"patience": 3, "schedule": {"kind": "cosine"}}},
            "needs max_steps, max_epochs or max_minutes",
        ),
    ],
)
def test_contradictions_are_rejected(tree: dict[str, Any], words: str) -> None:
    assert words in refusal(tree).what


def test_settings_that_go_together_are_accepted() -> None:
    config_from({"training": {"max_minutes": 3, "schedule": {"kind": "linear"}}})
    config_from({"search": {"min_length": 5, "max_length": 0}})
    config_from({"search": {"method": "sampling", "n_best": 20}})
    config_from({"search": {"beam_size": 1000, "max_length": 100_000}})
    config_from({"search": {"beam_size": 1000, "min_length": 99, "max_length": 100}})
    config_from({"tokenizer": {"kind": "words", "max_vocabulary": 0}})
    config_from({"training": {"max_epochs": 3, "schedule": {"kind": "cosine"}}})
    config_from({"model": {"d_model": 30, "n_heads": 7, "d_k": 4, "d_v": 5}})


def test_head_widths_default_to_a_share_of_d_model() -> None:
    config = ModelConfig(d_model=24, n_heads=4, d_v=5)
    assert (config.key_width, config.value_width) == (6, 5)
    with pytest.raises(ConfigError, match="d_model = 24 is not a multiple of n_heads = 5"):
        ModelConfig(d_model=24, n_heads=5, d_v=5)


# Shorthands


@pytest.mark.parametrize("size", sorted(SIZES))
def test_a_size_sets_its_settings_and_others_override_it(size: str) -> None:
    sized = config_from({"model": {"size": size}}).model
    choices: dict[str, Any] = SIZES[size]
    assert sized == ModelConfig(**choices) == ModelConfig.of_size(size)
    other = config_from({"model": {"d_ff": 77, "size": size, "norm": "post"}}).model
    assert other == ModelConfig.of_size(size, d_ff=77, norm="post")
    assert other.d_ff == 77


@pytest.mark.parametrize("size", ["huge", "", 3, ["tiny"], True])
def test_an_unknown_size_gets_the_list(size: Any) -> None:
    error = refusal({"model": {"size": size}})
    assert error.setting == "model.size"
    assert error.what == f"model.size must be one of tiny, small, base, big; got {size!r}"
    with pytest.raises(ConfigError, match="tiny, small, base, big"):
        ModelConfig.of_size(size)


@pytest.mark.parametrize("rate", [0, 0.0, 0.3])
def test_a_single_dropout_rate_is_that_of_four_places(rate: float) -> None:
    dropout = config_from({"model": {"dropout": rate}}).model.dropout
    assert dropout == DropoutConfig.everywhere(rate)
    choices: dict[str, Any] = {"dropout": rate}
    assert ModelConfig(**choices).dropout == dropout
    assert dropout.layer_output == 0.0


# The file, overrides, environment


def written(folder: Path, text: str) -> Path:
    path = folder / "my-run.toml"
    path.write_text(text, encoding="utf-8")
    return path


RUN = """
[model]
size = "tiny"
dropout = 0.1
[training]
max_steps = 100
"""


@pytest.mark.parametrize(
    ("override", "dotted", "value"),
    [
        ("seed=5", "seed", 5),
        (" seed = 5", "seed", 5),
        ("training.max_steps=1_000", "training.max_steps", 1000),
        ("training.schedule.peak=4e-3", "training.schedule.peak", 0.004),
        ("training.tensorboard=true", "training.tensorboard", True),
        ("folder=runs/other one", "folder", "runs/other one"),
        ('folder="runs/x"', "folder", "runs/x"),
        ("folder=a=b", "folder", "a=b"),
        ("folder=2026-01-01", "folder", "2026-01-01"),
        ("model.norm=post", "model.norm", "post"),
        ('data.train=["a.en", "b.de"]', "data.train", ("a.en", "b.de")),
        ('model.positions={kind = "none"}', "model.positions", NoPositions()),
        ("model.positions.kind=sinusoidal", "model.positions", Sinusoidal()),
        ("model.dropout=0.4", "model.dropout", DropoutConfig.everywhere(0.4)),
        ("model.dropout={hidden = 0.4}", "model.dropout", DropoutConfig(hidden=0.4)),
        ("model.d_ff=300", "model.d_ff", 300),
        ("model.size=small", "model.d_model", 256),
    ],
)
def test_an_override_replaces_the_value_of_the_file(
    tmp_path: Path, override: str, dotted: str, value: Any
) -> None:
    got: Any = read_config(written(tmp_path, RUN), [override])
    for name in dotted.split("."):
        got = getattr(got, name)
    assert got == value
    assert type(got) is type(value)


def test_an_override_of_one_dropout_rate_keeps_the_others(
    tmp_path: Path,
) -> None:
    path = written(tmp_path, RUN)
    rest = DropoutConfig.everywhere(0.1)
    found = read_config(path, ["model.dropout.attention=0"]).model.dropout
    assert found == dataclasses.replace(rest, attention=0.0)
    found = read_config(path, ["model.dropout=0.3", "model.dropout.hidden=0"]).model.dropout
    assert found == dataclasses.replace(DropoutConfig.everywhere(0.3), hidden=0.0)


def test_an_override_of_one_value_keeps_the_defaults_of_its_section(
    tmp_path: Path,
) -> None:
    path = written(tmp_path, "seed = 3\n")
    rest = RunConfig()
    found = read_config(path, ["model.dropout.attention=0"])
    assert found.model.dropout == dataclasses.replace(rest.model.dropout, attention=0.0)
    found = read_config(path, ["training.threads=1"])
    assert found.training == dataclasses.replace(rest.training, threads=1)
    found = read_config(path, ["training.optimizer.beta2=0.99", "training.max_minutes=3"])
    assert (found.training.max_steps, found.training.max_minutes) == (rest.training.max_steps, 3)
    path = written(tmp_path, "[training]\nmax_epochs = 2\n")
    assert read_config(path, ["training.threads=1"]).training.max_steps == 0


def test_a_byte_order_mark_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_bytes(b"\xef\xbb\xbf" + b"seed = 7\n")
    assert read_config(path).seed == 7


def test_the_last_of_two_overrides_wins_and_the_rest_of_the_file_stays(tmp_path: Path) -> None:
    config = read_config(written(tmp_path, RUN), ["seed=2", "seed=3", "training.patience=4"])
    assert config.seed == 3
    assert config.training == TrainingConfig(max_steps=100, patience=4)
    assert config.model == ModelConfig.of_size("tiny")


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("seed", "not path=value"),
        ("=3", "not path=value"),
        ("sede=3", "sede: there is no such setting"),
        ("model.dropuot=3", "model.dropuot: there is no such setting"),
        ("model..norm=post", "there is no such setting"),
        ("seed=", "seed must be a whole number; got ''"),
        ("seed=one", "got 'one'"),
        ("model.norm=3", "model.norm must be one of pre, post; got 3"),
        ("seed.x=3", "seed must be a whole number"),
        ("training.max_steps=-3", "training.max_steps must be at least 0; got -3"),
        ("training.max_steps.x=0", "max_steps is a single value here"),
    ],
)
def test_a_wrong_override_is_rejected_with_its_reason(
    tmp_path: Path, override: str, words: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        read_config(written(tmp_path, RUN), [override])
    assert words in str(caught.value)


def test_the_model_folder_is_named_after_the_file_unless_it_is_given(tmp_path: Path) -> None:
    assert read_config(written(tmp_path, RUN)).folder == "runs/my-run"
    assert read_config(written(tmp_path, 'folder = "elsewhere"')).folder == "elsewhere"


def test_environment_variables_in_a_file_are_expanded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLEARHEAD_DATA", "/big disk")
    monkeypatch.setenv("CH_LANG", "de")
    monkeypatch.delenv("CH_NONE", raising=False)
    text = 'folder = "$CH_LANG ${}"\n[data]\ntrain = ["${CLEARHEAD_DATA}/x.en", "y.${CH_LANG}"]'
    config = read_config(written(tmp_path, text))
    assert config.data.train == ("/big disk/x.en", str(tmp_path / "y.de"))
    assert config.folder == "$CH_LANG ${}"
    with pytest.raises(ConfigError) as caught:
        read_config(written(tmp_path, text), ['data.validation=["${CH_NONE}/v.en"]'])
    assert caught.value.setting == "data.validation"
    assert "CH_NONE" in caught.value.what
    assert "export CH_NONE=" in str(caught.value.todo)


def test_relative_data_paths_start_in_the_folder_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell, of_file = tmp_path / "shell", tmp_path / "configurations"
    shell.mkdir()
    of_file.mkdir()
    monkeypatch.chdir(shell)
    written(
        of_file,
        '[data]\ntrain = ["x.tsv"]\nvalidation = ["phrasebook:en-es"]\n'
        'test = ["~/a.en", "../b.en"]',
    )
    config = read_config("../configurations/my-run.toml")
    assert config.data.train == (str(of_file / "x.tsv"),)
    assert config.data.validation == ("phrasebook:en-es",)
    assert config.data.test == ("~/a.en", str(tmp_path / "b.en"))
    assert config.folder == "runs/my-run"
    (tmp_path / "link").symlink_to(of_file)
    assert read_config(tmp_path / "link/my-run.toml").data == config.data


@pytest.mark.parametrize("override", ['data.train=["x.tsv"]', 'data={train=["x.tsv"]}'])
def test_relative_data_paths_of_an_override_start_in_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, override: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "f").mkdir()
    path = written(tmp_path / "f", '[data]\ntrain = ["${CH_NONE}/y.tsv"]\n')
    config = read_config(path, [override])
    assert config.data.train == ("x.tsv",)
    assert with_absolute_paths(config).data.train == (str(tmp_path / "x.tsv"),)


def test_a_single_data_path_needs_no_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "f").mkdir()
    path = written(tmp_path / "f", '[data]\ntrain = "x.tsv"\nvalidation = "phrasebook:en-es"\n')
    assert read_config(path).data.train == (str(tmp_path / "f/x.tsv"),)
    assert read_config(path).data.validation == ("phrasebook:en-es",)
    assert read_config(path, ["data.train=../y.tsv"]).data.train == ("../y.tsv",)


def test_a_list_that_lost_its_quotation_marks_is_shown_with_them(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        read_config(written(tmp_path, RUN), ["data.train=[../a.en, b.de]"])
    assert '--set \'data.train=["../a.en", "b.de"]\'' in str(caught.value.todo)


@pytest.mark.parametrize(
    ("overrides", "place"),
    [
        (["seed=2", "seed=one"], 1),
        (["data.train=[3]"], 0),
        (["model={d_ff=0}"], 0),
        (["model.size=tiny"], None),
        (["data.smallest_class=1"], 0),
    ],
)
def test_an_error_in_an_override_names_it_and_not_the_file(
    tmp_path: Path, overrides: list[str], place: int | None
) -> None:
    path = written(tmp_path, RUN if place is not None else "[model]\nd_ff = 0\n")
    with pytest.raises(ConfigError) as caught:
        read_config(path, overrides)
    assert caught.value.where == (str(path) if place is None else f"--set {overrides[place]}")


@pytest.mark.parametrize(
    ("named", "found"),
    [
        ("../runs/x", "{tmp}/runs/x"),
        ("x", "{tmp}/f/x"),
        ("/models/x", "/models/x"),
        ("~/x", "{home}/x"),
        ("hf:org/name", "hf:org/name"),
        ("", ""),
    ],
)
def test_a_relative_start_from_starts_in_the_folder_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str, found: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "f").mkdir()
    path = written(tmp_path / "f", f'start_from = "{named}"\n')
    expected = found.format(tmp=tmp_path, home=tmp_path / "home")
    assert read_config(path).start_from == expected
    # That of an override starts in the current folder.
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    config = read_config(path, ["start_from=../runs/y"])
    assert config.start_from == "../runs/y"
    assert with_absolute_paths(config).start_from == str(tmp_path / "runs/y")


@given(
    files=st.lists(st.sampled_from(["hf:o/n", "a", "../a b", "/c/ä", "phrasebook:en-es", "d/../e"]))
)
def test_a_written_data_path_names_the_same_file(files: list[str]) -> None:
    for file in files:
        for folder in ("", "conf", "../other", "/tmp"):
            again = absolute_path(path_from(folder, file), folder)
            assert again == absolute_path(file)
            assert os.path.isabs(path_from(folder, file)) == os.path.isabs(file)


def test_variables_are_not_expanded_in_plain_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CH_LANG", "de")
    tree = dataclasses.asdict(RunConfig(folder="${CH_LANG}/${CH_NONE}"))
    assert config_from(tree).folder == "${CH_LANG}/${CH_NONE}"


def test_a_missing_unreadable_or_invalid_file_is_rejected(tmp_path: Path) -> None:
    missing = tmp_path / "missing.toml"
    with pytest.raises(ConfigError, match="no such file") as caught:
        read_config(missing)
    assert caught.value.where == str(missing)
    with pytest.raises(ConfigError, match="this is a folder"):
        read_config(tmp_path)
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe\x00seed")
    with pytest.raises(ConfigError, match="not a TOML file"):
        read_config(binary)
    with pytest.raises(ConfigError, match="not valid TOML") as caught:
        read_config(written(tmp_path, "seed = \n"))
    assert "line 1" in str(caught.value)


@pytest.mark.parametrize("is_folder", [False, True])
def test_a_name_without_toml_gives_a_suggestion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_folder: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("cl.toml").write_text("")
    if is_folder:
        Path("runs/cl").mkdir(parents=True)
    with pytest.raises(ConfigError) as caught:
        read_config("runs/cl" if is_folder else "cl")
    assert "cl.toml" in str(caught.value.todo)


# There and back


@pytest.mark.parametrize("file", sorted(EXAMPLES.rglob("*.toml")), ids=lambda path: path.stem)
def test_plain_values_round_trip(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLEARHEAD_DATA", "/data")
    config = read_config(file, ["seed=9223372036854775807", "training.schedule.peak=0.1"])
    tree = dataclasses.asdict(config)
    assert config_from(tree) == config
    assert config_from(json.loads(json.dumps(tree))) == config


def test_a_config_cannot_be_changed() -> None:
    config = RunConfig()
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.seed = 3  # pyright: ignore[reportAttributeAccessIssue]
    assert dataclasses.replace(config, seed=3).seed == 3


def test_unknown_settings_are_rejected_in_every_section() -> None:
    tables = ["", "data", "tokenizer", "model", "model.dropout", "training", "search"]
    tables += ["evaluation", "training.optimizer", "training.schedule", "training.fine_tuning"]
    tables += ["classifier"]
    for table in tables:
        error = refusal(nested(f"{table}.no_such_key".lstrip("."), 1))
        assert "there is no such setting" in error.what

    def inner(kind: type, path: str) -> list[str]:
        found = [path]
        for field in dataclasses.fields(kind):
            value = getattr(kind(**LIMIT) if kind is TrainingConfig else kind(), field.name)
            if dataclasses.is_dataclass(value) and field.name != "positions":
                found += inner(type(value), f"{path}.{field.name}".lstrip("."))
        return found

    assert sorted(inner(RunConfig, "")) == sorted(tables)


def test_configurations_are_values() -> None:
    config = config_from({"seed": 3, "model": {"size": "tiny", "positions": {"kind": "learned"}}})
    for other in (pickle.loads(pickle.dumps(config)), copy.deepcopy(config), copy.copy(config)):
        assert other == config
        assert hash(other) == hash(config)
    assert {config, dataclasses.replace(config)} == {config}
    assert dataclasses.replace(config, seed=4) != config
    with pytest.raises(ConfigError, match="seed"):
        dataclasses.replace(config, seed=-1)


def test_no_schema_is_built_before_the_first_instance() -> None:
    program = (
        "import clearhead.settings as s; from pydantic_core import SchemaValidator; "
        "built = isinstance(vars(s.RunConfig)['__pydantic_validator__'], SchemaValidator); "
        "s.RunConfig(); print(built, isinstance(s.RunConfig.__pydantic_validator__, "
        "SchemaValidator))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.split() == ["False", "True"], done.stderr


@pytest.mark.parametrize(
    "content",
    [
        "seed = " + "1" * 4000,
        "seed = " + "1" * 5000,
        "folder" + ".a" * 5000 + " = 1",
        "folder = " + "[" * 900 + "]" * 900,
        "folder = " + "{a = " * 60 + "1" + "}" * 60,
        "# " + "x" * 2**24,
    ],
    ids=lambda content: content[:14],
)
def test_a_file_that_no_program_should_write_is_an_error(content: str, tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text(content)
    with pytest.raises(ConfigError):
        read_config(path)
    path.write_text("")
    with pytest.raises(ConfigError):
        read_config(path, [content[:100_000].replace(" = ", "=", 1)])


@pytest.mark.parametrize("size", ["tiny", "huge", 3])
def test_a_size_as_an_argument_is_answered_with_what_makes_a_model_of_it(size: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        ModelConfig(size=size)  # pyright: ignore[reportCallIssue]
    assert caught.value.setting == "model.size"
    assert f"ModelConfig.of_size({size!r})" in str(caught.value.todo)
