"""What users put into the folder of a run, or link to from there, stays as it is."""

from __future__ import annotations

import dataclasses
import os
import shutil
from pathlib import Path

import pytest

from clearhead import api
from clearhead.errors import ClearheadError, DataError, ExportError, TrainingError
from clearhead.folder.exports import write_export
from clearhead.folder.files import refuse_links
from clearhead.folder.model_folder import open_folder
from clearhead.folder.shards import remove_shards
from clearhead.inspect.findings import STUDY, write_finding
from clearhead.settings import RunConfig
from clearhead.training.events import Event, Validated
from small_runs import Watcher, copy_with_links, small_run

PHOTOS = ("photo.jpg", "000001/shard-00001-model-00001-of-00001.safetensors")
"""Files of the user; the second has a name that a run may remove in its own folder."""


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory: pytest.TempPathFactory) -> RunConfig:
    """A run that was interrupted at its first validation."""
    config = small_run(tmp_path_factory.mktemp("interrupted"))
    assert not api.train(config, observers=[Watcher(interrupt_at=4)]).finished
    return config


@pytest.fixture
def run(interrupted: RunConfig, tmp_path: Path) -> RunConfig:
    copy_with_links(Path(interrupted.folder).parent, tmp_path)
    return dataclasses.replace(interrupted, folder=str(tmp_path / "run"))


def write_photos(folder: Path) -> Path:
    for name in PHOTOS:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("precious")
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def replace_by_link(path: Path, target: Path) -> None:
    """A link in the place of a file or folder, to a folder or file of the user."""
    is_file = path.is_file()
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.symlink_to(target / PHOTOS[0] if is_file else target)


@pytest.mark.parametrize("restart", [False, True], ids=["resume", "restart"])
@pytest.mark.parametrize(
    "name",
    [
        *("training", "training/checkpoints", "training/shards", "training/corpus"),
        *("training/corpus/0123456789abcdef", "training/shards/000001", "training/attention"),
        *("training/tensorboard", "training/state.safetensors", "training/data.json"),
        *("weights.safetensors", "config.json", "manifest.json", "provenance.json"),
        *("ctranslate2", ".unfinished", "inspection", "my-photos", "below/my-photos"),
        *("training/.tmpABCDEF", "training/checkpoints/step-00000004.safetensors"),
    ],
)
def test_a_run_with_a_link_does_not_go_on(
    run: RunConfig, tmp_path: Path, name: str, restart: bool
) -> None:
    photos, link = write_photos(tmp_path / "photos"), Path(run.folder, name)
    link.parent.mkdir(parents=True, exist_ok=True)
    replace_by_link(link, photos)
    before = contents(photos), contents(Path(run.folder))
    with pytest.raises(TrainingError) as caught:
        api.train(run, restart=restart, observers=[])
    assert caught.value.where == str(link)
    assert caught.value.todo
    assert (contents(photos), contents(Path(run.folder))) == before
    assert link.is_symlink()


def test_a_pipe_in_the_place_of_the_lock_ends_a_run(run: RunConfig) -> None:
    path = Path(run.folder, "training", ".lock")
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(ClearheadError) as caught:
        api.train(run, observers=[])
    assert caught.value.where == run.folder


@pytest.mark.parametrize("name", ["training/log.jsonl", "training/state.safetensors"])
def test_a_pipe_in_the_place_of_the_log_or_the_state_does_not_stop_a_run(
    run: RunConfig, name: str
) -> None:
    path, watcher = Path(run.folder, name), Watcher()
    path.unlink()
    os.mkfifo(path)
    assert api.train(run, observers=[watcher]).finished
    assert any(str(path) in note for note in watcher.notes)


@pytest.mark.parametrize("target", ["missing", ".", "link"])
def test_links_to_nothing_and_in_a_circle_are_refused(tmp_path: Path, target: str) -> None:
    """Also in the folder of a new run."""
    config = small_run(tmp_path)
    link = Path(config.folder, "training")
    link.parent.mkdir()
    link.symlink_to(target)
    with pytest.raises(TrainingError) as caught:
        api.train(config, observers=[])
    assert caught.value.where == str(link)


def test_the_folder_itself_may_be_a_link(run: RunConfig, tmp_path: Path) -> None:
    (tmp_path / "other-disk").mkdir()
    Path(run.folder).rename(tmp_path / "other-disk" / "run")
    Path(run.folder).symlink_to(tmp_path / "other-disk" / "run")
    assert api.train(run, observers=[]).finished
    assert Path(run.folder).is_symlink()
    open_folder(run.folder)


