"""Shards and a training state of them: what one process writes it reads again; damage is found.

`training/test_ranks.py` has the tests with several processes.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

from clearhead.errors import ModelFolderError
from clearhead.folder.manifest import check, entry_of, read_entries
from clearhead.folder.shards import read_shards, remove_shards, write_shards
from clearhead.ranks import ALONE
from clearhead.settings import TrainingConfig
from clearhead.sharding import is_shared, whole
from clearhead.training.checkpoints import PREVIOUS_STATE, STATE, Keeper, State
from clearhead.training.step import make_optimizer, shard
from several_processes import group_of_one
from small_runs import flip

TENSORS = {
    "model.a": torch.arange(15.0).reshape(5, 3),
    "optimizer.a.step": torch.tensor(7.0),
    "optimizer.a.exp_avg": torch.arange(15.0).reshape(5, 3) / 7,
    "model.empty": torch.empty(0, 3),
}


@pytest.fixture(scope="module", autouse=True)
def one_process() -> Iterator[None]:
    with group_of_one("gloo"):
        yield


def shared(tensor: Tensor) -> Tensor:
    if not tensor.shape:
        return tensor
    return distribute_tensor(tensor, init_device_mesh("cpu", (1,)), [Shard(0)])


def written(folder: Path) -> str:
    name, entries = write_shards(
        folder, {name: shared(each) for name, each in TENSORS.items()}, ALONE
    )
    assert entries == {path.name: entry_of(path) for path in (folder / name).iterdir()}
    return name


def test_what_was_written_is_read_whole_or_shared_out(tmp_path: Path) -> None:
    name = written(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        whole = read_shards(tmp_path, name, lambda name: None)
    parts = read_shards(tmp_path, name, lambda name: shared(TENSORS["model.a"]))
    assert whole.keys() == parts.keys() == TENSORS.keys()
    for name, tensor in TENSORS.items():
        torch.testing.assert_close(whole[name], tensor, rtol=0, atol=0)
    assert torch.equal(parts["model.a"].full_tensor(), TENSORS["model.a"])  # pyright: ignore


def test_each_write_has_a_folder_of_its_own_until_it_is_removed(tmp_path: Path) -> None:
    assert [written(tmp_path) for _ in range(3)] == ["000001", "000002", "000003"]
    (tmp_path / "other").mkdir()
    remove_shards(tmp_path, {"000002"})
    assert {path.name for path in tmp_path.iterdir()} == {"000002", "other"}
    read_shards(tmp_path, "000002", lambda name: None)


@pytest.mark.parametrize("name", ["../000001", 3, None, "000002"])
def test_another_name_is_damage(tmp_path: Path, name: object) -> None:
    (tmp_path / "shards").mkdir()
    written(tmp_path)
    with pytest.raises(ModelFolderError) as caught:
        read_shards(tmp_path / "shards", name, lambda name: None)
    assert caught.value.where == str(tmp_path / "shards")


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ModelFolderError) as caught:
        written(tmp_path / "file")
    assert "process 0" in str(caught.value.where)


def sharded_model(seed: int) -> tuple[nn.Module, torch.optim.Optimizer]:
    """A model of one process in shards, and its optimizer, after a step."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 1))
    shard(model, "cpu", 1)
    optimizer = make_optimizer(model, TrainingConfig(max_steps=1))
    model(torch.randn(2, 3)).sum().backward()
    optimizer.step()
    return model, optimizer


def weights(model: nn.Module) -> list[Tensor]:
    return [whole(parameter.detach()).clone() for parameter in model.parameters()]


def folders(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "training" / "shards").iterdir())


@pytest.mark.parametrize("damage", ["flipped", "short", "missing"])
def test_a_state_in_shards_has_two_generations(tmp_path: Path, damage: str) -> None:
    keeper = Keeper(tmp_path, 1, {"clearhead": "test"})
    states = {step: sharded_model(step) for step in (1, 2, 3)}
    for step, (model, optimizer) in states.items():
        keeper.write_state(model, optimizer, State(step=step))
    assert folders(tmp_path) == ["000002", "000003"]

    (path,) = (tmp_path / "training" / "shards" / "000003").iterdir()
    assert {str(path.relative_to(tmp_path)), STATE, PREVIOUS_STATE} < read_entries(tmp_path).keys()
    if damage == "flipped":
        flip(path, -3)
    elif damage == "short":
        path.write_bytes(path.read_bytes()[:-1])
    else:
        path.unlink()
    model, optimizer = sharded_model(4)
    notes: list[str] = []
    found = keeper.read_state(model, optimizer, notes.append)
    assert found is not None
    assert found.step == 2
    assert "000003" in notes[0]
    expected, old = states[2]
    assert all(map(torch.equal, weights(model), weights(expected)))
    for ours, theirs in zip(optimizer.state.values(), old.state.values(), strict=True):
        assert is_shared(ours["exp_avg"])
        assert ours["step"] == theirs["step"]
        for name in ("exp_avg", "exp_avg_sq"):
            assert torch.equal(whole(ours[name]), whole(theirs[name]))

    found.finished = True
    keeper.write_state(model, optimizer, found)
    assert folders(tmp_path) == ["000003"]  # in the place of the damaged one
    for name, entry in read_entries(tmp_path).items():
        check(tmp_path / name, entry)
    for parameter in model.parameters():
        nn.init.zeros_(parameter)
    keeper.restore_current(model)
    assert all(map(torch.equal, weights(model), weights(expected)))


def test_a_state_of_another_model_is_refused(tmp_path: Path) -> None:
    keeper = Keeper(tmp_path, 1, {"clearhead": "test"})
    keeper.write_state(*sharded_model(1), State(step=1))
    model = nn.Sequential(nn.Linear(3, 5), nn.Linear(5, 1))
    shard(model, "cpu", 1)
    optimizer = make_optimizer(model, TrainingConfig(max_steps=1))
    with pytest.raises(ModelFolderError) as caught:
        keeper.read_state(model, optimizer)
    assert "0.weight" in str(caught.value.why) or "0.bias" in str(caught.value.why)
