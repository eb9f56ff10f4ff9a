"""Packages for Argos Translate: what it reads, and that it translates the same."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from clearhead import api
from clearhead.errors import ExportError
from clearhead.folder.model_folder import open_folder
from clearhead.formats import argos
from clearhead.settings import DataConfig, DropoutConfig, ScheduleConfig, TokenizerConfig
from exported_models import pieces, random_folder
from small_models import small_config
from small_runs import small_run

PROGRAM = """
import json, sys
from pathlib import Path
from argostranslate import package, translate
package.install_from_path(Path(sys.argv[1]))
(found,) = [each for each in translate.get_installed_languages() if each.code == "en"]
to = next(each for each in translate.get_installed_languages() if each.code == "es")
translation = found.get_translation(to)
inner = getattr(translation, "underlying", translation)
# Its own division into sentences needs a model from the network.
inner.sentencizer.split_sentences = lambda text: [text]
names = [found.name, to.name]
print(json.dumps([names, [translation.translate(text) for text in json.load(sys.stdin)]]))
"""
TEXTS = ["the dog sleeps", "the cat is big", "a house", "the big dogs", "i love you ☃"]


def trained(folder: Path) -> Path:
    """A model whose translations end."""
    schedule = ScheduleConfig(kind="linear", peak=8e-3, warmup=30)
    steps = {"max_steps": 300, "validate_every": 300, "batch_tokens": 1500, "schedule": schedule}
    config = small_run(folder, **steps)
    book = ("phrasebook:en-es",)
    config = dataclasses.replace(
        config,
        data=DataConfig(train=book, validation=book, drop_duplicates=False),
        tokenizer=TokenizerConfig(max_vocabulary=300, byte_fallback=False),
        model=dataclasses.replace(
            config.model, d_model=32, d_ff=64, dropout=DropoutConfig.everywhere(0.0)
        ),
    )
    api.train(config)
    return Path(config.folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    both = pieces(TEXTS * 3)
    path = tmp_path_factory.mktemp("argos") / "model"
    model = small_config(share_embeddings="all")
    return random_folder(path, model, tokenizers=(both, both), languages=("en", "de"))


@pytest.fixture(scope="module")
def package(folder: Path) -> Path:
    (found,) = api.export_model(folder, "argos").glob("*.argosmodel")
    return found


def test_the_files_of_a_package(folder: Path, package: Path) -> None:
    assert package.name == "translate-en_de.argosmodel"
    with zipfile.ZipFile(package) as found:
        names = {Path(name).relative_to("translate-en_de").as_posix() for name in found.namelist()}
        metadata = json.loads(found.read("translate-en_de/metadata.json"))
        pieces = found.read("translate-en_de/sentencepiece.model")
    assert {"metadata.json", "sentencepiece.model", "model/model.bin"} < names
    assert (metadata["from_code"], metadata["to_name"]) == ("en", "German")
    assert pieces == next(folder.glob("*.model")).read_bytes()
    assert {path.name for path in package.parent.iterdir()} == {package.name, "clearhead.json"}


@pytest.mark.skipif(find_spec("argostranslate") is None, reason="argostranslate is not installed")
@pytest.mark.slow
def test_argos_translate_gives_the_same(tmp_path: Path) -> None:
    folder = trained(tmp_path)
    (package,) = api.export_model(folder, "argos").glob("*.argosmodel")
    variables = {
        "ARGOS_BEAM_SIZE": "1",
        "ARGOS_COMPUTE_TYPE": "float32",
        "ARGOS_PACKAGES_DIR": str(tmp_path / "packages"),
        **{f"XDG_{name}_HOME": str(tmp_path / name) for name in ("DATA", "CONFIG", "CACHE")},
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, package],
        input=json.dumps(TEXTS),
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    names, found = json.loads(done.stdout.splitlines()[-1])
    assert names == ["English", "Spanish"]
    translator = api.load_translator(folder, device="cpu")
    ours = translator.hypotheses(TEXTS, search=dataclasses.replace(translator.search, beam_size=1))
    assert all(best.finished for best, *_ in ours)
    assert found == [best.text for best, *_ in ours]
    assert len({*found}) > 2


@pytest.mark.parametrize(
    ("section", "settings", "named"),
    [
        ("tokenizer", {"joint": False}, "tokenizer.joint"),
        ("tokenizer", {"lower": True}, "tokenizer.lower"),
        ("tokenizer", {"kind": "words"}, "tokenizer.kind"),
        ("data", {"target_language": ""}, "languages"),
        ("model", {"norm_form": "std_plus_epsilon"}, "model.norm_form"),
    ],
)
def test_what_a_package_cannot_have_is_refused(
    folder: Path, section: str, settings: dict[str, Any], named: str
) -> None:
    found = open_folder(folder)
    changed = dataclasses.replace(getattr(found.config, section), **settings)
    config = dataclasses.replace(found.config, **{section: changed})
    with pytest.raises(ExportError) as caught:
        argos.check(dataclasses.replace(found, config=config))
    assert named in caught.value.what
