"""Encoders of the BERT family compute the same after their import as in `transformers`."""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import clearhead
from clearhead import api
from clearhead.api.start import brought_by
from clearhead.errors import ModelFolderError
from clearhead.folder.tensors import read_tensors
from clearhead.formats.huggingface import encoders, sources
from clearhead.formats.huggingface.reading import import_model, settings_of_files
from clearhead.formats.huggingface.sources import is_huggingface
from clearhead.settings import RunConfig, config_from
from clearhead.tokenizer import BOS, EOS
from fake_translator import run
from huggingface_models import TOKENS, written
from marian_models import write_marian
from small_runs import assert_same, text_run

transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")

TEXTS = ["the red ball", "How many people lived here in 1987?", "a", "Straße, 中文 🙂"]


@torch.inference_mode()
def outputs(folder: Path, model: Any, text: str) -> np.ndarray:
    """The first output of `transformers` for one text, without any padding."""
    tokens = transformers.AutoTokenizer.from_pretrained(folder)
    return model(**tokens(text, return_tensors="pt"))[0][0].numpy()


@pytest.mark.slow
@pytest.mark.parametrize("kind", TOKENS)
def test_the_hidden_states_of_an_encoder_are_those_of_transformers(
    tmp_path: Path, kind: str
) -> None:
    original = written(tmp_path / "hf", kind, head=False)
    import_model(tmp_path / "hf", tmp_path / "ours")
    encoder = api.load_classifier(tmp_path / "ours")
    for text in TEXTS:
        ids, names = encoder.encode(text)
        assert ids[0] == BOS
        assert ids[-1] == EOS
        hidden = encoder.model.encode(ids[None])[0][0].detach().numpy()
        np.testing.assert_allclose(hidden, outputs(tmp_path / "hf", original, text), atol=1e-5)
        assert len(clearhead.record(encoder, text).source) == len(names) == len(ids)
    with pytest.raises(ModelFolderError):
        encoder.classify(TEXTS)


@pytest.mark.slow
@pytest.mark.parametrize("kind", TOKENS)
def test_the_logits_of_a_classifier_are_those_of_transformers(tmp_path: Path, kind: str) -> None:
    names = {0: "zero", 1: "one", 2: "a b"}
    original = written(tmp_path / "hf", kind, head=True, id2label=names)
    import_model(tmp_path / "hf", tmp_path / "ours")
    classifier = api.load_classifier(tmp_path / "ours")
    assert classifier.labels == ("zero", "one", "a b")
    expected = [outputs(tmp_path / "hf", original, text) for text in TEXTS]
    np.testing.assert_allclose(classifier.logits(TEXTS), expected, atol=1e-5)
    labels = [names[int(row.argmax())] for row in expected]
    assert [found[0].label for found in classifier.classify(TEXTS)] == labels


@pytest.mark.parametrize(
    "choices", [{"hidden_act": "gelu_new"}, {"hidden_act": "silu"}, {"type_vocab_size": 1}]
)
def test_variants_of_bert_are_imported(tmp_path: Path, choices: dict[str, Any]) -> None:
    written(tmp_path / "hf", "Bert", head=False, **choices)
    assert import_model(tmp_path / "hf", tmp_path / "ours").is_dir()


def test_an_encoder_without_labels_is_refused_where_labels_are_needed(tmp_path: Path) -> None:
    written(tmp_path / "hf", "Bert", head=False)
    ours = import_model(tmp_path / "hf", tmp_path / "ours")
    data = tmp_path / "test.tsv"
    data.write_text("yes\tred\nno\tball\n", encoding="utf-8")
    for arguments in (
        *(("export", str(ours)), ("export", str(ours), "--format", "huggingface")),
        ("evaluate", str(ours), "--data", str(data)),
    ):
        code, out, err = run(*arguments)
        assert (code, out) == (ModelFolderError.exit_code, "")
        assert str(ours) in err
        assert "start_from" in err
    with pytest.raises(ModelFolderError):
        api.load_classifier(ours).evaluate(["red"], ["yes"])


def test_a_text_with_more_tokens_than_positions_ends_with_the_end_symbol(tmp_path: Path) -> None:
    written(tmp_path / "hf", "Bert", head=False)
    import_model(tmp_path / "hf", tmp_path / "ours")
    encoder = api.load_classifier(tmp_path / "ours")
    with pytest.warns(UserWarning, match="was cut to 40"):
        ids, _ = encoder.encode("red " * 60)
    assert len(ids) == 40
    assert (ids[0], ids[-1]) == (BOS, EOS)


