"""Tests of edits: the same as a computation by hand, seen everywhere, and gone afterwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import clearhead
import small_translators
from clearhead import nn
from clearhead.decoding.engine import numbered
from clearhead.decoding.torch_engine import ModelStepper, PlainStepper, TorchEngine
from clearhead.errors import ConfigError, DataError
from clearhead.inspect.edit import Edit
from clearhead.settings import SearchConfig

SOURCE, TARGET = [3, 4, 5, 6], [4, 7, 5]
HEAD = "decoder.2.cross.2"
GREEDY = SearchConfig(beam_size=1)


@pytest.fixture
def model() -> nn.Transformer:
    torch.manual_seed(1)
    made = nn.Transformer(13, 11, d_model=16, heads=2, layers=2).double().eval()
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    return made


def recorded(model: nn.Transformer, *keep: str) -> clearhead.Record:
    return clearhead.record(model, SOURCE, TARGET, keep=keep)


def softmax(x: np.ndarray) -> np.ndarray:
    found = np.exp(x - x.max(axis=-1, keepdims=True))
    return found / found.sum(axis=-1, keepdims=True)


def test_a_link_that_is_knocked_out_is_the_softmax_without_it_by_hand(
    model: nn.Transformer,
) -> None:
    plain = recorded(model, "scores", "values", "head_outputs")
    with clearhead.edit(model) as e:
        e.knockout(HEAD, query=1, key=2)
        edited = recorded(model, "head_outputs")
    scores = plain.details["decoder.2.cross.scores"].copy()
    scores[1, 1, 2] = -np.inf
    weights = softmax(scores)
    np.testing.assert_allclose(edited.decoder[1].cross_attention, weights, atol=1e-12)
    context = weights @ plain.details["decoder.2.cross.values"]
    np.testing.assert_allclose(edited.details["decoder.2.cross.head_outputs"], context, atol=1e-12)
    # Only position 1 changes: nothing after the last cross-attention mixes positions.
    changed = np.abs(edited.logits - plain.logits).max(axis=-1) > 1e-9
    assert changed.tolist() == [False, True, False, False]


def test_a_query_without_any_key_reads_nothing(model: nn.Transformer) -> None:
    with clearhead.edit(model) as e:
        e.knockout("decoder.1.cross", query=[0, 2])
        weights = recorded(model).decoder[0].cross_attention
    assert (weights[:, [0, 2]] == 0).all()
    np.testing.assert_allclose(weights[:, [1, 3]].sum(axis=-1), 1)


@pytest.mark.parametrize("factor", [0.0, 0.5, -2.0])
def test_a_scaled_head_adds_a_multiple_of_its_part_by_hand(
    model: nn.Transformer, factor: float
) -> None:
    plain = recorded(model, "head_parts")
    with clearhead.edit(model) as e:
        e.scale(HEAD, factor)
        edited = recorded(model)
    part = plain.details["decoder.2.cross.head_parts"][1]
    expected = plain.decoder[1].cross_attention_output + (factor - 1) * part
    np.testing.assert_allclose(edited.decoder[1].cross_attention_output, expected, atol=1e-12)


def test_edits_of_a_head_add_up(model: nn.Transformer) -> None:
    with clearhead.edit(model) as e:
        e.scale(HEAD, 2.0)
        e.scale(HEAD, 0.25)
        twice = recorded(model).logits
    with clearhead.edit(model) as e:
        e.scale(HEAD, 0.5)
        np.testing.assert_allclose(recorded(model).logits, twice, atol=1e-12)


@pytest.mark.parametrize(
    "name",
    [
        "encoder.1.input",
        "encoder.2.output",
        "encoder.1.attention_output",
        "encoder.1.after_attention",
        "encoder.2.feed_forward_output",
        "memory",
        "decoder.1.self_attention_output",
        "decoder.1.after_self_attention",
        "decoder.2.cross_attention_output",
        "decoder.2.after_cross_attention",
        "decoder.1.feed_forward_output",
        "decoder.2.output",
    ],
)
def test_a_patched_value_is_that_of_the_other_run(model: nn.Transformer, name: str) -> None:
    other = clearhead.record(model, [9, 8, 7, 3], [6, 6, 6])
    plain = recorded(model)

    def value(record: clearhead.Record) -> np.ndarray:
        if name == "memory":
            return record.memory
        stack, layer, field = name.split(".")
        return getattr(getattr(record, stack)[int(layer) - 1], field)

    with clearhead.edit(model) as e:
        e.patch(name, 1, other)
        edited = recorded(model)
    expected = value(plain).copy()
    expected[1] = value(other)[1]
    np.testing.assert_allclose(value(edited), expected, atol=1e-12)
    assert np.abs(edited.logits - plain.logits).max() > 1e-6


def test_a_run_with_all_values_of_another_one_is_that_run(model: nn.Transformer) -> None:
    other = clearhead.record(model, [9, 8, 7, 3], TARGET)
    with clearhead.edit(model) as e:
        e.patch("memory", None, other)
        np.testing.assert_allclose(recorded(model).logits, other.logits, atol=1e-12)


def test_a_neuron_has_the_value_that_it_is_given(model: nn.Transformer) -> None:
    with clearhead.edit(model) as e:
        e.neuron("encoder.2.feed_forward", [0, 5], 3.0, position=[1, 2])
        hidden = recorded(model, "hidden_units").details["encoder.2.feed_forward.hidden_units"]
    assert (hidden[1:3, [0, 5]] == 3).all()
    assert (hidden[[0, 3]][:, [0, 5]] != 3).all()


def test_a_hidden_position_is_one_that_no_head_attends_to(model: nn.Transformer) -> None:
    plain = recorded(model)
    with clearhead.edit(model) as e:
        e.hide(1)
        e.hide([3])
        hidden = recorded(model)
        engine = TorchEngine(model)
        ((found,),) = engine.translate(numbered([SOURCE]), GREEDY)
    with clearhead.edit(model) as e:
        e.knockout(["encoder", "decoder.1.cross", "decoder.2.cross"], key=[1, 3])
        masked = recorded(model)
        ((expected,),) = TorchEngine(model).translate(numbered([SOURCE]), GREEDY)
    np.testing.assert_allclose(hidden.logits, masked.logits, atol=1e-12)
    assert not hidden.cross_attentions[..., [1, 3]].any()
    assert found.tokens == expected.tokens
    np.testing.assert_array_equal(recorded(model).logits, plain.logits)


def test_a_hidden_position_is_not_pooled() -> None:
    classifier = small_translators.Classifier()
    expected = clearhead.record(classifier, "x y").logits
    with clearhead.edit(classifier) as e:
        e.hide(2)
        found = clearhead.record(classifier, "x y x")
    np.testing.assert_allclose(found.logits, expected, atol=1e-12)
    assert found.pooling_weights is not None
    assert found.pooling_weights[2] == 0


def test_without_positions_the_encoder_sees_a_set(model: nn.Transformer) -> None:
    with clearhead.edit(model) as e:
        e.without_positions()
        forward = clearhead.record(model, SOURCE, TARGET).memory
        reverse = clearhead.record(model, SOURCE[::-1], TARGET).memory
    np.testing.assert_allclose(forward, reverse[::-1], atol=1e-12)
    assert np.abs(recorded(model).memory - forward).max() > 1e-3


EDITS: list[Callable[[Edit], None]] = [
    lambda e: e.scale("decoder.1", 0.0),
    lambda e: e.knockout("decoder.2.self", key=0),
    lambda e: e.patch("decoder.1.output", 0, np.ones(16)),
    lambda e: e.neuron("decoder.2.feed_forward", 3, 5.0),
    lambda e: e.without_positions("target"),
]


@pytest.mark.parametrize("change", EDITS)
def test_everything_sees_an_edit_and_nothing_does_afterwards(
    model: nn.Transformer, change: Callable[[Edit], None]
) -> None:
    ids, read = torch.tensor([SOURCE]), torch.tensor([[1, *TARGET]])
    engine = TorchEngine(model)
    pair, search = numbered([SOURCE]), SearchConfig(beam_size=3, n_best=3)
    before = model(ids, read), recorded(model).logits, engine.translate(pair, search)
    effects = clearhead.explain(model, SOURCE, TARGET).log_probabilities
    with clearhead.edit(model) as e:
        change(e)
        logits = model(ids, read)
        assert not torch.allclose(logits, before[0])
        np.testing.assert_allclose(recorded(model).logits, logits[0].detach(), atol=1e-12)
        assert not np.allclose(clearhead.explain(model, SOURCE, TARGET).log_probabilities, effects)
        found = engine.translate(pair, search)
        assert [h.score for h in found[0]] != [h.score for h in before[2][0]]
        for hypothesis in found[0]:
            read_now = torch.tensor([[1, *hypothesis.tokens]])
            scores = model(ids, read_now).log_softmax(-1)[0].detach()
            wanted = [*hypothesis.tokens, 2][: len(hypothesis.token_scores)]
            total = sum(float(scores[i, token]) for i, token in enumerate(wanted))
            assert hypothesis.score == pytest.approx(total, abs=1e-4)
    assert torch.equal(model(ids, read), before[0])
    assert np.array_equal(recorded(model).logits, before[1])
    assert engine.translate(pair, search) == before[2]


def test_a_block_within_a_block_removes_its_own_edits_alone(model: nn.Transformer) -> None:
    plain = recorded(model).logits
    with clearhead.edit(model) as outer:
        outer.scale(HEAD, 0.5)
        halved = recorded(model).logits
        with clearhead.edit(model) as inner:
            inner.scale(HEAD, 0.0)
            inner.knockout(HEAD, key=0)
            assert not np.allclose(recorded(model).logits, halved)
        assert np.array_equal(recorded(model).logits, halved)
    assert np.array_equal(recorded(model).logits, plain)


def test_a_block_that_has_ended_takes_no_edit(model: nn.Transformer) -> None:
    before = recorded(model).logits
    with clearhead.edit(model) as e:
        pass
    for change in EDITS:
        with pytest.raises(ConfigError):
            change(e)
    assert np.array_equal(recorded(model).logits, before)


def test_positions_that_a_sentence_lacks_change_nothing(model: nn.Transformer) -> None:
    before = recorded(model).logits
    with clearhead.edit(model) as e:
        e.knockout(HEAD, query=99, key=[98, 99])
        assert np.array_equal(recorded(model).logits, before)


def test_an_error_within_the_block_removes_the_edits(model: nn.Transformer) -> None:
    before = recorded(model).logits

    def fails() -> None:
        with clearhead.edit(model) as e:
            e.scale("encoder", 0.0)
            _ = 1 / 0

    with pytest.raises(ZeroDivisionError):
        fails()
    assert np.array_equal(recorded(model).logits, before)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda e: e.scale("decoder.9.cross", 0.0),
        lambda e: e.patch("decoder.1.outputs", 0, np.ones(16)),
        lambda e: e.patch("encoder.0.output", 0, np.ones(16)),
        lambda e: e.patch("nothing", 0, np.ones(16)),
        lambda e: e.neuron("decoder.1.feed_forward", 64),
        lambda e: e.neuron("decoder.1.cross", 0),
        lambda e: e.without_positions("both"),
        lambda e: e.knockout(HEAD, query=-1),
        lambda e: e.knockout(HEAD, key=1.5),
        lambda e: e.knockout(HEAD, key=True),
        lambda e: e.knockout(HEAD, key="a"),
        lambda e: e.patch("encoder.1.output", slice(-2, None), np.ones(16)),
        lambda e: e.neuron("decoder.2.feed_forward", 3, position=[0, -1]),
    ],
)
def test_a_wrong_name_is_refused(model: nn.Transformer, wrong: Callable[[Edit], Any]) -> None:
    with clearhead.edit(model) as e, pytest.raises(ConfigError):
        wrong(e)


def test_a_value_of_another_width_is_refused(model: nn.Transformer) -> None:
    for value in (np.ones(15), np.ones((1, 16)), np.ones((2, 3, 16))):
        with clearhead.edit(model) as e:
            e.patch("encoder.1.output", 1, value)
            with pytest.raises(DataError):
                recorded(model)
    with pytest.raises(ConfigError), clearhead.edit(object()):
        pass


def test_an_engine_that_was_made_in_a_block_is_fast_after_it(model: nn.Transformer) -> None:
    with clearhead.edit(model) as e:
        e.scale(HEAD, 0.0)
        engine = TorchEngine(model)
        assert isinstance(engine._stepper(), PlainStepper)
    assert isinstance(engine._stepper(), ModelStepper)


class Doubled(torch.nn.Module):
    """A feed-forward network of somebody's own."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * x.tanh()


