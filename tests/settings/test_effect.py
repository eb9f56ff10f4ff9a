"""Settings without effect on a run: they are rejected, and they change no result."""

from __future__ import annotations

import json
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch

from clearhead.data.proposing.translation import propose_translation
from clearhead.errors import ConfigError
from clearhead.folder.files import write_json
from clearhead.folder.model_folder import FORMAT, open_folder
from clearhead.settings import (
    SIZES,
    DataConfig,
    NoPositions,
    OptimizerConfig,
    RunConfig,
    TokenizerConfig,
    TrainingConfig,
    config_from,
    read_config,
)
from clearhead.settings.commented import SEQUENCES, TEXTS, TRANSLATION, Form
from clearhead.settings.declare import LENIENT, as_toml, settings_of
from clearhead.tokenizer import learn_tokenizer
from clearhead.training.step import make_optimizer
from small_runs import feature_run, prepared, small_run, text_run

EXAMPLES = Path(__file__).parents[2] / "examples"
KINDS = [
    ("translation", "text"),
    ("classification", "text"),
    ("classification", "features"),
]
BY_ITSELF = {
    "translation": {"training.fine_tuning.head_rate"},
    "classification": {"data.replay", "tokenizer.new_words"},
}
"""What a configuration rejects by itself, wherever it comes from, by task or input."""

ONLY_WITH = {
    each.path: each.only_with
    for each in settings_of(RunConfig)
    if each.only_with[1] and not each.path.startswith(LENIENT)
}
"""Settings that are rejected unless another one has one of some choices."""

OTHER: dict[str, Any] = {
    "data.max_length_ratio": 1.5,
    "data.replay_share": 0.3,
    "data.weights": [2.0],
    "data.text_column": "question",
    "data.label_column": "kind",
    "data.validation_share": 0.3,
    "data.smallest_class": 1,
    "data.source_language": "tr",
    "data.target_language": "az",
    "training.export": False,
    "data.missing": "zero",
    "data.normalise": False,
    "tokenizer.kind": "unigram",
    "tokenizer.max_vocabulary": 70,
    "tokenizer.joint": False,
    "tokenizer.normal_form": "sources",
    "tokenizer.lower": True,
    "tokenizer.split_punctuation": True,
    "tokenizer.sampling": 0.3,
    "tokenizer.protect": ["web"],
    "tokenizer.protect_patterns": ["x+"],
    "tokenizer.accelerator": "_",
    "tokenizer.byte_fallback": False,
    "model.decoder_layers": 3,
    "model.output_bias": True,
    "model.share_embeddings": "none",
    "model.scale_embeddings": False,
    "model.character_ngrams": [3],
    "model.ngram_vectors": 7,
    "classifier.pooling": ["first"],
    "classifier.hidden": "tanh",
    "classifier.kernels": 20,
    "classifier.kernel_reach": 30,
    "classifier.ngrams": 20,
    "classifier.dropout": 0.4,
    "classifier.multi_label": True,
    "classifier.class_weights": "balanced",
    "search.method": "sampling",
    "search.beam_size": 3,
    "search.n_best": 2,
    "search.length_penalty": 0.1,
    "search.min_length": 1,
    "search.max_length": 9,
    "search.max_length_ratio": 3.0,
    "search.max_length_offset": 3,
    "search.no_repeat_ngram": 2,
    "search.temperature": 0.5,
    "search.top_k": 3,
    "search.top_p": 0.5,
    "search.seed": 4,
    "evaluation.tokenize": "char",
    "evaluation.lowercase": True,
    "evaluation.max_sentences": 1,
}
"""A value other than the default of every setting that has no effect on some run."""


def run_file(folder: Path, task: str, kind: str) -> Path:
    path = folder / "run.toml"
    text = f'task = "{task}"\ninput = "{kind}"\n[training]\nmax_steps = 1\n'
    path.write_text(text, encoding="utf-8")
    return path


def assignments(paths: Any, values: dict[str, Any]) -> list[str]:
    """`--set path=value` for some settings."""
    return [f"{path}={json.dumps(values[path])}" for path in paths]


def refusal(path: Path, overrides: list[str]) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        read_config(path, overrides)
    assert caught.value.where in ([f"--set {each}" for each in overrides] or [str(path)])
    return caught.value


def idle(task: str, kind: str) -> set[str]:
    """The settings that are rejected because this kind of run ignores them."""
    run: Any = {"task": task, "input": kind}
    rejected = BY_ITSELF.get(task, set()) | BY_ITSELF.get(kind, set())
    return ignored(RunConfig(**run)) - rejected


def ignored(config: RunConfig) -> set[str]:
    """The paths of the settings that this kind of run ignores."""
    every = settings_of(RunConfig)
    return {each.path for each in every if config.kind not in each.runs and not each.sections}


def test_each_setting_without_effect_on_some_run_is_tried_here() -> None:
    assert set().union(*(idle(*run) for run in KINDS)) == set(OTHER)