@pytest.mark.slow
def test_a_run_starts_from_files_of_hugging_face_as_from_their_model_folder(
    tmp_path: Path,
) -> None:
    written(tmp_path / "hf", "Bert", head=False)
    import_model(tmp_path / "hf", tmp_path / "ours")
    defaults = RunConfig()
    weights = []
    for name in ("hf", "ours"):
        tree = dict(max_length=30)
        config = text_run(tmp_path, f"run-{name}", training={"max_steps": 2}, data=tree)
        tree = {
            **{"task": "classification", "folder": config.folder},
            **{"start_from": str(tmp_path / name)},
            "data": {"train": config.data.train, "max_length": 30},
            "training": {"max_steps": 2, "validate_every": 2},
        }
        trained = api.train(config_from(tree), observers=())
        assert trained.finished
        # All is in the folder: it is resumed and used without what it started from.
        weights.append(read_tensors(Path(config.folder) / "weights.safetensors")[0])
        kept = api.load_classifier(config.folder)
        assert kept.config.model.d_model == 16 != defaults.model.d_model
        assert kept.classify(["red"])
    assert_same(*weights)


def test_settings_that_differ_from_the_model_are_rejected_before_anything_is_written(
    tmp_path: Path,
) -> None:
    written(tmp_path / "hf", "Bert", head=False)
    toml = tmp_path / "run.toml"
    data = tmp_path / "train.tsv"
    data.write_text("".join(f"{'ab'[i % 2]}\tred {i}\n" for i in range(40)), encoding="utf-8")
    toml.write_text(
        f'task = "classification"\nstart_from = {json.dumps(str(tmp_path / "hf"))}\n'
        f"[data]\ntrain = [{json.dumps(str(data))}]\n[training]\nmax_steps = 2\n"
    )
    folder = tmp_path / "run"
    for setting, named in (
        ("model.d_model=32", "leave model.d_model out"),
        ("data.max_length=90", "= 90 needs 90 positions"),
        ("seed=2", "set data.max_length to at most 40"),
    ):
        overrides = ("--set", setting, "--set", f"folder={folder}")
        code, out, err = run("train", str(toml), *overrides)
        assert (code, out) == (2, "")
        assert named in err
        assert "raise it" not in err
        assert not folder.exists()


@pytest.mark.parametrize(
    "damage",
    ["absent", "weights", "cut", "pickle", "tensor", "config", "type", "taken", "no words"],
)
def test_what_cannot_be_imported_is_refused_by_name(tmp_path: Path, damage: str) -> None:
    hf, ours = tmp_path / "hf", tmp_path / "ours"
    written(hf, "Bert", head=False)
    if damage == "absent":
        shutil.rmtree(hf)
    elif damage == "weights":
        (hf / "model.safetensors").write_bytes(b"nothing")
    elif damage == "cut":
        weights = hf / "model.safetensors"
        weights.write_bytes(weights.read_bytes()[:-100])
    elif damage == "no words":
        (hf / "tokenizer.json").unlink()
        (hf / "vocab.txt").write_text("", encoding="utf-8")
    elif damage == "pickle":
        torch.save(load_file(hf / "model.safetensors"), hf / "pytorch_model.bin")
        (hf / "model.safetensors").unlink()
    elif damage == "tensor":  # `transformers` would draw it at random
        tensors = load_file(hf / "model.safetensors")
        del tensors["encoder.layer.1.output.dense.weight"]
        save_file(tensors, hf / "model.safetensors", metadata={"format": "pt"})
    elif damage == "config":
        (hf / "config.json").write_text('{"model_type": "bert", ')
    elif damage == "type":
        tree = json.loads((hf / "config.json").read_text()) | {"model_type": "albert"}
        (hf / "config.json").write_text(json.dumps(tree))
    else:
        ours.mkdir()
        (ours / "mine.txt").touch()
    code, out, err = run("import", "hf", str(hf), str(ours))
    assert (code, out) == (ModelFolderError.exit_code, "")
    assert str(ours if damage == "taken" else hf) in err
    assert "download the model again" in err or damage != "cut"
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        name for name in ("hf", "ours") if (tmp_path / name).exists()
    )
    assert ours.exists() == (damage == "taken")


def test_the_python_code_of_a_model_is_never_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    hf, executed = tmp_path / "hf", tmp_path / "executed"
    hf.mkdir()
    tree = {"model_type": "mine", "auto_map": {"AutoConfig": "mine.Mine"}}
    (hf / "config.json").write_text(json.dumps(tree))
    (hf / "mine.py").write_text(f"open({str(executed)!r}, 'w').close()\n")
    monkeypatch.setattr("builtins.input", lambda prompt: "y")
    for read in (settings_of_files, lambda source: import_model(source, tmp_path / "ours")):
        with pytest.raises(ModelFolderError, match="Python code") as raised:
            read(hf)
        assert raised.value.where == str(hf)
        assert not executed.exists()
    assert capsys.readouterr() == ("", "")


