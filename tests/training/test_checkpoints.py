"""The state of a run: two generations, moments by name, tied to the weights."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import safetensors
import torch

from clearhead import api
from clearhead.errors import ModelFolderError, UnreadableError
from clearhead.folder.manifest import check, read_entries
from clearhead.folder.tensors import read_tensors
from clearhead.settings import RunConfig
from clearhead.training.checkpoints import PREVIOUS_STATE, STATE, Keeper, State
from clearhead.training.events import Event, RunStarted, Validated
from model_folders import replace_tensors
from small_runs import (
    StopsAtReport,
    Watcher,
    assert_same,
    copy_with_links,
    final_state,
    flip,
    small_run,
)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory: pytest.TempPathFactory) -> RunConfig:
    """A run that was interrupted after its second validation, at step 8 of 12."""
    config = small_run(tmp_path_factory.mktemp("interrupted"))
    assert not api.train(config, observers=[Watcher(interrupt_at=8)]).finished
    return config


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, torch.Tensor]:
    """The state at the end of the run that was not interrupted."""
    config = small_run(tmp_path_factory.mktemp("whole"))
    api.train(config)
    return final_state(config)


@pytest.fixture
def run(interrupted: RunConfig, tmp_path: Path) -> RunConfig:
    """A copy of the interrupted run."""
    copy_with_links(Path(interrupted.folder).parent, tmp_path)
    return dataclasses.replace(interrupted, folder=str(tmp_path / "run"))


class Breaks(Watcher):
    """Ends a run when it starts."""

    def observe(self, event: Event) -> None:
        if isinstance(event, RunStarted):
            raise ZeroDivisionError


def steps_of(run: RunConfig) -> list[int]:
    """The steps of the state and the state before, if they are the files of the manifest."""
    found, entries = [], read_entries(Path(run.folder))
    for name in (STATE, PREVIOUS_STATE):
        with suppress(ModelFolderError):
            found.append(read_tensors(Path(run.folder, name), entries.get(name))[1]["step"])
    return found


@pytest.mark.parametrize("damage", ["flipped", "cut off", "missing"])
def test_a_damaged_state_falls_back_to_the_one_before(
    run: RunConfig, whole: dict[str, torch.Tensor], damage: str
) -> None:
    path, watcher = Path(run.folder, STATE), Watcher()
    last, before = steps_of(run)
    assert 0 < before <= last
    if damage == "flipped":
        flip(path, -9)
    elif damage == "cut off":
        path.write_bytes(path.read_bytes()[:-100])
    else:
        path.unlink()
    # It never replaces the good one.
    with pytest.raises(ZeroDivisionError):
        api.train(run, observers=[watcher, Breaks()])
    assert steps_of(run) == [before]
    told = [note for note in watcher.notes if str(path) in note]
    assert len(told) == 1
    assert f"step {before}" in told[0]
    assert api.train(run).finished
    assert_same(final_state(run), whole)
    assert not Path(run.folder, PREVIOUS_STATE).exists()


@pytest.mark.parametrize("after", range(6))
def test_the_state_and_the_state_before_change_together(
    run: RunConfig, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    """The run is killed at one of the renames with which it writes its next state."""
    before, replace, left = steps_of(run), os.replace, [after]

    def killed(source: Any, target: Any) -> None:
        if "state" in Path(source).name or "state" in Path(target).name:
            left[0] -= 1
            if left[0] < 0:
                raise KeyboardInterrupt
        replace(source, target)

    longer = dataclasses.replace(run, training=dataclasses.replace(run.training, max_steps=16))
    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", killed)
        with suppress(KeyboardInterrupt):
            assert not api.train(longer, observers=[Watcher(interrupt_at=12)]).finished
    assert left[0] < 0
    entries = read_entries(Path(run.folder))
    for name in (STATE, PREVIOUS_STATE):
        check(Path(run.folder, name), entries[name])
    now = steps_of(run)
    assert now == before or now[1] == before[0]


@pytest.mark.parametrize("name", ["best", "step-00000004"])
def test_a_damaged_checkpoint_is_found_through_the_manifest(run: RunConfig, name: str) -> None:
    path = Path(run.folder, "training", "checkpoints", f"{name}.safetensors")
    assert api.load_translator(path).translate(["a"])
    flip(path, -9)
    with pytest.raises(ModelFolderError) as caught:
        api.load_translator(path)
    assert caught.value.where == str(path)


@pytest.mark.parametrize("name", [STATE, "weights.safetensors"])
@pytest.mark.parametrize("by_safetensors", [False, True])
def test_a_file_that_the_system_cannot_read_is_not_replaced(
    run: RunConfig, monkeypatch: pytest.MonkeyPatch, name: str, by_safetensors: bool
) -> None:
    """Too many open files, or a fault of the disk: the file may be good."""
    path, watcher = Path(run.folder, name), Watcher()
    before = {each: each.read_bytes() for each in Path(run.folder).rglob("*.safetensors")}

    def failing(function: Any) -> Any:
        def open_or_fail(opened: Path, *arguments: Any, **options: Any) -> Any:
            if opened == path:
                raise OSError(errno.EMFILE, "Too many open files")
            return function(opened, *arguments, **options)

        return open_or_fail

    with monkeypatch.context() as patched:
        if by_safetensors:
            patched.setattr(safetensors, "safe_open", failing(safetensors.safe_open))
        else:
            patched.setattr(Path, "open", failing(Path.open))
        with pytest.raises(UnreadableError) as caught:
            api.train(run, observers=[watcher])
    assert caught.value.where == str(path)
    assert "Too many open files" in str(caught.value.why)
    assert not [note for note in watcher.notes if "damaged" in note]
    assert {each: each.read_bytes() for each in before} == before
    assert api.train(run).finished


def test_two_damaged_states_are_an_error(run: RunConfig) -> None:
    for name in (STATE, PREVIOUS_STATE):
        flip(Path(run.folder, name), -9)
    with pytest.raises(ModelFolderError) as caught:
        api.train(run)
    assert caught.value.where == str(Path(run.folder, STATE))


@pytest.mark.parametrize("change", ["shape", "missing slot", "missing", "other name"])
@pytest.mark.parametrize("kind", ["model", "exp_avg"])
def test_a_state_of_another_model_is_rejected_with_both_sides(
    run: RunConfig, kind: str, change: str
) -> None:
    tensors, facts = read_tensors(Path(run.folder, STATE))
    parameters = {n.removeprefix("model.") for n in tensors if n.startswith("model.")}
    moments = {n.removeprefix("optimizer.").rpartition(".")[0] for n in tensors if "exp_avg" in n}
    assert moments == parameters
    name = next(
        name
        for name, tensor in tensors.items()
        if "feed_forward" in name and kind in (name.partition(".")[0], name.rpartition(".")[2])
        if tensor.dim() == 2 and tensor.shape[0] != tensor.shape[1]
    )
    tensor = tensors.pop(name)
    shown = [name, str(tuple(tensor.shape))]
    if change == "shape":
        tensors[name] = tensor.T.contiguous()
        shown.append(str(tuple(tensor.T.shape)))
    elif change == "missing":
        for slot in ("exp_avg_sq", "step"):
            tensors.pop(f"{name.removesuffix('.exp_avg')}.{slot}", None)
    elif change == "other name":
        tensors[name.replace("feed_forward", "nothing")] = tensor
    replace_tensors(Path(run.folder), STATE, tensors, facts)
    with pytest.raises(ModelFolderError) as caught:
        api.train(run)
    assert caught.value.where == str(Path(run.folder, STATE))
    assert caught.value.todo
    assert all(part in str(caught.value.why) for part in shown)


@pytest.mark.parametrize("name", ["weights.safetensors", "scores.json", "provenance.json"])
def test_a_damaged_model_is_replaced_by_the_next_validation(
    run: RunConfig, whole: dict[str, torch.Tensor], name: str
) -> None:
    path, watcher = Path(run.folder, name), Watcher()
    flip(path, -9)
    if name == "weights.safetensors":  # the others are not needed to translate
        with pytest.raises(ModelFolderError):
            api.load_translator(run.folder, engine="torch").translate(["a"])
    assert api.train(run, observers=[watcher]).finished
    assert [note for note in watcher.notes if str(path) in note]
    assert api.load_translator(run.folder, engine="torch").translate(["a"])
    assert_same(final_state(run), whole)
    flip(path, -9)  # after its end there is no next validation
    with pytest.raises(ModelFolderError) as caught:
        api.train(run)
    assert caught.value.where == str(path)


@pytest.mark.parametrize("average_last", [2, 3])
def test_a_damaged_checkpoint_is_left_out_of_the_average(tmp_path: Path, average_last: int) -> None:
    config = small_run(tmp_path, average_last=average_last, report_every=1)
    assert not api.train(config, observers=[StopsAtReport(10)]).finished
    checkpoints = Path(config.folder, "training", "checkpoints")
    damaged, watcher = checkpoints / "step-00000008.safetensors", Watcher()
    # In place, so also in the weights and in the best checkpoint.
    assert damaged.samefile(Path(config.folder, "weights.safetensors"))
    flip(damaged, -9)

    class Keeping(Watcher):
        """Keeps the checkpoints, which the end of the run removes."""

        def observe(self, event: Event) -> None:
            if isinstance(event, Validated) and event.weights == "current":
                copy_with_links(checkpoints, tmp_path / "kept")

    assert api.train(config, observers=[watcher, Keeping()]).finished
    assert len([note for note in watcher.notes if str(damaged) in note]) == 1
    average = checkpoints / "average.safetensors"
    if average_last == 2:  # the other one alone is no average
        assert not average.exists()
        return
    used = [read_tensors(tmp_path / "kept" / f"step-{n:08d}.safetensors")[0] for n in (4, 12)]
    for name, tensor in read_tensors(average)[0].items():
        torch.testing.assert_close(tensor, (used[0][name] + used[1][name]) / 2)


def test_a_manifest_that_is_damaged_while_the_run_trains_is_written_anew(
    run: RunConfig, whole: dict[str, torch.Tensor]
) -> None:
    class Flips(Watcher):
        def observe(self, event: Event) -> None:
            if isinstance(event, RunStarted):
                flip(Path(run.folder, "manifest.json"), -20)

    assert api.train(run, observers=[Flips()]).finished
    assert_same(final_state(run), whole)
    for name, entry in read_entries(Path(run.folder)).items():
        check(Path(run.folder, name), entry)


@pytest.mark.parametrize("place", [0, -20])
def test_a_run_with_a_damaged_manifest_goes_on_without_it_as_advised(
    run: RunConfig, whole: dict[str, torch.Tensor], place: int
) -> None:
    manifest = Path(run.folder, "manifest.json")
    flip(manifest, place)
    with pytest.raises(ModelFolderError) as caught:
        api.train(run)
    assert caught.value.where == str(manifest)
    assert "remove manifest.json" in str(caught.value.todo)
    manifest.unlink()
    assert api.train(run).finished
    assert_same(final_state(run), whole)
    files = {"config.json", STATE, "weights.safetensors", "scores.json", "provenance.json"}
    assert files <= read_entries(Path(run.folder)).keys()


def test_a_kill_after_the_average_was_kept_is_no_obstacle(
    run: RunConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state on disk may be one whose last validation is done."""
    longer = dataclasses.replace(run, training=dataclasses.replace(run.training, keep="average"))
    shutil.rmtree(run.folder)
    api.train(longer, observers=[Watcher(interrupt_at=12)])
    write = Keeper.write_state

    def killed(self: Keeper, model: Any, optimizer: Any, state: State) -> None:
        if state.finished:
            raise KeyboardInterrupt
        write(self, model, optimizer, state)

    with monkeypatch.context() as patched:
        patched.setattr(Keeper, "write_state", killed)
        assert not api.train(longer).finished
    assert json.loads(Path(run.folder, "scores.json").read_text())["weights"] == "average"
    assert api.train(longer).finished


