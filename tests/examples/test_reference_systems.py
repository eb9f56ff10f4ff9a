"""The reference systems: each lesson learns, and is exactly the model that its author described.

The formulation here is written from that description with numpy alone, head by head, with masks,
positions and norms of its own. It is given the weights of the model that the lesson makes, in
float64, and must give the same numbers.
"""

from __future__ import annotations

import json
import os
import re
import runpy
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import clearhead
from clearhead.data.preparation import learn_tokenizers
from clearhead.data.reading.parts import parts_of
from clearhead.decoding.fast_decoder import FastDecoder
from clearhead.inspect.recording import record_classification, record_translation
from clearhead.model.dropout import Dropout
from clearhead.model.inputs import FeatureProjection
from clearhead.model.transformer import EncoderClassifier, EncoderDecoder
from clearhead.nn import Transformer, TransformerClassifier
from clearhead.settings import DropoutConfig, config_from
from clearhead.tokenizer import WordTokenizer
from reference_examples import PATHS, lesson, model_of
from scripts import ROOT
from small_models import padded

Numbers = np.ndarray[Any, np.dtype[Any]]

SMALL = dict(layers=1, d_model=32)


@pytest.fixture(autouse=True)
def _begins_alike() -> None:
    torch.manual_seed(1)


def make_reference(*words: str) -> subprocess.CompletedProcess[str]:
    """Run make with an environment of its own."""
    make = shutil.which("make")
    if make is None:
        pytest.skip("there is no make")
    surroundings = {name: value for name, value in os.environ.items() if "MAKE" not in name}
    return subprocess.run(
        [make, *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**surroundings, "SYSTEM": "Darwin"},
    )


@pytest.mark.parametrize("letter", ["", *sorted(PATHS)])
def test_make_runs_the_system_that_is_named_or_all(letter: str) -> None:
    words = [f"SYSTEM={letter}"] if letter else []
    done = make_reference("--dry-run", "reference", *words)
    assert done.returncode == 0
    named = re.findall(r"examples/reference/(\w)\w*\.py", done.stdout)
    assert named == ([letter] if letter else sorted(PATHS))


# The lessons, with smaller models.


@pytest.mark.slow
@pytest.mark.parametrize("letter", ["c", "d"])
@pytest.mark.parametrize("learns", [True, False])
def test_a_lesson_fails_if_its_model_has_not_learned(
    letter: str, learns: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if not learns:
        monkeypatch.setattr(torch.optim.SGD, "step", lambda _: None)
        monkeypatch.setattr(torch.optim.Adam, "step", lambda _: None)
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(PATHS[letter]), run_name="__main__")
    assert ended.value.code == (not learns)


def printed_losses(lines: list[str], unit: str) -> dict[int, float]:
    """The losses in lines `epoch 10: loss 0.5` by their number."""
    found = (re.fullmatch(rf"{unit} +(\d+): loss (\S+)", line) for line in lines)
    return {int(each[1]): float(each[2]) for each in found if each}


@pytest.mark.slow
def test_system_a_learns_its_pairs_by_heart_and_scores_by_sums(
    capsys: pytest.CaptureFixture,
) -> None:
    script = lesson("a")
    model = script.make_model(**SMALL)
    script.train(model, rate=3e-3)
    losses = printed_losses(capsys.readouterr().out.splitlines(), "epoch")
    assert [*losses] == [*range(10, 101, 10)]
    assert losses[100] < losses[10]
    assert script.show(model) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[-1] for line in lines] == ["(right)"] * 6 + ["(unseen)"] * 2
    for source, words, score in map(translated, lines):
        ids = script.encode(" ".join(words))
        assert score == pytest.approx(log_probability(model, script.encode(source), ids), abs=1e-3)


def translated(line: str) -> tuple[str, list[str], float]:
    """The source, the words and the score of a line of system A."""
    source, _, rest = line.partition(" = ")
    *words, score, _ = rest.split()
    return source.strip(), words, float(score)


@torch.no_grad()
def log_probability(model: Transformer, source: list[int], ids: list[int]) -> float:
    """Of an output and its end, by one pass over all."""
    logits = model(torch.tensor([source]), begun(ids))
    return -float(F.cross_entropy(logits[0], torch.tensor([*ids, 2]), reduction="sum"))


