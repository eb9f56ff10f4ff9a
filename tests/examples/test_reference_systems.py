"""The reference systems: each example runs, and is exactly the model that its author described.

The formulation here is written from that description with numpy alone, head by head, with masks,
positions and norms of its own. It is given the weights of a model that clearhead built from the
example's TOML, in float64, and must give the same numbers.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import clearhead
from clearhead import api
from clearhead.data.preparation import learn_tokenizers
from clearhead.data.reading.parts import parts_of
from clearhead.data.trainable import read_labelled
from clearhead.decoding.fast_decoder import FastDecoder
from clearhead.decoding.torch_engine import TorchEngine
from clearhead.inspect.recording import record_classification, record_translation
from clearhead.model.build import build_classifier, build_model
from clearhead.model.dropout import Dropout
from clearhead.model.inputs import FeatureProjection
from clearhead.model.transformer import EncoderClassifier, EncoderDecoder
from clearhead.settings import ModelConfig, RunConfig, read_config
from clearhead.tokenizer import WordTokenizer
from reference_examples import PATHS, config_of
from scripts import ROOT, load_script
from small_models import padded

Numbers = np.ndarray[Any, np.dtype[Any]]

SMALL_ENCODER = ("model.encoder_layers=1", "model.d_model=32", "model.d_ff=64")
SMALL = (*SMALL_ENCODER, "model.decoder_layers=1")


@pytest.fixture(autouse=True)
def _in_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    """The paths in the examples are relative to this folder."""
    monkeypatch.chdir(ROOT)


@pytest.mark.parametrize("letter", sorted(PATHS))
def test_every_example_has_a_configuration_and_a_folder_of_its_own(letter: str) -> None:
    assert config_of(letter).folder == f"runs/reference-{letter}"


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
        env={**surroundings, "SYSTEM": "Darwin"},
    )


@pytest.mark.parametrize("letter", ["", *sorted(PATHS)])
def test_make_runs_the_system_that_is_named_or_all(letter: str) -> None:
    words = [f"SYSTEM={letter}"] if letter else []
    done = make_reference("--dry-run", "reference", *words)
    assert done.returncode == 0
    named = re.findall(r"examples/reference/(\w)\w*\.py", done.stdout)
    assert named == ([letter] if letter else sorted(PATHS))


# The examples, as a user runs them, but short and into a folder of the test.


def run(letter: str, folder: Path, *settings: str, words: tuple[str, ...] = ()) -> int:
    script = load_script(str(PATHS[letter].relative_to(ROOT)))
    small = SMALL if config_of(letter).task == "translation" else SMALL_ENCODER
    settings = (f"folder={folder}/model", "training.device=cpu", *small, *settings)
    return script.main([*words, *(word for setting in settings for word in ("--set", setting))])


def losses(folder: Path) -> list[float]:
    """The loss of each step of a run, from its log."""
    log = (folder / "model/training/log.jsonl").read_text(encoding="utf-8").splitlines()
    events = [json.loads(line) for line in log]
    return [event["loss"] for event in events if event["event"] == "Progress"]


@pytest.mark.slow
def test_system_a_learns_its_pairs_by_heart_and_scores_by_sums(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    assert run("a", tmp_path, "training.schedule.peak=3e-3") == 0
    lines = capsys.readouterr().out.splitlines()
    printed = [line for line in lines if line.startswith("epoch")]
    assert [int(line.split()[1].rstrip(":")) for line in printed] == list(range(10, 101, 10))
    shown = [float(line.split()[-1]) for line in printed]
    assert shown == pytest.approx(losses(tmp_path)[9::10], abs=1e-6)
    assert [line.split()[-1] for line in lines[10:]] == ["(right)"] * 6 + ["(unseen)"] * 2
    translator = api.load_translator(tmp_path / "model", device="cpu")
    model = cast(TorchEngine, translator.engine).model
    for line in lines[10:]:
        source, _, rest = line.partition(" = ")
        *words, score, _ = rest.split()
        ids = translator.target_tokenizer.encode(" ".join(words))
        with torch.no_grad():
            logits = model(torch.tensor([translator.source_tokenizer.encode(source)]), begun(ids))
        total = -F.cross_entropy(logits[0], torch.tensor([*ids, 2]), reduction="sum")
        assert float(score) == pytest.approx(float(total), abs=1e-3)


@pytest.mark.slow
def test_system_c_learns_its_pairs_by_heart_and_shows_three_lists_of_attentions(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    assert run("c", tmp_path, "training.schedule.peak=1e-2") == 0
    lines = capsys.readouterr().out.splitlines()
    printed = [line for line in lines if line.startswith("step")]
    assert [int(line.split()[1].rstrip(":")) for line in printed] == list(range(1, 31))
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
        queries = lines[begin].split("→")
        assert len(queries) == 1 + shape[1]
        assert queries[0].endswith("ich" if name.startswith("encoder") else "<sos>")


@pytest.mark.slow
def test_system_e_generates_untrained_and_begins_to_copy(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    names = ("train", "validation", "test")
    code = run(
        "e",
        tmp_path,
        *(f"data.{name}=['{tmp_path}/{name}.tsv']" for name in names),
        *("training.max_steps=30", "training.report_every=1", "search.max_length=6"),
        words=("--pairs", "300"),
    )
    *untrained, verdict = capsys.readouterr().out.splitlines()
    symbols = [list(map(int, line.partition(":")[2].split())) for line in untrained]
    assert len(symbols) == 10
    assert all(len(row) == 1 + 9 and set(row) <= set(range(11)) for row in symbols)
    assert all(row[0] == 0 for row in symbols)
    assert len(set(map(tuple, symbols))) > 1
    assert verdict.endswith(" of 1000 unseen sequences right")
    assert code == (int(verdict.split()[1]) < 1000)
    of_steps = losses(tmp_path)
    assert of_steps[-1] < of_steps[0]
    parts = [set((tmp_path / f"{name}.tsv").read_text().splitlines()) for name in names]
    assert [len(part) for part in parts] == [300, 100, 1000]
    assert len(set.union(*parts)) == 1400
    assert all(len(set(line.split("\t"))) == 1 for line in parts[0])


# Vocabularies and training, by the description.


def vocabularies(config: RunConfig) -> list[WordTokenizer]:
    learned = learn_tokenizers(config, parts_of(config))
    return [cast(WordTokenizer, tokenizer) for tokenizer in learned]


def test_system_a_has_one_vocabulary_of_sorted_words() -> None:
    source, target = vocabularies(config_of("a"))
    words = (
        "hello world i love you the cat is black good morning this is a book what is your name "
        "hola mundo te amo el gato es negro buenos dias este es un libro como te llamas"
    ).split()
    expected = ["<pad>", "<sos>", "<eos>", *sorted(set(words)), "<unk>"]
    for tokenizer in (source, target):
        assert tokenizer.pieces(range(len(tokenizer))) == expected
        assert tokenizer.encode("I Love CAT") == [expected.index(w) for w in "i love cat".split()]


def test_system_c_has_a_vocabulary_of_words_for_each_side() -> None:
    source, target = vocabularies(config_of("c"))
    assert set(source.words) == set("ich mochte ein bier cola".split())
    assert set(target.words) == set("i want a beer coke .".split())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("letter", "make_optimizer"),
    [
        ("a", lambda parameters: torch.optim.Adam(parameters, lr=1e-4)),
        ("c", lambda parameters: torch.optim.SGD(parameters, lr=1e-3, momentum=0.99)),
    ],
)
def test_a_system_trains_on_all_its_pairs_at_once_by_the_optimizer_it_names(
    letter: str, make_optimizer: Callable[[Any], torch.optim.Optimizer], tmp_path: Path
) -> None:
    folder = f"folder={tmp_path}/model"
    short = ("training.max_epochs=5", "training.device=cpu", "model.dropout=0.0")
    config = config_of(letter, *SMALL, *short, folder)
    clearhead.train(config)
    sides = vocabularies(config)
    lines = Path(config.data.train[0]).read_text(encoding="utf-8").splitlines()
    texts = [line.split("\t") for line in lines]
    sources, targets = ([side.encode(text[i]) for text in texts] for i, side in enumerate(sides))
    torch.manual_seed(config.seed)
    model = build_model(config.model, len(sides[0]), len(sides[1]))
    optimizer = make_optimizer(model.parameters())
    expected = []
    for _ in range(5):
        logits = model(padded(sources), padded([[1, *ids] for ids in targets]))
        outputs = padded([[*ids, 2] for ids in targets])
        logits = logits.flatten(0, 1)
        loss = F.cross_entropy(logits, outputs.flatten(), ignore_index=0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        expected.append(loss.item())
    assert losses(tmp_path) == pytest.approx(expected, rel=1e-4)
    assert expected[-1] < expected[0]


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
SOURCE = [[3, 4, 5, 6, 7], [8, 3, 5], [4]]
TARGET = [[1, 5, 4], [1, 8, 7, 6, 5, 3], [1]]


@dataclass
class Pair:
    """A model of clearhead and the formulation with the same weights."""

    model: EncoderDecoder
    formulation: Formulation


@pytest.fixture(scope="module", params=SYSTEMS)
def pair(request: pytest.FixtureRequest) -> Pair:
    """Each system in float64, of its full size, norms and biases drawn too."""
    letter = request.param
    path = PATHS[letter].with_suffix(".toml")
    config = read_config(path, [f"data.train=['{ROOT}/examples/reference/data/{letter}.tsv']"])
    sizes = [11, 11] if letter == "e" else [len(side) for side in vocabularies(config)]
    # The sinusoids too are then made in float64.
    torch.set_default_dtype(torch.float64)
    try:
        return pair_of(letter, config.model, sizes)
    finally:
        torch.set_default_dtype(torch.float32)


def pair_of(letter: str, config: ModelConfig, sizes: list[int]) -> Pair:
    torch.manual_seed(1)
    model = build_model(config, sizes[0], sizes[1]).eval()
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
def test_system_b_classifies_sentences_that_it_has_not_seen(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    names = ("train", "validation", "test")
    files = [f"data.{name}=['{tmp_path}/{name}.tsv']" for name in names]
    assert run("b", tmp_path, *files, "training.max_steps=200") == 0
    *shown, verdict = capsys.readouterr().out.splitlines()
    parts = [labelled_lines(tmp_path / f"{name}.tsv") for name in names]
    assert sizes("b", *files) == tuple(map(len, parts)) == (2000, 200, 400)
    assert len({text for part in parts for _, text in part}) == 2600
    held_out = parts[-1]
    model = api.load_classifier(tmp_path / "model", device="cpu")
    found = [str(best) for best, *_ in model.classify([text for _, text in held_out])]
    right = sum(a == b for a, (b, _) in zip(found, held_out, strict=True))
    assert verdict == f"accuracy: {right} of 400 unseen sentences, {right / 4:.1f} %"
    assert right > 200  # of four labels that are equally frequent
    for line, label, (true, text) in zip(shown, found, held_out, strict=False):
        assert line.startswith(f"{text} ")
        assert line.split()[-3] == label
        assert line.endswith(f"({true})")


def sizes(letter: str, *settings: str) -> tuple[int, int, int]:
    """The numbers of training, validation and held-out examples."""
    config = config_of(letter, *settings)
    parts = read_labelled(config, parts_of(config))
    train, validation, test = (len(part.examples) for part in parts[:3])
    return train, validation, test


def labelled_lines(path: Path) -> list[tuple[str, str]]:
    """The label and the text of each line."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [(label, text) for label, _, text in (line.partition("\t") for line in lines)]


