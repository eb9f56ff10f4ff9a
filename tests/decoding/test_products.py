"""Tests that each product of the fast decoder is close to xWᵀ + b."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.decoding import products
from clearhead.decoding.engine import numbered
from clearhead.decoding.fast_decoder import FastDecoder
from clearhead.decoding.products import (
    PACKED_FROM,
    MakeProduct,
    bfloat16_product,
    choose_product,
    int8_product,
    packed_product,
    packs,
    packs_bfloat16,
    packs_float32,
    plain_product,
    transposed_product,
)
from clearhead.decoding.torch_engine import TorchEngine
from clearhead.device import multiplies_bf16
from clearhead.errors import ConfigError
from clearhead.settings import DropoutConfig, SearchConfig
from small_models import random_model, small_config

CPU = torch.device("cpu")
WIDTHS = st.integers(1, 70)


def random_linear(
    outputs: int, inputs: int, bias: bool
) -> tuple[torch.Tensor, torch.Tensor | None]:
    return torch.randn(outputs, inputs), torch.randn(outputs) if bias else None


@given(WIDTHS, WIDTHS, st.integers(1, 9), st.booleans())
def test_the_plain_product_is_the_formula(outputs: int, inputs: int, rows: int, bias: bool) -> None:
    weight, addend = random_linear(outputs, inputs, bias)
    x = torch.randn(rows, inputs)
    expected = x @ weight.T + (0 if addend is None else addend)
    torch.testing.assert_close(plain_product(weight, addend)(x), expected)


LAYOUTS = [
    transposed_product,
    pytest.param(packed_product, marks=pytest.mark.skipif(not packs(), reason="no oneDNN here")),
]


@pytest.mark.parametrize("make_product", LAYOUTS)
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("rows", [1, 5, 64])
def test_a_large_product_is_the_formula_in_each_layout(
    make_product: MakeProduct, rows: int, bias: bool
) -> None:
    weight, addend = random_linear(600, 300, bias)
    x = torch.randn(rows, 300)
    expected = x.double() @ weight.double().T + (0 if addend is None else addend.double())
    # The sum is of 300 products: float32 has 24 bits.
    bound = (x.abs() @ weight.abs().T + 1).double() * 300 * 2**-24
    assert ((make_product(weight, addend)(x).double() - expected).abs() <= bound).all()


def packed(
    monkeypatch: pytest.MonkeyPatch, make_product: MakeProduct, weight: torch.Tensor
) -> bool:
    """Whether a weight is converted to the layout of oneDNN."""
    asked: list[torch.Tensor] = []
    with monkeypatch.context() as patch:
        patch.setattr(products, "packed_product", lambda weight, bias: asked.append(weight))
        make_product(weight, None)
    return bool(asked)


@pytest.mark.parametrize("packs", [False, True])
def test_weights_are_packed_where_that_is_faster(
    monkeypatch: pytest.MonkeyPatch, packs: bool
) -> None:
    monkeypatch.setattr(products, "packs_float32", lambda: packs)
    monkeypatch.setattr(products, "packs_bfloat16", lambda: packs)
    wide = torch.randn(600, 300)
    assert wide.numel() >= PACKED_FROM
    assert packed(monkeypatch, plain_product, wide) == packs
    assert not packed(monkeypatch, plain_product, torch.randn(10, 10))
    assert not packed(monkeypatch, plain_product, wide.double())
    assert packed(monkeypatch, bfloat16_product, torch.randn(10, 10)) == packs


@pytest.mark.parametrize(
    ("instructions", "intel", "expected"),
    [("avx512_f", False, True), ("avx512_f", True, False), ("avx2", False, False)],
)
def test_float32_is_packed_where_that_was_measured(
    monkeypatch: pytest.MonkeyPatch, instructions: str, intel: bool, expected: bool
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {instructions: True})
    monkeypatch.setattr(products, "intel", lambda: intel)
    assert packs_float32.__wrapped__() == (expected and packs())
    # A PyTorch without the operations, which it does not document.
    monkeypatch.setattr(torch.ops, "mkldnn", object())
    assert not packs()
    assert not packs_float32.__wrapped__()
    assert not packs_bfloat16.__wrapped__()


@settings(max_examples=50)
@given(WIDTHS, WIDTHS, st.integers(1, 9), st.booleans(), st.floats(1e-3, 1e3))
def test_int8_errs_by_no_more_than_its_two_roundings(
    outputs: int, inputs: int, rows: int, bias: bool, size: float
) -> None:
    weight, addend = random_linear(outputs, inputs, bias)
    x = size * torch.randn(rows, inputs)
    expected = x.double() @ weight.double().T + (0 if addend is None else addend.double())
    # Half a unit in the last place of each factor: |x|·δw + |w|·δx + δw·δx, summed over inputs.
    # Inputs have at least 7 bits, weights 8.
    unit_x = x.abs().amax(1, keepdim=True).double() / 63 / 2
    unit_w = weight.abs().amax(1, keepdim=True).double() / 127 / 2
    bound = x.abs().double().sum(1, keepdim=True) * unit_w.T
    bound = bound + unit_x * weight.abs().double().sum(1) + inputs * unit_x * unit_w.T
    found = int8_product(weight, addend)(x).double()
    assert ((found - expected).abs() <= bound + 1e-4 * (1 + expected.abs())).all()


@pytest.mark.parametrize("packs", [False, True])
def test_bfloat16_errs_by_its_eight_bits(monkeypatch: pytest.MonkeyPatch, packs: bool) -> None:
    if packs and not packs_bfloat16():
        pytest.skip("oneDNN does not multiply bfloat16 on this processor")
    monkeypatch.setattr(products, "packs_bfloat16", lambda: packs)
    weight, addend = torch.randn(30, 40), torch.randn(30)
    x = torch.randn(5, 40)
    found = bfloat16_product(weight, addend)(x)
    assert found.dtype == torch.float32
    magnitude = x.abs() @ weight.abs().T + 1
    assert ((found - (x @ weight.T + addend)).abs() <= magnitude * 2**-6).all()


def test_in_int8_a_row_does_not_depend_on_its_neighbours() -> None:
    product = int8_product(*random_linear(33, 64, bias=True))
    rows = torch.randn(7, 64) * torch.logspace(-3, 3, 7)[:, None]
    rows[3] = 0
    together = product(rows)
    for i in range(7):
        torch.testing.assert_close(product(rows[i : i + 1])[0], together[i], rtol=0, atol=0)
    assert (int8_product(torch.zeros(3, 64), None)(rows) == 0).all()


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("make_product", [bfloat16_product, int8_product])
def test_a_model_in_fewer_bits_gives_nearly_the_same_probabilities(
    norm: str, make_product: MakeProduct
) -> None:
    torch.manual_seed(0)
    model = random_model(small_config(norm=norm)).float()
    source = torch.tensor([[3, 4, 5], [6, 7, 0]])
    plain = FastDecoder(model)
    rough = FastDecoder(model, make_product)
    states = plain.start(source), rough.start(source)
    for tokens in ([1, 1], [5, 6], [7, 3]):
        expected = plain.step(torch.tensor(tokens), states[0]).log_softmax(1)
        found = rough.step(torch.tensor(tokens), states[1]).log_softmax(1)
        error = (found - expected).abs().mean() / expected.std()
        assert 0 < error < 0.1


@pytest.mark.parametrize("make_product", [plain_product, bfloat16_product, int8_product])
def test_a_model_with_other_products_translates_and_is_not_changed(
    make_product: MakeProduct,
) -> None:
    torch.manual_seed(0)
    model = random_model(small_config()).float()
    before = {name: p.clone() for name, p in model.named_parameters()}
    engine = TorchEngine(model, make_product)
    found = engine.translate(numbered([[3, 4], [5, 6, 7]]), SearchConfig(beam_size=2, max_length=5))
    assert len(found) == 2
    # The encoder with other products has no weight twice.
    own = {id(parameter) for parameter in model.parameters()}
    (decoder,) = engine._decoders.values()
    assert {id(parameter) for parameter in decoder._encoder.parameters()} <= own
    assert set(before) == {name for name, _ in model.named_parameters()}
    assert all(torch.equal(before[name], p) for name, p in model.named_parameters())


def test_a_model_in_training_translates_without_dropout() -> None:
    torch.manual_seed(0)
    dropout = DropoutConfig.everywhere(0.5)
    model = random_model(small_config(dropout=dropout)).float().train()
    for make_product in (plain_product, int8_product):
        engine = TorchEngine(model, make_product)
        scores = set()
        for whole, part in itertools.product((True, False), repeat=2):
            model.train(whole).encoder.train(part)
            scores.add(engine.translate(numbered([[3, 4]]), SearchConfig(beam_size=1))[0][0].score)
            assert (model.training, model.encoder.layers[0].training) == (whole, part)
        assert len(scores) == 1


def test_a_damaged_weight_is_not_hidden_by_int8() -> None:
    weight = torch.randn(3, 4)
    weight[1, 2] = torch.nan
    assert int8_product(weight, None)(torch.randn(2, 4))[:, 1].isnan().all()


def test_an_unsupported_compute_type_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": False})
    for name, place in (("int4", CPU), ("int8", torch.device("cuda")), ("bfloat16", CPU)):
        with pytest.raises(ConfigError) as caught:
            choose_product(name, place)
        assert name in caught.value.what
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": True})
    assert choose_product("bfloat16", CPU) is bfloat16_product
    assert multiplies_bf16(CPU)
    assert choose_product("int8", CPU) is int8_product
    assert choose_product("float32", CPU) is plain_product
