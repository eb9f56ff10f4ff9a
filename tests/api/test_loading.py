"""Loading: which engine runs a translator, and what is loaded for it."""

from __future__ import annotations

import gc
import json
import os
import shutil
import subprocess
import sys
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch

import clearhead
from clearhead import api
from clearhead.api.exporting import export_model
from clearhead.api.loading import LoadOptions
from clearhead.decoding.confidence import Confidence
from clearhead.decoding.ctranslate2_engine import AutoEngine, CTranslate2Engine
from clearhead.decoding.ctranslate2_library import MODEL, NAME
from clearhead.decoding.engine import numbered
from clearhead.decoding.torch_engine import TorchEngine
from clearhead.errors import (
    ConfigError,
    DataError,
    ExportError,
    ModelFolderError,
    SearchError,
    TextWarning,
)
from clearhead.folder.model_folder import WEIGHTS, open_folder
from clearhead.settings import SearchConfig
from clearhead.tokenizer import read_tokenizers
from exported_models import (
    SOURCE_WORDS,
    assert_same,
    fast_engine,
    random_folder,
    write_random_weights,
)
from fake_translator import run
from model_folders import without_manifest
from small_models import small_config
from small_runs import small_run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small random translator with its export."""
    shape = small_config(output_bias=True)
    path = random_folder(tmp_path_factory.mktemp("model"), shape, seed=4, scale=0.5, ends=1.5)
    export_model(path)
    return path


UNSURE = Confidence(0.0, -3.0, (0.0, 0.0, 0.0))
SURE = Confidence(0.0, 3.0, (0.0, 0.0, 0.0))


# Which engine


@pytest.mark.slow
def test_auto_takes_the_export_and_gives_what_pytorch_gives(folder: Path) -> None:
    texts = ["s1 s2", "", "s3 s4 s8 never", "s0"]
    by_name = {
        name: api.load_translator(folder, engine=name, device="cpu", threads=1)
        for name in ("auto", "torch", "ctranslate2")
    }
    assert isinstance(by_name["auto"].engine, AutoEngine)
    assert isinstance(by_name["torch"].engine, TorchEngine)
    assert isinstance(by_name["ctranslate2"].engine, CTranslate2Engine)
    wanted = by_name["torch"].translate(texts, beam_size=1)
    for translator in by_name.values():
        found = translator.translate(texts, beam_size=1)
        assert_same(found, wanted)
        assert [each[0].text for each in found] == [each[0].text for each in wanted]


@pytest.mark.slow
def test_auto_sees_hooks_edits_and_new_weights(folder: Path) -> None:
    texts = ["s1 s2", "s3 s4 s8"]
    auto, plain = (
        api.load_translator(folder, engine=name, device="cpu", threads=1)
        for name in ("auto", "torch")
    )
    before, scores = auto.translate(texts, beam_size=1), auto.score(texts, ["t1", "t2 t3"])
    engine = auto.engine

    def agree() -> None:
        changed = auto.translate(texts, beam_size=1)
        assert_same(changed, plain.translate(texts, beam_size=1))
        assert [each[0].score for each in changed] != [each[0].score for each in before]
        found, wanted = (each.score(texts, ["t1", "t2 t3"]) for each in (auto, plain))
        assert [x.score for x in found] == pytest.approx([x.score for x in wanted], abs=1e-4)
        assert [x.score for x in found] != [x.score for x in scores]

    handles = [
        each.model.decoder.norm.register_forward_hook(lambda *given: 0.5 * given[2])
        for each in (auto, plain)
    ]
    agree()
    for handle in handles:
        handle.remove()
    with clearhead.edit(auto) as mine, clearhead.edit(plain) as other:
        for e in (mine, other):
            e.scale("decoder", 0.0)
        agree()
    assert auto.engine is engine
    assert_same(auto.translate(texts, beam_size=1), before)
    with torch.no_grad():
        for each in (auto, plain):
            each.model.output.weight.mul_(0.5)
    agree()


class TorchNeededError(Exception):
    """Raised in place of loading PyTorch."""


@pytest.fixture
def auto(folder: Path) -> AutoEngine:
    """An `AutoEngine` that fails if it needs PyTorch."""

    def make_torch() -> TorchEngine:
        raise TorchNeededError

    return AutoEngine(fast_engine(folder), make_torch)


SHORT: list[list[int]] = [[3, 4, 5], [6]]


@pytest.mark.parametrize(
    ("search", "sources", "prefixes"),
    [
        ({"method": "sampling"}, SHORT, None),
        # More than the positions of the export.
        ({"max_length_offset": 100}, SHORT, [[3] * 4000, []]),
        ({"max_length_ratio": 5.0}, [[3] * 1024], None),
    ],
)
def test_auto_uses_pytorch_for_what_ctranslate2_does_not_support(
    auto: AutoEngine,
    search: dict[str, Any],
    sources: list[list[int]],
    prefixes: list[list[int]] | None,
) -> None:
    with pytest.raises(TorchNeededError):
        auto.translate(numbered(sources, prefixes), SearchConfig(**search))


@pytest.mark.slow
@pytest.mark.parametrize("beam_size", [1, 3])
@pytest.mark.parametrize("batch_size", [1, 256])
def test_auto_uses_the_export_for_all_else_however_much_it_is(
    auto: AutoEngine, beam_size: int, batch_size: int
) -> None:
    search = SearchConfig(beam_size=beam_size, max_length=8)
    for count in (1, 600):
        sentences = numbered(SHORT * count)
        found = auto.translate(sentences, search, batch_size=batch_size)
        assert len(found) == 2 * count
    assert_same(found, auto.exported.translate(sentences, search, batch_size=batch_size))
    assert auto.longest_source == auto.exported.longest_source


def test_auto_samples_with_pytorch_and_can_be_looked_into(folder: Path) -> None:
    auto, plain = (api.load_translator(folder, engine=e, device="cpu") for e in ("auto", "torch"))
    texts = [f"s{n} s{n % 3}" for n in range(10)]
    before = auto.translate(texts, beam_size=3)
    drawn = [t.translate(texts, method="sampling", n_best=3, seed=4) for t in (auto, plain)]
    assert drawn[0] == drawn[1]
    assert auto.translate(texts, beam_size=3) == before
    ((hypothesis,),) = auto.translate(["s1 s2"])
    assert clearhead.record(auto, "s1 s2", hypothesis)


@pytest.fixture
def stale(tmp_path: Path) -> Path:
    """The folder of a translator whose export is of other weights."""
    folder = random_folder(tmp_path / "stale")
    export_model(folder)
    found = open_folder(folder)
    tokenizers = read_tokenizers(found)
    write_random_weights(folder, found.config, tokenizers, seed=9)
    return folder


@pytest.mark.slow
def test_auto_does_not_use_a_stale_export(stale: Path) -> None:
    with pytest.raises(ExportError, match=r"(?s)weights.*clearhead export"):
        api.load_translator(stale, engine="ctranslate2")
    with pytest.warns(UserWarning, match=r"^PyTorch.*weights.*clearhead export.*$"):  # on one line
        translator = api.load_translator(stale, device="cpu")
    assert isinstance(translator.engine, TorchEngine)
    export_model(stale)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert isinstance(api.load_translator(stale, device="cpu").engine, AutoEngine)


def test_without_an_export_or_with_a_damaged_one_auto_is_pytorch(tmp_path: Path) -> None:
    folder = random_folder(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert isinstance(api.load_translator(folder, device="cpu").engine, TorchEngine)
    with pytest.raises(ExportError) as caught:
        api.load_translator(folder, engine="ctranslate2")
    assert f"clearhead export {folder} --format ctranslate2" in str(caught.value.todo)
    weights = export_model(folder) / "model.bin"
    weights.write_bytes(b"x" * weights.stat().st_size)
    with pytest.raises(ExportError) as caught:
        api.load_translator(folder, engine="ctranslate2")
    assert caught.value.where == str(weights)
    with pytest.warns(UserWarning, match="cannot be used"):
        assert isinstance(api.load_translator(folder, device="cpu").engine, TorchEngine)


def test_without_the_package_auto_is_pytorch_and_ctranslate2_says_what_to_install(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.warns(UserWarning, match=r"(?s)PyTorch.*pip install ctranslate2"):
        engine = api.load_translator(folder, device="cpu").engine
    assert isinstance(engine, TorchEngine)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        api.load_translator(folder, device="cpu", engine="torch")
    with pytest.raises(ExportError, match=r"pip install ctranslate2"):
        api.load_translator(folder, engine="ctranslate2")


@pytest.mark.parametrize("gpus", [0, 1])
def test_auto_leaves_a_gpu_to_pytorch(
    folder: Path, monkeypatch: pytest.MonkeyPatch, gpus: int
) -> None:
    import ctranslate2

    monkeypatch.setattr(ctranslate2, "get_cuda_device_count", lambda: gpus)
    wanted = TorchEngine if gpus else AutoEngine
    assert isinstance(api.load_translator(folder).engine, wanted)
    assert isinstance(api.load_translator(folder, device="cpu").engine, AutoEngine)


@pytest.mark.parametrize(
    ("choices", "todo"),
    [
        ({"engine": "ctranslate"}, "ctranslate2"),
        ({"engine": "?"}, "auto, torch, ctranslate2"),
        ({"compute_type": "int8"}, "engine"),
        ({"device": "gpu"}, "cuda"),
        ({"threads": -1}, "0"),
        ({"threads": 10**6}, "0"),
        ({"ablate_by": "mean"}, "ablate"),
        ({"ablate": "decoder.1", "engine": "ctranslate2"}, "torch"),
        ({"match": 0.9}, "memory"),
        ({"match": 0.0, "memory": "a.tsv"}, "similarity"),
        ({"match": float("nan"), "memory": "a.tsv"}, "similarity"),
    ],
)
def test_options_are_checked_when_they_are_made(choices: dict[str, Any], todo: str) -> None:
    with pytest.raises(ConfigError) as caught:
        LoadOptions(**choices)
    assert todo in str(caught.value.todo)


def test_options_are_a_value_and_single_ones_replace_its_own(folder: Path) -> None:
    options = LoadOptions(ablate="decoder.1.self.1, decoder.2", scores=False)
    assert options == LoadOptions(ablate=["decoder.1.self.1", "decoder.2"], scores=False)
    assert "decoder.1.self.1, decoder.2 (zero" in options.ablated
    found = api.load_translator(folder, options, ablate="", engine="torch").engine
    assert isinstance(found, TorchEngine)
    with pytest.raises(TypeError):
        api.load(folder, **cast(Any, {"treads": 2}))


@pytest.mark.parametrize(
    "choices",
    [
        {"engine": "torch", "compute_type": "int16"},
        {"engine": "ctranslate2", "compute_type": "int7"},
        {"ablate": "decoder.9"},
    ],
)
def test_an_option_that_the_engine_or_the_model_lacks_is_rejected(
    folder: Path, choices: dict[str, Any]
) -> None:
    with pytest.raises(ConfigError):
        api.load_translator(folder, **choices)


@pytest.mark.parametrize(
    "choices",
    [
        {"engine": "torch", "compute_type": "int8"},
        {"engine": "ctranslate2"},
        {"glossary": {"a": "b"}},
        {"memory": "memory.tsv"},
    ],
)
def test_a_classifier_takes_no_option_for_translators(
    tmp_path: Path, choices: dict[str, Any]
) -> None:
    folder = without_manifest(random_folder(tmp_path))
    tree = json.loads((folder / "config.json").read_text())
    tree["config"]["task"] = "classification"
    (folder / "config.json").write_text(json.dumps(tree))
    with pytest.raises(ConfigError) as caught:
        api.load(folder, **choices)
    assert caught.value.where == str(folder)
    with pytest.raises(ModelFolderError) as refused:
        api.load_translator(folder)
    assert "clearhead classify" in str(refused.value.todo)


@pytest.mark.parametrize("engine", ["torch", "ctranslate2", "auto"])
def test_a_translator_takes_what_its_memory_has(
    folder: Path, tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "memory.tsv"
    path.write_text("s1 s2\tt1\ns1 %s\t%s t2\n")
    choices: dict[str, Any] = {"engine": engine, "device": "cpu", "memory": str(path)}
    found = api.load_translator(folder, **choices).translate(["s1 s2", "s1 %d", "s1 s2 s3"])
    assert [best.match for best, *_ in found] == [1.0, 1.0, 0.0]
    assert [best.text for best, *_ in found][:2] == ["t1", "%d t2"]
    # A similar text is used where the model is unsure, which needs scores.
    with pytest.raises(ConfigError):
        api.load_translator(folder, match=0.5, **choices)
    for estimate, is_used in ((UNSURE, True), (SURE, False)):
        monkeypatch.setattr(Confidence, "of", lambda _, estimate=estimate: estimate)
        similar = api.load_translator(folder, match=0.5, scores=False, **choices)
        ((found,),) = similar.translate(["s1 s2 s3"], beam_size=1)
        assert found.match == (pytest.approx(10 / 13) if is_used else 0)


def test_a_memory_must_have_pairs(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError):
        api.load_translator(folder, memory=str(tmp_path / "missing.tmx"))
    path = tmp_path / "memory.txt"
    path.write_text("a b\n")
    with pytest.raises(DataError) as caught:
        api.load_translator(folder, memory=str(path))
    assert caught.value.where == str(path)
    assert "two parallel files" not in str(caught.value)


def test_a_missing_gpu_is_named(folder: Path) -> None:
    import ctranslate2

    if ctranslate2.get_cuda_device_count():
        pytest.skip("there is a GPU here")
    with pytest.raises(ConfigError, match=r"(?s)'cuda'.*the device 'cpu'"):
        api.load_translator(folder, engine="ctranslate2", device="cuda")


# The command


def test_the_command_translates_with_either_engine(folder: Path) -> None:
    stdin = "s1 s2\n\ns3 s4 s8\n"
    lines = [
        run("translate", str(folder), "--engine", name, "--beam-size", "1", stdin=stdin)
        for name in ("torch", "ctranslate2", "auto")
    ]
    assert lines[0][0] == 0
    assert lines[0][1].count("\n") == 3
    assert lines[1] == lines[2] == lines[0]


@pytest.mark.parametrize("form", [["--scores"], ["--n-best", "3"], ["--json"]])
def test_scores_are_written_if_they_are_requested(folder: Path, form: list[str]) -> None:
    command = ["translate", str(folder), "--engine", "ctranslate2", *form]
    code, out, _ = run(*command, stdin="s1 s2\n")
    assert code == 0
    assert "nan" not in out.lower()
    if form == ["--json"]:
        (hypothesis,) = json.loads(out)["hypotheses"]
        assert sum(hypothesis["token_scores"]) == pytest.approx(hypothesis["score"])


def test_the_command_warns_of_a_stale_export_and_continues(stale: Path) -> None:
    code, out, err = run("translate", str(stale), "--device", "cpu", stdin="s1 s2\n")
    assert (code, out.count("\n")) == (0, 1)
    assert "warning: PyTorch translates" in err
    assert f"clearhead export {stale} --format ctranslate2" in err
    code, out, err = run("translate", str(stale), "--engine", "ctranslate2", stdin="s1 s2\n")
    assert (code, out) == (ExportError.exit_code, "")
    assert "weights" in err


def test_evaluate_scores_either_engine(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "source").write_text("s1 s2 s3\ns4 s5\ns8 s1\n")
    (tmp_path / "reference").write_text("t1 t2 t3\nt4 t5\nt8 t1\n")
    files = ["--source", str(tmp_path / "source"), "--reference", str(tmp_path / "reference")]
    found = [
        run("evaluate", str(folder), *files, "--json", "--beam-size", "1", "--engine", name)
        for name in ("torch", "ctranslate2")
    ]
    assert found[0][0] == 0
    assert found[0] == found[1]
    rough = run(
        "evaluate", str(folder), *files, "--engine", "ctranslate2", "--compute-type", "int8"
    )
    assert rough[0] == 0
    assert (
        run("evaluate", str(folder), *files, "--compute-type", "int8")[0] == ConfigError.exit_code
    )


TORCH_FREE = """
import sys
from clearhead.cli import main
try:
    main()