def negated(model: nn.Transformer) -> None:
    output = model.output
    output.forward = lambda x: -torch.nn.functional.linear(x, output.weight)  # pyright: ignore


def with_more_heads(model: nn.Transformer) -> None:
    for layer in model.decoder.layers:
        layer.cross_attention = nn.MultiHeadAttention(16, 8).double().eval()


OWN_PARTS: list[Callable[[nn.Transformer], Any]] = [
    negated,
    with_more_heads,
    lambda model: setattr(model.decoder.layers[0], "feed_forward", Doubled()),
    lambda model: setattr(model, "output", torch.nn.Sequential(model.output, torch.nn.Tanh())),
]


@pytest.mark.parametrize("change", OWN_PARTS)
def test_own_parts_are_searched_and_recorded(
    model: nn.Transformer, change: Callable[[nn.Transformer], Any]
) -> None:
    engine = TorchEngine(model)
    change(model)
    read = [1]
    while len(read) < 6 and read[-1] != 2:
        logits = model(torch.tensor([SOURCE]), torch.tensor([read]))
        read.append(2 + int(logits[0, -1, 2:].argmax()))  # never padding or the start
    wanted = [token for token in read[1:] if token != 2]
    assert model.generate([SOURCE], max_length=5) == [wanted]
    assert list(engine.translate(numbered([SOURCE]), GREEDY)[0][0].tokens)[:5] == wanted
    expected = model(torch.tensor([SOURCE]), torch.tensor([[1, *TARGET]]))[0].detach()
    np.testing.assert_allclose(recorded(model).logits, expected, atol=1e-12)


def test_an_engine_sees_hooks_and_new_weights(model: nn.Transformer) -> None:
    engine, pair = TorchEngine(model), numbered([SOURCE])
    before = engine.translate(pair, SearchConfig())
    handle = model.decoder.norm.register_forward_hook(lambda *given: torch.zeros_like(given[2]))
    hooked = engine.translate(pair, SearchConfig())
    handle.remove()
    assert hooked != before
    assert engine.translate(pair, SearchConfig()) == before
    with torch.no_grad():
        layer: Any = model.decoder.layers[0]
        layer.self_attention.packed.weight.mul_(3)
    assert engine.translate(pair, SearchConfig()) == TorchEngine(model).translate(
        pair, SearchConfig()
    )
    assert engine.translate(pair, SearchConfig()) != before
