"""Tests that an export equals the model, or is rejected, and is complete or not written."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead import api
from clearhead.api.exporting import export_model
from clearhead.decoding.ctranslate2_library import TABLE_POSITIONS, ExportedModel, read_ctranslate2
from clearhead.decoding.engine import LONGEST_SOURCE, numbered
from clearhead.errors import ExportError, ModelFolderError
from clearhead.folder import exports
from clearhead.folder.manifest import MANIFEST, entry_of, sealed, unsealed
from clearhead.folder.model_folder import open_folder, write_folder
from clearhead.formats import ctranslate2 as ctranslate2_format
from clearhead.formats.ctranslate2 import token_names
from clearhead.settings import Learned, ModelConfig, NoPositions, SearchConfig, Sinusoidal
from clearhead.tokenizer import Tokenizer, WordTokenizer, read_tokenizers
from exported_models import (
    fast_engine,
    forced_scores,
    pieces,
    random_folder,
    torch_engine,
    words,
    write_random_weights,
)
from fake_translator import run
from model_folders import without_manifest
from small_models import small_config

GREEDY = SearchConfig(beam_size=1, max_length_offset=4)


def random_sources(folder: Path, seed: int = 3, count: int = 6) -> list[list[int]]:
    vocabulary = len(tokenizers(folder)[0])
    draw = np.random.default_rng(seed)
    return [draw.integers(3, vocabulary, draw.integers(1, 8)).tolist() for _ in range(count)]


def assert_equal_to_the_model(folder: Path, seed: int = 3) -> None:
    """Assert that scores of random outputs, and greedy outputs, are those of the model."""
    model, exported = torch_engine(folder), fast_engine(folder)
    sources = random_sources(folder, seed)
    draw = np.random.default_rng(seed + 1)
    size = model.model.output.out_features
    outputs = [tuple(draw.integers(3, size, draw.integers(0, 8)).tolist()) for _ in sources]
    scores = exported.score(sources, outputs)
    for source, output, found in zip(sources, outputs, scores, strict=True):
        wanted = torch.tensor(forced_scores(model, source, output))
        torch.testing.assert_close(torch.tensor(found), wanted, rtol=1e-4, atol=1e-4)
    for ours, theirs in zip(
        model.translate(numbered(sources), GREEDY),
        exported.translate(numbered(sources), GREEDY),
        strict=True,
    ):
        assert ours[0].tokens == theirs[0].tokens
        assert ours[0].finished == theirs[0].finished
        assert ours[0].token_scores == pytest.approx(theirs[0].token_scores, rel=1e-4, abs=1e-4)


CHOICES: list[dict[str, Any]] = [
    {},
    {"norm": "post"},
    {"norm": "post", "norm_epsilon": 0.2},
    {"norm_epsilon": 0.2},
    {"attention_bias": False, "feed_forward_bias": False},
    {"attention_bias": False, "output_bias": True},
    {"d_k": 3},
    {"d_v": 7},
    {"d_k": 6, "d_v": 2, "attention_bias": False},
    {"n_heads": 3, "d_k": 2, "d_v": 5, "norm": "post"},
    {"activation": "gelu"},
    {"activation": "gelu_tanh"},
    {"activation": "swish"},
    {"embedding_norm": True, "norm": "post"},
    {"share_embeddings": "inputs"},
    {"positions": NoPositions()},
    {"positions": Learned(max_length=40)},
    {"share_embeddings": "target", "scale_embeddings": False},
    {"share_embeddings": "all", "output_bias": True},
    {"encoder_layers": 1, "decoder_layers": 3},
]


@pytest.mark.slow
@pytest.mark.parametrize("choices", CHOICES, ids=lambda choices: "-".join(choices) or "default")
def test_every_choice_of_a_model_gives_the_same_after_export(
    tmp_path: Path, choices: dict[str, Any]
) -> None:
    folder = random_folder(tmp_path, small_config(**choices))
    assert export_model(folder) == folder / "ctranslate2"
    assert_equal_to_the_model(folder)


@st.composite
def model_configs(draw: st.DrawFn) -> ModelConfig:
    n_heads = draw(st.integers(1, 3))
    flag = st.booleans()
    return small_config(
        encoder_layers=draw(st.integers(1, 2)),
        decoder_layers=draw(st.integers(1, 2)),
        # A norm takes two nearly equal numbers apart, and with them what two engines round
        # otherwise, up to 1/√ε times as far; of four it is most unlikely that all are near.
        d_model=n_heads * draw(st.integers(4, 7)),
        d_ff=draw(st.integers(1, 12)),
        n_heads=n_heads,
        d_k=draw(st.integers(0, 6)),
        d_v=draw(st.integers(0, 6)),
        norm=draw(st.sampled_from(["pre", "post"])),
        norm_epsilon=draw(st.sampled_from([1e-6, 1e-5, 0.1])),
        activation=draw(st.sampled_from(["relu", "gelu", "gelu_tanh", "swish"])),
        embedding_norm=draw(flag),
        attention_bias=draw(flag),
        feed_forward_bias=draw(flag),
        output_bias=draw(flag),
        scale_embeddings=draw(flag),
        share_embeddings=draw(st.sampled_from(["none", "inputs", "target", "all"])),
        positions=draw(st.sampled_from([Sinusoidal(), NoPositions(), Learned(max_length=30)])),
    )


@pytest.mark.slow
@settings(max_examples=15)
@given(config=model_configs(), seed=st.integers(0, 2**31))
def test_choices_taken_together_give_the_same_after_export(
    tmp_path_factory: pytest.TempPathFactory, config: ModelConfig, seed: int
) -> None:
    folder = random_folder(tmp_path_factory.mktemp("model"), config, seed=seed, scale=0.3)
    export_model(folder)
    exported, model = fast_engine(folder), torch_engine(folder)
    sources = random_sources(folder, seed)
    found = model.translate(numbered(sources), GREEDY)
    scores = exported.score(sources, [each[0].tokens for each in found])
    for each, theirs in zip(found, scores, strict=True):
        ours = each[0].token_scores
        assert theirs[: len(ours)] == pytest.approx(ours, rel=1e-4, abs=2e-4)


@pytest.mark.parametrize(
    ("name", "value"), [("norm_form", "std_plus_epsilon"), ("input_convolution", (3,))]
)
def test_what_ctranslate2_lacks_is_refused_by_name(tmp_path: Path, name: str, value: Any) -> None:
    folder = random_folder(tmp_path, small_config(**{name: value}))
    with pytest.raises(ExportError) as caught:
        export_model(folder)
    assert name in caught.value.what
    assert not (folder / "ctranslate2").exists()


def test_a_norm_at_the_end_is_needed_by_a_pre_norm_model_alone(tmp_path: Path) -> None:
    with pytest.raises(ExportError) as caught:
        export_model(random_folder(tmp_path / "pre", small_config(final_norm=False)))
    assert "final_norm" in caught.value.what
    export_model(random_folder(tmp_path / "post", small_config(norm="post", final_norm=False)))


def test_an_unknown_format_is_refused_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(ExportError) as caught:
        export_model(random_folder(tmp_path), "ctranslate")
    assert "ctranslate2" in str(caught.value.todo)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return random_folder(tmp_path / "model")


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def read(path: Path, folder: Path) -> ExportedModel:
    return read_ctranslate2(path, open_folder(folder))


@pytest.mark.parametrize("by", [0.01, 3.0, float("nan")])
def test_an_export_that_differs_from_the_model_is_discarded(
    folder: Path, monkeypatch: pytest.MonkeyPatch, by: float
) -> None:
    before = export_model(folder)
    files, transformer_spec = content(before), ctranslate2_format.transformer_spec

    def changed(*arguments: Any) -> Any:
        spec = transformer_spec(*arguments)
        spec.decoder.projection.weight = spec.decoder.projection.weight * np.float32(1 + by)
        return spec

    monkeypatch.setattr(ctranslate2_format, "transformer_spec", changed)
    with pytest.raises(ExportError):
        export_model(folder)
    assert content(before) == files
    assert not list(folder.glob(".ctranslate2*"))


def test_the_description_has_the_result_of_the_comparison(folder: Path, tmp_path: Path) -> None:
    messages: list[str] = []
    path = export_model(folder, output=tmp_path / "elsewhere" / "fast", report=messages.append)
    assert path == tmp_path / "elsewhere" / "fast"
    tree = json.loads((path / "clearhead.json").read_text())
    assert tree["files"]["model.bin"]["size"] == (path / "model.bin").stat().st_size
    assert messages == tree["comparison"]
    assert read(path, folder).positions is None


def test_a_new_export_replaces_the_files_of_the_old_one_and_no_others(folder: Path) -> None:
    path = export_model(folder)
    first = content(path)
    (path / "mine").mkdir()
    for mine in (path / "notes.txt", path / "mine" / "file", folder / "outside"):
        mine.write_text("precious")
    (path / "older.bin").write_text("of the previous export")
    files = json.loads((path / "clearhead.json").read_text())["files"]
    files["older.bin"] = {"size": 22, "sha256": "0" * 64}
    change_description(path / "clearhead.json", files=files)
    (path / "config.json").write_text("{}")
    assert export_model(folder) == path
    for mine in (path / "notes.txt", path / "mine" / "file", folder / "outside"):
        assert mine.read_text() == "precious"
    (path / "notes.txt").unlink()
    assert content(path) == first


@pytest.mark.parametrize("before", ["nothing", "an empty folder", "an export"])
def test_an_export_goes_into_a_folder_without_other_files(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    here = tmp_path / "here"
    if before == "an export":
        export_model(folder, output=here)
    elif before == "an empty folder":
        here.mkdir()
    monkeypatch.chdir(tmp_path if before == "nothing" else here)
    assert export_model(folder, output="here" if before == "nothing" else ".") == here
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here", "model"]
    assert read(here, folder).path == here


@pytest.mark.parametrize("description", [None, "rubbish", "[]", "{}", '{"files": 3}'])
def test_a_folder_of_other_files_is_left_alone(
    folder: Path, tmp_path: Path, description: str | None
) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "config.json").write_text("precious")
    if description is not None:
        (mine / "clearhead.json").write_text(description)
    before = content(mine)
    for path in (mine, mine / "config.json"):
        with pytest.raises(ExportError) as caught:
            export_model(folder, output=path)
        assert caught.value.where == str(path)
    assert content(mine) == before


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_file_of_the_user_is_not_overwritten(folder: Path, tmp_path: Path, kind: str) -> None:
    path = export_model(folder)
    # The next export has one vocabulary; the user has a file of that name.
    shared = random_folder(tmp_path / "shared", small_config(share_embeddings="all"))
    taken = path / "shared_vocabulary.json"
    mine = taken if kind == "file" else taken / "file"
    mine.parent.mkdir(exist_ok=True)
    mine.write_text("precious")
    with pytest.raises(ExportError) as caught:
        export_model(shared, output=path)
    assert caught.value.where == str(taken)
    assert mine.read_text() == "precious"
    assert read(path, folder).path == path


@pytest.mark.slow
@pytest.mark.parametrize("refused", ["config.json", "model.bin", "clearhead.json"])
def test_an_export_that_is_interrupted_while_it_is_moved_is_repaired_by_the_next(
    folder: Path, monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    path = export_model(folder)
    (path / "notes.txt").write_text("precious")
    new_weights(folder)
    replace = os.replace

    def refusing(source: Any, target: Any) -> None:
        if Path(target).name == refused and Path(target).parent == path:
            raise PermissionError("it may not be moved")
        replace(source, target)

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", refusing)
        with pytest.raises(ExportError) as caught:
            export_model(folder)
    assert caught.value.why == "it may not be moved"
    if refused == "clearhead.json":  # the previous export is there as it was
        with pytest.raises(ExportError):
            read(path, folder)
    else:  # the new one is complete, but for a rename
        assert read(path, folder).path == path
    assert not list(folder.glob(".ctranslate2*"))
    export_model(folder)
    assert read(path, folder).path == path
    assert (path / "notes.txt").read_text() == "precious"


FULL_DISK = """
import resource, sys
from clearhead.errors import ExportError
from clearhead.api.exporting import export_model

resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
try:
    export_model(sys.argv[1])
except ExportError as error:
    print(error.where)
"""


@pytest.mark.slow
def test_a_full_disk_is_an_error_and_leaves_no_export(folder: Path) -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("COVERAGE")}
    command = [sys.executable, "-c", FULL_DISK, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert str(folder / "ctranslate2") in done.stdout, done.stderr
    assert not list(folder.glob("*ctranslate2*"))


# Stale and damaged exports


def new_weights(folder: Path) -> None:
    config = open_folder(folder).config
    write_random_weights(folder, config, tokenizers(folder), 2)


def tokenizers(folder: Path) -> tuple[Tokenizer, Tokenizer]:
    return read_tokenizers(open_folder(folder))


def flip(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))


def set_config(folder: Path, section: str, **choices: Any) -> None:
    tree = json.loads((folder / "config.json").read_text())
    tree["config"][section] |= choices
    (folder / "config.json").write_text(json.dumps(tree))


CHANGES: dict[str, Any] = {
    "new weights": new_weights,
    "one bit": lambda folder: flip(folder / "weights.safetensors"),
    "more bytes": lambda folder: (folder / "source.json").write_bytes(b" " * 9),
    "settings": lambda folder: set_config(folder, "model", norm_epsilon=0.3),
    "tokenizers": lambda folder: write_folder(
        folder, open_folder(folder).config, {"source": words(["other"])}
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_new_weights_settings_or_tokenizers_make_an_export_stale(folder: Path, change: str) -> None:
    path = export_model(without_manifest(folder))
    files = {file: (file.read_bytes(), file.stat()) for file in folder.iterdir() if file.is_file()}
    CHANGES[change](folder)
    (folder / MANIFEST).unlink(missing_ok=True)
    for file, (_, stat) in files.items():  # only hashes count, not times
        os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    with pytest.raises(ExportError) as caught:
        read(path, folder)
    assert caught.value.where == str(path)
    for file, (data, _) in files.items():
        file.write_bytes(data)
    assert read(path, folder).d_model == 8
    set_config(folder, "search", beam_size=9)  # on which no export depends
    assert read(path, folder).path == path


def change_description(path: Path, **entries: Any) -> None:
    """Change a description, with a hash that fits."""
    tree = {**unsealed(json.loads(path.read_text())), **entries}
    path.write_text(json.dumps(sealed(tree)))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["model.bin", "config.json", "source_vocabulary.json", "clearhead.json"]
)
def test_a_damaged_export_is_refused(folder: Path, name: str) -> None:
    path = export_model(folder) / name
    data = path.read_bytes()
    for damaged in (None, data[:-3], b"rubbish" * (len(data) // 7)):
        path.unlink() if damaged is None else path.write_bytes(damaged)
        with pytest.raises(ExportError) as caught:
            fast_engine(folder)
        assert "clearhead export" in str(caught.value.todo)


@pytest.mark.slow
def test_a_description_of_another_form_is_refused(folder: Path) -> None:
    path = export_model(folder) / "clearhead.json"
    before = path.read_text()
    for changes in ({"format": 9}, {"origin": {}}, {"origin": None}, {"files": 3}):
        path.write_text(before)
        change_description(path, **changes)
        with pytest.raises(ExportError) as caught:
            fast_engine(folder)
        assert "clearhead export" in str(caught.value.todo)


@pytest.mark.parametrize("engine", ["auto", "ctranslate2"])
def test_vocabularies_of_other_sizes_than_the_tokenizers_are_refused(
    folder: Path, engine: str
) -> None:
    """A stranger can compute the digests of an export again."""
    path = export_model(folder)
    target = words(f"t{n}" for n in range(5))
    write_folder(folder, open_folder(folder).config, {"target": target})
    origin = exports.origin_of(open_folder(folder))
    change_description(path / "clearhead.json", origin=origin)
    with pytest.raises(ExportError) as caught:
        api.load(folder, device="cpu", engine=engine)
    assert caught.value.where == str(path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("config.json", '"decoder_start_token": "<s>"', '"decoder_start_token": ""'),
        ("config.json", '"add_source_eos": false', '"add_source_eos": true'),
        ("config.json", '"unk_token"', '"other"'),
        ("config.json", "{", "[1, {"),
        ("target_vocabulary.json", '"<pad>"', "1"),
        ("target_vocabulary.json", "</s>", "s"),
    ],
)
def test_other_special_tokens_are_refused(folder: Path, name: str, old: str, new: str) -> None:
    path = export_model(folder)
    content = (path / name).read_text()
    assert old in content
    (path / name).write_text(content.replace(old, new))
    files = json.loads((path / "clearhead.json").read_text())["files"]
    files = {name: entry_of(path / name)._asdict() for name in files}
    change_description(path / "clearhead.json", files=files)
    with pytest.raises(ExportError) as caught:
        fast_engine(folder)
    assert caught.value.where == str(path / name)


# Tokens


AWKWARD = ["<pad>", "<s>", "</s>", "<unk>", "<unk>#", "a", "a#", "#", *'\u2028é😀\x00"']


@pytest.mark.parametrize("tokenizer", [words(AWKWARD), pieces(["a b c <s> ☃ ⁇ é"] * 3)])
def test_each_id_has_a_name_of_its_own_and_special_ones_are_where_ctranslate2_looks(
    tokenizer: Tokenizer,
) -> None:
    names = token_names(tokenizer)
    assert len(set(names)) == len(names) == len(tokenizer)
    assert names[:3] == ["<pad>", "<s>", "</s>"]
    assert names[tokenizer.unk_id] == "<unk>"
    ids = [i for i in range(3, len(names)) if i != tokenizer.unk_id]
    assert all(
        names[i].startswith(piece) for i, piece in zip(ids, tokenizer.pieces(ids), strict=True)
    )


def test_awkward_tokens_keep_their_ids_through_ctranslate2(tmp_path: Path) -> None:
    awkward: WordTokenizer = words(AWKWARD)
    folder = random_folder(tmp_path, tokenizers=(awkward, words(["x", "<unk>"])))
    export_model(folder)
    assert_equal_to_the_model(folder)
    every = list(range(3, len(awkward)))
    (found,) = fast_engine(folder).score([every], [(3, 4, 5)])
    assert found == pytest.approx(forced_scores(torch_engine(folder), every, (3, 4, 5)), abs=1e-4)


def test_positions_reach_as_far_as_the_export_says(tmp_path: Path) -> None:
    folder = random_folder(tmp_path)
    export_model(folder)
    engine = fast_engine(folder)
    output = tuple([4] * TABLE_POSITIONS)
    (found,) = engine.score([[3] * LONGEST_SOURCE], [output])
    assert len(found) == TABLE_POSITIONS + 1
    (ours,) = [forced_scores(torch_engine(folder), [3] * LONGEST_SOURCE, output[:1500])]
    assert found[:1500] == pytest.approx(ours[:1500], abs=1e-3)


# The command


def test_the_command_prints_the_folder_and_how_equal_the_export_is(
    folder: Path, tmp_path: Path
) -> None:
    code, out, err = run("export", str(folder), "--format", "ctranslate2")
    assert (code, out) == (0, f"{folder / 'ctranslate2'}\n")
    assert "greedy outputs of 8 random sources are the same" in err
    code, out, _ = run("export", str(folder), "--output", str(tmp_path / "x"))
    assert (code, out) == (0, f"{tmp_path / 'x'}\n")
    assert (tmp_path / "x" / "model.bin").is_file()
    code, out, err = run("export", str(tmp_path / "nowhere"))
    assert (code, out) == (ModelFolderError.exit_code, "")


def test_without_the_package_the_error_has_what_to_install(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "ctranslate2"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(ExportError) as caught:
        export_model(folder)
    assert caught.value.todo == "pip install ctranslate2"
    assert not (folder / "ctranslate2").exists()


def test_one_vocabulary_of_pieces_is_exported_and_a_copy_takes_its_export_along(
    tmp_path: Path,
) -> None:
    both = pieces(["ab abc bcd", "cd abcd ☃"] * 9)
    config = small_config(share_embeddings="all")
    folder = random_folder(tmp_path / "model", config, tokenizers=(both, both))
    path = export_model(folder)
    assert (path / "shared_vocabulary.json").is_file()
    assert_equal_to_the_model(Path(shutil.copytree(folder, tmp_path / "copy")))
