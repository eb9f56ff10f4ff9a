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

import clearhead
from clearhead import api
from clearhead.api.exporting import export_model
from clearhead.decoding.ctranslate2_library import TABLE_POSITIONS, read_ctranslate2
from clearhead.decoding.engine import LONGEST_SOURCE
from clearhead.errors import ClearheadError, ExportError, ModelFolderError
from clearhead.folder import exports
from clearhead.folder.manifest import entry_of, sealed, unsealed
from clearhead.folder.model_folder import open_folder, write_folder
from clearhead.formats import ctranslate2 as format
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
from model_folders import change_tree, without_manifest
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
    scores = exported.token_scores(sources, outputs)
    for source, output, found in zip(sources, outputs, scores, strict=True):
        wanted = torch.tensor(forced_scores(model, source, output))
        torch.testing.assert_close(torch.tensor(found), wanted, rtol=1e-4, atol=1e-4)
    for ours, theirs in zip(
        model.translate(sources, GREEDY), exported.translate(sources, GREEDY), strict=True
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
    found = model.translate(sources, GREEDY)
    scores = exported.token_scores(sources, [each[0].tokens for each in found])
    for each, theirs in zip(found, scores, strict=True):
        ours = each[0].token_scores
        assert theirs[: len(ours)] == pytest.approx(ours, rel=1e-4, abs=2e-4)


@pytest.mark.parametrize(
    ("choices", "name"),
    [
        ({"norm_form": "std_plus_epsilon"}, "norm_form"),
        ({"input_convolution": (3,)}, "convolution"),
        ({"final_norm": False}, "final_norm"),
    ],
)
def test_what_ctranslate2_lacks_is_rejected_by_name(
    tmp_path: Path, choices: dict[str, Any], name: str
) -> None:
    folder = random_folder(tmp_path, small_config(**choices))
    with pytest.raises(ExportError, match=name):
        export_model(folder)
    assert not (folder / "ctranslate2").exists()


def test_an_unknown_format_and_another_task_are_rejected(tmp_path: Path) -> None:
    folder = random_folder(tmp_path)
    with pytest.raises(ExportError, match=r"(?s)'ctranslate'.*ctranslate2"):
        export_model(folder, "ctranslate")
    with pytest.raises(ModelFolderError, match="no such model folder"):
        export_model(folder / "nowhere")
    tree = json.loads((without_manifest(folder) / "config.json").read_text())
    tree["config"]["task"] = "classification"
    (folder / "config.json").write_text(json.dumps(tree))
    with pytest.raises(ExportError, match="classification") as caught:
        export_model(folder, "ctranslate2")
    assert "onnx" in str(caught.value.todo)


def changed_output(folder: Path, by: float) -> Any:
    """A `transformer_spec` whose logits are larger by this share."""
    transformer_spec = format.transformer_spec

    def changed(*arguments: Any) -> Any:
        spec = transformer_spec(*arguments)
        spec.decoder.projection.weight = spec.decoder.projection.weight * np.float32(1 + by)
        return spec

    return changed


@pytest.mark.parametrize("by", [0.01, 3.0, float("nan")])
def test_an_export_that_differs_from_the_model_is_discarded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: float
) -> None:
    folder = random_folder(tmp_path)
    before = export_model(folder)
    files = content(before)
    monkeypatch.setattr(format, "transformer_spec", changed_output(folder, by))
    with pytest.raises(ExportError, match="differs from the model"):
        export_model(folder)
    assert content(before) == files
    assert not list(folder.glob(".ctranslate2*"))


