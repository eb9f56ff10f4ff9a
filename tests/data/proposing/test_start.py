"""What `init --start-from` proposes: a run that trains as it is."""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path

import pytest

from clearhead import api
from clearhead.data.proposing.classification import propose_classification
from clearhead.data.proposing.settings import Brought
from clearhead.data.proposing.translation import propose_translation
from clearhead.errors import ModelFolderError
from clearhead.folder.tensors import read_tensors
from clearhead.formats.huggingface.reading import import_model
from clearhead.settings import RunConfig, TokenizerConfig, config_from, read_config
from clearhead.tokenizer import learn_tokenizer
from fake_translator import run
from huggingface_models import written
from small_runs import small_run, text_run


def labelled(folder: Path, count: int) -> str:
    chance = random.Random(1)
    lines = []
    for number in range(count):
        words = chance.choices("abcdefgh", k=chance.randint(2, 9))
        lines.append(f"{'even' if number % 2 else 'odd'}\t{number} {' '.join(words)}\n")
    path = folder / "texts.tsv"
    path.write_text("label\ttext\n" + "".join(lines), encoding="utf-8")
    return str(path)


@pytest.mark.slow
@pytest.mark.parametrize("task", ["translation", "classification"])
def test_a_proposed_run_starts_from_the_model_and_trains(tmp_path: Path, task: str) -> None:
    first = small_run(tmp_path, "first", max_steps=2)
    api.train(first)
    if task == "translation":
        files = ["--train", *first.data.train, "--validation", *first.data.validation]
    else:
        files = ["--task", task, "--train", labelled(tmp_path, 120)]
    name = str(tmp_path / "next")
    code, _, err = run("init", name, "--start-from", first.folder, *files)
    assert code == 0, err
    text = Path(f"{name}.toml").read_text()
    assert "[model]" not in text
    assert "[tokenizer]" not in text
    folder = f"folder={tmp_path / 'run'}"
    config = read_config(f"{name}.toml", [folder, "training.max_epochs=1"])
    assert config.start_from == first.folder
    assert config.training.schedule.peak < RunConfig().training.schedule.peak
    api.train(config, observers=())
    assert api.load(tmp_path / "run").config.model.d_model == first.model.d_model


@pytest.mark.slow
def test_the_search_of_a_translator_is_kept(tmp_path: Path) -> None:
    first = small_run(tmp_path, "first", max_steps=2)
    search = dataclasses.replace(
        first.search, beam_size=3, length_penalty=1.5, max_length_ratio=3.0
    )
    first = dataclasses.replace(first, search=search)
    api.train(first, observers=())
    name = str(tmp_path / "next")
    files = ["--train", *first.data.train, "--validation", *first.data.validation]
    assert run("init", name, "--start-from", first.folder, *files)[0] == 0
    proposed = read_config(f"{name}.toml").search
    assert (proposed.beam_size, proposed.length_penalty) == (3, 1.5)
    other = small_run(tmp_path, "other", max_steps=2)
    chosen = dataclasses.replace(RunConfig().search, length_penalty=0.9)
    api.train(dataclasses.replace(other, start_from=first.folder, search=chosen), observers=())
    kept = api.load(other.folder).config.search
    assert (kept.beam_size, kept.length_penalty, kept.max_length_ratio) == (3, 0.9, 3.0)


def test_a_step_has_20_examples_of_mean_length_and_the_length_has_a_limit(tmp_path: Path) -> None:
    path = tmp_path / "long.tsv"
    rows = [f"{'ab'[i % 2]}\t{'word ' * 600}{i}\n" for i in range(60)]
    path.write_text("label\ttext\n" + "".join(rows), encoding="utf-8")
    proposed = propose_classification("text", [str(path)], start_from="runs/x")
    values = proposed.values
    assert any("100 % of the texts are cut to 256" in line for line in proposed.seen)
    assert values["training.batch_tokens"] >= 20 * 256
    assert values["data.max_length"] == 256


