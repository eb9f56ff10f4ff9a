"""The folder of a run: what resumes, what a restart removes, and what a run never touches."""

from __future__ import annotations

import dataclasses
import gc
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from clearhead import api
from clearhead.api.start import starting_point
from clearhead.errors import ClearheadError, ConfigError, ModelFolderError, TrainingError
from clearhead.folder.manifest import read_entries
from clearhead.folder.model_folder import PREPARED, open_folder
from clearhead.folder.tensors import read_tensors
from clearhead.formats.huggingface.reading import import_model
from clearhead.settings import ClassifierConfig, RunConfig, config_from
from clearhead.training.checkpoints import STATE
from clearhead.training.run_folder import (
    LOCK,
    SELECTED_FILES,
    forget_run,
    only_run_in,
)
from fake_translator import run
from huggingface_models import written
from small_runs import Watcher, assert_same, feature_run, final_state, prepared, small_run, text_run

SHORT = {"max_steps": 4, "validate_every": 2}


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize(
    "name",
    [
        "config.json",
        *("training/train.csv", "training/raw/x.txt", "training/checkpoints/notes.txt"),
        *("training/log.jsonl/x", "training/step-1.safetensors", "training/corpus/mine.txt"),
        # As a run would call them; but no run was ever here.
        *("training/data.json", "training/log.jsonl", "training/state.safetensors"),
        "training/checkpoints/best.safetensors",
        *("weights.safetensors", "scores.json", "provenance.json", "manifest.json"),
        *("tokenizer.json", "source.json", "target.model", "labels.json", "normaliser.json"),
    ],
)
def test_files_that_no_run_has_written_are_rejected_and_left(
    tmp_path: Path, name: str, restart: bool
) -> None:
    folder = tmp_path / "project"
    own = folder / name
    own.parent.mkdir(parents=True)
    own.write_text('{"model_type": "marian"}')
    config = text_run(tmp_path, "project", training=SHORT)
    with pytest.raises(ClearheadError) as caught:
        api.train(config, restart=restart)
    assert caught.value.where == str(folder / name if name == "config.json" else folder)
    assert name in f"{caught.value.what} {caught.value.why}"
    assert files_of(folder) == {name: b'{"model_type": "marian"}'}


def test_a_lock_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "run" / "training").mkdir(parents=True)
    (tmp_path / "run" / LOCK).symlink_to(tmp_path / "outside")
    with pytest.raises(TrainingError), only_run_in(tmp_path / "run"):
        pass
    assert not (tmp_path / "outside").exists()


@pytest.mark.slow
@pytest.mark.parametrize("restart", [False, True])
def test_an_imported_model_is_not_trained_over(tmp_path: Path, restart: bool) -> None:
    config = text_run(tmp_path, training=SHORT)
    folder = Path(config.folder)
    written(tmp_path / "original", "Bert", head=False)
    import_model(tmp_path / "original", folder)
    before = files_of(folder)
    with pytest.raises(TrainingError) as caught:
        api.train(config, restart=restart)
    assert caught.value.where == str(folder)
    assert "imported" in caught.value.what
    assert "start_from" in str(caught.value.todo)
    assert files_of(folder) == before


@pytest.mark.slow
@pytest.mark.parametrize("lost", ["training", "training/state.safetensors", "config.json"])
def test_a_run_that_has_lost_a_part_is_not_trained_over(tmp_path: Path, lost: str) -> None:
    config = text_run(tmp_path, training=SHORT)
    api.train(config)
    folder = Path(config.folder)
    path = folder / lost
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
    before = (folder / "weights.safetensors").read_bytes()
    for restart in (False, True)[: 1 + (lost == "config.json")]:
        with pytest.raises(ClearheadError) as caught:
            api.train(config, restart=restart)
        assert ("config.json" if lost == "config.json" else "--restart") in str(caught.value.todo)
    assert (folder / "weights.safetensors").read_bytes() == before
    (folder / "config.json").write_text('{"format": ')  # a restart also replaces a damaged one
    assert api.train(config, restart=True).finished