def test_a_folder_that_is_no_download_is_named_as_what_it_is(tmp_path: Path) -> None:
    written(tmp_path / "hf", "Bert", head=False)
    import_model(tmp_path / "hf", tmp_path / "ours")
    (tmp_path / "empty").mkdir()
    for name, named in (("ours", "start_from"), ("empty", "config.json")):
        code, out, err = run("import", "hf", str(tmp_path / name), str(tmp_path / "again"))
        assert (code, out) == (ModelFolderError.exit_code, "")
        assert str(tmp_path / name) in err
        assert named in err


def test_without_a_network_one_message_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def no_network(name: str, **options: object) -> None:
        logging.getLogger("huggingface_hub.utils._http").warning("Retrying in 1s")
        raise OSError("We couldn't connect")

    monkeypatch.setattr(transformers.PretrainedConfig, "get_config_dict", no_network)
    # By itself the library does not pass its messages on.
    monkeypatch.setattr(logging.getLogger("huggingface_hub"), "propagate", True)
    code, out, err = run("import", "hf", "hf:foo/bar", str(tmp_path / "ours"))
    assert (code, out) == (ModelFolderError.exit_code, "")
    assert "hf:foo/bar" in err
    assert "network" in err
    assert not caplog.records


@pytest.mark.parametrize(
    ("kind", "gone"),
    [
        ("Bert", ("tokenizer.json", "vocab.txt")),
        ("DistilBert", ("tokenizer.json", "vocab.txt", "tokenizer_config.json")),
        ("Roberta", ("tokenizer.json", "vocab.json", "merges.txt")),
        ("XLMRoberta", ("tokenizer.json",)),
        ("Marian", ("target.spm",)),
        ("Marian", ("vocab.json", "source.spm", "target.spm", "tokenizer_config.json")),
    ],
)
def test_a_folder_without_the_files_of_a_tokenizer_is_refused(
    tmp_path: Path, kind: str, gone: tuple[str, ...]
) -> None:
    if kind == "Marian":
        write_marian(tmp_path / "hf")
    else:
        written(tmp_path / "hf", kind, head=True)
    for name in gone:
        (tmp_path / "hf" / name).unlink()
    with pytest.raises(ModelFolderError) as error:
        import_model(tmp_path / "hf", tmp_path / "ours")
    assert error.value.where == str(tmp_path / "hf")
    assert all(name in str(error.value.why) for name in gone if name != "tokenizer_config.json")
    assert error.value.todo
    assert not (tmp_path / "ours").exists()


def test_an_import_that_computes_something_else_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path / "hf", "Bert", head=False)
    settings = encoders.model_settings

    def other(*arguments: Any) -> Any:
        return dataclasses.replace(settings(*arguments), activation="relu")

    monkeypatch.setattr(encoders, "model_settings", other)
    with pytest.raises(ModelFolderError) as caught:
        import_model(tmp_path / "hf", tmp_path / "ours")
    assert "hidden states" in str(caught.value.why)
    assert not (tmp_path / "ours").exists()


def test_folders_of_clearhead_are_told_from_those_of_hugging_face(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path / "hf", "Bert", head=False)
    import_model(tmp_path / "hf", tmp_path / "ours")
    assert is_huggingface(tmp_path / "hf")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert is_huggingface("~/hf")
    assert not is_huggingface("~/ours")
    assert is_huggingface("hf:bert-base-uncased")
    assert not is_huggingface(tmp_path / "ours")
    assert not is_huggingface(tmp_path / "absent")


def test_a_huge_configuration_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / "config.json").open("wb") as file:
        file.truncate(2**40)
    assert not is_huggingface(tmp_path)
    with pytest.raises(ModelFolderError) as caught:
        import_model(tmp_path, tmp_path / "ours")
    assert caught.value.where == str(tmp_path / "config.json")


# Folders of strangers


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("foreign") / "hf"
    written(folder, "Bert", head=True)
    return folder


def refused(source: str | Path, tmp_path: Path) -> ModelFolderError:
    """The error of an import that reads no weights and writes nothing."""
    with pytest.MonkeyPatch.context() as patched:
        for kind in ("AutoModel", "AutoModelForSequenceClassification", "AutoModelForSeq2SeqLM"):
            patched.delattr(getattr(transformers, kind), "from_pretrained")
        with pytest.raises(ModelFolderError) as caught:
            import_model(source, tmp_path / "ours")
    assert not (tmp_path / "ours").exists()
    return caught.value


def with_settings(hf: Path, **settings: Any) -> None:
    tree = json.loads((hf / "config.json").read_text()) | settings
    (hf / "config.json").write_text(json.dumps(tree))