def test_the_description_has_the_result_of_the_comparison(tmp_path: Path) -> None:
    messages: list[str] = []
    folder = random_folder(tmp_path)
    path = export_model(folder, output=tmp_path / "elsewhere" / "fast", report=messages.append)
    assert path == tmp_path / "elsewhere" / "fast"
    tree = json.loads((path / "clearhead.json").read_text())
    assert tree["files"]["model.bin"]["size"] == (path / "model.bin").stat().st_size
    assert messages == tree["comparison"]
    assert read_ctranslate2(path, open_folder(folder)).longest_source == LONGEST_SOURCE


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_new_export_replaces_the_files_of_the_old_one_and_no_others(tmp_path: Path) -> None:
    folder = random_folder(tmp_path / "model")
    path = export_model(folder)
    first = content(path)
    (path / "notes.txt").write_text("precious")
    (path / "mine").mkdir()
    (path / "mine" / "file").write_text("precious")
    (path / "older.bin").write_text("of the previous export")
    description = json.loads((path / "clearhead.json").read_text())
    description["files"]["older.bin"] = 22
    description["files"]["../outside"] = 8
    (path / "clearhead.json").write_text(json.dumps(description))
    (folder / "outside").write_text("precious")
    (path / "config.json").write_text("{}")
    assert export_model(folder) == path
    assert (path / "notes.txt").read_text() == (folder / "outside").read_text() == "precious"
    assert (path / "mine" / "file").read_text() == "precious"
    (path / "notes.txt").unlink()
    shutil.rmtree(path / "mine")
    assert content(path) == first


def test_an_export_into_an_empty_folder_or_beside_other_files(tmp_path: Path) -> None:
    folder = random_folder(tmp_path / "model")
    (tmp_path / "empty").mkdir()
    assert export_model(folder, output=tmp_path / "empty") == tmp_path / "empty"
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("precious")
    for path in (tmp_path / "mine", tmp_path / "mine" / "file"):
        with pytest.raises(ExportError, match="something else") as caught:
            export_model(folder, output=path)
        assert caught.value.where == str(path)
    assert content(tmp_path / "mine") == {"file": b"precious"}


@pytest.mark.parametrize("description", ["rubbish", "[]", "{}", '{"files": 3}'])
def test_a_folder_whose_description_lists_no_files_is_left_alone(
    tmp_path: Path, description: str
) -> None:
    folder = random_folder(tmp_path / "model")
    path = tmp_path / "mine"
    path.mkdir()
    (path / "clearhead.json").write_text(description)
    (path / "config.json").write_text("precious")
    before = content(path)
    with pytest.raises(ExportError) as caught:
        export_model(folder, output=path)
    assert caught.value.where == str(path)
    assert content(path) == before


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_file_of_the_user_is_not_overwritten(tmp_path: Path, kind: str) -> None:
    folder = random_folder(tmp_path / "model")
    path = export_model(folder)
    # The next export has one vocabulary; the user has a file of that name.
    both = words(["x", "y"])
    config = small_config(share_embeddings="all")
    shared = random_folder(tmp_path / "shared", config, tokenizers=(both, both))
    taken = path / "shared_vocabulary.json"
    if kind == "file":
        taken.write_text("precious")
    else:
        taken.mkdir()
        (taken / "file").write_text("precious")
    with pytest.raises(ExportError) as caught:
        export_model(shared, output=path)
    assert caught.value.where == str(taken)
    assert (taken if kind == "file" else taken / "file").read_text() == "precious"
    assert read_ctranslate2(path, open_folder(folder)).path == path


@pytest.mark.parametrize("before", ["empty", "an export"])
def test_the_output_may_be_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    folder = random_folder(tmp_path / "model")
    here = tmp_path / "here"
    if before == "empty":
        here.mkdir()
    else:
        export_model(folder, output=here)
    monkeypatch.chdir(here)
    assert export_model(folder, output=".") == here
    assert read_ctranslate2(here, open_folder(folder)).path == here
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here", "model"]


@pytest.mark.slow
@pytest.mark.parametrize("refused", ["config.json", "model.bin", "clearhead.json"])
def test_an_export_that_is_interrupted_while_it_is_moved_is_repaired_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    folder = random_folder(tmp_path)
    path = export_model(folder)
    (path / "notes.txt").write_text("precious")
    found = open_folder(folder)
    write_random_weights(folder, found.config, tokenizers(folder), 2)
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
        with pytest.raises(ExportError, match="of another model"):
            read_ctranslate2(path, open_folder(folder))
    else:  # the new one is complete, but for a rename
        assert read_ctranslate2(path, open_folder(folder)).path == path
    assert not list(folder.glob(".ctranslate2*"))
    export_model(folder)
    assert read_ctranslate2(path, open_folder(folder)).path == path
    assert (path / "notes.txt").read_text() == "precious"


