"""A run keeps the attention of fixed examples, is the same run, and resumes with them."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clearhead import api
from clearhead.folder.model_folder import WEIGHTS
from clearhead.folder.tensors import read_tensors
from clearhead.inspect.attention_watch import watched
from clearhead.inspect.record import Record
from clearhead.inspect.recording import record
from clearhead.settings import RunConfig
from small_runs import Watcher, assert_same, final_state, small_run, text_run, write_sequences

pytestmark = pytest.mark.slow


def watching(config: RunConfig, count: int = 2) -> RunConfig:
    return dataclasses.replace(
        config, training=dataclasses.replace(config.training, watch_attention=count)
    )


def train(config: RunConfig, watcher: Watcher | None = None, **options: Any) -> None:
    api.train(config, observers=[watcher or Watcher()], **options)


def contents(config: RunConfig) -> dict[str, bytes]:
    folder = Path(config.folder) / "training" / "attention"
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def arrays(config: RunConfig) -> dict[str, np.ndarray]:
    """The attention of each file, and its names."""
    found = {}
    for files in watched(Path(config.folder)).values():
        for step, path in files:
            one = Record.load(path)
            found[f"{path.name} {step}"] = np.concatenate(
                [layer.attention.ravel() for layer in one.encoder]
                + [layer.cross_attention.ravel() for layer in one.decoder]
            )
    return found


def test_a_run_is_the_same_with_and_without_a_watch(tmp_path: Path) -> None:
    plain = small_run(tmp_path, "plain")
    config = watching(small_run(tmp_path, "watched"))
    train(plain)
    train(config)
    assert_same(final_state(plain), final_state(config))
    models = [read_tensors(tmp_path / name / WEIGHTS)[0] for name in ("plain", "watched")]
    assert_same(*models)
    assert not (tmp_path / "plain" / "training" / "attention").exists()
    found = watched(tmp_path / "watched")
    assert {number: [step for step, _ in files] for number, files in found.items()} == {
        1: [0, 4, 8, 12],
        2: [0, 4, 8, 12],
    }


def test_the_last_record_is_that_of_the_last_weights(tmp_path: Path) -> None:
    config = watching(small_run(tmp_path, keep="average", average_last=1), 1)
    train(config)
    ((step, path),) = watched(Path(config.folder))[1][-1:]
    kept = Record.load(path)
    translator = api.load_translator(config.folder, device="cpu")
    source, target = (tmp_path / "validation.tsv").read_text().splitlines()[0].split("\t")
    expected = record(translator, source, target)
    assert (step, kept.source, kept.target) == (12, expected.source, expected.target)
    for name in ("encoder_attentions", "decoder_attentions", "cross_attentions"):
        np.testing.assert_allclose(getattr(kept, name), getattr(expected, name), atol=1e-3)
    assert kept.logits.size == kept.encoder[0].input.size == 0
    assert path.stat().st_size < 20_000


def test_an_interrupted_run_has_the_records_of_an_uninterrupted_one(tmp_path: Path) -> None:
    whole = watching(small_run(tmp_path, "whole"))
    parts = watching(small_run(tmp_path, "parts"))
    train(whole)
    train(parts, Watcher(interrupt_at=4))
    assert set(arrays(parts)) == {f"step-{step}-{n}.npz {step}" for step in (0, 4) for n in (1, 2)}
    # A record of a step that is made again, as after a kill, is removed.
    later = Path(parts.folder) / "training" / "attention" / "step-7-1.npz"
    later.write_bytes(b"later")
    train(parts)
    assert contents(parts).keys() == contents(whole).keys()
    for name, values in arrays(whole).items():
        np.testing.assert_array_equal(values, arrays(parts)[name])


def test_it_may_be_switched_on_later_and_a_restart_removes_it(tmp_path: Path) -> None:
    config = small_run(tmp_path)
    train(config, Watcher(interrupt_at=4))
    train(watching(config))
    assert [step for step, _ in watched(Path(config.folder))[1]] == [8, 12]
    train(config, restart=True)
    assert not (Path(config.folder) / "training" / "attention").exists()


@pytest.mark.parametrize("kind", ["texts", "features"])
def test_examples_of_a_classifier_are_kept(tmp_path: Path, kind: str) -> None:
    short = {"max_steps": 4, "validate_every": 2}
    if kind == "texts":
        config = text_run(tmp_path, training=short)
    else:
        data = {"train": [str(write_sequences(tmp_path))]}
        config = text_run(tmp_path, training=short, data=data, tokenizer={})
        config = dataclasses.replace(config, input="features")
    train(watching(config, 3))
    found = watched(Path(config.folder))
    assert sorted(found) == [1, 2, 3]
    kept = Record.load(found[1][-1][1])
    assert kept.decoder == ()
    assert kept.unit == ("token" if kind == "texts" else "frame")
    assert len(kept.source) == kept.encoder[0].attention.shape[-1]