def test_no_word_of_system_bs_sentences_separates_praise_from_complaint() -> None:
    sentences = list(load_script(str(PATHS["b"].relative_to(ROOT))).sentences())
    seen: dict[str, list[str]] = defaultdict(list)
    for text, label in sentences:
        for word in set(text.split()):
            seen[word].append(label)
    assert all(labels.count("praise") == labels.count("complaint") for labels in seen.values())
    assert len({text for text, _ in sentences}) == len(sentences) >= 2600


@pytest.mark.slow
def test_system_d_classifies_sequences_that_it_has_not_seen_and_draws_pictures(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    names = ("train", "validation", "test")
    full_size = ("model.encoder_layers=2", "model.d_ff=128")
    files = [f"data.{name}=['{tmp_path}/{name}.npz']" for name in names]
    assert run("d", tmp_path, *full_size, *files, "training.max_steps=200") == 0
    verdict, *drawn = capsys.readouterr().out.splitlines()
    assert sizes("d", *files) == (1000, 100, 200)
    with np.load(tmp_path / "test.npz") as held_out:
        x, y = held_out["x"], held_out["y"]
    assert x.shape == (200, 5, 8)
    model = api.load_classifier(tmp_path / "model", device="cpu")
    found = [str(best) for best, *_ in model.classify(list(x))]
    right = int((np.array(found) == y).sum())
    assert verdict == f"accuracy: {right} of 200 unseen sequences, {right / 2:.1f} %"
    assert right > 100  # of four labels that are equally frequent
    for name in ("encoder-attention", "encoder-heads", "encoder-layer-2"):
        picture = tmp_path / "model/figures" / name
        assert {f"{picture}.png", f"{picture}.svg"} <= set(drawn)
        assert picture.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    written = (tmp_path / "model/figures/encoder-heads.svg").read_text(encoding="utf-8")
    names = [*(f"head {number}" for number in (1, 2, 3, 4)), "layer 1", "layer 2"]
    assert all(name in written for name in names)
    written = (tmp_path / "model/figures/encoder-attention.svg").read_text(encoding="utf-8")
    assert "query: frame" in written
    assert "key: frame" in written


def classifier_of(letter: str, inputs: int) -> EncoderClassifier:
    """The model of an example with four labels, in float64, norms and biases drawn too."""
    config = config_of(letter)
    torch.set_default_dtype(torch.float64)
    try:
        torch.manual_seed(1)
        model = build_classifier(config, inputs, 4).eval()
    finally:
        torch.set_default_dtype(torch.float32)
    for parameter in model.parameters():
        if parameter.dim() == 1:
            torch.nn.init.normal_(parameter, mean=0.7, std=0.3)
    return model


@torch.no_grad()
def test_system_b_has_the_encoding_and_logits_of_its_description() -> None:
    model = classifier_of("b", inputs=30)
    config = config_of("b").model

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
    assert rates(classifier_of("b", 30)) == dict.fromkeys(["input.dropout", *of_b, "dropout"], 0.1)
    of_d = [f"{layer}.output_dropout" for layer in layers]
    assert rates(classifier_of("d", 8)) == dict.fromkeys([*of_d, "dropout"], 0.1)


def test_dropout_is_where_the_translators_have_it() -> None:
    found = {}
    for letter in SYSTEMS:
        with torch.device("meta"):
            found[letter] = rates(build_model(config_of(letter).model, 11, 11))
    inputs = ["source_input.dropout", "target_input.dropout"]
    of_e = list(inputs)
    for stack, attentions in (("encoder", ["self"]), ("decoder", ["self", "cross"])):
        for layer in (f"{stack}.layers.0", f"{stack}.layers.1"):
            of_e += [f"{layer}.{kind}_attention.dropout" for kind in attentions]
            of_e += [f"{layer}.feed_forward.activation"]
            # One for each attention, and one for the feed-forward network.
            of_e += [f"{layer}.residuals.{number}.dropout" for number in range(len(attentions) + 1)]
    assert found == {"a": {}, "c": dict.fromkeys(inputs, 0.1), "e": dict.fromkeys(of_e, 0.1)}


def test_translators_search_as_their_systems_do() -> None:
    searches = {letter: config_of(letter).search for letter in SYSTEMS}
    assert {letter: s.beam_size for letter, s in searches.items()} == {"a": 3, "c": 1, "e": 1}
    assert all(search.method == "beam" for search in searches.values())
    assert searches["a"].length_penalty == 0
    assert searches["a"].max_length == config_of("a").data.max_length == 20


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
    model = classifier_of("d", inputs=8)
    x = torch.randn(10, 5, 8, dtype=torch.float64)
    found, _ = model.encode(x)
    assert found.shape == (10, 5, 32)
    assert_equal(found, torchs_own(model)(x).numpy())
    # Without positions the order of the frames means nothing.
    order = torch.tensor([3, 0, 4, 2, 1])
    assert_equal(model.encode(x[:, order])[0], found[:, order].numpy())


@torch.no_grad()
def test_system_ds_pictures_show_what_pytorchs_own_layers_compute() -> None:
    model = classifier_of("d", inputs=8)
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