FULL_DISK = """
import resource, sys
from clearhead.errors import ExportError
from clearhead.api.exporting import export_model

resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
try:
    export_model(sys.argv[1])
except ExportError as error:
    print(str(error).replace("\\n", " "))
"""


@pytest.mark.slow
def test_a_full_disk_is_an_error_and_leaves_no_export(tmp_path: Path) -> None:
    folder = random_folder(tmp_path)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("COVERAGE")}
    command = [sys.executable, "-c", FULL_DISK, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert "cannot be written" in done.stdout, done.stderr
    assert not list(folder.glob("*ctranslate2*"))


# Stale and damaged exports


@pytest.mark.parametrize("changed", ["weights", "a bit of the weights", "settings", "source.json"])
def test_new_weights_settings_or_tokenizers_make_an_export_stale(
    tmp_path: Path, changed: str
) -> None:
    folder = random_folder(tmp_path)
    path, found = export_model(folder), open_folder(folder)
    weights = folder / "weights.safetensors"
    for each in (weights, folder / "source.json"):
        os.utime(each, ns=(0, 0))
    assert read_ctranslate2(path, open_folder(folder)).d_model == 8
    match changed:
        case "weights":
            write_random_weights(folder, found.config, tokenizers(folder), 2)
        case "settings":
            model = {"norm_epsilon": 0.3}
            change_tree(folder, "config.json", lambda tree: tree["config"]["model"].update(model))
        case "source.json":
            write_folder(folder, found.config, {"source": words(["other"])})
        case _:
            without_manifest(folder)
            weights.write_bytes(flipped(weights.read_bytes()))
    with pytest.raises(ExportError) as caught:
        read_ctranslate2(path, open_folder(folder))
    assert caught.value.where == str(path)
    assert changed.split()[-1] in caught.value.what
    assert "clearhead export" in str(caught.value.todo)


def tokenizers(folder: Path) -> tuple[Tokenizer, Tokenizer]:
    return read_tokenizers(open_folder(folder))


def flipped(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


def change(path: Path, **entries: Any) -> None:
    """Change a description, with a hash that fits."""
    tree = {**unsealed(json.loads(path.read_text())), **entries}
    path.write_text(json.dumps(sealed(tree)))


def test_settings_that_no_export_depends_on_do_not_make_it_stale(tmp_path: Path) -> None:
    folder = random_folder(tmp_path)
    export_model(folder)
    change_tree(folder, "config.json", lambda tree: tree["config"]["search"].update(beam_size=9))
    read_ctranslate2(folder / "ctranslate2", open_folder(folder))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["model.bin", "config.json", "source_vocabulary.json", "clearhead.json"]
)
@pytest.mark.parametrize("damage", ["missing", "cut off", "rubbish"])
def test_a_damaged_export_is_rejected(tmp_path: Path, name: str, damage: str) -> None:
    folder = random_folder(tmp_path)
    path = export_model(folder) / name
    match damage:
        case "missing":
            path.unlink()
        case "cut off":
            path.write_bytes(path.read_bytes()[:-3])
        case _:
            path.write_bytes(b"rubbish" * (path.stat().st_size // 7))
    with pytest.raises(ExportError, match=r"(?s)export.*clearhead export"):
        fast_engine(folder)


@pytest.mark.parametrize("engine", ["auto", "ctranslate2"])
def test_vocabularies_of_other_sizes_than_the_tokenizers_are_refused(
    tmp_path: Path, engine: str
) -> None:
    """A stranger can compute the digests of an export again."""
    folder = random_folder(tmp_path)
    path = export_model(folder)
    target = words(f"t{n}" for n in range(5))
    write_folder(folder, open_folder(folder).config, {"target": target})
    change(path / "clearhead.json", origin=exports.origin_of(open_folder(folder)))
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
def test_other_special_tokens_are_refused(tmp_path: Path, name: str, old: str, new: str) -> None:
    """A stranger can compute the hashes of an export again."""
    folder = random_folder(tmp_path)
    path = export_model(folder)
    content = (path / name).read_text()
    assert old in content
    (path / name).write_text(content.replace(old, new))
    tree = json.loads((path / "clearhead.json").read_text())
    files = {name: entry_of(path / name)._asdict() for name in tree["files"]}
    change(path / "clearhead.json", files=files)
    with pytest.raises(ExportError) as caught:
        fast_engine(folder)
    assert caught.value.where == str(path / name)


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [{"format": 9}, {"origin": {}}, {"origin": None}, {"files": 3}],
)
def test_a_description_of_another_form_is_rejected(tmp_path: Path, changes: dict[str, Any]) -> None:
    folder = random_folder(tmp_path)
    path = export_model(folder) / "clearhead.json"
    change(path, **changes)
    with pytest.raises(ExportError, match="clearhead export"):
        fast_engine(folder)


# Tokens


AWKWARD = [
    "<pad>",
    "<s>",
    "</s>",
    "<unk>",
    "<unk>#",
    "a",
    "a#",
    "#",
    "\u2028",
    "é",
    "😀",
    "\x00",
    '"',
]


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
    (found,) = fast_engine(folder).token_scores([every], [(3, 4, 5)])
    assert found == pytest.approx(forced_scores(torch_engine(folder), every, (3, 4, 5)), abs=1e-4)


def test_positions_reach_as_far_as_the_export_says(tmp_path: Path) -> None:
    folder = random_folder(tmp_path)
    export_model(folder)
    engine = fast_engine(folder)
    output = tuple([4] * TABLE_POSITIONS)
    (found,) = engine.token_scores([[3] * LONGEST_SOURCE], [output])
    assert len(found) == TABLE_POSITIONS + 1
    (ours,) = [forced_scores(torch_engine(folder), [3] * LONGEST_SOURCE, output[:1500])]
    assert found[:1500] == pytest.approx(ours[:1500], abs=1e-3)


# The command and the public function


def test_the_command_prints_the_folder_and_says_how_equal_it_was_found(tmp_path: Path) -> None:
    folder = random_folder(tmp_path / "model")
    code, out, err = run("export", str(folder), "--format", "ctranslate2")
    assert (code, out) == (0, f"{folder / 'ctranslate2'}\n")
    assert "greedy outputs of 8 random sources are the same" in err
    code, out, _ = run("export", str(folder), "--output", str(tmp_path / "x"))
    assert (code, out) == (0, f"{tmp_path / 'x'}\n")
    assert (tmp_path / "x" / "model.bin").is_file()
    code, out, err = run("export", str(tmp_path / "nowhere"))
    assert (code, out) == (ModelFolderError.exit_code, "")


def test_each_error_has_an_exit_code_of_its_own() -> None:
    kinds = ClearheadError.__subclasses__()
    assert len({kind.exit_code for kind in kinds}) == len(kinds)


def test_it_is_a_public_name(tmp_path: Path) -> None:
    assert clearhead.export_model is export_model is api.export_model


def test_without_the_package_the_export_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = random_folder(tmp_path)
    for name in [name for name in sys.modules if name.split(".")[0] == "ctranslate2"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(ExportError, match="pip install ctranslate2"):
        export_model(folder)
    assert not (folder / "ctranslate2").exists()


def test_a_copied_folder_takes_its_export_along(tmp_path: Path) -> None:
    folder = random_folder(tmp_path / "model")
    export_model(folder)
    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    assert fast_engine(copy).translate([[3, 4]], GREEDY)


def test_a_model_with_pieces_and_one_vocabulary_is_exported_with_it(tmp_path: Path) -> None:
    both = pieces(["ab abc bcd", "cd abcd ☃"] * 9)
    config = small_config(share_embeddings="all")
    folder = random_folder(tmp_path, config, tokenizers=(both, both))
    path = export_model(folder)
    assert (path / "shared_vocabulary.json").is_file()
    assert_equal_to_the_model(folder)
