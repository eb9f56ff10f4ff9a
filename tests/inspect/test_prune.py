"""Tests of pruning: the same as switching heads off, in a folder that is whole."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clearhead
from clearhead import api
from clearhead.api.exporting import export_model
from clearhead.cli import main
from clearhead.errors import ClearheadError
from clearhead.folder.model_folder import open_folder
from clearhead.inspect.findings import STUDY, write_finding
from clearhead.inspect.study import study_model
from clearhead.settings import RunConfig
from exported_models import SOURCE_WORDS, TARGET_WORDS, random_folder
from small_models import small_config
from small_runs import small_run, text_run, write_texts

TEXT = " ".join(SOURCE_WORDS[:4])
PAIRS = [(TEXT, " ".join(TARGET_WORDS[:3])), (SOURCE_WORDS[5], TARGET_WORDS[4])]


def studied(folder: Path, sample: Any = None) -> Path:
    study, _ = study_model(clearhead.load(folder, engine="torch"), sample, 10)
    write_finding(open_folder(folder), STUDY, study)
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shape = small_config(attention_bias=True, n_heads=4, d_k=3, d_v=2)
    return studied(random_folder(tmp_path / "model", shape, seed=4), PAIRS)


def test_a_pruned_model_computes_what_is_left_without_the_other_heads(
    folder: Path, tmp_path: Path
) -> None:
    path = clearhead.prune(folder, 2, tmp_path / "pruned")
    rows = json.loads((folder / "inspection" / STUDY).read_text())["importance"]
    off = []
    for name in dict.fromkeys(row["head"].rpartition(".")[0] for row in rows):
        own = [row for row in rows if row["head"].rpartition(".")[0] == name]
        off += [row["head"] for row in sorted(own, key=lambda row: -row["loss"][0])[2:]]
    assert len(off) == 2 * 6
    ablated = api.load_translator(folder, engine="torch", ablate=off)
    pruned = api.load_translator(path, engine="torch")
    assert pruned.config.model.n_heads == 2
    for source, target in PAIRS:
        found, expected = (clearhead.record(model, source, target) for model in (pruned, ablated))
        np.testing.assert_allclose(found.logits, expected.logits, atol=2e-6)
    assert (path / "weights.safetensors").stat().st_size < (
        (folder / "weights.safetensors").stat().st_size
    )


@pytest.mark.slow
def test_a_pruned_model_is_exported(folder: Path, tmp_path: Path) -> None:
    path = clearhead.prune(folder, 1, tmp_path / "pruned")
    export_model(path)
    translator = api.load_translator(path, engine="ctranslate2")
    plain = api.load_translator(path, engine="torch")
    assert str(translator.translate([TEXT])[0][0]) == str(plain.translate([TEXT])[0][0])


@pytest.mark.parametrize("heads", [0, 4, 5])
def test_a_wrong_number_of_heads_is_refused(folder: Path, tmp_path: Path, heads: int) -> None:
    with pytest.raises(ClearheadError) as caught:
        clearhead.prune(folder, heads, tmp_path / "pruned")
    assert caught.value.where == "prune"
    assert not (tmp_path / "pruned").exists()


def test_what_is_missing_or_in_the_way_is_named(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ClearheadError) as caught:
        clearhead.prune(folder, 2, folder)
    assert caught.value.where == str(folder)
    (folder / "inspection" / STUDY).unlink()
    with pytest.raises(ClearheadError) as caught:
        clearhead.prune(folder, 2, tmp_path / "pruned")
    assert "clearhead study" in str(caught.value.todo)


def validated_texts(folder: Path) -> RunConfig:
    """A run with the first of its examples as validation data."""
    lines = write_texts(folder).read_text(encoding="utf-8").splitlines(keepends=True)
    (folder / "validation.tsv").write_text("".join(lines[:20]), encoding="utf-8")
    return text_run(folder, data={"validation": [str(folder / "validation.tsv")]})


@pytest.mark.slow
@pytest.mark.parametrize("kind", [small_run, validated_texts])
def test_the_command_prints_both_scores_and_the_model_trains_on(
    tmp_path: Path, capsys: pytest.CaptureFixture, kind: Any
) -> None:
    config = kind(tmp_path)
    clearhead.train(config, observers=())
    folder, smaller = studied(Path(config.folder)), tmp_path / "smaller"
    main(["prune", str(folder), "--heads", "1", "-o", str(smaller)])
    printed = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in printed] == [str(folder), str(smaller)]
    shape = open_folder(smaller).config.model
    again = dataclasses.replace(
        config, folder=str(tmp_path / "again"), start_from=str(smaller), model=shape
    )
    clearhead.train(again, observers=())
    assert clearhead.load(again.folder).config.model.n_heads == 1


@pytest.mark.slow
def test_a_pruned_model_keeps_the_thresholds_of_several_labels(tmp_path: Path) -> None:
    config = validated_texts(tmp_path)
    several = dataclasses.replace(config.classifier, multi_label=True)
    short = dataclasses.replace(config.training, max_steps=2, validate_every=2)
    config = dataclasses.replace(config, classifier=several, training=short)
    clearhead.train(config, observers=())
    folder = studied(Path(config.folder))
    expected = api.load_classifier(folder).thresholds
    found = api.load_classifier(clearhead.prune(folder, 1, tmp_path / "smaller")).thresholds
    assert found == expected
    assert min(expected) < 0.5  # two steps are too few to be right everywhere
