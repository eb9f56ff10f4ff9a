"""Tests of attention against a loop over heads, queries and keys, and of its fast forms."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from clearhead.model import attention as attention_module
from clearhead.model.attention import (
    Attend,
    MultiHeadAttention,
    attention,
    attention_weights,
    causal_mask,
    explicit_attention,
    fused_attention,
    padding_mask,
)
from clearhead.model.dropout import Dropout

NO_DROPOUT = Dropout(0.0)
FORMS = [explicit_attention, fused_attention, attention]
TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-5}


def looped_attention(queries: Tensor, keys: Tensor, values: Tensor, allowed: Tensor) -> Tensor:
    """Equation 1 for one head, number by number: (Q, d_k), (K, d_k), (K, d_v) -> (Q, d_v)."""
    rows = []
    for query, may in zip(queries, allowed, strict=True):
        seen = [j for j in range(len(keys)) if may[j]]
        row = torch.zeros_like(values[0])
        if seen:
            exponentials = [torch.exp(query @ keys[j] / math.sqrt(len(query))) for j in seen]
            total = sum(exponentials)
            for j, exponential in zip(seen, exponentials, strict=True):
                row = row + exponential / total * values[j]
        rows.append(row)
    return torch.stack(rows)


def looped_heads(
    module: MultiHeadAttention, x: Tensor, memory: Tensor, d_k: int, d_v: int, allowed: Tensor
) -> Tensor:
    """Concat(head_1 … head_h)W^O with each head's own W^Q, W^K and W^V; one sentence."""
    h = module.n_heads
    weight, bias = module.packed.weight, module.packed.bias
    if bias is None:
        bias = torch.zeros(len(weight)).to(weight)
    heads = []
    for i in range(h):
        q = slice(i * d_k, (i + 1) * d_k)
        k = slice((h + i) * d_k, (h + i + 1) * d_k)
        v = slice(2 * h * d_k + i * d_v, 2 * h * d_k + (i + 1) * d_v)
        heads.append(
            looped_attention(
                x @ weight[q].T + bias[q],
                memory @ weight[k].T + bias[k],
                memory @ weight[v].T + bias[v],
                allowed,
            )
        )
    joined = torch.cat(heads, dim=-1) @ module.output.weight.T
    return joined if module.output.bias is None else joined + module.output.bias


shapes = st.fixed_dictionaries(
    {
        "d_model": st.integers(1, 7),
        "n_heads": st.integers(1, 3),
        "d_k": st.integers(1, 4),
        "d_v": st.integers(1, 4),
        "queries": st.integers(1, 4),
        "keys": st.integers(1, 4),
        "bias": st.booleans(),
        "seed": st.integers(0, 999),
    }
)


@settings(max_examples=30)
@given(shapes, st.sampled_from(FORMS))
def test_heads_equal_a_loop_over_heads_queries_and_keys(
    shape: dict[str, int], form: Attend
) -> None:
    torch.manual_seed(shape["seed"])
    d_model, d_k, d_v = shape["d_model"], shape["d_k"], shape["d_v"]
    module = MultiHeadAttention(
        d_model, shape["n_heads"], d_k, d_v, bool(shape["bias"]), NO_DROPOUT, form
    ).double()
    x = torch.randn(2, shape["queries"], d_model, dtype=torch.float64)
    memory = torch.randn(2, shape["keys"], d_model, dtype=torch.float64)
    allowed = torch.rand(2, 1, shape["queries"], shape["keys"]) < 0.6

    got = module(x, memory, allowed)

    for sentence in range(2):
        expected = looped_heads(
            module, x[sentence], memory[sentence], d_k, d_v, allowed[sentence, 0]
        )
        torch.testing.assert_close(got[sentence], expected, rtol=0, atol=1e-12)


