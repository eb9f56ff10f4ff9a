"""The chunked loss against PyTorch's cross-entropy and against formulas written out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from clearhead.losses import cross_entropy as chunks
from clearhead.losses.cross_entropy import projected_cross_entropy

EXACT: dict[str, Any] = {"rtol": 1e-11, "atol": 1e-11}


class Case:
    """Random hidden states, a projection and targets; what requires a gradient is in `leaves`."""

    def __init__(
        self,
        tokens: int = 6,
        d_model: int = 3,
        vocabulary: int = 5,
        bias: bool = True,
        dtype: torch.dtype = torch.float64,
        seed: int = 1,
    ) -> None:
        torch.manual_seed(seed)
        self.hidden = torch.randn(tokens, d_model, dtype=dtype, requires_grad=True)
        self.weight = torch.randn(vocabulary, d_model, dtype=dtype, requires_grad=True)
        drawn = torch.randn(vocabulary, dtype=dtype, requires_grad=True)
        self.bias = drawn if bias else None
        self.targets = torch.randint(0, vocabulary, (tokens,))

    @property
    def leaves(self) -> list[Tensor]:
        leaves = [self.hidden, self.weight]
        return leaves if self.bias is None else [*leaves, self.bias]

    def logits(self) -> Tensor:
        return F.linear(self.hidden, self.weight, self.bias)

    def loss(self, smoothing: float = 0.0, divergence: float = 0.0) -> tuple[Tensor, Tensor]:
        return projected_cross_entropy(
            self.hidden, self.weight, self.bias, self.targets, smoothing, divergence
        )

    def gradients(self, loss: Tensor) -> tuple[Tensor, ...]:
        return torch.autograd.grad(loss, self.leaves)

    def divergence(self) -> Tensor:
        """Half of KL(p₁‖p₂) + KL(p₂‖p₁) over the pairs of tokens, written out."""
        p1, p2 = self.logits().softmax(dim=-1).chunk(2)
        forward = (p1 * (p1 / p2).log()).sum()
        backward = (p2 * (p2 / p1).log()).sum()
        return (forward + backward) / 2


@pytest.fixture(autouse=True)
def _tiny_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of two tokens or a few more, and a smaller last one."""
    monkeypatch.setitem(chunks.CHUNK_ELEMENTS, "cpu", 29)
    monkeypatch.setitem(chunks.BLOCK_ELEMENTS, "cpu", 13)


cases = st.builds(
    Case,
    tokens=st.integers(0, 9),
    d_model=st.integers(1, 4),
    vocabulary=st.integers(1, 15),
    bias=st.booleans(),
    seed=st.integers(0, 99),
)
smoothings = st.sampled_from([0.0, 0.1, 0.7])


@settings(max_examples=60)
@given(cases, smoothings, st.sampled_from([1.0, -2.5]))
def test_loss_and_gradients_are_those_of_torch(case: Case, smoothing: float, factor: float) -> None:
    loss, likelihood = case.loss(smoothing)
    logits = case.logits()
    expected = F.cross_entropy(logits, case.targets, reduction="sum", label_smoothing=smoothing)
    plain = F.cross_entropy(logits, case.targets, reduction="sum")
    torch.testing.assert_close(loss, expected, **EXACT)
    torch.testing.assert_close(likelihood, plain, **EXACT)
    assert not likelihood.requires_grad
    for a, b in zip(case.gradients(factor * loss), case.gradients(factor * expected), strict=True):
        torch.testing.assert_close(a, b, **EXACT)


@settings(max_examples=60)
@given(cases, smoothings, st.sampled_from([0.3, 1.0, 5.0]))
def test_loss_and_gradients_with_divergence_are_those_of_the_formula(
    case: Case, smoothing: float, weight: float
) -> None:
    if len(case.targets) % 2:
        with pytest.raises(ValueError, match="tokens"):
            case.loss(smoothing, weight)
        return
    loss, likelihood = case.loss(smoothing, weight)
    logits = case.logits()
    cross_entropy = F.cross_entropy(
        logits, case.targets, reduction="sum", label_smoothing=smoothing
    )
    expected = cross_entropy + weight * case.divergence()
    torch.testing.assert_close(loss, expected, **EXACT)
    torch.testing.assert_close(
        likelihood, F.cross_entropy(logits, case.targets, reduction="sum"), **EXACT
    )
    for a, b in zip(case.gradients(loss), case.gradients(expected), strict=True):
        torch.testing.assert_close(a, b, **EXACT)


