"""An imported Marian translator does what a trained one does, and translates as the original."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import clearhead
from clearhead import api
from clearhead.api.exporting import export_model
from clearhead.data.reading.phrasebook import phrasebook_pairs
from clearhead.errors import ModelFolderError
from clearhead.formats.huggingface import translators
from clearhead.formats.huggingface.reading import import_model
from clearhead.settings import DropoutConfig, RunConfig, config_from
from clearhead.tokenizer import BOS, EOS
from clearhead.tokenizer.marian import MarianTokenizer
from fake_translator import run
from marian_models import TAGS, write_marian
from small_runs import Watcher, assert_same, final_state

pytestmark = pytest.mark.slow

transformers = pytest.importorskip("transformers")

TEXTS = [pair[0] for pair in phrasebook_pairs("phrasebook:en-es", "train")[:12]]
FILES: list[dict[str, Any]] = [{}, {"tags": TAGS}, {"separate": True}]


@pytest.fixture(scope="module")
def hf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_marian(tmp_path_factory.mktemp("marian") / "hf")


@pytest.fixture(scope="module")
def imported(hf: Path) -> Path:
    return import_model(hf, hf.with_name("imported"))


def greedy(hf: Path, texts: list[str], length: int) -> list[str]:
    """Greedy translations by transformers."""
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(hf).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(hf)
    batch = tokenizer(texts, return_tensors="pt", padding=True)
    outputs = model.generate(**batch, num_beams=1, max_new_tokens=length, max_length=None)
    return tokenizer.batch_decode(outputs, skip_special_tokens=True)


def translations(folder: Path, texts: list[str], engine: str = "torch") -> list[str]:
    """Greedy translations by clearhead."""
    found = api.load_translator(folder, engine=engine).translate(texts, beam_size=1, max_length=12)
    return [best.text for (best,) in found]


@pytest.mark.parametrize("files", FILES, ids=str)
def test_it_translates_as_transformers_by_both_engines(
    files: dict[str, Any], tmp_path: Path
) -> None:
    hf = write_marian(tmp_path / "hf", seed=3, files=files, d_model=16)
    texts = [f"{TAGS[0]} {text}" for text in TEXTS] if "tags" in files else TEXTS
    expected = greedy(hf, texts, 12)
    folder = import_model(hf, tmp_path / "ours")
    assert len(set(expected)) > 1
    assert translations(folder, texts) == expected
    export_model(folder)
    assert translations(folder, texts, "ctranslate2") == expected
    search = api.load_translator(folder).config.search
    assert search.beam_size == 4
    # ((5 + 15) / 6) ** α and 15 ** λ grow by the same factor from here, with λ = 1 as is usual.
    assert search.length_penalty / (5 + 15) == pytest.approx(1 / 15, rel=1e-4)


def fine_tuning(folder: Path, hf: Path, **changes: Any) -> RunConfig:
    tree = {
        "folder": str(folder),
        "start_from": str(hf),
        "data": {"train": ["phrasebook:en-es"], "validation": ["phrasebook:en-es"]},
        "training": {
            **{"batch_tokens": 200, "max_steps": 12, "validate_every": 4, "average_last": 2},
            "schedule": {"kind": "linear", "peak": 1e-3, "warmup": 3},
        },
        "search": {"beam_size": 2, "max_length": 8},
        "evaluation": {"max_sentences": 8},
    }
    return config_from(tree | changes)


def test_it_is_fine_tuned_and_resumed_bit_identically(hf: Path, tmp_path: Path) -> None:
    whole = api.train(fine_tuning(tmp_path / "whole", hf), observers=[])
    assert whole.finished
    config = fine_tuning(tmp_path / "parts", hf)
    assert not api.train(config, observers=[Watcher(interrupt_at=4)]).finished
    assert api.train(config, observers=[]).finished
    assert_same(final_state(fine_tuning(tmp_path / "whole", hf)), final_state(config))
    kept = api.load_translator(config.folder)
    assert kept.config.model.dropout == DropoutConfig(embeddings=0.1, residual=0.1)
    assert len(kept.translate(TEXTS)) == len(TEXTS)


def test_without_a_step_of_training_it_is_the_original(hf: Path, tmp_path: Path) -> None:
    config = fine_tuning(tmp_path / "run", hf)
    still = replace(config.training, schedule=replace(config.training.schedule, peak=1e-30))
    api.train(replace(config, training=still), observers=[])
    assert translations(Path(config.folder), TEXTS) == greedy(hf, TEXTS, 12)


def test_a_classifier_starts_from_its_encoder(imported: Path, tmp_path: Path) -> None:
    data = tmp_path / "train.tsv"
    data.write_text("".join(f"{'ab'[i % 2]}\tthe cat {i}\n" for i in range(60)), encoding="utf-8")
    tree = {
        **{"task": "classification", "folder": str(tmp_path / "run")},
        **{"start_from": str(imported), "data": {"train": [str(data)]}},
        "training": {"max_steps": 4, "validate_every": 4},
    }
    assert api.train(config_from(tree), observers=[]).finished
    classifier = api.load_classifier(tmp_path / "run")
    ids, names = classifier.encode("the cat")
    assert (ids[-1], names[-1]) == (EOS, "</s>")


def test_the_record_of_its_translation_has_the_attention_of_transformers(
    hf: Path, imported: Path
) -> None:
    translator = api.load_translator(imported, engine="torch")
    tokens = translator.target_tokenizer
    assert isinstance(tokens, MarianTokenizer)
    for text in TEXTS[:3]:
        ((best,),) = translator.translate([text], beam_size=1, max_length=12)
        found = clearhead.record(translator, text, best)
        # The record replays the search: at each position the token that was chosen.
        chosen = [*best.tokens, EOS][: len(best.token_scores)]
        shifted = np.exp(found.logits - found.logits.max(axis=-1, keepdims=True))
        probabilities = shifted / shifted.sum(axis=-1, keepdims=True)
        np.testing.assert_allclose(probabilities.sum(axis=-1), 1, rtol=1e-6)
        likely = probabilities[: len(chosen)]
        assert likely.argmax(axis=-1).tolist() == chosen
        scores = np.log(likely[np.arange(len(chosen)), chosen])
        np.testing.assert_allclose(scores, best.token_scores, atol=1e-4)

        model = transformers.AutoModelForSeq2SeqLM.from_pretrained(hf, attn_implementation="eager")
        source = transformers.AutoTokenizer.from_pretrained(hf)(text, return_tensors="pt")
        read = tokens.numbering.theirs[[BOS, *best.tokens]][None]
        given = torch.from_numpy(read[:, : len(found.target)])
        with torch.inference_mode():
            theirs = model.eval()(**source, decoder_input_ids=given, output_attentions=True)
        for name in ("encoder_attentions", "decoder_attentions", "cross_attentions"):
            ours = getattr(found, name)
            np.testing.assert_allclose(ours.sum(axis=-1), 1, rtol=1e-5)
            expected = torch.cat(getattr(theirs, name)).numpy()
            np.testing.assert_allclose(ours, expected, atol=1e-5)


@pytest.mark.parametrize("damage", ["activation", "vocabulary", "end", "unknown", "spm"])
def test_what_cannot_be_imported_is_refused_by_name(tmp_path: Path, damage: str) -> None:
    hf, ours = tmp_path / "hf", tmp_path / "ours"
    activation = "tanh" if damage == "activation" else "swish"
    write_marian(hf, activation_function=activation)
    vocabulary = json.loads((hf / "vocab.json").read_text())
    if damage == "vocabulary":
        (hf / "vocab.json").write_text(json.dumps(vocabulary | {"more": len(vocabulary)}))
    elif damage == "end":
        vocabulary["</s>"], vocabulary["<unk>"] = vocabulary["<unk>"], vocabulary["</s>"]
        (hf / "vocab.json").write_text(json.dumps(vocabulary))
    elif damage == "unknown":
        del vocabulary["<unk>"]
        (hf / "vocab.json").write_text(json.dumps(vocabulary))
    elif damage == "spm":
        (hf / "source.spm").write_bytes(b"nothing")
    code, out, err = run("import", "hf", str(hf), str(ours))
    assert (code, out) == (ModelFolderError.exit_code, "")
    assert str(hf) in err
    assert "Traceback" not in err
    assert not ours.exists()


def test_an_import_that_computes_something_else_is_refused(
    hf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = translators.model_settings

    def other(*arguments: Any) -> Any:
        return replace(settings(*arguments), activation="relu")

    monkeypatch.setattr(translators, "model_settings", other)
    with pytest.raises(ModelFolderError) as caught:
        import_model(hf, tmp_path / "ours")
    assert "logits" in str(caught.value.why)
    assert not (tmp_path / "ours").exists()


def test_a_vocabulary_may_name_fewer_tokens_than_the_model_has(tmp_path: Path) -> None:
    hf = write_marian(tmp_path / "hf")
    vocabulary = json.loads((hf / "vocab.json").read_text())
    removed = next(name for name, i in vocabulary.items() if i == 30)
    del vocabulary[removed]
    (hf / "vocab.json").write_text(json.dumps(vocabulary))
    translator = api.load_translator(import_model(hf, tmp_path / "ours"))
    assert "<32>" in translator.target_tokenizer.pieces(range(40))