def test_projecting_one_input_at_once_equals_projecting_its_parts_apart() -> None:
    module = MultiHeadAttention(6, 2, 5, 3, True, NO_DROPOUT).double()
    x = torch.randn(2, 4, 6, dtype=torch.float64)
    queries, (keys, values) = module.project(x)
    assert queries.shape == keys.shape == (2, 2, 4, 5)
    assert values.shape == (2, 2, 4, 3)
    torch.testing.assert_close(queries, module.project_queries(x))
    torch.testing.assert_close((keys, values), tuple(module.project_memory(x)))


def some_mask(name: str) -> Tensor | None:
    """Masks for 3 sentences, 2 heads, 4 queries, 5 keys."""
    generator = torch.Generator().manual_seed(3)
    random = torch.rand(3, 2, 4, 5, generator=generator) < 0.5
    match name:
        case "none":
            return None
        case "padding":
            return padding_mask(
                torch.tensor([[4, 4, 4, 4, 4], [4, 4, 4, 0, 0], [0, 0, 0, 0, 0]]), 0
            )
        case "each head its own":
            return random
        case "fully masked rows":
            random[:, :, 1] = False
            random[2] = False
            return random
        case _:
            return torch.zeros(1, 1, 4, 5, dtype=torch.bool)


MASKS = ["none", "padding", "each head its own", "fully masked rows", "nothing at all"]


def with_gradients(form: Attend, dtype: torch.dtype, mask: Tensor | None) -> list[Tensor]:
    """The context, and the gradients of a weighted sum of it by queries, keys and values."""
    generator = torch.Generator().manual_seed(5)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)

    queries, keys, values = draw(3, 2, 4, 6), draw(3, 2, 5, 6), draw(3, 2, 5, 7)
    inputs = [tensor.requires_grad_() for tensor in (queries, keys, values)]
    context = form(queries, keys, values, mask, NO_DROPOUT)
    return [context.detach(), *torch.autograd.grad((context * draw(3, 2, 4, 7)).sum(), inputs)]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("mask_name", MASKS)
@pytest.mark.parametrize("form", [fused_attention, attention])
def test_every_form_gives_the_values_and_gradients_of_the_formula(
    form: Attend, mask_name: str, dtype: torch.dtype
) -> None:
    mask = some_mask(mask_name)
    expected = with_gradients(explicit_attention, dtype, mask)
    got = with_gradients(form, dtype, mask)
    assert len(got) == len(expected) == 4
    for a, b in zip(got, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=TOLERANCE[dtype])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("mask_name", ["fully masked rows", "nothing at all"])
def test_a_row_with_nothing_to_attend_to_gives_zeros_and_finite_gradients(
    form: Attend, dtype: torch.dtype, mask_name: str
) -> None:
    mask = some_mask(mask_name)
    assert mask is not None
    context, *gradients = with_gradients(form, dtype, mask)
    empty = ~mask.any(dim=-1).expand(3, 2, 4)
    assert empty.any()
    assert (context[empty] == 0).all()
    assert len(gradients) == 3
    assert all(gradient.isfinite().all() for gradient in gradients)
    assert (gradients[0][empty] == 0).all()


@pytest.mark.parametrize("form", FORMS)
def test_very_large_scores_stay_finite(form: Attend) -> None:
    queries = torch.full((1, 1, 2, 4), 1e4)
    keys = torch.cat((queries, -queries), dim=2)[:, :, :3]
    values = torch.tensor([1.0, 3.0, 7.0]).view(1, 1, 3, 1)
    mask = torch.tensor([[True, True, True], [False, False, True]]).view(1, 1, 2, 3)
    context = form(queries, keys, values, mask, NO_DROPOUT)
    torch.testing.assert_close(context.flatten(), torch.tensor([2.0, 7.0]))