@pytest.mark.parametrize(("task", "kind"), KINDS)
def test_settings_without_effect_are_rejected_and_others_accepted(
    tmp_path: Path, task: str, kind: str
) -> None:
    path = run_file(tmp_path, task, kind)
    error = refusal(path, assignments(idle(task, kind), OTHER))
    for setting in idle(task, kind):
        assert f"{setting} = " in error.what
        assert f"{setting} is for " in str(error.why)
    assert error.what.endswith(
        " have no effect on "
        + {
            ("translation", "text"): "translation",
            ("classification", "text"): "classification of texts",
            ("classification", "features"): "classification of sequences",
        }[task, kind]
    )
    assert error.todo == "remove them"
    rest = OTHER.keys() - idle(task, kind)
    # These have rules of their own: the vocabulary has pieces, vectors need n-grams, and a share
    # earlier pairs.
    rest -= {
        "data.replay_share",
        "model.character_ngrams",
        "tokenizer.split_punctuation",
        "model.ngram_vectors",
    }
    read_config(path, assignments(rest, OTHER))


def test_ngram_vectors_need_ngrams(tmp_path: Path) -> None:
    path = run_file(tmp_path, "classification", "text")
    error = refusal(path, ["model.ngram_vectors=500", "tokenizer.kind=words"])
    assert error.setting == "model.ngram_vectors"
    assert "model.character_ngrams" in error.what
    assert error.todo == "set model.character_ngrams, or remove model.ngram_vectors"
    words = ["tokenizer.kind=words", "model.character_ngrams=[3]"]
    assert read_config(path, ["model.ngram_vectors=500", *words]).model.ngram_vectors == 500


def test_values_are_shown_as_in_a_file(tmp_path: Path) -> None:
    path = run_file(tmp_path, "translation", "text")
    assert "data.replay = []" in refusal(path, ["data.replay_share=0.3"]).what
    path = run_file(tmp_path, "classification", "text")
    error = refusal(path, ['data.replay=["a.tsv"]', "start_from=x"])
    assert error.what.startswith('data.replay = ["a.tsv"] has no effect')
    assert as_toml(NoPositions()) == '{ kind = "none" }'
    assert [as_toml(value) for value in (None, True, 1e-5)] == ["unset", "true", "1e-05"]


@pytest.mark.parametrize(("task", "kind"), KINDS)
def test_defaults_without_effect_are_accepted(tmp_path: Path, task: str, kind: str) -> None:
    defaults: Any = asdict(RunConfig())
    values = {path: defaults[path.split(".")[0]][path.split(".")[1]] for path in OTHER}
    read_config(run_file(tmp_path, task, kind), assignments(OTHER, values))


WITH_ANOTHER: dict[str, Any] = {
    "training.optimizer.momentum": 0.5,
    "training.optimizer.beta1": 0.8,
    "training.optimizer.beta2": 0.999,
    "training.optimizer.epsilon": 1e-6,
    "tokenizer.byte_fallback": False,
}
"""A value other than the default of every setting that goes with some choices of another."""

CHOICES = {
    "training.optimizer.kind": ("adam", "sgd"),
    "tokenizer.kind": ("bpe", "unigram", "words"),
}


def test_each_setting_that_goes_with_another_choice_is_tried_here() -> None:
    assert ONLY_WITH.keys() == WITH_ANOTHER.keys()


@pytest.mark.parametrize("path", ONLY_WITH)
def test_a_setting_of_another_choice_is_rejected(tmp_path: Path, path: str) -> None:
    other, acting = ONLY_WITH[path]
    file, (setting,) = run_file(tmp_path, "translation", "text"), assignments([path], WITH_ANOTHER)
    for choice in CHOICES[other]:
        words = [f"{other}={choice}", setting]
        if choice in acting:
            read_config(file, words)
            continue
        error = refusal(file, words)
        value = WITH_ANOTHER[path]
        assert error.what == f'{path} = {as_toml(value)} has no effect with {other} = "{choice}"'
        for right in acting:
            assert f'"{right}"' in str(error.todo)


@pytest.mark.parametrize("path", ONLY_WITH)
def test_an_override_of_a_choice_keeps_the_settings_of_the_file(tmp_path: Path, path: str) -> None:
    other, acting = ONLY_WITH[path]
    (idle,) = set(CHOICES[other]) - set(acting)
    section, _, name = path.rpartition(".")
    value, kind = json.dumps(WITH_ANOTHER[path]), other.rpartition(".")[2]
    text = "[training]\nmax_steps = 1\n[{}]\n{} = {}\n{} = '{}'\n"
    file = tmp_path / "run.toml"
    file.write_text(text.format(section, name, value, kind, acting[0]), encoding="utf-8")
    read_config(file)
    read_config(file, [f"{other}={idle}"])
    file.write_text(text.format(section, name, value, kind, idle), encoding="utf-8")
    refusal(file, [])