def test_a_restart_removes_the_run_and_leaves_files_of_others(tmp_path: Path) -> None:
    config = text_run(tmp_path, training={**SHORT, "tensorboard": True})
    api.train(config)
    folder = Path(config.folder)
    (folder / "training" / "checkpoints" / ".step-00000009.safetensors.unfinished").write_text(
        "torn"
    )
    own = {"training/notes.txt": b"dear", "training/checkpoints/mine.txt": b"me", "README.md": b"I"}
    for name, content in own.items():
        (folder / name).write_bytes(content)
    parts = {
        name for name in files_of(folder) if name.startswith(("labels", "tokenizer", "text_style"))
    }
    assert parts
    forget_run(folder)
    assert files_of(folder).keys() == own.keys() | parts | {"config.json"}
    assert not (folder / "training" / "tensorboard").exists()


def corpora_of(config: RunConfig) -> set[str]:
    folder = Path(config.folder) / "training" / "corpus"
    return {path.name for path in folder.iterdir()} - {".lock"}


@pytest.mark.slow
def test_a_restart_removes_the_corpora_that_it_does_not_use(tmp_path: Path) -> None:
    config = small_run(tmp_path, max_steps=4)
    api.train(config)
    (used,) = corpora_of(config)
    folder = Path(config.folder) / "training" / "corpus"
    for name in ("0123456789abcdef", ".0123456789abcdef.partial"):
        shutil.copytree(folder / used, folder / name)
    (folder / "notes.txt").write_text("dear")
    assert api.train(config, restart=True).finished
    assert corpora_of(config) == {used, "notes.txt"}
    # A restart as another task leaves no corpus.
    (tmp_path / "texts").mkdir()
    texts = text_run(tmp_path / "texts", training=SHORT)
    api.train(dataclasses.replace(texts, folder=config.folder), restart=True)
    assert corpora_of(config) == {"notes.txt"}


@pytest.mark.slow
def test_a_run_that_continues_with_data_elsewhere_keeps_one_corpus(tmp_path: Path) -> None:
    config = small_run(tmp_path, max_steps=4)
    api.train(config)
    before = corpora_of(config)
    moved = str(Path(config.data.train[0]).rename(tmp_path / "moved.tsv"))
    data = dataclasses.replace(config.data, train=(moved,), mismatch="warn")  # may change too
    gc.collect()
    longer = dataclasses.replace(config.training, max_steps=8)
    assert api.train(dataclasses.replace(config, data=data, training=longer)).step == 8
    assert len(corpora_of(config)) == 1
    assert corpora_of(config) != before


@pytest.mark.slow
def test_a_run_with_relative_paths_resumes_from_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = small_run(tmp_path, max_steps=4)
    names = tuple(Path(file).name for file in config.data.train)
    monkeypatch.chdir(Path(config.data.train[0]).parent)
    api.train(dataclasses.replace(config, data=dataclasses.replace(config.data, train=names)))
    assert open_folder(config.folder).config.data == config.data
    monkeypatch.chdir("/")
    longer = dataclasses.replace(config.training, max_steps=8)
    assert api.train(dataclasses.replace(config, training=longer)).step == 8