SETTINGS: list[dict[str, Any]] = [
    *({"num_hidden_layers": 10**9}, {"num_hidden_layers": 1001}, {"hidden_size": 10**7}),
    *({"num_labels": 10**9}, {"vocab_size": 10**8}, {"max_position_embeddings": 10**12}),
    # Each of these is possible, but not with these weights.
    *({"num_hidden_layers": 1000}, {"hidden_size": 65536}, {"vocab_size": 10**7}),
    *({"intermediate_size": 10**6}, {"type_vocab_size": 10**6}),
    # Labels that cannot be used.
    *(
        {"id2label": {"0": "b", "1": label}, "label2id": {}}
        for label in ("a\nb", "\x1b[2J", "a\tb", "\x85", "", "b")
    ),
]
NAMES: list[object] = [
    *("../secret.safetensors", "/etc/passwd", "a/b.safetensors", "..", "", ".", 5, None, ["x"]),
]


@pytest.mark.parametrize("settings", SETTINGS, ids=repr)
def test_a_configuration_that_cannot_be_is_refused_before_the_weights_are_read(
    foreign: Path, tmp_path: Path, settings: dict[str, Any]
) -> None:
    hf = shutil.copytree(foreign, tmp_path / "hf")
    with_settings(hf, **settings)
    assert refused(hf, tmp_path).where == str(hf)


@pytest.mark.parametrize("name", NAMES, ids=str)
def test_an_index_that_names_files_outside_the_folder_is_refused(
    foreign: Path, tmp_path: Path, name: object
) -> None:
    hf = shutil.copytree(foreign, tmp_path / "hf")
    (hf / "model.safetensors").rename(tmp_path / "secret.safetensors")
    for names in ({"x": name}, name):
        (hf / sources.INDEX).write_text(json.dumps({"metadata": {}, "weight_map": names}))
        assert refused(hf, tmp_path).where == str(hf)


@pytest.mark.parametrize("name", ["model.safetensors", "vocab.txt", "extra.json", "other"])
def test_a_pipe_or_a_huge_file_in_the_folder_is_not_opened(
    foreign: Path, tmp_path: Path, name: str
) -> None:
    hf = shutil.copytree(foreign, tmp_path / "hf")
    (hf / name).unlink(missing_ok=True)
    os.mkfifo(hf / name)
    assert refused(hf, tmp_path).where == str(hf)
    (hf / name).unlink()
    with (hf / "tokenizer.json").open("r+b") as file:
        file.truncate(2**40)
    assert refused(hf, tmp_path).where == str(hf)


def test_a_model_that_needs_too_much_memory_is_not_built(
    foreign: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hf = write_marian(tmp_path / "hf")
    with_settings(hf, max_position_embeddings=10**6, d_model=1024)
    assert refused(hf, tmp_path).where == str(hf)
    monkeypatch.setattr(sources, "memory_of_process", lambda: 4000)
    assert refused(foreign, tmp_path).where == str(foreign)


def test_an_index_of_files_beside_it_is_read(tmp_path: Path) -> None:
    model = written(tmp_path / "hf", "Bert", head=True)
    (tmp_path / "hf" / "model.safetensors").unlink()
    model.save_pretrained(tmp_path / "hf", max_shard_size="10KB")
    assert (tmp_path / "hf" / sources.INDEX).exists()
    import_model(tmp_path / "hf", tmp_path / "ours")


def test_files_that_are_links_are_read(foreign: Path, tmp_path: Path) -> None:
    """As in the cache of Hugging Face."""
    (tmp_path / "hf").mkdir()
    for path in foreign.iterdir():
        (tmp_path / "hf" / path.name).symlink_to(path)
    import_model(tmp_path / "hf", tmp_path / "ours")


@pytest.mark.parametrize(
    "name",
    [
        *("", "/", "a/b/c", "../hf", "..", "./hf", "/etc", "~/hf", "a/..", "https://a.b/c", "a b"),
        *("file:///etc", "a\\b", "a/b@main", "-a", ".a", "a/.b", "a\n", "x" * 97, "é", "C:\\x"),
    ],
)
def test_only_names_on_the_hub_follow_its_prefix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr(transformers.PretrainedConfig, "get_config_dict", never)
    assert refused(f"hf:{name}", tmp_path).where == f"hf:{name}"
    with pytest.raises(ModelFolderError):
        brought_by(f"hf:{name}", "classification", "text")


def test_a_name_on_the_hub_is_not_read_from_a_folder(
    foreign: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(foreign, tmp_path / "bert")
    monkeypatch.chdir(tmp_path)
    assert refused("hf:bert", tmp_path).where == "hf:bert"