finally:
    print("torch" in sys.modules, file=sys.stderr)
"""


@pytest.fixture
def bare_environment() -> dict[str, str]:
    """The environment without the variables that measure coverage in subprocesses."""
    return {k: v for k, v in os.environ.items() if not k.startswith("COVERAGE")}


@pytest.mark.slow
@pytest.mark.parametrize("options", [["--engine", "ctranslate2"], ["--device", "cpu"]])
@pytest.mark.parametrize("form", [[], ["--json"]])
def test_with_an_export_the_command_translates_without_torch(
    folder: Path, bare_environment: dict[str, str], options: list[str], form: list[str]
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", TORCH_FREE, "translate", str(folder), *options, *form],
        input="s1 s2\ns3\n",
        capture_output=True,
        text=True,
        check=True,
        env=bare_environment,
    )
    assert done.stderr == "False\n"
    assert done.stdout.count("\n") == 2


# What others do to the folder and to the process


@pytest.mark.parametrize("engine", ["auto", "ctranslate2"])
def test_a_loaded_model_stays_the_same_if_another_replaces_it(
    engine: str, folder: Path, tmp_path: Path
) -> None:
    before = api.load_translator(folder, engine="torch")
    path = Path(shutil.copytree(folder, tmp_path / "run"))
    loaded = api.load_translator(path, engine=engine)
    other = random_folder(tmp_path / "other", small_config(d_model=8, d_ff=8), seed=9)
    for file in other.iterdir():
        os.replace(file, path / file.name)
    text = before.source_tokenizer.decode([4, 5, 6])
    target = before.translate([text], max_length=5)[0][0].text
    for name, weights in before.model.state_dict().items():
        assert torch.equal(loaded.model.state_dict()[name], weights)
    ours, theirs = (clearhead.record(each, text, target) for each in (loaded, before))
    assert np.array_equal(ours.logits, theirs.logits)
    if engine == "auto":
        drawn = [t.translate([text], method="sampling", max_length=5) for t in (loaded, before)]
        assert drawn[0] == drawn[1]


def test_the_file_of_a_loaded_model_is_closed_with_it(folder: Path) -> None:
    def opened() -> int:
        return sum(os.path.samefile(folder / WEIGHTS, f"/dev/fd/{n}") for n in descriptors())

    def descriptors() -> list[int]:
        numbers = map(int, os.listdir("/dev/fd"))
        return [n for n in numbers if os.path.exists(f"/dev/fd/{n}")]

    gc.collect()  # models of other tests
    loaded = api.load_translator(folder)
    assert opened() == 1
    del loaded
    gc.collect()
    assert opened() == 0


def test_damaged_weights_are_named_also_if_they_are_read_late(folder: Path, tmp_path: Path) -> None:
    path = Path(shutil.copytree(folder, tmp_path / "run"))
    loaded = api.load_translator(path)
    with (path / WEIGHTS).open("r+b") as file:
        file.truncate(100)
    with pytest.raises(ModelFolderError) as caught:
        _ = loaded.model
    assert caught.value.where == str(path / WEIGHTS)


def test_after_a_fork_an_export_that_was_replaced_is_an_error(folder: Path, tmp_path: Path) -> None:
    path = Path(shutil.copytree(folder, tmp_path / "run"))
    loaded = api.load_translator(path, engine="ctranslate2")
    text = loaded.source_tokenizer.decode([4, 5, 6])
    expected = loaded.translate([text])
    loaded.engine.translators.forget()  # pyright: ignore[reportAttributeAccessIssue]
    assert loaded.translate([text]) == expected
    loaded.engine.translators.forget()  # pyright: ignore[reportAttributeAccessIssue]
    (path / NAME / MODEL).unlink()
    with pytest.raises(ExportError) as caught:
        loaded.translate([text])
    assert caught.value.where == str(path / NAME)


FORKS = """
import multiprocessing, os, signal, sys
from concurrent.futures import ProcessPoolExecutor
import clearhead, torch
from clearhead.settings import config_from