@pytest.mark.slow
@pytest.mark.parametrize("unlinked", [1, 2, 5, 9])
def test_what_is_left_of_a_run_that_was_being_removed_is_no_run(
    tmp_path: Path, unlinked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = text_run(tmp_path, training=SHORT)
    api.train(config)
    unlink, left = Path.unlink, iter(range(unlinked))

    def killed(self: Path, missing_ok: bool = False) -> None:
        if next(left, None) is None:
            raise KeyboardInterrupt
        unlink(self, missing_ok)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", killed)
        with pytest.raises(KeyboardInterrupt):
            forget_run(Path(config.folder))
    with pytest.raises(TrainingError) as caught:
        api.train(config)
    assert "--restart" in str(caught.value.todo)
    assert api.train(config, restart=True).finished


def test_a_run_that_was_killed_before_its_files_were_in_place_goes_on(tmp_path: Path) -> None:
    config = text_run(tmp_path, training=SHORT)
    api.train(config)
    folder = Path(config.folder)
    before = {name: (folder / name).read_bytes() for name in read_entries(folder)}
    assert {"config.json", STATE, "training/checkpoints/average.safetensors"} <= before.keys()
    for name, entry in read_entries(folder).items():
        path = folder / name
        path.rename(path.with_name(f".{path.name}.{entry.sha256[:16]}"))
    assert api.train(config).finished
    assert {name: (folder / name).read_bytes() for name in before} == before


def test_the_files_in_a_model_folder_are_known_as_a_runs(tmp_path: Path) -> None:
    made = [kind(tmp_path, kind.__name__, training=SHORT) for kind in (text_run, feature_run)]
    known = {"config.json", *SELECTED_FILES, *PREPARED}
    for config in made:
        api.train(config)
        found = {path.name for path in Path(config.folder).iterdir() if path.is_file()}
        assert found <= known


def test_tensorboard_that_is_missing_is_reported_before_anything_is_removed_or_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = text_run(tmp_path, "old", training=SHORT)
    api.train(old)
    before = files_of(Path(old.folder))
    toml = tmp_path / "run.toml"
    toml.write_text(
        'task = "classification"\n'
        f"[data]\ntrain = {json.dumps(old.data.train)}\n"
        "[training]\nmax_steps = 2\ntensorboard = true\n"
    )
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard.writer", None)
    new = tmp_path / "new"
    for folder, how in ((old.folder, "--restart"), (new, "--restart"), (new, "--dry-run")):
        setting = f"folder={json.dumps(str(folder))}"
        code, out, err = run("train", str(toml), "--set", setting, how)
        assert (code, out) == (TrainingError.exit_code, "")
        assert "clearhead: training.tensorboard = true" in err
        assert "pip install tensorboard" in err
    assert files_of(Path(old.folder)) == before
    assert not new.exists()


# A run that starts from the weights of an encoder.


@pytest.fixture(scope="module")
def encoders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, RunConfig]:
    """Trained models for `start_from`: a translator, and a classifier without normalisation."""
    folder = tmp_path_factory.mktemp("encoders")
    translator = small_run(folder, "translator", max_steps=4)
    api.train(translator)  # first, because the files of the next run have the same names
    features = feature_run(folder, "features", training=SHORT, data={"normalise": False})
    api.train(features)
    return {"text": translator, "features": features}


def begun_with(
    encoder: RunConfig, folder: Path, name: str = "begun", **sections: dict[str, Any]
) -> RunConfig:
    """A classifier that starts from an encoder and sets no vocabulary and no scale."""
    kind = feature_run if encoder.input == "features" else text_run
    model = dataclasses.asdict(encoder.model)
    run = kind(folder, name, model=model)
    run = dataclasses.replace(run, tokenizer=RunConfig().tokenizer, start_from=encoder.folder)
    training = {**dataclasses.asdict(run.training), **SHORT, **sections.pop("training", {})}
    tree = dataclasses.asdict(run) | {"training": training}
    return config_from({**tree, **{k: {**tree[k], **v} for k, v in sections.items()}})


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["text", "features"])
def test_a_run_needs_its_encoder_until_its_first_checkpoint(
    encoders: dict[str, RunConfig], tmp_path: Path, kind: str
) -> None:
    gone = tmp_path / "gone"
    shutil.copytree(encoders[kind].folder, gone)
    encoder = dataclasses.replace(encoders[kind], folder=str(gone))
    through, stopped, killed = (
        begun_with(encoder, tmp_path, name) for name in ("through", "stopped", "killed")
    )
    api.train(through)
    api.train(killed)
    for name in ("weights.safetensors", "scores.json", STATE):
        (Path(killed.folder) / name).unlink()
    api.train(killed)
    assert not api.train(stopped, observers=[Watcher(interrupt_at=2)]).finished
    shutil.rmtree(gone)
    assert api.train(stopped).finished
    for other in (stopped, killed):
        assert_same(final_state(other), final_state(through))