def test_a_link_that_appears_while_the_run_trains_ends_it(run: RunConfig, tmp_path: Path) -> None:
    photos, training = write_photos(tmp_path / "photos"), Path(run.folder, "training")

    class Links(Watcher):
        def observe(self, event: Event) -> None:
            if isinstance(event, Validated) and event.step == 8:
                training.rename(tmp_path / "moved")
                training.symlink_to(photos)

    before = contents(photos)
    with pytest.raises(TrainingError) as caught:
        api.train(run, observers=[Links()])
    assert caught.value.where == str(training)
    assert contents(photos) == before


def test_shards_behind_a_link_stay(tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "photos")
    (tmp_path / "shards").mkdir()
    (tmp_path / "shards" / "000002").symlink_to(photos / "000001")
    (tmp_path / "linked").symlink_to(photos)
    before = contents(photos)
    remove_shards(tmp_path / "shards", set())
    remove_shards(tmp_path / "linked", set())
    assert contents(photos) == before


@pytest.mark.parametrize("restart", [False, True], ids=["resume", "restart"])
def test_files_that_the_user_put_into_the_folder_stay(run: RunConfig, restart: bool) -> None:
    names = [
        *("notes.txt", "training/notes.txt", "training/corpus/notes.txt", "below/notes.txt"),
        *("training/checkpoints/step-best.safetensors", "training/checkpoints/mine.safetensors"),
        *("training/checkpoints/step-00000004 copy.safetensors", "training/attention/step-1.npz"),
        *("training/shards/000001/photo.jpg", "training/shards/photos/shard-1.safetensors"),
        *("training/corpus/0123456789abcdef/photo.jpg", "training/.hidden.unfinished"),
    ]
    for name in names:
        path = Path(run.folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("precious")
    assert api.train(run, restart=restart, observers=[]).finished
    found = contents(Path(run.folder))
    assert {name: found.get(name) for name in names} == dict.fromkeys(names, b"precious")
    # What the run itself needs no longer is gone.
    assert "training/checkpoints/step-00000004.safetensors" not in found


@pytest.mark.parametrize("name", ["", "training", "replaced"])
def test_a_run_whose_folder_is_gone_ends_and_does_not_make_it_again(
    run: RunConfig, tmp_path: Path, name: str
) -> None:
    gone = Path(run.folder, name.replace("replaced", ""))

    class Moves(Watcher):
        def observe(self, event: Event) -> None:
            if isinstance(event, Validated) and event.step == 8:
                gone.rename(tmp_path / "moved")
                if name == "replaced":
                    (gone / "training").mkdir(parents=True)

    with pytest.raises(TrainingError) as caught:
        api.train(run, observers=[Moves()])
    assert caught.value.where == str(Path(run.folder, "training"))
    if name == "replaced":
        assert contents(gone) == {}
        return
    assert not gone.exists()
    (tmp_path / "moved").rename(gone)
    assert api.train(run, observers=[]).finished


# Commands that write into a model folder


@pytest.mark.parametrize("name", ["other", "weights.safetensors", "below/link"])
def test_no_export_is_written_into_a_folder_with_links(
    run: RunConfig, tmp_path: Path, name: str
) -> None:
    photos, link = write_photos(tmp_path / "photos"), Path(run.folder, name)
    link.parent.mkdir(exist_ok=True)
    target = photos
    if name == "weights.safetensors":
        target = Path(link).rename(tmp_path / "weights")
    link.symlink_to(target)
    found = open_folder(run.folder)  # reading follows links

    def build(folder: Path) -> list[str]:
        (folder / "photo.jpg").write_text("model")
        return []

    for output in (found.path / "other", Path(os.path.relpath(found.path / "below" / ".." / "x"))):
        with pytest.raises(ExportError) as caught:
            write_export(found, "other", output, build)
        assert caught.value.where == str(link)
    assert len(contents(photos)) == len(PHOTOS)
    write_export(found, "other", tmp_path / "elsewhere", build)
    (tmp_path / "named").symlink_to(tmp_path / "elsewhere")  # a link that the user has named
    write_export(found, "other", tmp_path / "named", build)
    assert (tmp_path / "named").is_symlink()
    assert sorted(contents(tmp_path / "elsewhere")) == ["clearhead.json", "photo.jpg"]


def test_no_finding_is_written_into_a_folder_with_links(run: RunConfig, tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "photos")
    Path(run.folder, "inspection").symlink_to(photos)
    with pytest.raises(DataError) as caught:
        write_finding(open_folder(run.folder), STUDY, {})
    assert caught.value.where == str(Path(run.folder, "inspection"))
    assert len(contents(photos)) == len(PHOTOS)


def test_an_output_outside_a_folder_with_links_is_not_refused(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "link").symlink_to(tmp_path)
    refuse_links(tmp_path / "model", tmp_path / "model-figures", DataError)
    refuse_links(tmp_path / "model", tmp_path, DataError)
    for inside in ("", "a", "a/b", "../model/a"):
        with pytest.raises(ClearheadError):
            refuse_links(tmp_path / "model", tmp_path / "model" / inside, DataError)