folder, run = sys.argv[1], config_from(eval(sys.argv[2]))
torch.set_num_threads(2)

def uses_threads():
    return float((torch.ones(2**20) / 3).exp().sum()) > 0

def in_fork(works, leave):
    if pid := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    signal.alarm(100)  # a process that hangs ends, and the test fails
    right = works()
    sys.stdout.flush()
    leave(0 if right else 1)

def translates(model, expected):
    return lambda: [h[0].text for h in model.translate(TEXTS)] == expected

def in_pool(number):
    signal.alarm(100)
    return [h[0].text for h in models["auto"].translate(TEXTS)] == expected["auto"]

uses_threads()
TEXTS = ["a b c d", "b c"] * 10
found = {}
load = lambda engine: clearhead.load(folder, engine=engine, threads=2)
ENGINES = "auto", "torch", "ctranslate2"
# PyTorch was imported and used here, clearhead has loaded nothing yet.
for engine in ENGINES:
    found["first " + engine] = in_fork(lambda: bool(load(engine).translate(TEXTS)), os._exit)
models = {engine: load(engine) for engine in ENGINES}
expected = {engine: [h[0].text for h in model.translate(TEXTS)] for engine, model in models.items()}
for engine, model in models.items():
    works = translates(model, expected[engine])
    found["loaded " + engine] = in_fork(works, sys.exit)
    found["anew " + engine] = in_fork(translates(load(engine), expected[engine]), os._exit)
    found["twice " + engine] = in_fork(lambda: in_fork(works, os._exit), os._exit)
    found["still here " + engine] = works()