@pytest.mark.parametrize("kind", ["text", "features"])
def test_settings_that_stand_at_their_defaults_are_taken_over(
    encoders: dict[str, RunConfig], tmp_path: Path, kind: str
) -> None:
    config = begun_with(encoders[kind], tmp_path)
    api.train(config)
    kept = api.load_classifier(config.folder).config
    found = encoders[kind]
    assert kept.data.normalise == found.data.normalise
    if kind == "text":
        assert kept.tokenizer == found.tokenizer != config.tokenizer
        again = dataclasses.asdict(found.tokenizer) | {"joint": False}
        assert api.train(begun_with(found, tmp_path, "again", tokenizer=again)).finished
    assert api.dry_run(config).steps == SHORT["max_steps"]


@pytest.mark.parametrize("ask", [api.train, api.dry_run])
def test_another_vocabulary_or_scale_is_rejected_with_both(
    encoders: dict[str, RunConfig], tmp_path: Path, ask: Any
) -> None:
    config = begun_with(encoders["text"], tmp_path, tokenizer={"max_vocabulary": 500})
    with pytest.raises(ConfigError) as raised:
        ask(config)
    assert raised.value.setting == "tokenizer.max_vocabulary"
    scaled = feature_run(tmp_path, "scaled", training=SHORT)
    api.train(scaled)
    config = begun_with(scaled, tmp_path, data={"normalise": False})
    with pytest.raises(ConfigError) as raised:
        ask(config)
    assert raised.value.setting == "data.normalise"
    assert not Path(config.folder).exists()


def test_a_translator_does_not_start_from_a_classifier(
    encoders: dict[str, RunConfig], tmp_path: Path
) -> None:
    classifier = begun_with(encoders["text"], tmp_path)
    api.train(classifier)
    for trained in (classifier, encoders["features"]):
        run = dataclasses.replace(small_run(tmp_path, "run"), start_from=trained.folder)
        with pytest.raises(ModelFolderError) as raised:
            api.train(run)
        assert raised.value.where == trained.folder
        assert not Path(run.folder).exists()


def test_a_translator_starts_from_all_weights_of_a_translator(
    encoders: dict[str, RunConfig], tmp_path: Path
) -> None:
    trained = encoders["text"]
    defaults = RunConfig()
    run = dataclasses.replace(
        small_run(tmp_path, "run", max_steps=2),
        start_from=trained.folder,
        model=defaults.model,
        tokenizer=defaults.tokenizer,
    )
    with starting_point(run, True, print) as (complete, start):
        model = prepared(complete, tmp_path / "corpus", start=start).build_model()
    assert complete.model == trained.model
    found, _ = read_tensors(Path(trained.folder, "weights.safetensors"))
    own = dict(model.named_parameters())
    assert own.keys() == found.keys()
    assert all(torch.equal(own[name], found[name]) for name in found)
    assert api.train(run).finished


def test_a_classifier_starts_from_the_output_layer_of_one_with_the_same_labels(
    encoders: dict[str, RunConfig], tmp_path: Path
) -> None:
    first = begun_with(encoders["text"], tmp_path, "first")
    api.train(first)
    found, _ = read_tensors(Path(first.folder, "weights.safetensors"))
    defaults = RunConfig()
    run = dataclasses.replace(
        first, folder=str(tmp_path / "next"), start_from=first.folder, model=defaults.model
    )
    other_head = dataclasses.replace(run, classifier=ClassifierConfig(pooling=("maximum",)))
    for config, kept in ((run, True), (other_head, False)):
        with starting_point(config, True, print) as (complete, start):
            model = prepared(complete, tmp_path / "none", start=start).build_model()
        own = dict(model.named_parameters())
        assert torch.equal(own["input.embedding.weight"], found["input.embedding.weight"])
        assert torch.equal(own["output.weight"], found["output.weight"]) == kept


def test_what_safetensors_left_half_written_is_removed_and_nothing_else(tmp_path: Path) -> None:
    checkpoints = tmp_path / "training" / "checkpoints"
    checkpoints.mkdir(parents=True)
    kept = [tmp_path / ".tmpAb12cD", checkpoints / ".tmp", checkpoints / ".tmpAb12cD.mine"]
    left = [tmp_path / "training" / ".tmpAb12cD", checkpoints / ".tmpXyZ345"]
    for path in (*kept, *left):
        path.write_text("x")
    with only_run_in(tmp_path):
        kept.append(tmp_path / "training" / ".lock")
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == sorted(kept)