@pytest.mark.parametrize("fact", ["torch", "hardware", None])
def test_what_can_change_the_result_is_reported(run: RunConfig, fact: str | None) -> None:
    tensors, facts = read_tensors(Path(run.folder, STATE))
    if fact is not None:
        assert facts["environment"][fact]
        facts["environment"][fact] = "another"
        replace_tensors(Path(run.folder), STATE, tensors, facts)
    watcher = Watcher()
    assert api.train(run, observers=[watcher]).finished
    found = [note for note in watcher.notes if "was " in note and "now " in note]
    assert [f"{fact} was another, now " in note for note in found] == [True] * (fact is not None)


def test_a_state_of_another_version_is_refused(run: RunConfig) -> None:
    tensors, facts = read_tensors(Path(run.folder, STATE))
    replace_tensors(Path(run.folder), STATE, tensors, {**facts, "mood": 1})
    with pytest.raises(ModelFolderError) as caught:
        api.train(run)
    assert caught.value.where == str(Path(run.folder, STATE))
    assert "mood" in str(caught.value.why)
    assert "--restart" in str(caught.value.todo)


def test_the_same_run_gives_the_same_bytes_of_the_model(tmp_path: Path) -> None:
    """Only the log and the state, which has the duration of the run, differ; so its hash does."""
    config, found = small_run(tmp_path, max_steps=4), []
    for name in ("first", "second"):
        api.train(config, observers=[])
        folder = Path(config.folder).rename(tmp_path / name)
        paths = [path for path in folder.rglob("*") if path.is_file()]
        found.append({str(path.relative_to(folder)): path.read_bytes() for path in paths})
    first, second = found
    assert first.keys() == second.keys()
    different = {name for name in first if first[name] != second[name]}
    assert different <= {"training/log.jsonl", STATE, "manifest.json"}
    manifests = [read_entries(tmp_path / name) for name in ("first", "second")]
    assert {name for name, entry in manifests[0].items() if entry != manifests[1][name]} == {STATE}
    assert {"provenance.json", "weights.safetensors"} <= manifests[0].keys()