def test_a_setting_of_another_choice_changes_nothing() -> None:
    texts = ["the cat sees a dog", "a dog is on its way home"]

    def built(path: str, choice: str, value: Any) -> str:
        """What is built from the section of the setting, as a string."""
        name = path.rpartition(".")[2]
        if path.startswith("tokenizer"):
            config = TokenizerConfig(**{"kind": choice, "max_vocabulary": 280, name: value})
            return str(learn_tokenizer(texts, config).files("t"))
        optimizer = OptimizerConfig(**{"kind": choice, name: value})
        return str(
            make_optimizer(torch.nn.Linear(2, 2), TrainingConfig(max_steps=1, optimizer=optimizer))
        )

    for path, (other, acting) in ONLY_WITH.items():
        usual: Any = RunConfig()
        for name in path.split("."):
            usual = getattr(usual, name)
        for choice in CHOICES[other]:
            same = built(path, choice, usual) == built(path, choice, WITH_ANOTHER[path])
            assert same == (choice not in acting), (path, choice)


def test_a_choice_in_a_file_of_init_can_be_edited_alone(tmp_path: Path) -> None:
    """Another schedule, or another search method, needs no other change of the file."""
    assert not TRANSLATION.meanings.keys() & ONLY_WITH.keys()
    file = tmp_path / "run.toml"
    text = propose_translation().to_toml("run")
    for written, edited in (('kind = "inverse_sqrt"', 'kind = "paper"'), ("[search]", SAMPLING)):
        assert written in text
        file.write_text(text.replace(written, edited), encoding="utf-8")
        read_config(file)


SAMPLING = '[search]\nmethod = "sampling"'


@pytest.mark.parametrize("size", sorted(SIZES))
def test_the_decoder_layers_of_a_size_are_accepted_for_a_classifier(
    tmp_path: Path, size: str
) -> None:
    path = run_file(tmp_path, "classification", "text")
    assert read_config(path, [f"model.size={size}"]).model.d_model == SIZES[size]["d_model"]
    error = refusal(path, [f"model.size={size}", "model.decoder_layers=3"])
    assert error.what.startswith("model.decoder_layers = 3 has no effect on classification")


@pytest.mark.parametrize(("task", "kind"), KINDS)
def test_a_model_folder_with_settings_without_effect_is_read(
    tmp_path: Path, task: str, kind: str
) -> None:
    tree: dict[str, Any] = asdict(RunConfig()) | {"task": task, "input": kind}
    with_idle(tree, task, kind)
    write_json(tmp_path / "config.json", {"format": FORMAT, "config": tree})
    assert open_folder(tmp_path, trained=False).config == config_from(tree)


def test_variables_in_a_model_folder_are_not_expanded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CH_DATA", "/data")
    tree = asdict(RunConfig(data=DataConfig(train=("${CH_DATA}/x", "${CH_NONE}/y"))))
    write_json(tmp_path / "config.json", {"format": FORMAT, "config": tree})
    config = open_folder(tmp_path, trained=False).config
    assert config.data.train == ("${CH_DATA}/x", "${CH_NONE}/y")


def with_idle(tree: dict[str, Any], task: str, kind: str) -> None:
    """Set all settings that such a run ignores."""
    for setting in idle(task, kind):
        section, name = setting.split(".")
        tree[section] = {**tree[section], name: OTHER[setting]}


def small(folder: Path, task: str, kind: str) -> RunConfig:
    """A small run of this kind, with its data."""
    folder.mkdir()
    if task == "translation":
        return small_run(folder)
    return text_run(folder) if kind == "text" else feature_run(folder)


def what_it_computes(config: RunConfig, folder: Path) -> tuple[dict[str, Any], list[Any]]:
    """The initial weights of a run, the losses of two batches, and the scores."""
    ready = prepared(config, folder / "corpus")
    model = ready.build_model()
    batches = islice(ready.task.batches(0, 0), 2)
    losses = [ready.task.loss(model.train(), batch) for batch in batches]
    numbers = [(loss.total.item(), loss.plain.item(), loss.units) for loss in losses]
    return model.state_dict(), [*numbers, dict(ready.task.evaluate(model.eval()).scores)]


@pytest.mark.slow
@pytest.mark.parametrize(("task", "kind"), KINDS)
def test_settings_without_effect_change_no_bit(tmp_path: Path, task: str, kind: str) -> None:
    plain = small(tmp_path / "plain", task, kind)
    tree = asdict(plain)
    with_idle(tree, task, kind)
    other = config_from(tree)
    assert other != plain
    weights, numbers = what_it_computes(plain, tmp_path / "plain")
    other_weights, other_numbers = what_it_computes(other, tmp_path / "other")
    assert numbers == other_numbers
    assert weights.keys() == other_weights.keys()
    assert all(torch.equal(tensor, other_weights[name]) for name, tensor in weights.items())


@pytest.mark.parametrize("form", [TRANSLATION, TEXTS, SEQUENCES])
def test_init_writes_nothing_without_effect(form: Form) -> None:
    assert not form.meanings.keys() & ignored(form.run)


def test_the_examples_set_nothing_without_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLEARHEAD_DATA", "/data")
    examples = sorted(EXAMPLES.rglob("*.toml"))
    assert {read_config(path).task for path in examples} == {task for task, _ in KINDS}