def test_the_default_takes_the_formula_when_short_and_the_fused_form_when_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taken = []

    def noted(name: str) -> Attend:
        def form(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, dropout: Dropout) -> Tensor:
            taken.append(name)
            return q

        return form

    monkeypatch.setattr(attention_module, "explicit_attention", noted("explicit"))
    monkeypatch.setattr(attention_module, "fused_attention", noted("fused"))
    monkeypatch.setattr(attention_module, "SHORT", 12)

    def take(queries: int, keys: int, dropout: Dropout) -> None:
        memory = torch.randn(1, 1, keys, 2)
        attention(torch.randn(1, 1, queries, 2), memory, memory, None, dropout)

    # A CPU has no fused kernel that drops weights.
    for dropout in (NO_DROPOUT, Dropout(0.1).eval(), Dropout(0.1)):
        for queries, keys in ((3, 4), (4, 4), (3, 5), (2, 6)):
            take(queries, keys, dropout)
    assert taken == 2 * ["explicit", "fused", "fused", "explicit"] + 4 * ["explicit"]
    taken.clear()
    monkeypatch.setattr(torch.Tensor, "is_cuda", True)
    take(3, 4, Dropout(0.1))
    assert taken == ["fused"]


@pytest.mark.parametrize("dropout", [NO_DROPOUT, Dropout(0.5)], ids=["short", "dropped"])
def test_what_autocast_has_in_bf16_is_attended_to_in_float32_where_it_is_written_out(
    dropout: Dropout, monkeypatch: pytest.MonkeyPatch
) -> None:
    if dropout.drops:
        monkeypatch.setattr(attention_module, "SHORT", 0)
    torch.manual_seed(1)
    parts = [torch.randn(2, 3, n, 4).bfloat16().requires_grad_() for n in (5, 6, 6)]
    mask = torch.rand(2, 1, 1, 6) < 0.7
    torch.manual_seed(2)
    with torch.autocast("cpu", torch.bfloat16):
        context = attention(parts[0], parts[1], parts[2], mask, dropout)
    copies = [part.detach().float().requires_grad_() for part in parts]
    torch.manual_seed(2)
    expected = explicit_attention(copies[0], copies[1], copies[2], mask, dropout)
    assert torch.equal(context, expected.bfloat16())
    gradient = torch.randn(context.shape).bfloat16()
    context.backward(gradient)
    expected.backward(gradient.float())
    for part, copy in zip(parts, copies, strict=True):
        assert part.grad is not None
        assert copy.grad is not None
        assert torch.equal(part.grad, copy.grad.bfloat16())


@pytest.mark.parametrize("form", FORMS)
def test_dropout_of_the_weights_keeps_their_expectation(form: Attend) -> None:
    torch.manual_seed(7)
    draws, rate = 4000, 0.25
    queries, keys, values = (torch.randn(1, 1, n, 4) for n in (2, 3, 3))
    expected = explicit_attention(queries, keys, values, None, NO_DROPOUT)
    weights = attention_weights(queries, keys, None)

    many = [x.expand(draws, -1, -1, -1) for x in (queries, keys, values)]
    contexts = form(many[0], many[1], many[2], None, Dropout(rate))

    # Var(context) = Σ_j w_j² v_j² · rate/(1 − rate), as the weights are dropped one by one.
    variance = (weights**2) @ values**2 * rate / (1 - rate)
    assert ((contexts.mean(0) - expected[0]).abs() < 5 * (variance[0] / draws).sqrt()).all()
    torch.testing.assert_close(contexts.var(0), variance[0], rtol=0.15, atol=0)
    evaluating = form(queries, keys, values, None, Dropout(rate).eval())
    torch.testing.assert_close(evaluating, expected)


def test_masks_say_true_where_one_may_attend() -> None:
    ids = torch.tensor([[5, 6, 0], [7, 0, 0]])
    assert padding_mask(ids, 0).tolist() == [[[[True, True, False]]], [[[True, False, False]]]]
    assert causal_mask(3, ids.device).tolist() == [
        [[[True, False, False], [True, True, False], [True, True, True]]]
    ]
