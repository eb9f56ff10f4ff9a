"""Fine-tuning: the rates of the layers against a formula, and what stays frozen."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from clearhead import api
from clearhead.errors import ConfigError
from clearhead.folder.tensors import read_tensors
from clearhead.model.build import build_classifier, build_model
from clearhead.settings import (
    ClassifierConfig,
    FineTuningConfig,
    ModelConfig,
    OptimizerConfig,
    TrainingConfig,
)
from clearhead.training.fine_tuning import freeze, parameter_groups
from clearhead.training.step import make_optimizer
from small_models import labelled_run
from small_runs import Watcher, assert_same, begun, final_state, small_run, text_run

pytestmark = pytest.mark.slow

SHAPE = ModelConfig(encoder_layers=3, decoder_layers=2, d_model=8, d_ff=8, n_heads=2)


def classifier() -> nn.Module:
    head = ClassifierConfig(pooling=("attention",), hidden="tanh")
    return build_classifier(labelled_run(SHAPE, head), 9, 3)


def translator() -> nn.Module:
    return build_model(dataclasses.replace(SHAPE, share_embeddings="none"), 9, 9)


EXPECTED = {
    "encoder.layers.2.": 1.0,
    "encoder.layers.1.": 0.5,
    "encoder.layers.0.": 0.25,
    "input.": 0.125,
    "source_input.": 0.125,
    "encoder.norm.": 1.0,
    "decoder.layers.1.": 1.0,
    "decoder.layers.0.": 0.5,
    "target_input.": 0.25,
    "decoder.norm.": 1.0,
}


@pytest.mark.parametrize("make", [classifier, translator])
def test_each_layer_has_half_the_rate_of_the_layer_above(make: Any) -> None:
    torch.manual_seed(1)
    model = make()
    expected = (
        EXPECTED
        if make is translator
        else EXPECTED | dict.fromkeys(("pooling.", "hidden.", "output."), 10.0)
    )
    training = TrainingConfig(
        max_steps=1,
        optimizer=OptimizerConfig(kind="sgd", momentum=0.0),
        fine_tuning=FineTuningConfig(layer_decay=0.5, head_rate=10.0),
    )
    optimizer = make_optimizer(model, training)
    before: dict[str, Tensor] = {n: p.detach().clone() for n, p in model.named_parameters()}
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    for group in optimizer.param_groups:
        group["lr"] = group["factor"]
    optimizer.step()
    for name, parameter in model.named_parameters():
        factor = next((f for prefix, f in expected.items() if name.startswith(prefix)), 1.0)
        torch.testing.assert_close(before[name] - parameter, torch.full_like(parameter, factor))


def test_without_fine_tuning_all_parameters_are_one_group_in_their_order() -> None:
    model = classifier()
    (group,) = parameter_groups(model, FineTuningConfig())
    assert all(a is b for a, b in zip(group["params"], model.parameters(), strict=True))
    assert group["factor"] == 1.0


def test_more_frozen_layers_than_there_are_or_all_of_a_model_are_an_error() -> None:
    settings = dataclasses.replace(
        SHAPE, encoder_layers=2, norm="post", output_bias=False, share_embeddings="all"
    )
    freeze(classifier(), 3)
    freeze(build_model(settings, 9, 9), 1)
    for model, layers, most in ((translator(), 3, 2), (build_model(settings, 9, 9), 2, 1)):
        with pytest.raises(ConfigError) as raised:
            freeze(model, layers)
        assert raised.value.setting == "training.fine_tuning.frozen_layers"
        assert f"at most {most}" in str(raised.value.todo)


@pytest.mark.parametrize("frozen", [1, 5])
def test_restart_keeps_the_old_model_if_so_many_layers_cannot_be_frozen(
    tmp_path: Path, frozen: int
) -> None:
    config = small_run(tmp_path, "first", max_steps=4)
    shape = dataclasses.replace(config.model, norm="post", share_embeddings="all")
    first = dataclasses.replace(config, model=shape)
    api.train(first, observers=())
    run = begun(first, "run")
    api.train(run, observers=())
    before = {path: path.read_bytes() for path in Path(run.folder).rglob("*") if path.is_file()}
    for train in (api.dry_run, lambda config: api.train(config, observers=(), restart=True)):
        with pytest.raises(ConfigError) as raised:
            train(begun(first, "run", training={"fine_tuning": dict(frozen_layers=frozen)}))
        assert raised.value.setting == "training.fine_tuning.frozen_layers"
    assert all(path.read_bytes() == content for path, content in before.items())
    assert api.train(run, observers=()).finished


@pytest.mark.parametrize("kind", ["text", "pairs"])
def test_frozen_layers_keep_their_weights_and_the_others_are_trained(
    tmp_path: Path, kind: str
) -> None:
    model = {"encoder_layers": 2, "decoder_layers": 2}
    if kind == "pairs":
        first = small_run(tmp_path, "first", max_steps=2)
    else:
        del model["decoder_layers"]
        first = text_run(tmp_path, "first", training={"max_steps": 2, "validate_every": 2})
    first = dataclasses.replace(first, model=dataclasses.replace(first.model, **model))
    api.train(first)
    config = begun(first, "next", training={"fine_tuning": dict(frozen_layers=1)})
    api.train(config)
    old, new = (read_tensors(Path(run.folder, "weights.safetensors"))[0] for run in (first, config))
    for name, tensor in new.items():
        is_frozen = ".layers.0." in name or name.startswith(("input.", "source_", "target_"))
        if is_frozen or ".layers.1." in name:
            assert torch.equal(tensor, old[name]) == is_frozen, name


def test_a_run_with_rates_by_layer_resumes_exactly(tmp_path: Path) -> None:
    training = {"max_steps": 4, "validate_every": 2}
    first = text_run(tmp_path, "first", training=training)
    api.train(first)
    rates = {"fine_tuning": {"layer_decay": 0.5, "head_rate": 5.0}}
    through, stopped = (begun(first, name, training=rates) for name in ("through", "stopped"))
    assert api.train(through, observers=()).finished
    assert not api.train(stopped, observers=[Watcher(interrupt_at=2)]).finished
    assert api.train(stopped, observers=()).finished
    assert_same(final_state(stopped), final_state(through))
