"""Tests of the plain constructors: shapes, masks, ids, and the loops that people write."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Sequence
from typing import Any, cast

import pytest
import torch
from torch.nn import functional as F

import clearhead
from clearhead import nn
from clearhead.errors import ClearheadError, ConfigError, DataError
from clearhead.model import attention, layers, transformer
from clearhead.model.dropout import Dropout
from clearhead.settings import DropoutConfig
from small_models import embedding_of

SMALL: dict[str, Any] = dict(d_model=16, heads=2, layers=2, d_ff=32)


def small(**choices: Any) -> nn.Transformer:
    torch.manual_seed(1)
    return nn.Transformer(13, 11, **{**SMALL, **choices})


SOURCE = torch.tensor([[3, 4, 5, 6], [7, 8, 0, 0]])
TARGET = torch.tensor([[1, 3, 4], [1, 5, 0]])


def test_a_module_is_that_of_the_model_package() -> None:
    for ours, theirs in (
        (nn.Transformer, transformer.EncoderDecoder),
        (nn.TransformerClassifier, transformer.EncoderClassifier),
        (nn.Encoder, transformer.Encoder),
        (nn.Decoder, transformer.Decoder),
        (nn.EncoderLayer, layers.EncoderLayer),
        (nn.DecoderLayer, layers.DecoderLayer),
        (nn.MultiHeadAttention, attention.MultiHeadAttention),
        (nn.FeedForward, layers.FeedForward),
    ):
        assert issubclass(ours, theirs)
        assert ours.forward is theirs.forward


def test_each_has_the_shapes_of_its_documentation() -> None:
    x, memory = torch.randn(2, 4, 16), torch.randn(2, 6, 16)
    for module in (nn.MultiHeadAttention(16, 2), nn.FeedForward(16), nn.EncoderLayer(16, 2)):
        assert module(x).shape == x.shape
    assert nn.Encoder(16, 2, layers=3)(x).shape == x.shape
    assert nn.DecoderLayer(16, 2)(x, memory).shape == x.shape
    assert nn.Decoder(16, 2, layers=3)(x, memory).shape == x.shape
    assert nn.PositionalEncoding(16)(x).shape == x.shape
    assert small()(SOURCE, TARGET).shape == (2, 3, 11)
    assert small()(SOURCE, TARGET, hidden=True).shape == (2, 3, 16)
    assert nn.TransformerClassifier(13, 4, **SMALL)(SOURCE).shape == (2, 4)
    frames = nn.TransformerClassifier(5, 4, features=True, d_model=16, heads=2, layers=1)
    assert frames(torch.randn(2, 7, 5)).shape == (2, 4)


def test_d_ff_is_four_times_the_width() -> None:
    assert nn.FeedForward(16).hidden.out_features == 64
    assert nn.EncoderLayer(16, 2).feed_forward.hidden.out_features == 64
    assert nn.Transformer(9, 9, "tiny", d_model=32, heads=2).settings.d_ff == 128
    assert nn.Transformer(9, 9, "tiny").settings.d_ff == 256


def test_dropout_is_one_rate_or_rates_by_name() -> None:
    def rates(model: torch.nn.Module) -> set[str]:
        return {n for n, m in model.named_modules() if isinstance(m, Dropout) and m.rate == 0.5}

    by_name = small(dropout={"embeddings": 0.5})
    assert rates(by_name) == {"source_input.dropout", "target_input.dropout"}
    assert rates(small(dropout=DropoutConfig(embeddings=0.5))) == rates(by_name)
    assert rates(small(dropout=0.5)) > rates(by_name)
    # The head of a classifier has a rate of its own.
    for choices, head in (
        (dict(dropout=0.5), True),
        (dict(dropout=0.0), False),
        (dict(dropout={"embeddings": 0.5}), False),
        (dict(dropout=0.0, head_dropout=0.5), True),
        (dict(dropout=0.5, head_dropout=0.0), False),
    ):
        classifier = nn.TransformerClassifier(13, 4, **SMALL, **cast(Any, choices))
        assert ("dropout" in rates(classifier)) == head


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_masks_of_each_shape_hide_the_same(norm: Any) -> None:
    layer = nn.EncoderLayer(16, 2, norm=norm).eval()
    x = torch.randn(2, 4, 16)
    keep = SOURCE != 0
    outputs = [
        layer(x, mask)
        for mask in (
            keep,
            keep[:, None].expand(2, 4, 4),
            keep[:, None, None],
            keep[:, None, None].expand(2, 2, 4, 4),
        )
    ]
    for other in outputs[1:]:
        torch.testing.assert_close(other, outputs[0])
    # A hidden position has no effect on the others.
    changed = x.clone()
    changed[1, 2:] = torch.randn(2, 16)
    torch.testing.assert_close(layer(changed, keep)[1, :2], outputs[0][1, :2])


def test_a_mask_that_is_not_boolean_is_refused() -> None:
    layer, x = nn.EncoderLayer(16, 2), torch.randn(2, 4, 16)
    for mask in (torch.zeros(4, 4), torch.ones(2, 4, dtype=torch.long), torch.tensor(True)):
        with pytest.raises(ConfigError):
            layer(x, mask)


def test_a_decoder_is_causal_unless_a_mask_is_given() -> None:
    for module in (nn.DecoderLayer(16, 2).eval(), nn.Decoder(16, 2, layers=2).eval()):
        x, memory = torch.randn(1, 5, 16), torch.randn(1, 3, 16)
        changed = x.clone()
        changed[0, -1] = torch.randn(16)
        before, after = module(x, memory), module(changed, memory)
        torch.testing.assert_close(before[0, :-1], after[0, :-1])
        everything = torch.ones(1, 5, 5, dtype=torch.bool)
        seeing = module(x, memory, everything), module(changed, memory, everything)
        assert not torch.allclose(seeing[0][0, :-1], seeing[1][0, :-1])


def test_a_mask_of_padding_adds_to_the_causal_one() -> None:
    model = small().eval()
    target = torch.tensor([[1, 3, 4], [1, 5, 0]])
    torch.testing.assert_close(
        model(SOURCE, target, target_mask=target != 0)[0], model(SOURCE, target)[0]
    )
    for module in (nn.DecoderLayer(16, 2).eval(), nn.Decoder(16, 2, layers=2).eval()):
        x, memory = torch.randn(1, 5, 16), torch.randn(1, 3, 16)
        changed = torch.cat((x[:, :-1], torch.randn(1, 1, 16)), dim=1)
        keep = torch.tensor([[False, True, True, True, True]])
        before, after = module(x, memory, keep), module(changed, memory, keep)
        torch.testing.assert_close(before[0, :-1], after[0, :-1])


def test_a_mask_of_another_size_is_refused() -> None:
    layer, x = nn.EncoderLayer(16, 2), torch.randn(2, 4, 16)
    for shape in ((4, 4), (2, 5), (3, 4), (2, 3, 4), (2, 1, 4, 1), (2, 3, 4, 4)):
        with pytest.raises(ConfigError):
            layer(x, torch.ones(shape, dtype=torch.bool))


def test_own_masks_replace_those_of_a_transformer() -> None:
    model = small().eval()
    made = model(SOURCE, TARGET)
    given = model(SOURCE, TARGET, source_mask=SOURCE != 0, target_mask=nn.causal_mask(3))
    torch.testing.assert_close(given, made)
    hidden = torch.tensor([[True, True, True, False]] * 2)
    assert not torch.allclose(model(SOURCE, TARGET, source_mask=hidden), made)


def test_other_special_ids_are_those_of_the_model() -> None:
    """Renumbered ids and weights give the same model, outputs and scores."""
    plain = small().eval()
    other = small(pad_id=5, bos_id=9, eos_id=3).eval()
    order = {0: 5, 1: 9, 2: 3, 5: 0, 9: 1, 3: 2}
    rows = torch.tensor([order.get(i, i) for i in range(13)])
    other.load_state_dict(plain.state_dict())
    with torch.no_grad():
        for name in ("source_input", "target_input"):
            old, new = (embedding_of(m.get_submodule(name)).weight for m in (plain, other))
            new[rows[: len(old)]] = old
    torch.testing.assert_close(
        other(rows[SOURCE], rows[TARGET]), plain(SOURCE, TARGET)[..., rows[:11].argsort()]
    )
    for beam_size in (1, 3):
        expected = nn.beam_search(plain, SOURCE, beam_size, max_length=6)
        found = nn.beam_search(other, rows[SOURCE], beam_size, max_length=6)
        for (mine, *_), (best, *_) in zip(found, expected, strict=True):
            assert mine.tokens == tuple(rows[list(best.tokens)].tolist())
            assert mine.score == pytest.approx(best.score, abs=1e-5)


@pytest.mark.parametrize(
    "choices",
    [
        {"pad_id": 1},
        {"eos_id": 11},
        {"heads": 3},
        {"activation": "none"},
        {"colour": 1},
        {"size": "huge"},
        {"share_embeddings": "all"},
        {"n_heads": 2},
    ],
)
def test_a_wrong_setting_is_named(choices: dict[str, Any]) -> None:
    with pytest.raises(ClearheadError):
        small(**choices)


def test_a_model_without_biases() -> None:
    for model in (small(bias=False), nn.TransformerClassifier(13, 4, bias=False, **SMALL)):
        found = [
            m for m in model.modules() if isinstance(m, layers.EncoderLayer | layers.DecoderLayer)
        ]
        names = [name for layer in found for name, _ in layer.named_parameters()]
        assert [name for name in names if "bias" in name and "norm" not in name] == []


def test_a_source_needs_no_special_ids_but_padding() -> None:
    model = nn.Transformer(2, 11, **SMALL)
    assert len(model.generate([[1, 1]], max_length=3)) == 1
    with pytest.raises(ClearheadError):
        nn.Transformer(5, 11, pad_id=5, **SMALL)


def test_generate_is_greedy_search_by_hand() -> None:
    model = small().eval()
    found = model.generate(SOURCE, max_length=7)
    for row, output in zip(SOURCE, found, strict=True):
        written = [1]
        while len(written) <= 7:
            logits = model(row[None], torch.tensor([written]))[0, -1]
            logits[:2] = -torch.inf
            written.append(int(logits.argmax()))
            if written[-1] == 2:
                break
        assert output == [i for i in written if i > 2]


def test_a_limit_beyond_the_default_one_is_kept() -> None:
    (output,) = small().eval().generate([[3]], max_length=60, min_length=50)
    assert 50 <= len(output) <= 60


WRONG = [[3, 4], [[]], [[13]], [[-1]], [["a"]], torch.zeros(2), torch.ones(1, 2)]


@pytest.mark.parametrize("source", WRONG)
def test_a_source_that_is_no_row_of_ids_is_refused(source: Any) -> None:
    with pytest.raises(ClearheadError):
        small().generate(source)


def test_a_module_that_cannot_be_searched_is_refused() -> None:
    for module in (nn.TransformerClassifier(13, 4, **SMALL), torch.nn.Linear(2, 2)):
        with pytest.raises(ConfigError):
            nn.beam_search(cast(Any, module), SOURCE)
    for name in ("num_beams", "colour"):
        with pytest.raises(ClearheadError):
            small().generate(SOURCE, **{name: 4})


def test_sampling_is_a_search_too() -> None:
    model = small().eval()
    draws = [model.generate(SOURCE, method="sampling", seed=seed) for seed in (1, 1, 2)]
    assert draws[0] == draws[1] != draws[2]


class Counting:
    """A stepper that counts up from the source's only id to 6, then ends."""

    def start(self, sources: Sequence[Sequence[int]]) -> None:
        self.last = torch.tensor([row[0] for row in sources])

    def step(self, tokens: torch.Tensor) -> torch.Tensor:
        self.last = torch.where(tokens == 1, self.last, tokens + 1)
        return F.one_hot(torch.where(self.last > 6, 2, self.last), 9) * 20.0

    def reorder(self, rows: torch.Tensor) -> None:
        self.last = self.last[rows]