@pytest.mark.slow
def test_system_a_searches_as_described(capsys: pytest.CaptureFixture) -> None:
    """Finished hypotheses keep their place among the three, and the best score wins."""
    script = lesson("a")
    model = script.make_model(**SMALL)
    script.train(model, epochs=20, rate=3e-3)  # it is not sure, so other searches find others
    capsys.readouterr()
    script.show(model)
    lines = capsys.readouterr().out.splitlines()
    lengths = set()
    for source, words, score in map(translated, lines):
        expected, best = beam_of_three(model, script.encode(source))
        assert script.encode(" ".join(words)) == expected
        assert score == pytest.approx(best, abs=1e-3)
        lengths.add(len(words))
    assert len(lengths) > 1


@torch.no_grad()
def beam_of_three(model: Transformer, source: list[int]) -> tuple[list[int], float]:
    """The ids of the best output without its end, and its score: the search as described.

    What ends at the length limit is only taken if nothing has ended by itself.
    """
    beam: list[tuple[float, list[int]]] = [(0.0, [])]
    for _ in range(20):
        candidates = []
        for score, ids in beam:
            if ids[-1:] == [2]:
                candidates.append((score, ids))
                continue
            of_next = model(torch.tensor([source]), begun(ids))[0, -1].log_softmax(dim=-1)
            candidates += [(score + float(more), [*ids, i]) for i, more in enumerate(of_next)]
        beam = sorted(candidates, reverse=True)[:3]
    score, ids = max(beam, key=lambda each: (each[1][-1] == 2, each[0]))
    return [i for i in ids if i != 2], score


@pytest.mark.slow
def test_system_c_learns_its_pairs_by_heart_and_shows_three_lists_of_attentions(
    capsys: pytest.CaptureFixture,
) -> None:
    script = lesson("c")
    model = script.make_model(**SMALL)
    script.train(model, rate=1e-2)
    losses = printed_losses(capsys.readouterr().out.splitlines(), "step")
    assert [*losses] == [*range(1, 31)]
    assert script.show(model) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "['ich', 'mochte', 'ein', 'bier'] -> ['i', 'want', 'a', 'beer', '.']  (right)" in lines
    assert "['ich', 'mochte', 'ein', 'cola'] -> ['i', 'want', 'a', 'coke', '.']  (right)" in lines
    shapes = {"encoder self-": (8, 4, 4), "decoder self-": (8, 6, 6), "decoder-encoder ": (8, 6, 4)}
    for name, shape in shapes.items():
        heading = f"{name}attention: 1 layers, each {shape} (heads, queries, keys)"
        assert lines.count(heading) == 2
        begin = lines.index(heading) + 1
        assert [line.split(":")[0] for line in lines[begin : begin + 8]] == [
            f"  head {number}" for number in range(1, 9)
        ]
        rows = lines[begin].partition(": ")[2].split(", ")
        assert len(rows) == shape[1]
        assert rows[0].startswith("ich: " if name.startswith("encoder") else "S → i: ")