def test_the_last_weights_are_kept_and_no_class_is_weighted_where_few_examples_are_held_out(
    tmp_path: Path,
) -> None:
    path = tmp_path / "texts.tsv"
    rows = [f"{'rare' if i % 20 == 0 else 'common'}\ttext number {i}\n" for i in range(400)]
    path.write_text("label\ttext\n" + "".join(rows), encoding="utf-8")
    values = propose_classification("text", [str(path)], start_from="runs/x").values
    assert (values["training.keep"], values["training.average_last"]) == ("average", 1)
    assert values["classifier.class_weights"] == "none"
    anew = propose_classification("text", [str(path)]).values
    assert anew["classifier.class_weights"] == "balanced"


@pytest.mark.parametrize(
    ("named", "suggested"),
    [("gone", "hf:gone"), ("org/name", "hf:org/name"), ("a b", "hf:NAME")],
)
def test_a_model_that_is_not_there_is_reported_before_a_file_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str, suggested: str
) -> None:
    monkeypatch.chdir(tmp_path)
    data = labelled(tmp_path, 60)
    for files in ((), ("--train", data)):
        arguments = ("--task", "classification", *files, "--start-from", named)
        code, out, err = run("init", "next", *arguments)
        assert (code, out) == (ModelFolderError.exit_code, "")
        assert str(tmp_path / named) in err
        assert suggested in err
        assert not Path("next.toml").exists()


def test_a_name_on_the_hub_is_not_looked_up(tmp_path: Path) -> None:
    name = str(tmp_path / "next")
    start = ("--start-from", "hf:no/such-model")
    assert run("init", name, "--task", "classification", *start)[0] == 0
    assert read_config(f"{name}.toml").start_from == "hf:no/such-model"


def test_a_relative_path_is_written_so_that_it_starts_in_the_folder_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = small_run(tmp_path, "first", max_steps=2)
    api.train(first, observers=())
    monkeypatch.chdir(Path(first.folder).parent)
    (tmp_path / "configurations").mkdir()
    name = tmp_path / "configurations" / "next"
    assert run("init", str(name), "--start-from", Path(first.folder).name)[0] == 0
    monkeypatch.chdir(tmp_path / "configurations")
    assert read_config("next.toml").start_from == first.folder


def test_a_model_that_is_none_for_the_task_is_reported_before_a_file_is_written(
    tmp_path: Path,
) -> None:
    texts = text_run(tmp_path, "texts", training={"max_steps": 2})
    api.train(texts, observers=())
    translator = small_run(tmp_path, "translator", max_steps=2)
    api.train(translator, observers=())
    for start, options in (
        (texts.folder, ()),
        (translator.folder, ("--task", "classification", "--input", "features")),
    ):
        code, _, err = run("init", str(tmp_path / "next"), *options, "--start-from", start)
        assert code == ModelFolderError.exit_code, err
        assert start in err
    assert not (tmp_path / "next.toml").exists()


LEARNED = {"positions": {"kind": "learned", "max_length": 21}}


@pytest.mark.slow
@pytest.mark.parametrize("task", ["translation", "classification"])
def test_the_longest_example_fits_the_positions_of_the_model(tmp_path: Path, task: str) -> None:
    first = small_run(tmp_path, "first", max_steps=2)
    data = {**dataclasses.asdict(first.data), "max_length": 20}
    model = {**dataclasses.asdict(first.model), **LEARNED}
    tree = dataclasses.asdict(first) | {"data": data, "model": model}
    api.train(config_from(tree), observers=())
    files = ["--train", *first.data.train, "--validation", *first.data.validation]
    if task == "classification":
        files = ["--task", task, "--train", labelled(tmp_path, 60)]
    for number, given in enumerate((files, files[:2] if files[0] == "--task" else [])):
        name = str(tmp_path / f"next{number}")
        code, _, err = run("init", name, "--start-from", first.folder, *given)
        assert code == 0, err
        # One position is for the start symbol.
        assert read_config(f"{name}.toml").data.max_length == 20
    folder = f"folder={tmp_path / 'run'}"
    config = read_config(f"{tmp_path}/next0.toml", [folder, "training.max_epochs=1"])
    assert api.train(config, observers=()).finished


