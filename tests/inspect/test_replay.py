"""Replays with changes: equal to a model without the head, and to a sentence without the word."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import clearhead
from clearhead.errors import ConfigError
from clearhead.inspect.heads import Head, chosen_heads
from clearhead.inspect.replay import (
    Change,
    ClassificationReplay,
    Replay,
    TranslationReplay,
    effects,
    link_effects,
)
from clearhead.inspect.view import heads_of, mean_outputs, without_heads
from clearhead.model.transformer import EncoderDecoder
from clearhead.settings import Learned, ModelConfig, NoPositions
from clearhead.tokenizer import BOS, EOS
from small_models import configs, random_model, small_config
from small_translators import SOURCE, TARGET, random_classifier


def log_probabilities(model: EncoderDecoder, source: list[int], target: list[int]) -> np.ndarray:
    """(places, 1) those of the target and the end symbol, by the model itself."""
    with torch.no_grad():
        logits = model(torch.tensor([source]), torch.tensor([[BOS, *target]]))
        scores = logits[0].log_softmax(-1)
    return scores.gather(1, torch.tensor([*target, EOS])[:, None]).numpy()


def close(found: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10)


@pytest.mark.slow
@settings(max_examples=20)
@given(configs)
def test_a_replay_without_changes_is_the_model_whatever_it_is_made_of(config: ModelConfig) -> None:
    model = random_model(config).eval()
    replay = TranslationReplay(model, SOURCE, TARGET)
    close(replay.log_probabilities()[0], log_probabilities(model, SOURCE, TARGET))
    assert replay.outcome[:, 0].tolist() == [*TARGET, EOS]


@pytest.mark.slow
@settings(max_examples=20)
@given(configs, st.data())
def test_a_replay_without_heads_is_the_model_without_them(
    config: ModelConfig, data: st.DataObject
) -> None:
    model = random_model(config).eval()
    replay = TranslationReplay(model, SOURCE, TARGET)
    off = tuple(data.draw(st.lists(st.sampled_from(replay.heads), min_size=1, unique=True)))
    found = replay.log_probabilities([Change(), Change(heads=off)])
    close(found[0], log_probabilities(model, SOURCE, TARGET))
    close(found[1], log_probabilities(without_heads(model, off), SOURCE, TARGET))


def test_a_head_that_is_off_is_a_row_of_zeros_in_w_o() -> None:
    model = random_model(small_config()).eval()
    head = Head("decoder.2.cross", 2)
    found = without_heads(model, [head])
    changed = found.get_parameter("decoder.layers.1.cross_attention.output.weight")
    before = model.get_parameter("decoder.layers.1.cross_attention.output.weight")
    assert (changed[:, 4:] == 0).all()
    torch.testing.assert_close(changed[:, :4], before[:, :4], rtol=0, atol=0)
    assert (before[:, 4:] != 0).any()
    same = [name for name, x in found.named_parameters() if x is model.get_parameter(name)]
    assert len(same) == len(list(model.parameters())) - 1


@pytest.mark.parametrize("bias", [False, True])
def test_the_mean_of_a_head_may_replace_it(bias: bool) -> None:
    model = random_model(small_config(attention_bias=bias)).eval()
    pairs = [(SOURCE, TARGET), (SOURCE[:2], TARGET[:1])]
    inputs = [(torch.tensor([s]), torch.tensor([[BOS, *t]])) for s, t in pairs]
    means = mean_outputs(model, inputs)
    assert means["decoder.1.cross"].shape == (2, 4)
    off = (Head("encoder.1.self", 1), Head("decoder.1.cross", 2))
    replay = TranslationReplay(model, SOURCE, TARGET)
    found = replay.log_probabilities([Change(), Change(heads=off)], means=means)
    close(found[0], log_probabilities(model, SOURCE, TARGET))
    close(found[1], log_probabilities(without_heads(model, off, means), SOURCE, TARGET))
    # For one sentence whose every output is that mean nothing changes.
    one = mean_outputs(model, [(torch.tensor([[3]]), torch.tensor([[BOS]]))])
    same = without_heads(model, heads_of(model), one)
    with torch.no_grad():
        args = torch.tensor([[3]]), torch.tensor([[BOS]])
        torch.testing.assert_close(same(*args), model(*args))


def test_the_mean_is_that_of_all_positions_of_all_sentences() -> None:
    from clearhead.inspect.recording import record_translation

    model = random_model(small_config()).eval()
    pairs = [(SOURCE, TARGET), (SOURCE[:2], TARGET[:1])]
    means = mean_outputs(model, [(torch.tensor([s]), torch.tensor([[BOS, *t]])) for s, t in pairs])
    keep: Any = frozenset({"head_outputs"})
    records = [record_translation(model, s, t, keep).details for s, t in pairs]
    for name, mean in means.items():
        outputs = np.concatenate([r[f"{name}.head_outputs"] for r in records], axis=1)
        close(mean.numpy(), outputs.mean(axis=1))


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_without_positions_removing_a_word_is_leaving_it_out(norm: Any) -> None:
    model = random_model(small_config(positions=NoPositions(), norm=norm)).eval()
    replay = TranslationReplay(model, SOURCE, TARGET)
    gone = [(0,), (2,), (1, 3)]
    found = replay.log_probabilities([Change(source=each) for each in gone])
    for each, scores in zip(gone, found, strict=True):
        left = [token for i, token in enumerate(SOURCE) if i not in each]
        close(scores, log_probabilities(model, left, TARGET))
    # A removed word of the prefix: what comes after is predicted as if it were not there.
    (scores,) = replay.log_probabilities([Change(prefix=(1,))])
    close(scores[2:], log_probabilities(model, SOURCE, TARGET[1:])[1:])
    close(scores[:1], log_probabilities(model, SOURCE, TARGET)[:1])


@pytest.mark.parametrize("features", [False, True])
def test_a_classifier_is_replayed_likewise(features: bool) -> None:
    model = random_classifier(features, positions=NoPositions()).eval()
    row = torch.randn(5, 6).numpy() if features else np.array([1, 5, 2, 2, 4])
    replay = ClassificationReplay(model, row)
    every = np.arange(3)[None]
    with torch.no_grad():

        def expected(part: Any, of: Any = model) -> np.ndarray:
            return of(torch.as_tensor(part)[None]).log_softmax(-1).double().numpy()

        assert replay.outcome.item() == expected(row).argmax()
        off = (Head("encoder.2.self", 1),)
        changes = [Change(), Change(source=(1,)), Change(source=(0, 4)), Change(heads=off)]
        found = replay.log_probabilities(changes, every)
        close(found[0], expected(row))
        close(found[1], expected(np.delete(row, 1, axis=0)))
        close(found[2], expected(np.delete(row, [0, 4], axis=0)))
        close(found[3], expected(row, without_heads(model, off)))
    assert effects(replay).by_prefix.shape == (0, 1, 1)


def test_labels_that_are_independent_have_probabilities_of_their_own() -> None:
    """And so has the absence of each; all that are more probable than not are outcomes."""
    model, row = random_classifier(False).eval(), np.array([1, 5, 2])
    with torch.no_grad():
        model.output.bias.copy_(torch.tensor([9.0, -9.0, 6.0]))
        logits = model(torch.as_tensor(row)[None])[0]
    replay = ClassificationReplay(model, row, multi_label=True, temperature=2.0)
    present = torch.sigmoid(logits / 2).numpy()
    assert (present >= 0.5).tolist() == [True, False, True]
    assert replay.outcome[:, 0].tolist() == sorted((0, 2), key=lambda i: -present[i])
    close(replay.log_probabilities()[0, :, 0], np.log(present[replay.outcome[:, 0]]))
    every = np.tile(np.arange(6), (2, 1))
    (found,) = replay.log_probabilities(choices=every)
    close(found, np.tile(np.log([*present, *(1 - present)]), (2, 1)))
    assert effects(replay).by_head.shape == (4, 2, 1)
    with torch.no_grad():
        model.output.bias.copy_(torch.tensor([-9.0, -8.0, -30.0]))
        logits = model(torch.as_tensor(row)[None])[0]
    assert (logits < 0).all()
    replay = ClassificationReplay(model, row, multi_label=True)
    assert replay.outcome.tolist() == [[int(logits.argmax())]]


def test_all_changes_in_one_batch_are_those_one_by_one() -> None:
    replay = TranslationReplay(random_model(small_config()).eval(), SOURCE, TARGET)
    found = effects(replay)
    complete = replay.log_probabilities()[0]

    def gain(change: Change) -> np.ndarray:
        return complete - replay.log_probabilities([change])[0]

    for head, row in zip(found.heads, found.by_head, strict=True):
        close(row, gain(Change(heads=(head,))))
    for i, row in enumerate(found.by_source):
        close(row, gain(Change(source=(i,))))
    for i, row in enumerate(found.by_prefix, start=1):
        close(row, gain(Change(prefix=(i,))))
        close(row[:i], np.zeros((i, 1)))
    close(found.source, gain(Change(source=tuple(range(len(SOURCE))))))
    close(found.prefix, gain(Change(prefix=(1, 2, 3))))


def test_small_batches_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    from clearhead.inspect import replay as module

    def found(replay: Replay) -> list[np.ndarray]:
        each = effects(replay)
        return [each.by_head, each.by_source, each.by_prefix]

    model = random_model(small_config()).eval()
    whole = found(TranslationReplay(model, SOURCE, TARGET))
    monkeypatch.setattr(module, "TOKENS", 20)
    for one, other in zip(whole, found(TranslationReplay(model, SOURCE, TARGET)), strict=True):
        close(one, other)


def test_the_best_are_the_most_probable() -> None:
    model = random_model(small_config()).eval()
    replay = TranslationReplay(model, SOURCE, TARGET)
    ids, scores = replay.best(4)
    every = replay.log_probabilities(choices=np.tile(np.arange(11), (4, 1)))[0]
    close(scores, -np.sort(-every, axis=1)[:, :4])
    close(np.take_along_axis(every, ids, axis=1), scores)


def test_a_target_that_fills_all_positions_or_is_unfinished_has_no_end() -> None:
    model = random_model(small_config(positions=Learned(max_length=5))).eval()
    assert TranslationReplay(model, SOURCE, TARGET, finished=False).outcome.size == 3
    full = TranslationReplay(model, SOURCE, [4] * 5)
    assert full.outcome[:, 0].tolist() == [4] * 5
    assert full.log_probabilities().shape == (1, 5, 1)


def test_the_gradient_by_heads_is_that_of_their_factors() -> None:
    replay = TranslationReplay(random_model(small_config()).eval(), SOURCE, TARGET)
    found = replay.head_gradients()
    step = 1e-6

    def score(number: int, factor: float) -> float:
        switches = replay._switches.values()
        for switch in switches:
            switch.keep = torch.ones(1, 2, dtype=torch.float64)
        for switch, first in zip(switches, itertools.count(0, 2), strict=False):
            if first <= number < first + 2:
                switch.keep[0, number - first] = factor
        with torch.no_grad():
            logits = replay._run([Change()])
        ids = torch.as_tensor(replay.outcome)[None]
        return logits.log_softmax(-1).gather(-1, ids).sum().item()

    for number in range(len(replay.heads)):
        slope = (score(number, 1 + step) - score(number, 1 - step)) / (2 * step)
        assert found[number] == pytest.approx(slope, abs=1e-6)


def test_a_link_is_a_knockout_in_all_layers() -> None:
    model = random_model(small_config()).eval()
    outputs, sources = [(0,), (1, 2), (3,)], [(0, 1), (4,), (0, 1, 2, 3, 4)]
    found = link_effects(TranslationReplay(model, SOURCE, TARGET), outputs, sources)
    before = log_probabilities(model, SOURCE, TARGET)[:, 0]
    expected = np.empty((3, 3))
    for (i, output), (j, source) in itertools.product(enumerate(outputs), enumerate(sources)):
        with clearhead.edit(model) as e:
            e.knockout(["decoder.1.cross", "decoder.2.cross"], query=output, key=source)
            after = log_probabilities(model, SOURCE, TARGET)[:, 0]
        expected[i, j] = (before - after)[[*output]].sum()
    close(found, expected)
    assert (np.abs(found) > 1e-6).all()


def test_names_of_heads_stand_for_all_heads_below_them() -> None:
    heads = heads_of(random_model(small_config()))
    assert len(heads) == 2 * 2 + 2 * 2 * 2
    assert [str(head) for head in heads[:2]] == ["encoder.1.self.1", "encoder.1.self.2"]
    assert chosen_heads("decoder.2.cross.2", heads) == (Head("decoder.2.cross", 2),)
    assert len(chosen_heads("encoder.1", heads)) == 2
    assert chosen_heads(["decoder", "encoder"], heads) == heads
    assert chosen_heads("decoder.1.self.1, encoder.1.self.1", heads)[0] == heads[0]
    for wrong in ("decoder.3.cross.1", "encoder.1.self.3", "", "encoder.1.sel"):
        with pytest.raises(ConfigError):
            chosen_heads(wrong, heads)


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("decoder.2.corss", "decoder.2.cross"),
        ("decodr.2", "decoder.2"),
        ("encodr", "encoder"),
        ("decoder.2.crosss.1", "decoder.2.cross.1"),
    ],
)
def test_a_misspelt_name_of_several_heads_has_a_suggestion(wrong: str, meant: str) -> None:
    heads = heads_of(random_model(small_config()))
    with pytest.raises(ConfigError) as raised:
        chosen_heads(["encoder.1", wrong], heads)
    assert raised.value.todo == f"did you mean {meant}?"
