"""Model folders with random weights, made without training, and what runs them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from clearhead.decoding.ctranslate2_engine import CTranslate2Engine
from clearhead.decoding.ctranslate2_library import NAME, read_ctranslate2
from clearhead.decoding.engine import Hypothesis
from clearhead.decoding.torch_engine import TorchEngine, trained_translator
from clearhead.folder.model_folder import open_folder, write_folder
from clearhead.folder.tensors import parameters_of
from clearhead.model.build import build_model
from clearhead.settings import (
    DataConfig,
    Learned,
    ModelConfig,
    RunConfig,
    SearchConfig,
    TokenizerConfig,
)
from clearhead.tokenizer import EOS, Tokenizer, WordTokenizer, learn_tokenizer, tokenizer_files
from model_folders import replace_tensors
from small_models import small_config

SOURCE_WORDS = [f"s{n}" for n in range(9)]
TARGET_WORDS = [f"t{n}" for n in range(12)]
JOINT_WORDS = [f"j{n}" for n in range(11)]


def words(texts: Iterable[str]) -> WordTokenizer:
    return WordTokenizer(sorted(texts))


def pieces(texts: Iterable[str]) -> Tokenizer:
    config = TokenizerConfig(kind="bpe", max_vocabulary=40, byte_fallback=False)
    return learn_tokenizer(texts, config)


def random_folder(
    path: Path,
    model: ModelConfig | None = None,
    *,
    seed: int = 1,
    scale: float = 0.4,
    ends: float = 0.0,
    tokenizers: tuple[Tokenizer, Tokenizer] | None = None,
    search: SearchConfig | None = None,
    languages: tuple[str, str] = ("", ""),
) -> Path:
    """A translator's folder with every parameter drawn; the vocabularies fit the sharing.

    `ends` is added to the bias of the end symbol, where there is one: outputs end earlier.
    """
    model = small_config() if model is None else model
    joint = model.shares_inputs
    if tokenizers is None:
        both = words(JOINT_WORDS)
        tokenizers = (both, both) if joint else (words(SOURCE_WORDS), words(TARGET_WORDS))
    kind = "words" if isinstance(tokenizers[0], WordTokenizer) else "bpe"
    config = RunConfig(
        tokenizer=TokenizerConfig(kind=kind, joint=joint),
        model=model,
        search=SearchConfig(max_length_offset=5) if search is None else search,
        data=data_config(model, languages),
    )
    write_folder(path, config, tokenizer_files(*tokenizers, joint))
    write_random_weights(path, config, tokenizers, seed, scale, ends)
    return path


def data_config(model: ModelConfig, languages: tuple[str, str]) -> DataConfig:
    found = DataConfig(source_language=languages[0], target_language=languages[1])
    if isinstance(model.positions, Learned):
        found = replace(found, max_length=model.positions.max_length - 1)
    return found


def write_random_weights(
    path: Path,
    config: RunConfig,
    tokenizers: tuple[Tokenizer, Tokenizer],
    seed: int,
    scale: float = 0.4,
    ends: float = 0.0,
) -> None:
    torch.manual_seed(seed)
    model = build_model(config.model, len(tokenizers[0]), len(tokenizers[1]))
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=scale)
    if ends:
        with torch.no_grad():
            model.output.bias[EOS] += ends
    replace_tensors(path, "weights.safetensors", parameters_of(model), {})


def torch_engine(folder: Path) -> TorchEngine:
    return TorchEngine(trained_translator(open_folder(folder), torch.device("cpu")))


def fast_engine(folder: Path, threads: int = 1, **choices: Any) -> CTranslate2Engine:
    exported = read_ctranslate2(folder / NAME, open_folder(folder))
    return CTranslate2Engine(exported, threads=threads, **choices)


def forced_scores(engine: TorchEngine, source: list[int], output: tuple[int, ...]) -> list[float]:
    """The model's log-probability of each token of an output and of the end symbol after it."""
    with torch.inference_mode():
        logits = engine.model(torch.tensor([source]), torch.tensor([[1, *output]]))
        scores = logits[0].log_softmax(-1)
    return scores.gather(1, torch.tensor([[*output, 2]]).T)[:, 0].tolist()


def assert_same(left: list[list[Hypothesis]], right: list[list[Hypothesis]]) -> None:
    """The same tokens, and scores that differ as float32 sums do."""
    assert [[h.tokens for h in each] for each in left] == [
        [h.tokens for h in each] for each in right
    ]
    for a, b in zip((h for x in left for h in x), (h for x in right for h in x), strict=True):
        assert a.finished == b.finished
        assert a.token_scores == pytest.approx(b.token_scores, rel=1e-4, abs=1e-4)
        assert a.score == pytest.approx(b.score, rel=1e-4, abs=1e-4)
        assert a.normalised_score == pytest.approx(b.normalised_score, rel=1e-4, abs=1e-4)