def test_beam_search_runs_any_stepper() -> None:
    found = nn.beam_search(Counting(), [[4], [6]], beam_size=2)
    assert [best.tokens for best, *_ in found] == [(4, 5, 6), (6,)]


def test_inspection_takes_such_a_model_with_ids_or_a_tokenizer() -> None:
    class Letters:
        def encode(self, text: str) -> list[int]:
            return [ord(letter) - 94 for letter in text]

        def decode(self, ids: list[int]) -> str:
            return "".join(chr(i + 94) for i in ids)

    model = small().eval()
    seen = clearhead.record(model, [3, 4, 5], [4, 6])
    named = clearhead.record(model, "abc", "bd", tokenizer=Letters())
    assert named.source == ("a", "b", "c")
    assert named.target[1:] == ("b", "d")
    assert (named.logits == seen.logits).all()
    assert len(repr(seen)) < 100
    expected = model(torch.tensor([[3, 4, 5]]), torch.tensor([[1, 4, 6]]))[0]
    torch.testing.assert_close(torch.from_numpy(seen.logits), expected.detach())
    found = clearhead.explain(model, "abc", "bd", tokenizer=Letters())
    assert found.source == ("a", "b", "c")
    assert repr(found).startswith("<Explanation: a b c → ")
    ended = clearhead.record(model, [3, 4, 2], [4])
    assert ended.source == ("3", "4", "2")
    expected = model(torch.tensor([[3, 4, 2]]), torch.tensor([[1, 4]]))[0]
    torch.testing.assert_close(torch.from_numpy(ended.logits), expected.detach())
    compiled: Any = torch.compile(model, backend="eager")
    assert (clearhead.record(compiled, [3, 4, 5], [4, 6]).logits == seen.logits).all()
    assert nn.beam_search(compiled, SOURCE) == nn.beam_search(model, SOURCE)
    # A model may stop at once.
    assert len(clearhead.record(model, [3, 4], []).rows) == 1
    other = clearhead.explain(small(pad_id=9, bos_id=2, eos_id=1).eval(), [3, 4], [4, 5, 1])
    assert other.record.target == ("2", "4", "5")
    assert other.outputs == ("4", "5", "1")

    classifier = nn.TransformerClassifier(13, 4, **SMALL).eval()
    assert clearhead.record(classifier, [3, 4]).logits.shape == (4,)
    assert clearhead.explain(classifier, "ab", tokenizer=Letters()).outputs[0] in "0123"
    named = nn.TransformerClassifier(13, ["good", "bad"], **SMALL).eval()
    logits = named(torch.tensor([[3, 4]]))
    given = clearhead.explain(named, [3, 4]).outputs
    assert given == (("good", "bad")[int(logits.argmax())],)
    with pytest.raises(ClearheadError):
        clearhead.record(model, "abc", "bd")
    with pytest.raises(ClearheadError):
        clearhead.record(model, [3], [3], tokenizer=object())
    for source, target in (([3, 13], [3]), ([3], [11]), ([-1], [3])):
        with pytest.raises(DataError):
            clearhead.record(model, source, target)


