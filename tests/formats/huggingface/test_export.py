"""Exports to Hugging Face are loaded by `transformers` without missing keys, and are equal."""

from __future__ import annotations

import dataclasses
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from clearhead.api.exporting import export_model
from clearhead.data.reading.phrasebook import phrasebook_pairs
from clearhead.decoding.texts import translate_texts
from clearhead.decoding.torch_engine import TorchEngine, trained_translator
from clearhead.errors import ExportError
from clearhead.folder.model_folder import open_folder, write_folder
from clearhead.folder.tensors import read_tensors
from clearhead.formats.huggingface import translators
from clearhead.formats.huggingface.reading import import_model
from clearhead.formats.registry import export
from clearhead.settings import Learned, NoPositions, RunConfig, SearchConfig, TokenizerConfig
from clearhead.tokenizer import SentencePieceTokenizer, tokenizer_files
from exported_models import write_random_weights
from marian_models import TAGS, write_marian
from small_models import small_config
from small_runs import assert_same

pytestmark = pytest.mark.slow

transformers = pytest.importorskip("transformers")

TEXTS = [pair[0] for pair in phrasebook_pairs("phrasebook:en-es", "train")[:20]]


@cache
def pieces(kind: Any = "bpe") -> SentencePieceTokenizer:
    pairs = phrasebook_pairs("phrasebook:en-es", "train")[:500]
    config = TokenizerConfig(kind=kind, max_vocabulary=400)
    return SentencePieceTokenizer.learn([text for pair in pairs for text in pair], config)


def translator(path: Path, kind: Any = "bpe", joint: bool = True, **choices: Any) -> Path:
    """A translator with pieces, whose weights are random."""
    tokenizer = TokenizerConfig(kind=kind, joint=joint)
    search = SearchConfig(max_length_offset=5)
    config = RunConfig(tokenizer=tokenizer, model=small_config(**choices), search=search)
    both = pieces(kind), pieces(kind)
    write_folder(path, config, tokenizer_files(*both, joint))
    write_random_weights(path, config, both, 1, 0.4, 0.0)
    return path


POST: list[dict[str, Any]] = [
    *(dict(share_embeddings=share) for share in ("all", "target", "inputs", "none")),
    *(dict(activation=activation) for activation in ("gelu", "gelu_tanh", "swish")),
    dict(scale_embeddings=False, output_bias=True),
    dict(attention_bias=False, feed_forward_bias=False),
    dict(kind="unigram", encoder_layers=3),
]
PRE: list[dict[str, Any]] = [
    dict(share_embeddings="all"),
    dict(share_embeddings="all", output_bias=True, scale_embeddings=False, activation="gelu"),
]


@pytest.mark.parametrize(
    "choices",
    [*(dict(norm="post", **each) for each in POST), *(dict(norm="pre", **each) for each in PRE)],
    ids=str,
)
def test_transformers_translates_as_the_model(choices: dict[str, Any], tmp_path: Path) -> None:
    folder = translator(tmp_path / "run", **choices)
    found = open_folder(folder)
    (compared,) = export(found, "huggingface", tmp_path / "export")
    assert "the same" in compared
    theirs, facts = transformers.AutoModelForSeq2SeqLM.from_pretrained(
        tmp_path / "export", output_loading_info=True
    )
    assert not any(facts.values())
    penalty = found.config.search.length_penalty
    assert theirs.generation_config.length_penalty == pytest.approx(3 / 4 * penalty)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "export")
    ours = TorchEngine(trained_translator(found, torch.device("cpu")))
    search = SearchConfig(beam_size=1, max_length_ratio=0, max_length_offset=20)
    tokenizer_of_both = pieces(choices.get("kind", "bpe"))
    both = tokenizer_of_both, tokenizer_of_both
    found_texts = [best.text for (best,) in translate_texts(ours, both, TEXTS, search)]
    expected = [text.replace(" ⁇ ", "") for text in found_texts]  # unknown, which is special
    batch = tokenizer(TEXTS, return_tensors="pt", padding=True)
    outputs = theirs.eval().generate(**batch, num_beams=1, max_new_tokens=20, max_length=None)
    assert tokenizer.batch_decode(outputs, skip_special_tokens=True) == expected


@pytest.mark.parametrize(
    ("choices", "named"),
    [
        (dict(joint=False, norm="post"), "tokenizer.joint"),
        (dict(positions=Learned(max_length=2000)), "model.positions"),
        (dict(positions=NoPositions()), "model.positions"),
        (dict(norm_form="std_plus_epsilon"), "model.norm_form"),
        (dict(norm_epsilon=1e-6), "model.norm_epsilon"),
        (dict(norm="pre", final_norm=False), "model.final_norm"),
        (dict(embedding_norm=True), "model.embedding_norm"),
        (dict(input_convolution=(3,)), "model.input_convolution"),
        (dict(d_k=3), "model.d_k"),
        (dict(norm="pre", share_embeddings="none"), "model.share_embeddings"),
    ],
)
def test_what_transformers_lacks_is_refused_by_name(
    choices: dict[str, Any], named: str, tmp_path: Path
) -> None:
    sharing: dict[str, Any] = {"share_embeddings": "all"}
    folder = translator(tmp_path / "run", **(sharing | choices))
    with pytest.raises(ExportError) as caught:
        export_model(folder, "huggingface", tmp_path / "export")
    assert named in caught.value.what
    assert not (tmp_path / "export").exists()


TYINGS: list[dict[str, Any]] = [
    {"share_encoder_decoder_embeddings": share, "tie_word_embeddings": tie}
    for share in (True, False)
    for tie in (True, False)
]
IMPORTED: list[dict[str, Any]] = [
    *TYINGS,
    *(dict(each, files={"separate": True}) for each in TYINGS[2:]),
    {"files": {"tags": TAGS}, "activation_function": "swish", "scale_embedding": True},
]


@pytest.mark.parametrize("choices", IMPORTED, ids=str)
def test_an_imported_model_is_exported_with_the_same_bytes(
    choices: dict[str, Any], tmp_path: Path
) -> None:
    hf = write_marian(tmp_path / "hf", **choices)
    folder = import_model(hf, tmp_path / "ours")
    output = export_model(folder, "huggingface")
    before, after = (load_file(each / "model.safetensors") for each in (hf, output))
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    for name in ("source.spm", "target.spm"):
        assert (hf / name).read_bytes() == (output / name).read_bytes()
    theirs = [transformers.AutoTokenizer.from_pretrained(each) for each in (hf, output)]
    assert theirs[0](TEXTS).input_ids == theirs[1](TEXTS).input_ids
    assert theirs[0](text_target=TEXTS).input_ids == theirs[1](text_target=TEXTS).input_ids
    # What was exported can be imported again.
    again = import_model(output, tmp_path / "again")
    weights = (read_tensors(each / "weights.safetensors")[0] for each in (folder, again))
    assert_same(*weights)


def test_an_unequal_export_is_discarded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = translator(tmp_path / "run", norm="post", share_embeddings="all")
    config = translators.huggingface_config

    def other(settings: Any, numberings: Any) -> Any:
        return config(dataclasses.replace(settings, activation="gelu"), numberings)

    monkeypatch.setattr(translators, "huggingface_config", other)
    with pytest.raises(ExportError) as caught:
        export_model(folder, "huggingface")
    assert "differ" in str(caught.value.why)
    assert not (folder / "huggingface").exists()
