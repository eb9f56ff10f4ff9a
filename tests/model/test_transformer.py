"""Tests that padding, future tokens, other sentences and the cache do not change an output."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from clearhead.decoding import cache
from clearhead.decoding.fast_decoder import FastDecoder
from clearhead.model.attention import Attend, explicit_attention, fused_attention
from clearhead.model.dropout import Dropout, DroppedReLU
from clearhead.model.layers import EncoderLayer
from clearhead.model.transformer import EncoderDecoder
from clearhead.settings import DropoutConfig, ModelConfig, NoPositions
from small_models import (
    TARGET_VOCABULARY,
    configs,
    embedding_of,
    padded,
    random_ids,
    random_model,
    small_config,
)

EXACT: dict[str, Any] = {"rtol": 0, "atol": 1e-11}

forms = st.sampled_from([explicit_attention, fused_attention])
sentences = st.lists(
    st.lists(st.integers(1, TARGET_VOCABULARY - 1), min_size=1, max_size=6), min_size=1, max_size=4
)


def hidden_of_each(
    model: EncoderDecoder, sources: list[list[int]], targets: list[list[int]]
) -> list[Tensor]:
    """Each pair alone, without padding."""
    return [
        model(torch.tensor([source]), torch.tensor([target]))[0]
        for source, target in zip(sources, targets, strict=True)
    ]


@pytest.mark.slow
@settings(max_examples=20)
@given(configs, forms, sentences, st.integers(0, 5), st.integers(0, 5))
def test_padding_and_the_other_sentences_of_a_batch_change_nothing(
    config: ModelConfig,
    attend: Attend,
    sources: list[list[int]],
    more_source: int,
    more_target: int,
) -> None:
    model = random_model(config, attend=attend)
    targets = [[*source[::-1], 2] for source in sources]
    alone = hidden_of_each(model, sources, targets)
    together = model(padded(sources, 6 + more_source), padded(targets, 7 + more_target))
    for row, expected in enumerate(alone):
        torch.testing.assert_close(together[row, : len(expected)], expected, **EXACT)


def test_the_gradients_of_a_padded_batch_are_the_sum_of_those_of_its_sentences() -> None:
    model = random_model(small_config(norm="pre"))
    sources, targets = [[3, 4, 5], [6], [7, 8]], [[1, 3], [1, 4, 5, 6], [1]]

    def gradients(hidden: list[Tensor]) -> tuple[Tensor, ...]:
        total = torch.stack([(h**3).sum() for h in hidden]).sum()
        used = [p for name, p in model.named_parameters() if not name.startswith("output")]
        return torch.autograd.grad(total, used)

    together = model(padded(sources, 7), padded(targets, 6))
    kept = [together[row, : len(target)] for row, target in enumerate(targets)]
    for a, b in zip(
        gradients(kept), gradients(hidden_of_each(model, sources, targets)), strict=True
    ):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


@pytest.mark.slow
@settings(max_examples=20)
@given(configs, forms, st.integers(1, 6), st.data())
def test_the_future_changes_nothing(
    config: ModelConfig, attend: Attend, length: int, data: st.DataObject
) -> None:
    model = random_model(config, attend=attend)
    source, target, other = random_ids(2, 4), random_ids(2, length), random_ids(2, length)
    known = data.draw(st.integers(0, length - 1))
    changed = torch.cat((target[:, : known + 1], other[:, known + 1 :]), dim=1)
    before, after = model(source, target), model(source, changed)
    torch.testing.assert_close(before[:, : known + 1], after[:, : known + 1], **EXACT)


def test_the_present_and_the_past_and_the_source_change_much() -> None:
    model = random_model(small_config())
    source, target = torch.tensor([[3, 4, 5]]), torch.tensor([[1, 6, 7]])
    last = model(source, target)[0, -1]
    for changed in (
        model(source, torch.tensor([[1, 6, 8]])),
        model(source, torch.tensor([[1, 5, 7]])),
        model(torch.tensor([[3, 4, 6]]), target),
        model(torch.tensor([[4, 3, 5]]), target),
    ):
        assert (changed[0, -1] - last).abs().max() > 1e-3


def test_without_positions_the_source_is_a_set() -> None:
    model = random_model(small_config(positions=NoPositions()))
    target = torch.tensor([[1, 6, 7]])
    torch.testing.assert_close(
        model(torch.tensor([[3, 4, 5]]), target), model(torch.tensor([[5, 3, 4]]), target), **EXACT
    )


def test_a_source_of_padding_alone_gives_finite_states_and_gradients() -> None:
    model = random_model(small_config())
    hidden = model(torch.tensor([[0, 0], [3, 4]]), torch.tensor([[1, 5], [1, 5]]))
    assert hidden.isfinite().all()
    hidden.sum().backward()
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    assert all(gradient.isfinite().all() for gradient in gradients)


@torch.inference_mode()
def compare_steps_with_prefixes(
    model: EncoderDecoder, source: Tensor, steps: int, moves: dict[int, list[int]]
) -> None:
    """Assert that decoding step by step, with moving rows, equals decoding the whole prefix."""
    decoder = FastDecoder(model)
    state = decoder.start(source)
    prefix = torch.empty(len(source), 0, dtype=torch.int64)
    logits = torch.empty(len(source), 0, model.output.out_features, dtype=torch.float64)
    for step in range(steps):
        if moves.get(step):
            if step > 0:
                torch.testing.assert_close(logits, model(source, prefix), **EXACT)
            rows = torch.tensor(moves[step]) % len(source)
            state.reorder(rows)
            source, prefix, logits = source[rows], prefix[rows], logits[rows]
        assert state.length == step
        tokens = torch.randint(1, TARGET_VOCABULARY, (len(source),))
        prefix = torch.cat((prefix, tokens[:, None]), dim=1)
        logits = torch.cat((logits, decoder.step(tokens, state)[:, None]), dim=1)
    torch.testing.assert_close(logits, model(source, prefix), **EXACT)


@pytest.mark.slow
@settings(max_examples=20)
@given(
    configs,
    forms,
    sentences,
    st.dictionaries(
        st.integers(0, 5), st.lists(st.integers(0, 9), min_size=1, max_size=6), max_size=6
    ),
    st.integers(1, 4),
)
def test_cached_steps_equal_the_whole_prefix_whatever_rows_are_moved(
    config: ModelConfig,
    attend: Attend,
    sources: list[list[int]],
    moves: dict[int, list[int]],
    initial_positions: int,
) -> None:
    model = random_model(config, attend=attend)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cache, "INITIAL_POSITIONS", initial_positions)
        compare_steps_with_prefixes(model, padded(sources), 6, moves)


def test_moving_the_rows_of_one_state_leaves_another_alone() -> None:
    model = random_model(small_config())
    decoder = FastDecoder(model)
    source, tokens = random_ids(2, 3), torch.tensor([3, 4])
    state, other = decoder.start(source), decoder.start(source)
    for each in (state, other):
        decoder.step(tokens, each)
    state.reorder(torch.tensor([1]))
    decoder.step(torch.tensor([9]), state)
    again = decoder.step(tokens, other)
    expected = model(source, torch.stack((tokens, tokens), dim=1))[:, -1]
    torch.testing.assert_close(again, expected, **EXACT)


def test_steps_over_a_source_of_padding_alone_are_the_model_s() -> None:
    compare_steps_with_prefixes(random_model(small_config()), torch.tensor([[0, 0], [3, 4]]), 3, {})


DROPOUT_PLACES = ["embeddings", "attention", "hidden", "residual", "layer_output"]


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_each_dropout_drops_what_its_name_says(norm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def all_or_nothing(dropout: Dropout, x: Tensor) -> Tensor:
        return torch.zeros_like(x) if dropout.rate else x

    for kind in (Dropout, DroppedReLU):
        monkeypatch.setattr(kind, "forward", all_or_nothing)
    ids, x = random_ids(2, 5), torch.randn(2, 5, 8, dtype=torch.float64)

    def model_that_drops(place: str) -> tuple[EncoderDecoder, EncoderLayer]:
        model = random_model(small_config(norm=norm, dropout=DropoutConfig(**{place: 0.5})))
        layer = model.encoder.layers[0]
        assert isinstance(layer, EncoderLayer)
        return model, layer

    model, _ = model_that_drops("embeddings")
    assert (model.source_input(ids) == 0).all()
    assert (model.target_input(ids, start=1) == 0).all()

    _, layer = model_that_drops("attention")
    attended = layer.self_attention(x)
    torch.testing.assert_close(attended, layer.self_attention.output.bias.expand_as(x))

    _, layer = model_that_drops("hidden")
    torch.testing.assert_close(layer.feed_forward(x), layer.feed_forward.output.bias.expand_as(x))

    _, layer = model_that_drops("layer_output")
    assert (layer(x, None) == 0).all()

    _, layer = model_that_drops("residual")
    first, second = (residual.get_submodule("norm") for residual in layer.residuals)
    torch.testing.assert_close(layer(x, None), x if norm == "pre" else second(first(x)))


def test_without_dropout_training_equals_evaluation() -> None:
    model = random_model(small_config())
    source, target = random_ids(2, 5), random_ids(2, 4)
    trained = model.train()(source, target)
    torch.testing.assert_close(model.eval()(source, target), trained, rtol=0, atol=0)


@pytest.mark.parametrize("place", DROPOUT_PLACES)
def test_each_place_has_its_own_number_of_dropouts(place: str) -> None:
    layers = 3
    model = random_model(
        small_config(
            encoder_layers=layers,
            decoder_layers=layers,
            dropout=DropoutConfig(**{place: 0.5}),
        )
    )
    # Figure 1: three attentions, two feed-forward networks and five residuals in a pair of layers.
    expected = {
        "embeddings": 2,
        "attention": 3 * layers,
        "hidden": 2 * layers,
        "residual": 5 * layers,
        "layer_output": 2 * layers,
    }
    active = [m for m in model.modules() if getattr(m, "rate", 0.0) == 0.5]
    assert len(active) == expected[place]


def test_embeddings_are_scaled_by_the_root_of_the_width_where_configured() -> None:
    ids = random_ids(2, 3)
    for scaled, factor in ((True, 8**0.5), (False, 1.0)):
        model = random_model(small_config(scale_embeddings=scaled, positions=NoPositions()))
        got, table = model.source_input(ids), embedding_of(model.source_input).weight
        torch.testing.assert_close(got, table[ids] * factor)