@pytest.mark.slow
def test_a_model_learns_to_copy_in_a_plain_loop() -> None:
    torch.manual_seed(1)
    model = nn.Transformer(10, 10, d_model=32, heads=4, layers=1)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(400):
        source = torch.randint(3, 10, (64, 5))
        target = torch.cat((torch.ones(64, 1), source, torch.full((64, 1), 2)), dim=1).long()
        logits = model(source, target[:, :-1])
        loss = F.cross_entropy(logits.transpose(1, 2), target[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    source = torch.randint(3, 10, (100, 5))
    assert sum(a == b for a, b in zip(model.generate(source), source.tolist(), strict=True)) > 90


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
def test_a_compiled_model_computes_the_same_and_trains() -> None:
    model = small(dropout=0.0, layers=1)
    compiled = torch.compile(model)
    torch.testing.assert_close(compiled(SOURCE, TARGET), model(SOURCE, TARGET))
    # To generate code takes half a minute; its gradients need the same graph.
    dropping = small(dropout=0.5)
    logits = torch.compile(dropping, backend="aot_eager")(SOURCE, TARGET)
    F.cross_entropy(logits.flatten(0, 1), TARGET.flatten()).backward()
    assert all(p.grad is not None for p in dropping.parameters())


def test_each_public_name_has_an_example_or_is_in_one() -> None:
    examples = "\n".join(inspect.getdoc(getattr(nn, name)) or "" for name in nn.__all__)
    examples += nn.__doc__ or ""
    assert list(itertools.filterfalse(examples.__contains__, nn.__all__)) == []