@pytest.mark.parametrize("divergence", [0.0, 1.0])
def test_the_size_of_the_chunks_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, divergence: float
) -> None:
    case = Case(tokens=10)
    got = []
    for chunk, block in ((1, 1), (5, 100), (40, 12), (100, 1), (10_000, 10_000)):
        monkeypatch.setitem(chunks.CHUNK_ELEMENTS, "cpu", chunk)
        monkeypatch.setitem(chunks.BLOCK_ELEMENTS, "cpu", block)
        loss, likelihood = case.loss(0.1, divergence)
        got.append((loss, likelihood, *case.gradients(loss)))
    for other in got[1:]:
        torch.testing.assert_close(other, got[0], **EXACT)


def test_shared_weights_collect_the_gradients_of_both_uses() -> None:
    case = Case(tokens=4, vocabulary=5, d_model=3, bias=False)
    ids = torch.tensor([0, 1, 4, 2])

    def both(project: bool) -> Tensor:
        hidden = case.weight[ids].tanh()
        if project:
            return projected_cross_entropy(hidden, case.weight, None, case.targets, 0.1)[0]
        logits = hidden @ case.weight.T
        return F.cross_entropy(logits, case.targets, reduction="sum", label_smoothing=0.1)

    (got,) = torch.autograd.grad(both(True), case.weight)
    (expected,) = torch.autograd.grad(both(False), case.weight)
    torch.testing.assert_close(got, expected, **EXACT)


def test_only_what_requires_a_gradient_gets_one() -> None:
    case = Case()
    case.weight.requires_grad_(False)
    loss, _ = case.loss(0.1)
    expected = F.cross_entropy(case.logits(), case.targets, reduction="sum", label_smoothing=0.1)
    loss.backward()
    (by_hidden,) = torch.autograd.grad(expected, case.hidden)
    torch.testing.assert_close(case.hidden.grad, by_hidden, **EXACT)
    assert case.weight.grad is None


