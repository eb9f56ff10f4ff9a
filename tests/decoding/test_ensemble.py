"""Several models that translate together, against a computation by hand."""

from __future__ import annotations

import pytest
import torch

from clearhead.decoding.engine import numbered
from clearhead.decoding.search import search
from clearhead.decoding.stepper import Ensemble
from clearhead.decoding.torch_engine import TorchEngine
from clearhead.model.transformer import EncoderDecoder
from clearhead.settings import SearchConfig
from clearhead.tokenizer import BOS, EOS
from fake_steppers import SOURCES, TableStepper
from small_models import random_model, small_config

SOURCE = [[3, 4, 5], [6], [4, 4, 3, 5]]
TARGET = [[4, 5], [], [3, 3, 3, 6]]


@pytest.fixture(scope="module")
def models() -> list[EncoderDecoder]:
    """Two models of the same vocabulary and other sizes."""
    return [random_model(small_config()), random_model(small_config(d_ff=24, norm="pre"))]


def by_hand(models: list[EncoderDecoder], source: list[int], target: list[int]) -> list[float]:
    """The log-probability of each token: the normalised mean of those of the models."""
    inputs, outputs = torch.tensor([[BOS, *target]]), torch.tensor([*target, EOS])
    logs = [each(torch.tensor([source]), inputs).log_softmax(-1)[0].double() for each in models]
    mean = torch.stack(logs).mean(dim=0)
    return (mean - mean.exp().sum(-1, keepdim=True).log())[range(len(outputs)), outputs].tolist()


@torch.inference_mode()
def test_an_ensemble_scores_as_by_hand(models: list[EncoderDecoder]) -> None:
    engine = TorchEngine(models[0], others=models[1:])
    for source, target, found in zip(SOURCE, TARGET, engine.score(SOURCE, TARGET), strict=True):
        assert found == pytest.approx(by_hand(models, source, target), abs=1e-5)
    alone = TorchEngine(models[0])
    assert alone.score(SOURCE, TARGET) != engine.score(SOURCE, TARGET)
    assert engine.longest_source == alone.longest_source


@torch.inference_mode()
@pytest.mark.parametrize("beam_size", [1, 3])
def test_an_ensemble_searches_by_these_scores(models: list[EncoderDecoder], beam_size: int) -> None:
    engine = TorchEngine(models[0], others=models[1:])
    config = SearchConfig(beam_size=beam_size, n_best=beam_size, max_length=8)
    for source, hypotheses in zip(SOURCE, engine.translate(numbered(SOURCE), config), strict=True):
        for each in hypotheses:
            wanted = by_hand(models, source, list(each.tokens))[: len(each.token_scores)]
            assert each.token_scores == pytest.approx(wanted, abs=1e-5)


def test_a_model_twice_is_the_model() -> None:
    config = SearchConfig(beam_size=3, n_best=3)
    alone = search(TableStepper(), numbered(SOURCES), config)
    twice = search(Ensemble([TableStepper(), TableStepper()]), numbered(SOURCES), config)
    for one, other in zip(alone, twice, strict=True):
        assert [each.tokens for each in one] == [each.tokens for each in other]
        assert [each.score for each in one] == pytest.approx([each.score for each in other])