@pytest.mark.slow
@torch.no_grad()
def test_what_system_c_shows_is_what_its_heads_attend_to_most(
    capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.set_default_dtype(torch.float64)
    try:
        made = pair_of("c")
    finally:
        torch.set_default_dtype(torch.float32)
    script = lesson("c")
    monkeypatch.setattr(script, "PAIRS", {"ich mochte ein bier": "i want a beer ."})
    monkeypatch.setattr(made.model, "generate", lambda _: [script.ENGLISH.encode("i want .")])
    assert script.show(made.model) == 1
    lines = capsys.readouterr().out.splitlines()
    source = script.GERMAN.encode("ich mochte ein bier")
    target = [1, *script.ENGLISH.encode("i want .")]
    made.formulation.logits(np.array([source]), np.array([target]))
    sides = {"source": script.GERMAN.decode(source), "target": script.ENGLISH.decode(target)}
    names = {side: words.split() for side, words in sides.items()}
    for number, (kind, keys) in enumerate(
        (
            ("encoder self_attention", "source"),
            ("decoder self_attention", "target"),
            ("decoder cross_attention", "source"),
        )
    ):
        weights = made.formulation.attentions[kind][-1][0]
        assert len(weights) == 8
        for head, printed in zip(weights, lines[3 + 9 * number :], strict=False):
            shown = [each.rpartition(": ")[2] for each in printed.split(", ")]
            assert shown == [f"{names[keys][row.argmax()]} {row.max():.2f}" for row in head]


@pytest.mark.slow
def test_system_e_generates_untrained(capsys: pytest.CaptureFixture) -> None:
    lesson("e").untrained()
    lines = capsys.readouterr().out.splitlines()
    symbols = [list(map(int, line.partition(":")[2].split())) for line in lines]
    assert len(symbols) == 10
    assert all(len(row) == 1 + 9 and set(row) <= set(range(11)) for row in symbols)
    assert all(row[0] == 0 for row in symbols)
    assert len(set(map(tuple, symbols))) > 1


@pytest.mark.slow
def test_system_e_begins_to_copy(capsys: pytest.CaptureFixture) -> None:
    script = lesson("e")
    model = script.make_model(script.SYMBOLS, **SMALL)
    script.train(model, steps=200)
    losses = printed_losses(capsys.readouterr().out.splitlines(), "step")
    assert [*losses] == [100, 200]
    assert losses[200] < losses[100]
    wrong = script.show(model)
    assert capsys.readouterr().out == f"copying: {1000 - wrong} of 1000 unseen sequences right\n"
    found = model.generate(script.TEST)
    assert wrong == sum(
        ids != [i for i in row if i] for ids, row in zip(found, script.TEST.tolist(), strict=True)
    )


def test_system_e_is_tested_on_sequences_that_it_has_not_seen() -> None:
    script = lesson("e")
    parts = [
        [tuple(i for i in row if i) for row in rows.tolist()]
        for rows in (script.TRAINING, script.TEST)
    ]
    assert [len(part) for part in parts] == [19_000, 1000]
    assert len({row for part in parts for row in part}) == 20_000
    for part in parts:
        assert {len(row) for row in part} == {*range(4, 13)}
        assert {symbol for row in part for symbol in row} == {*range(3, 13)}
    targets = script.targets(script.TEST).tolist()
    assert targets == padded([[1, *row, 2] for row in parts[1]], 14).tolist()


# Vocabularies and training, by the description.


def test_system_a_has_one_vocabulary_of_sorted_words() -> None:
    script = lesson("a")
    words = (
        "hello world i love you the cat is black good morning this is a book what is your name "
        "hola mundo te amo el gato es negro buenos dias este es un libro como te llamas"
    ).split()
    expected = ["<pad>", "<sos>", "<eos>", *sorted(set(words)), "<unk>"]
    assert expected == script.NAMES
    assert script.encode("I Love CAT") == [expected.index(w) for w in "i love cat".split()]
    assert script.encode("i love dogs") == [*script.encode("i love"), expected.index("<unk>")]


def test_system_c_has_a_vocabulary_of_words_for_each_side() -> None:
    script = lesson("c")
    assert script.GERMAN.names[:3] == script.ENGLISH.names[:3] == ["P", "S", "E"]
    assert sorted(script.GERMAN.names[3:]) == sorted("ich mochte ein bier cola".split())
    assert sorted(script.ENGLISH.names[3:]) == sorted("i want a beer coke .".split())


OPTIMIZERS: dict[str, tuple[Callable[[Any], torch.optim.Optimizer], dict[str, Any]]] = {
    "a": (
        lambda parameters: torch.optim.Adam(parameters, lr=1e-4),
        {"kind": "adam", "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8},
    ),
    "c": (
        lambda parameters: torch.optim.SGD(parameters, lr=1e-3, momentum=0.99),
        {"kind": "sgd", "momentum": 0.99},
    ),
}
RATES = {"a": 1e-4, "c": 1e-3}


def small_without_dropout(letter: str) -> Transformer:
    torch.manual_seed(1)
    model = model_of(letter, **SMALL)
    for module in model.modules():
        if isinstance(module, Dropout):
            module.rate = 0.0
    return model


@pytest.mark.slow
@pytest.mark.parametrize("letter", OPTIMIZERS)
def test_a_system_trains_on_all_its_pairs_at_once_by_the_optimizer_it_names(
    letter: str, tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lesson and `clearhead train` compute the losses of a plain loop."""
    script = lesson(letter)
    data = tmp_path / "data.tsv"
    data.write_text("".join(f"{a}\t{b}\n" for a, b in script.PAIRS.items()), encoding="utf-8")
    config = config_from(
        {
            "folder": str(tmp_path / "model"),
            "data": {"train": [str(data)], "validation": [str(data)], "drop_held_out": False},
            "tokenizer": {"kind": "words", "max_vocabulary": 0, "joint": letter == "a"},
            "training": {
                "max_epochs": 10,
                "label_smoothing": 0.0,
                "clip_norm": 0.0,
                "report_every": 1,
                "average_last": 1,
                "device": "cpu",
                "optimizer": OPTIMIZERS[letter][1],
                "schedule": {"kind": "constant", "peak": RATES[letter], "warmup": 0},
            },
        }
    )
    settings = small_without_dropout(letter).settings
    config = replace(config, model=replace(settings, dropout=DropoutConfig()))
    # The vocabularies of the run; its two for C have another order than those of the lesson.
    sides = [cast(WordTokenizer, each) for each in learn_tokenizers(config, parts_of(config))]
    if letter == "c":
        for side, words in zip(sides, (script.GERMAN, script.ENGLISH), strict=True):
            monkeypatch.setattr(words, "names", [*side.pieces(range(len(side)))])

    # The loop, written out.
    model = small_without_dropout(letter)
    sources, targets = (
        [side.encode(text) for text in texts]
        for side, texts in zip(sides, (script.PAIRS, script.PAIRS.values()), strict=True)
    )
    optimizer = OPTIMIZERS[letter][0](model.parameters())
    expected = []
    for _ in range(10):
        logits = model(padded(sources), padded([[1, *ids] for ids in targets]))
        outputs = padded([[*ids, 2] for ids in targets])
        logits = logits.flatten(0, 1)
        loss = F.cross_entropy(logits, outputs.flatten(), ignore_index=0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        expected.append(loss.item())
    assert expected[-1] < expected[0]

    script.train(small_without_dropout(letter), epochs=10)
    unit = "epoch" if letter == "a" else "step"
    losses = printed_losses(capsys.readouterr().out.splitlines(), unit)
    assert losses
    for number, loss in losses.items():
        assert loss == pytest.approx(expected[number - 1], rel=1e-4)

    clearhead.train(config)
    log = (tmp_path / "model/training/log.jsonl").read_text(encoding="utf-8").splitlines()
    events = [json.loads(line) for line in log]
    logged = [event["loss"] for event in events if event["event"] == "Progress"]
    assert logged == pytest.approx(expected, rel=1e-4)


# Numerical parity.


def sinusoids(length: int, d_model: int) -> Numbers:
    """PE(pos,2i) = sin(pos/10000^(2i/d_model)), PE(pos,2i+1) = cos(same angle)."""
    table = np.zeros((length, d_model))
    for position in range(length):
        for i in range(d_model // 2):
            angle = position / 10000 ** (2 * i / d_model)
            table[position, 2 * i : 2 * i + 2] = np.sin(angle), np.cos(angle)
    return table


def variance_norm(x: Numbers) -> Numbers:
    """(x − mean) / √(variance + 1e-5), the variance biased: systems A and C."""
    centred = x - x.sum(axis=-1, keepdims=True) / x.shape[-1]
    variance = (centred**2).sum(axis=-1, keepdims=True) / x.shape[-1]
    return centred / np.sqrt(variance + 1e-5)


def deviation_norm(x: Numbers) -> Numbers:
    """(x − mean) / (std + 1e-6), the deviation unbiased: system E."""
    centred = x - x.sum(axis=-1, keepdims=True) / x.shape[-1]
    variance = (centred**2).sum(axis=-1, keepdims=True) / (x.shape[-1] - 1)
    return centred / (np.sqrt(variance) + 1e-6)


def padding(keys: Numbers, queries: int) -> Numbers:
    """(B, queries, keys), true where a key is padding."""
    return np.repeat((keys == 0)[:, None, :], queries, axis=1)


def subsequent(length: int) -> Numbers:
    """(1, T, T), true above the diagonal."""
    return np.array([[[key > query for key in range(length)] for query in range(length)]])


@dataclass
class Formulation:
    """An encoder-decoder as the descriptions have it.

    `masked` is what a masked score becomes; `biased` names the parts that have a bias.
    `attentions` keeps the weights of each attention, (B, heads, queries, keys), layer by layer.
    """

    weights: dict[str, Numbers]
    layers: int
    scaled: bool
    pre_norm: bool
    masked: float
    norm: Callable[[Numbers], Numbers]
    biased: tuple[str, ...]
    d_model: int = 512
    heads: int = 8
    attentions: dict[str, list[Numbers]] = field(default_factory=lambda: defaultdict(list))

    def logits(self, source: Numbers, target: Numbers) -> Numbers:
        x = self.embed("source_input", source)
        unseen = padding(source, source.shape[1])
        for i in range(self.layers):
            x = self.layer(f"encoder.layers.{i}", x, {"self_attention": (None, unseen)})
        memory = self.scaled_norm("encoder.norm", x) if self.pre_norm else x
        x = self.embed("target_input", target)
        unseen = padding(target, target.shape[1]) | subsequent(target.shape[1])
        unseen_source = padding(source, target.shape[1])
        for i in range(self.layers):
            attentions = {
                "self_attention": (None, unseen),
                "cross_attention": (memory, unseen_source),
            }
            x = self.layer(f"decoder.layers.{i}", x, attentions)
        return self.linear("output", self.scaled_norm("decoder.norm", x) if self.pre_norm else x)

    def embed(self, name: str, ids: Numbers, start_pos: int = 0) -> Numbers:
        """Embedded ids; the first has position `start_pos`."""
        x = self.weights[f"{name}.embedding.weight"][ids]
        x = x * np.sqrt(self.d_model) if self.scaled else x
        return x + sinusoids(start_pos + ids.shape[1], self.d_model)[start_pos:]

    def layer(
        self, name: str, x: Numbers, attentions: dict[str, tuple[Numbers | None, Numbers]]
    ) -> Numbers:
        """Sub-layers in their order; each attention is over the memory or over the input itself."""

        def attend(kind: str, y: Numbers) -> Numbers:
            memory, unseen = attentions[kind]
            return self.attend(f"{name}.{kind}", y, y if memory is None else memory, unseen)

        def feed(y: Numbers) -> Numbers:
            hidden = np.maximum(0, self.linear(f"{name}.feed_forward.hidden", y))
            return self.linear(f"{name}.feed_forward.output", hidden)

        number = 0
        for number, kind in enumerate(attentions):
            x = self.sublayer(f"{name}.residuals.{number}.norm", x, lambda y, k=kind: attend(k, y))
        return self.sublayer(f"{name}.residuals.{number + 1}.norm", x, feed)

    def sublayer(self, norm: str, x: Numbers, f: Callable[[Numbers], Numbers]) -> Numbers:
        if self.pre_norm:
            return x + f(self.scaled_norm(norm, x))
        return self.scaled_norm(norm, x + f(x))

    def attend(self, name: str, x: Numbers, looked_at: Numbers, unseen: Numbers) -> Numbers:
        """Concat(head_1 … head_h)W^O, one head after the other."""
        width = self.d_model // self.heads
        contexts, weights = [], []
        for head in range(self.heads):
            first = head * width
            # W^Q, W^K and W^V lie one below the other, in each the heads.
            q, k, v = (
                self.linear(f"{name}.packed", y, part * self.d_model + first, width)
                for part, y in enumerate((x, looked_at, looked_at))
            )
            scores = q @ k.transpose(0, 2, 1) / np.sqrt(width)
            scores = np.where(unseen, self.masked, scores)
            powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
            weights.append(powers / powers.sum(axis=-1, keepdims=True))
            contexts.append(weights[-1] @ v)
        stack, _, _, kind = name.split(".")
        self.attentions[f"{stack} {kind}"].append(np.stack(weights, axis=1))
        return self.linear(f"{name}.output", np.concatenate(contexts, axis=-1))

    def linear(self, name: str, x: Numbers, first: int = 0, count: int | None = None) -> Numbers:
        """Some rows of a matrix times x, plus their bias if the description has one."""
        rows = slice(first, None if count is None else first + count)
        y = x @ self.weights[f"{name}.weight"][rows].T
        if any(part in name for part in self.biased):
            y = y + self.weights[f"{name}.bias"][rows]
        return y

    def scaled_norm(self, name: str, x: Numbers) -> Numbers:
        return self.weights[f"{name}.weight"] * self.norm(x) + self.weights[f"{name}.bias"]


SYSTEMS: dict[str, dict[str, Any]] = {
    "a": dict(
        layers=6,
        scaled=True,
        pre_norm=False,
        masked=-np.inf,
        norm=variance_norm,
        biased=("feed_forward",),
    ),
    "c": dict(layers=6, scaled=False, pre_norm=False, masked=-1e9, norm=variance_norm, biased=()),
    "e": dict(
        layers=2,
        scaled=True,
        pre_norm=True,
        masked=-1e9,
        norm=deviation_norm,
        biased=("attention", "feed_forward", "output"),
    ),
}
SOURCE = [[3, 4, 5, 6, 7], [7, 3, 5], [4]]
TARGET = [[1, 5, 4], [1, 8, 7, 6, 5, 3], [1]]


@dataclass
class Pair:
    """A model of clearhead and the formulation with the same weights."""

    model: EncoderDecoder
    formulation: Formulation


@pytest.fixture(scope="module", params=SYSTEMS)
def pair(request: pytest.FixtureRequest) -> Pair:
    """Each system in float64, of its full size, norms and biases drawn too."""
    # The sinusoids too are then made in float64.
    torch.set_default_dtype(torch.float64)
    try:
        return pair_of(request.param)
    finally:
        torch.set_default_dtype(torch.float32)


def pair_of(letter: str) -> Pair:
    torch.manual_seed(1)
    model = model_of(letter).eval()
    for parameter in model.parameters():
        if parameter.dim() == 1:
            torch.nn.init.normal_(parameter, mean=0.7, std=0.3)
    weights = {name: p.detach().numpy() for name, p in model.named_parameters()}
    if letter == "a":  # one matrix for all three
        one = weights["source_input.embedding.weight"]
        assert "target_input.embedding.weight" not in weights
        assert "output.weight" not in weights
        weights |= {"target_input.embedding.weight": one, "output.weight": one}
    return Pair(model, Formulation(weights, **SYSTEMS[letter]))


def begun(ids: list[int]) -> Tensor:
    return torch.tensor([[1, *ids]])


def assert_equal(found: Tensor | Numbers, expected: Numbers) -> None:
    np.testing.assert_allclose(np.asarray(found), expected, rtol=0, atol=1e-10)


@pytest.mark.slow
@torch.no_grad()
def test_the_logits_of_padded_pairs_are_those_of_the_description(pair: Pair) -> None:
    source, target = padded(SOURCE), padded(TARGET)
    found = pair.model(source, target)
    expected = pair.formulation.logits(source.numpy(), target.numpy())
    for row, ids in enumerate(TARGET):
        # Beyond a target's end nothing is looked at: there the masks differ.
        assert_equal(found[row, : len(ids)], expected[row, : len(ids)])


@pytest.mark.slow
@torch.no_grad()
def test_the_logits_of_each_step_are_those_of_the_description(pair: Pair) -> None:
    source = padded(SOURCE)
    written = np.random.default_rng(1).integers(3, 9, (len(SOURCE), 4))
    decoder = FastDecoder(pair.model)
    state = decoder.start(source)
    for step in range(4):
        found = decoder.step(torch.from_numpy(written[:, step]), state)
        expected = pair.formulation.logits(source.numpy(), written[:, : step + 1])
        assert_equal(found, expected[:, -1])


@torch.no_grad()
def test_positions_are_added_from_a_start(pair: Pair) -> None:
    ids = padded(TARGET)
    found = pair.model.target_input(ids, start=13)
    assert_equal(found, pair.formulation.embed("target_input", ids.numpy(), start_pos=13))


@pytest.mark.slow
def test_recorded_attentions_are_those_of_the_description(pair: Pair) -> None:
    pair.formulation.attentions.clear()
    pair.formulation.logits(padded(SOURCE).numpy(), padded(TARGET).numpy())
    expected = pair.formulation.attentions
    for row, (source, target) in enumerate(zip(SOURCE, TARGET, strict=True)):
        seen = record_translation(pair.model, source, target[1:])
        s, t = len(source), len(target)
        for found, kind, queries, keys in (
            (seen.encoder_attentions, "encoder self_attention", s, s),
            (seen.decoder_attentions, "decoder self_attention", t, t),
            (seen.cross_attentions, "decoder cross_attention", t, s),
        ):
            of_row = np.stack([layer[row, :, :queries, :keys] for layer in expected[kind]])
            assert_equal(found, of_row)


# The two classifiers.


@pytest.mark.slow
def test_system_b_classifies_sentences_that_it_has_not_seen(capsys: pytest.CaptureFixture) -> None:
    script = lesson("b")
    assert (len(script.TRAINING), len(script.TEST)) == (2000, 400)
    assert len({text for text, _ in (*script.TRAINING, *script.TEST)}) == 2400
    model = script.make_model(**SMALL)
    script.train(model, epochs=5)
    capsys.readouterr()
    wrong = script.show(model)
    *shown, verdict = capsys.readouterr().out.splitlines()
    with torch.no_grad():
        rows = [model(script.encode([text]))[0] for text, _ in script.TEST]
    found = [script.LABELS[int(row.argmax())] for row in rows]
    right = sum(a == b for a, (_, b) in zip(found, script.TEST, strict=True))
    assert verdict == f"accuracy: {right} of 400 unseen sentences, {right / 4:.1f} %"
    assert wrong == 400 - right
    assert right > 200  # of four labels that are equally frequent
    assert len(shown) == 8
    for line, label, (text, true) in zip(shown, found, script.TEST, strict=False):
        assert line.startswith(f"{text} ")
        assert line.split()[-3] == label
        assert line.endswith(f"({true})")


def test_no_word_of_system_bs_sentences_separates_praise_from_complaint() -> None:
    sentences = list(lesson("b").sentences())
    seen: dict[str, list[str]] = defaultdict(list)
    for text, label in sentences:
        for word in set(text.split()):
            seen[word].append(label)
    assert all(labels.count("praise") == labels.count("complaint") for labels in seen.values())
    assert len({text for text, _ in sentences}) == len(sentences) >= 2400


@pytest.mark.slow
def test_system_d_classifies_sequences_that_it_has_not_seen_and_draws_pictures(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    script = lesson("d")
    x, labels = script.X[1000:], script.LABELS[1000:]
    assert script.X.shape == (1200, 5, 8)
    assert len(script.X.flatten(1).unique(dim=0)) == 1200
    model = script.make_model()
    script.train(model, epochs=10)
    capsys.readouterr()
    wrong = script.show(model, tmp_path)
    verdict, said, *drawn = capsys.readouterr().out.splitlines()
    with torch.no_grad():
        right = sum(int(model(each[None]).argmax()) == i for each, i in zip(x, labels, strict=True))
    assert verdict == f"accuracy: {right} of 200 unseen sequences, {right / 2:.1f} %"
    assert wrong == 200 - right
    assert right > 100  # of four labels that are equally frequent
    # The event stands out from the noise.
    frame = int(x[0].norm(dim=-1).argmax())
    assert said.endswith(f"event '{script.EVENTS[labels[0]]}' is in frame {frame + 1}:")
    for name in ("encoder-heads", "encoder.1.self", "encoder.2.self", "encoder.1", "encoder.2"):
        picture = tmp_path / "figures" / name
        assert {f"{picture}.png", f"{picture}.svg"} <= set(drawn)
        assert Path(f"{picture}.png").read_bytes().startswith(b"\x89PNG")
    written = (tmp_path / "figures/encoder-heads.svg").read_text(encoding="utf-8")
    names = [*(f"head {number}" for number in (1, 2, 3, 4)), "layer 1", "layer 2"]
    assert all(name in written for name in names)
    written = (tmp_path / "figures/encoder.2.self.svg").read_text(encoding="utf-8")
    assert "query: frame" in written
    assert "key: frame" in written


def classifier_of(letter: str) -> TransformerClassifier:
    """The model of a lesson, in float64, norms and biases drawn too."""
    torch.set_default_dtype(torch.float64)
    try:
        torch.manual_seed(1)
        model = model_of(letter).eval()
    finally:
        torch.set_default_dtype(torch.float32)
    for parameter in model.parameters():
        if parameter.dim() == 1:
            torch.nn.init.normal_(parameter, mean=0.7, std=0.3)
    return model


@torch.no_grad()
def test_system_b_has_the_encoding_and_logits_of_its_description() -> None:
    model = classifier_of("b")
    config = model.settings

    def norm(x: Numbers) -> Numbers:
        centred = x - x.mean(axis=-1, keepdims=True)
        return centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-6)

    formulation = Formulation(
        {name: p.detach().numpy() for name, p in model.named_parameters()},
        layers=config.encoder_layers,
        scaled=True,
        pre_norm=False,
        masked=-1e9,
        norm=norm,
        biased=("attention", "feed_forward", "output"),
        d_model=config.d_model,
        heads=config.n_heads,
    )
    ids = padded([list(range(1, 30)), [5, 6, 7], [8]])
    x = formulation.embed("input", ids.numpy())
    unseen = padding(ids.numpy(), ids.shape[1])
    for i in range(config.encoder_layers):
        x = formulation.layer(f"encoder.layers.{i}", x, {"self_attention": (None, unseen)})
    assert_equal(model.encode(ids)[0], x)
    lengths = np.count_nonzero(ids.numpy(), axis=1)
    means = np.stack([row[:length].mean(axis=0) for row, length in zip(x, lengths, strict=True)])
    assert_equal(model(ids), formulation.linear("output", means))


def rates(model: EncoderClassifier | EncoderDecoder) -> dict[str, float]:
    """Where values are dropped, and how many."""
    return {name: m.rate for name, m in model.named_modules() if isinstance(m, Dropout) and m.rate}


def test_dropout_is_where_the_classifiers_have_it() -> None:
    layers = ("encoder.layers.0", "encoder.layers.1")
    of_b = [f"{layer}.residuals.{number}.dropout" for layer in layers for number in (0, 1)]
    assert rates(classifier_of("b")) == dict.fromkeys(["input.dropout", *of_b, "dropout"], 0.1)
    of_d = [f"{layer}.output_dropout" for layer in layers]
    assert rates(classifier_of("d")) == dict.fromkeys([*of_d, "dropout"], 0.1)


def test_dropout_is_where_the_translators_have_it() -> None:
    found = {letter: rates(model_of(letter)) for letter in SYSTEMS}
    inputs = ["source_input.dropout", "target_input.dropout"]
    of_e = list(inputs)
    for stack, attentions in (("encoder", ["self"]), ("decoder", ["self", "cross"])):
        for layer in (f"{stack}.layers.0", f"{stack}.layers.1"):
            of_e += [f"{layer}.{kind}_attention.dropout" for kind in attentions]
            of_e += [f"{layer}.feed_forward.activation"]
            # One for each attention, and one for the feed-forward network.
            of_e += [f"{layer}.residuals.{number}.dropout" for number in range(len(attentions) + 1)]
    assert found == {"a": {}, "c": dict.fromkeys(inputs, 0.1), "e": dict.fromkeys(of_e, 0.1)}


def torchs_own(model: EncoderClassifier) -> torch.nn.Sequential:
    """System D of PyTorch's own layers, with the weights of a model."""
    layer = torch.nn.TransformerEncoderLayer(32, 4, 128, batch_first=True)
    stack = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    projection = torch.nn.Linear(8, 32)
    names = {
        "self_attention.packed.": "self_attn.in_proj_",
        "self_attention.output.": "self_attn.out_proj.",
        "feed_forward.hidden.": "linear1.",
        "feed_forward.output.": "linear2.",
        "residuals.0.norm.": "norm1.",
        "residuals.1.norm.": "norm2.",
    }
    given = {}
    for name, parameter in model.encoder.named_parameters():
        for our, theirs in names.items():
            name = name.replace(our, theirs)
        given[name] = parameter
    system = torch.nn.Sequential(projection, stack).double().eval()
    stack.load_state_dict(given)
    projection.load_state_dict(cast(FeatureProjection, model.input).projection.state_dict())
    return system


@torch.no_grad()
def test_system_d_is_an_encoder_of_pytorchs_own_layers() -> None:
    model = classifier_of("d")
    x = torch.randn(10, 5, 8, dtype=torch.float64)
    found, _ = model.encode(x)
    assert found.shape == (10, 5, 32)
    assert_equal(found, torchs_own(model)(x).numpy())
    # Without positions the order of the frames means nothing.
    order = torch.tensor([3, 0, 4, 2, 1])
    assert_equal(model.encode(x[:, order])[0], found[:, order].numpy())


@torch.no_grad()
def test_system_ds_pictures_show_what_pytorchs_own_layers_compute() -> None:
    model = classifier_of("d")
    projection, stack = torchs_own(model)
    sequence = torch.randn(5, 8, dtype=torch.float64)
    seen = record_classification(model, sequence)
    x = projection(sequence[None])
    for found, layer in zip(seen.encoder, cast(Any, stack).layers, strict=True):
        assert_equal(found.input, x[0].numpy())
        attended, weights = layer.self_attn(x, x, x, average_attn_weights=False)
        assert_equal(found.attention, weights[0].numpy())
        assert_equal(found.attention_output, attended[0].numpy())
        after = layer.norm1(x + attended)
        fed = layer.linear2(layer.linear1(after).relu())
        assert_equal(found.feed_forward_output, fed[0].numpy())
        x = layer.norm2(after + fed)
        assert_equal(found.output, x[0].numpy())