def test_an_entry_that_can_never_be_chosen_costs_nothing() -> None:
    case = Case()
    assert case.bias is not None
    never = int(torch.tensor([i for i in range(5) if i not in case.targets])[0])
    with torch.no_grad():
        case.bias[never] = -torch.inf
    loss, likelihood = case.loss()
    expected = F.cross_entropy(case.logits(), case.targets, reduction="sum")
    torch.testing.assert_close(loss, expected, **EXACT)
    torch.testing.assert_close(likelihood, expected, **EXACT)
    for gradient in case.gradients(loss):
        assert gradient.isfinite().all()


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_without_gradients_there_is_one_product(
    mode: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(chunks.CHUNK_ELEMENTS, "cpu", 1000)
    case = Case(bias=False, dtype=torch.float32)
    with Products() as learning:
        case.loss(0.1)
    expected = [value.detach() for value in case.loss(0.1, 1.0)]
    with mode(), Products() as judging:
        found = case.loss(0.1, 1.0)
    assert (learning.count, judging.count) == (3, 1)
    torch.testing.assert_close(list(found), expected)
    assert not found[0].requires_grad


class Products(TorchDispatchMode):
    """Counts matrix products."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self.shapes: set[tuple[torch.Size, ...]] = set()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        products = ("aten.mm", "aten.addmm_", "aten.matmul", "aten.linear")
        if str(func).rpartition(".")[0] in products:
            self.count += 1
            self.shapes.add(tuple(a.shape for a in args if isinstance(a, Tensor)))
        return func(*args, **(kwargs or {}))


@pytest.mark.slow
@pytest.mark.parametrize(("elements", "parts"), [(2000, 5), (100, 1)])
def test_in_bf16_products_have_few_shapes(
    elements: int, parts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chunks of forty tokens or two: a CPU compiles a kernel for each shape of a product."""
    monkeypatch.setitem(chunks.CHUNK_ELEMENTS, "cpu", elements)
    monkeypatch.setitem(chunks.BLOCK_ELEMENTS, "cpu", 200)
    with torch.autocast("cpu", dtype=torch.bfloat16), Products() as products:
        for tokens in range(41, 121):
            case = Case(tokens, d_model=3, vocabulary=50, dtype=torch.float32)
            case.loss(0.1)
    assert len(products.shapes) == 4 * parts  # of the logits, and of three gradients


@given(st.integers(2, 300_000))
def test_in_bf16_few_rows_are_added_to_a_product_however_small_the_vocabulary(
    vocabulary: int,
) -> None:
    hidden = torch.empty(1, 3)
    sizes = chunks.Sizes.of(hidden, vocabulary, torch.bfloat16)
    assert 2 <= sizes.multiple <= chunks.PADDED_ROWS
    assert 2 <= sizes.block <= sizes.chunk
    assert sizes.chunk % sizes.multiple == sizes.chunk % sizes.block == sizes.block % 2 == 0
    assert sizes.multiple <= max(sizes.block, sizes.chunk // chunks.PADDED_PARTS)


@pytest.mark.parametrize("divergence", [0.0, 1.0])
def test_very_large_logits_stay_finite(divergence: float) -> None:
    case = Case(dtype=torch.float32)
    with torch.no_grad():
        case.hidden.mul_(1e4)
    loss, likelihood = case.loss(0.1, divergence)
    assert loss.isfinite()
    assert likelihood.isfinite()
    assert all(gradient.isfinite().all() for gradient in case.gradients(loss))


@pytest.mark.parametrize("divergence", [0.0, 1.0])
@pytest.mark.parametrize("hidden_dtype", [torch.float32, torch.bfloat16])
def test_in_bf16_the_products_alone_are_rounded(
    hidden_dtype: torch.dtype, divergence: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(chunks.CHUNK_ELEMENTS, "cpu", 1000)
    case = Case(tokens=66, d_model=16, vocabulary=50, dtype=torch.float32)
    expected, likelihood = case.loss(0.1, divergence)
    gradients = case.gradients(expected)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        got, rounded_likelihood = projected_cross_entropy(
            case.hidden.to(hidden_dtype), case.weight, case.bias, case.targets, 0.1, divergence
        )
    assert got.dtype == rounded_likelihood.dtype == torch.float32
    torch.testing.assert_close(got, expected, rtol=0.01, atol=0)
    torch.testing.assert_close(rounded_likelihood, likelihood, rtol=0.01, atol=0)
    assert case.bias is not None
    logits = F.linear(case.hidden.bfloat16(), case.weight.bfloat16()).float() + case.bias
    exactly = F.cross_entropy(logits, case.targets, reduction="sum")
    torch.testing.assert_close(rounded_likelihood, exactly, rtol=1e-5, atol=0)
    for a, b in zip(case.gradients(got), gradients, strict=True):
        assert a.dtype == b.dtype == torch.float32
        # bf16 keeps 8 bits: 2⁻⁸ of the whole for each of a few roundings.
        assert (a - b).norm() < 8 * 2**-8 * b.norm()


def test_sums_over_many_tokens_keep_their_digits_in_float32(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(chunks.CHUNK_ELEMENTS, "cpu", 64)
    case = Case(tokens=20_000, d_model=2, vocabulary=4, dtype=torch.float32)
    loss, _ = case.loss(0.1)
    exact = F.cross_entropy(
        case.logits().double(), case.targets, reduction="sum", label_smoothing=0.1
    )
    torch.testing.assert_close(loss.double(), exact, rtol=1e-6, atol=0)


class LargestTensor(TorchDispatchMode):
    """Records the size of the largest tensor that any operation returns."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple | list) else (result,):
            if isinstance(tensor, Tensor):
                self.numbers = max(self.numbers, tensor.numel())
        return result


@pytest.mark.parametrize("divergence", [0.0, 1.0])
def test_logits_are_neither_held_nor_kept_for_more_than_a_chunk(
    divergence: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(chunks.CHUNK_ELEMENTS, "cpu", 300)
    tokens, d_model, vocabulary = 100, 3, 50
    case = Case(tokens, d_model, vocabulary)
    largest = max(300, tokens * d_model, vocabulary * d_model)
    kept: list[int] = []

    def keep(tensor: Tensor) -> Tensor:
        kept.append(tensor.numel())
        return tensor

    hooks = torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor)
    with LargestTensor() as made, hooks:
        loss, _ = case.loss(0.1, divergence)
        loss.backward()
    assert kept
    assert max(kept) <= largest
    assert 0 < made.numbers <= largest
    assert sum(kept) <= 2 * (tokens + vocabulary) * (d_model + 1)