@pytest.mark.slow
@pytest.mark.parametrize("imported", [True, False])
def test_the_output_layer_is_kept_if_the_labels_are_the_same(
    tmp_path: Path, imported: bool
) -> None:
    pytest.importorskip("transformers")
    # The import sorts no labels, a run does.
    original = written(tmp_path / "hf", "Bert", head=True, id2label={0: "odd", 1: "even"})
    start = tmp_path / "hf"
    if imported:
        start = import_model(tmp_path / "hf", tmp_path / "ours")
    data = labelled(tmp_path, 120)
    arguments = ("--task", "classification", "--train", data, "--start-from", str(start))
    assert run("init", str(tmp_path / "same"), *arguments)[0] == 0
    folder = f"folder={tmp_path / 'run'}"
    config = read_config(tmp_path / "same.toml", [folder, "training.max_epochs=1"])
    assert (config.classifier.pooling, config.classifier.hidden) == (("first",), "tanh")
    assert config.data.max_length <= 40
    assert config.training.fine_tuning == RunConfig().training.fine_tuning
    still = ["training.schedule.peak=1e-12", "training.average_last=1"]
    api.train(read_config(tmp_path / "same.toml", [folder, *still, "training.max_epochs=1"]))
    weight = read_tensors(tmp_path / "run" / "weights.safetensors")[0]["output.weight"]
    expected = original.classifier.weight.detach()[[1, 0]]
    assert (weight - expected).abs().max() < 1e-5
    # Other labels: a new output layer.
    text = Path(data).read_text(encoding="utf-8").replace("odd\t", "other\t")
    Path(data).write_text(text, encoding="utf-8")
    assert run("init", str(tmp_path / "other"), *arguments)[0] == 0
    config = read_config(tmp_path / "other.toml")
    assert config.classifier.hidden == "none"
    assert config.training.fine_tuning.head_rate > 1


def weaknesses(folder: Path, endings: tuple[str, str], target: str, known: tuple[str, str]) -> str:
    """The warnings about pairs, for a model of English and Spanish words."""
    files = folder / f"t{endings[0]}", folder / f"t{endings[1]}"
    for file, line in zip(files, ("the cat sleeps", target), strict=True):
        file.write_text(f"{line}\n" * 9, encoding="utf-8")
    texts = ["the cat sleeps", "el gato duerme"]
    tokenizer = learn_tokenizer(texts, TokenizerConfig(max_vocabulary=300))
    run = RunConfig()
    brought = Brought(None, run.classifier, run.search, (), (tokenizer, tokenizer), known)
    names = [str(file) for file in files]
    proposed = propose_translation(names, (), (), "model", brought)
    found = [line for line in proposed.seen if line.startswith("warning: ")]
    assert "data.replay" in found[0]
    return "\n".join(found[1:])


SPANISH = "el gato duerme"


@pytest.mark.parametrize(
    ("endings", "target", "known", "fragment"),
    [
        ((".en", ".es"), SPANISH, ("en", "es"), ""),
        (("1.txt", "2.txt"), SPANISH, ("en", "es"), ""),  # unknown languages
        ((".en", ".es"), SPANISH, ("", ""), ""),
        ((".en", ".es"), SPANISH, ("es", "en"), "other direction"),
        ((".en", ".de"), SPANISH, ("en", "es"), "target was es and is de"),
        ((".fr", ".es"), SPANISH, ("en", "es"), "source was en and is fr"),
        (("1.txt", "2.txt"), "η γάτα κοιμάται εδώ", ("en", "es"), "target into"),
        (("1.txt", "2.txt"), "猫在睡觉", ("en", "es"), "tokens a character"),
    ],
)
def test_a_weak_start_is_warned_of(
    tmp_path: Path, endings: tuple[str, str], target: str, known: tuple[str, str], fragment: str
) -> None:
    found = weaknesses(tmp_path, endings, target, known)
    assert fragment in found
    assert found.count("warning") == (fragment != "")