found["unused"] = in_fork(lambda: True, sys.exit)
found["own tensors"] = in_fork(uses_threads, os._exit)
found["record"] = in_fork(lambda: clearhead.record(models["auto"], "a", "b"), os._exit)
found["training"] = in_fork(lambda: clearhead.train(run, observers=()).finished, os._exit)
with ProcessPoolExecutor(2, multiprocessing.get_context("fork")) as pool:
    found["pool"] = all(pool.map(in_pool, range(3)))
print([name for name, right in found.items() if not right], len(found))
"""


def test_a_process_that_is_forked_translates_and_trains(folder: Path, tmp_path: Path) -> None:
    run = asdict(small_run(tmp_path, max_steps=2, validate_every=2))
    others = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    done = subprocess.run(
        [sys.executable, "-c", FORKS, str(folder), repr(run)],
        env={**others, "GOMP_SPINCOUNT": "1000"},
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.stdout.split("\n")[-2] == "[] 20", done.stderr


# Ensembles and glossaries


def test_several_folders_are_an_ensemble(folder: Path, tmp_path: Path) -> None:
    shape = small_config(output_bias=True, d_ff=24)
    other = random_folder(tmp_path / "other", shape, seed=5, scale=0.5, ends=1.5)
    both = api.load_translator([folder, other], device="cpu")
    assert both.is_ensemble
    one, two = (api.load_translator(path, engine="torch", device="cpu") for path in (folder, other))
    assert not one.is_ensemble
    texts, targets = ["s1 s2", "", "s0"], ["t1", "t2 t3", ""]
    scored = [each.score(texts, targets)[0].score for each in (both, one, two)]
    assert len(set(scored)) == 3
    assert len(both.translate(texts, beam_size=2)) == 3
    with pytest.raises(ConfigError):
        clearhead.record(both, "s1", "t1")
    assert api.load_translator([folder], engine="torch", device="cpu").translate(
        ["s1"]
    ) == one.translate(["s1"])
    assert two.folder.path == other


def test_models_that_do_not_fit_are_no_ensemble(folder: Path, tmp_path: Path) -> None:
    joint = random_folder(tmp_path / "joint", small_config(share_embeddings="all"))
    with pytest.raises(ConfigError) as found:
        api.load_translator([folder, joint])
    assert str(joint) in str(found.value.where)
    with pytest.raises(ConfigError):
        api.load_translator([folder, folder], engine="ctranslate2")
    with pytest.raises(ConfigError):
        api.load_translator([])
    other = shutil.copytree(folder, tmp_path / "other")
    tree = json.loads((without_manifest(other) / "config.json").read_text())
    tree["config"]["data"]["source_language"] = "tr"
    (other / "config.json").write_text(json.dumps(tree))
    with pytest.raises(ConfigError):
        api.load_translator([folder, other])
    tree["config"]["task"] = "classification"
    (other / "config.json").write_text(json.dumps(tree))
    with pytest.raises(ModelFolderError):
        api.load_translator([folder, other])


def test_a_glossary_is_a_file_or_a_mapping(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "terms.tsv"
    path.write_text("s1|s3\tt1|t3\ns2\tunknown\n")
    for glossary in (path, str(path), {"s1|s3": "t1|t3", "s2": "unknown"}):
        for engine in ("auto", "torch"):
            translator = api.load_translator(folder, engine=engine, device="cpu", glossary=glossary)
            found = translator.translate(["s4 s3", "s4"], beam_size=2)
            assert {"t1", "t3", "T1", "T3"} & {*found[0][0].text.split()}
            assert not found[0][0].warnings
        with pytest.warns(TextWarning):
            ((best, *_),) = translator.translate(["s2"])
        assert [each.kind for each in best.warnings] == ["term"]
    with pytest.raises(SearchError):
        translator.translate(["s1"], method="sampling")
    with pytest.raises(DataError):
        api.load_translator(folder, glossary=tmp_path / "none.tsv")
    path.write_text("s1\t\n")
    for glossary in (path, {"s1": " | "}):
        with pytest.raises(DataError):
            api.load_translator(folder, glossary=glossary)
    for wrong in ({"s1": 2}, [("s1", "t1")]):
        with pytest.raises(ConfigError):
            api.load_translator(folder, glossary=cast(Any, wrong))


def test_ctranslate2_alone_warns_of_terms_that_it_lacks(folder: Path) -> None:
    glossary = {f"s{n}": f"t{n + 1}" for n in range(4)}
    texts = [f"s{n} s4" for n in range(4)]
    auto, alone = (
        api.load_translator(folder, engine=engine, device="cpu", glossary=glossary)
        for engine in ("auto", "ctranslate2")
    )

    def lacking(translator: api.Translator) -> int:
        found = (best.warnings for best, *_ in translator.translate(texts, beam_size=2))
        return sum("term" in [each.kind for each in warnings] for warnings in found)

    assert lacking(auto) == 0
    assert cast(AutoEngine, auto.engine).repeated
    with pytest.warns(TextWarning):
        assert lacking(alone)


def test_a_translation_of_the_memory_without_a_term_is_warned_of(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Confidence, "of", lambda _: UNSURE)
    path = tmp_path / "memory.tsv"
    path.write_text("s1 s2 s4\tt1\n")
    choices: dict[str, Any] = {"memory": path, "match": 0.5, "device": "cpu"}
    for glossary, kinds in (({"s2": "t2"}, ["term"]), ({"s2": "t1"}, [])):
        translator = api.load_translator(folder, glossary=glossary, **choices)
        ((same,), (similar,)) = translator.translate(["s1 s2 s4", "s1 s2 s3"])
        assert [each.kind for each in same.warnings] == kinds
        # The translation of a similar text is only taken if it has the terms.
        assert bool(similar.match) == (not kinds)


# Changes of the model


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["ctranslate2", "auto", "torch"])
def test_edits_act_with_every_engine_and_end(folder: Path, engine: Any) -> None:
    text = " ".join(SOURCE_WORDS[:4])
    translator = api.load_translator(folder, engine=engine, device="cpu")
    before, seen = translator.translate([text], beam_size=2), translator.engine
    with clearhead.edit(translator) as e:
        e.scale("encoder", 0.0)
        edited = translator.translate([text], beam_size=2)
        off = api.load_translator(folder, engine="torch", ablate="encoder", device="cpu")
        assert_same(off.translate([text], beam_size=2), edited)
        logits = clearhead.record(translator, text, edited[0][0]).logits
        assert np.allclose(logits, clearhead.record(off, text, edited[0][0]).logits, atol=1e-5)
    assert translator.engine is seen
    assert_same(translator.translate([text], beam_size=2), before)


@pytest.mark.slow
def test_a_changed_model_acts_or_is_refused(folder: Path) -> None:
    text = " ".join(SOURCE_WORDS[:4])
    for change in (
        lambda model: model.decoder.register_forward_hook(lambda m, args, output: -output),
        lambda model: model.decoder.norm.weight.detach().mul_(-1),
    ):
        exported = api.load_translator(folder, engine="ctranslate2")
        plain = exported.translate([text])
        change(exported.model)
        with pytest.raises(ConfigError) as caught:
            exported.translate([text])
        assert "clearhead.edit" in str(caught.value.todo)
        with pytest.raises(ConfigError):
            exported.score([text], ["x"])
        translator = api.load_translator(folder, engine="torch", device="cpu")
        change(translator.model)
        assert translator.translate([text])[0][0].score != pytest.approx(plain[0][0].score)
