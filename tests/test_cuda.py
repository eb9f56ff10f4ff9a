"""Tests that a GPU gives the results of the CPU: training, searches, records, and states.

Sums are computed in another order there, so the last digits of float32 differ.
"""

from __future__ import annotations

import dataclasses
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from clearhead import api
from clearhead.decoding.engine import Hypothesis, numbered
from clearhead.decoding.fast_decoder import FastDecoder
from clearhead.decoding.logits import best_tokens, log_normaliser
from clearhead.decoding.products import bfloat16_product, choose_product, plain_product
from clearhead.decoding.terms import Form, Terms, Vocabulary
from clearhead.decoding.torch_engine import ClassifierEngine, TorchEngine
from clearhead.device import explain_full_memory, set_up_torch
from clearhead.errors import ClearheadError
from clearhead.folder.tensors import parameters_of, read_tensors
from clearhead.inspect.recording import record_classification, record_translation
from clearhead.model.dropout import DroppedReLU
from clearhead.model.transformer import EncoderDecoder
from clearhead.ranks import ALONE, BACKEND_WITH_GPU
from clearhead.settings import (
    DropoutConfig,
    OptimizerConfig,
    RunConfig,
    ScheduleConfig,
    SearchConfig,
)
from clearhead.sharding import whole
from clearhead.training.checkpoints import STATE, Keeper, State
from clearhead.training.step import Updater, make_optimizer
from model_folders import write_models
from several_processes import Exchanging, group_of_one
from small_models import SOURCE_VOCABULARY, TARGET_VOCABULARY, random_model, small_config
from small_runs import Watcher, assert_same, feature_run, final_state, prepared, small_run, text_run
from small_translators import SOURCE, TARGET, random_classifier

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch finds no GPU here")

CPU, GPU = "cpu", "cuda"
Device = Literal["cpu", "cuda"]

RUNS = {
    "translation": small_run,
    "texts": text_run,
    "features": feature_run,
}


def smooth_run(config: RunConfig, name: str, device: Device, **training: Any) -> RunConfig:
    """The same run on a device, in which small differences stay small.

    Nothing is dropped, for devices draw other numbers; and a step is as long as the gradient, since
    Adam makes a long one of a gradient that is nothing but rounding.
    """
    settings = {
        "device": device,
        "max_steps": 4,
        "validate_every": 2,
        "optimizer": OptimizerConfig(kind="sgd", momentum=0.9),
        "schedule": ScheduleConfig(kind="constant", peak=0.1, warmup=0),
        **training,
    }
    return dataclasses.replace(
        config,
        folder=str(Path(config.folder).with_name(name)),
        model=dataclasses.replace(config.model, dropout=DropoutConfig()),
        classifier=dataclasses.replace(config.classifier, dropout=0.0),
        training=dataclasses.replace(config.training, **settings),
    )


def weights(config: RunConfig) -> Tensor:
    """All trained weights of a run, in one row."""
    state = final_state(config)
    names = sorted(name for name in state if name.startswith("model."))
    return torch.cat([state[name].flatten() for name in names])


def first_weights(config: RunConfig, folder: Path) -> Tensor:
    """The same before training."""
    parameters = parameters_of(prepared(config, folder).build_model())
    return torch.cat([parameters[name].flatten() for name in sorted(parameters)])


def error_of(found: Tensor, expected: Tensor) -> float:
    """The length of the difference relative to that of the expected vector."""
    return float((found - expected).norm() / expected.norm())


def train_alone(config: RunConfig) -> None:
    """Train in another process: PyTorch cannot compile functions whose shapes are checked."""
    program = "import pickle, sys, clearhead; clearhead.train(pickle.load(sys.stdin.buffer))"
    subprocess.run([sys.executable, "-c", program], input=pickle.dumps(config), check=True)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(("precision", "most"), [("float32", 1e-4), ("bf16", 0.2)])
@pytest.mark.parametrize("task", RUNS)
def test_steps_of_each_task_move_the_weights_as_on_a_cpu(
    tmp_path: Path, task: str, precision: str, most: float, compiled: bool
) -> None:
    make: Callable[[Path], RunConfig] = RUNS[task]
    on_gpu = smooth_run(make(tmp_path), "on-gpu", GPU, precision=precision, compile=compiled)
    on_cpu = smooth_run(make(tmp_path), "on-cpu", CPU, precision=precision)
    for config in (on_gpu, on_cpu):
        train_alone(config)
    first = first_weights(on_cpu, tmp_path / "corpus")
    assert 0 < (weights(on_cpu) - first).norm() < torch.inf
    assert error_of(weights(on_gpu) - first, weights(on_cpu) - first) < most


@pytest.mark.parametrize("later", [GPU, CPU])
def test_a_run_that_began_on_a_gpu_continues_there_or_on_a_cpu(
    tmp_path: Path, later: Device
) -> None:
    whole = small_run(tmp_path)
    through, pieces = smooth_run(whole, "through", CPU), smooth_run(whole, "pieces", GPU)
    api.train(through)
    assert not api.train(pieces, observers=[Watcher(interrupt_at=2)]).finished
    assert api.train(smooth_run(whole, "pieces", later)).step == 4
    first = first_weights(through, tmp_path / "corpus")
    assert error_of(weights(pieces) - first, weights(through) - first) < 1e-3


def test_dropout_on_a_gpu_follows_from_the_seed_and_the_step(tmp_path: Path) -> None:
    whole = small_run(tmp_path)
    through = dataclasses.replace(smooth_run(whole, "through", GPU, r_drop=1.0), model=whole.model)
    pieces = dataclasses.replace(through, folder=str(tmp_path / "pieces"))
    api.train(through)
    api.train(pieces, observers=[Watcher(interrupt_at=2)])
    api.train(pieces)
    first = first_weights(through, tmp_path / "corpus")
    assert error_of(weights(pieces) - first, weights(through) - first) < 1e-3


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_dropped_relu_on_a_gpu_scales_what_it_keeps_and_passes_the_gradient_there(
    dtype: torch.dtype,
) -> None:
    torch.manual_seed(1)
    x = torch.randn(200, 300, device=GPU, dtype=dtype).requires_grad_()
    y = DroppedReLU(0.1)(x)
    slope = torch.randn_like(y)
    y.backward(slope)
    assert x.grad is not None
    kept = y != 0
    torch.testing.assert_close(y[kept], x[kept] / 0.9)
    torch.testing.assert_close(x.grad[kept], slope[kept] / 0.9)
    assert (x.grad[~kept] == 0).all()
    share = float(kept.sum() / (x > 0).sum())
    assert abs(share - 0.9) < 0.02  # eleven standard deviations of 30,000 draws


def test_the_state_of_a_run_comes_back_to_a_gpu_with_all_its_bits(tmp_path: Path) -> None:
    config = small_run(tmp_path, device=GPU, max_steps=2, validate_every=2)
    api.train(config)
    model = prepared(config, tmp_path / "corpus").build_model().to(GPU)
    optimizer = make_optimizer(model, config.training)
    state = Keeper(Path(config.folder), 1, {}).read_state(model, optimizer)
    assert state is not None
    assert state.step == 2
    again = Keeper(tmp_path / "again", 1, {})
    again.write_state(model, optimizer, state)
    assert_same(final_state(config), read_tensors(again.folder / STATE)[0])
    model(torch.tensor([[5, 6]], device=GPU), torch.tensor([[1]], device=GPU)).sum().backward()
    optimizer.step()


@pytest.fixture
def one_process() -> Iterator[None]:
    with group_of_one(BACKEND_WITH_GPU):
        yield


@pytest.mark.usefixtures("one_process")
@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_the_engines_for_several_processes_train_as_without(
    tmp_path: Path, precision: str, parallel: Literal["ddp", "fsdp"]
) -> None:
    """The same steps, and a training state that goes on without the engine."""
    config = smooth_run(small_run(tmp_path), "one", GPU, precision=precision)
    training = dataclasses.replace(config.training, parallel=parallel)
    ready = prepared(config, tmp_path / "corpus")
    batches = list(ready.task.batches(0, 0))
    found: list[Tensor] = []
    for ranks in (ALONE, Exchanging()):
        torch.manual_seed(1)
        model = ready.build_model().to(GPU)
        run = dataclasses.replace(config, training=training)
        updater = Updater(ready.task, model, run, 4, ranks)
        updater.connect()
        assert updater.is_sharded == (parallel == "fsdp" and ranks is not ALONE)
        for number in (1, 2, 3):
            updater.step(number, batches[:2])
        state = State(step=3)
        keeper = Keeper(tmp_path / type(ranks).__name__, 1, {"clearhead": "test"})
        keeper.write_state(model, updater.optimizer, state)
        plain = ready.build_model().to(GPU)
        optimizer = make_optimizer(plain, training)
        assert keeper.read_state(plain, optimizer) is not None
        trained = [whole(each).flatten() for each in parameters_of(model).values()]
        found.append(torch.cat(trained))
        assert torch.equal(
            torch.cat([p.flatten() for p in parameters_of(plain).values()]), found[-1]
        )
        updater.step(4, batches[:2])
    alone, together = found
    assert error_of(together, alone) < 1e-5


SOURCES = [
    torch.randint(
        3, SOURCE_VOCABULARY, (length,), generator=torch.Generator().manual_seed(length)
    ).tolist()
    for length in (4, 9, 1, 6, 2, 12, 5, 3, 7)
]
PREFIXES: list[list[int]] = [[], [4, 5], [6], [], [7, 7, 3], [4], [], [8, 9], [5]]

SEARCHES = {
    "greedy": SearchConfig(beam_size=1, max_length=12),
    "beam": SearchConfig(beam_size=4, n_best=3, max_length=12),
    "no n-gram twice": SearchConfig(
        beam_size=3, n_best=2, no_repeat_ngram=2, min_length=4, max_length=12
    ),
    "samples": SearchConfig(method="sampling", n_best=3, temperature=1.3, max_length=12),
    "likeliest samples": SearchConfig(method="sampling", n_best=2, top_k=6, top_p=0.9),
}


def float32_model(**choices: Any) -> EncoderDecoder:
    return random_model(small_config(**choices)).float().eval()


def flat(found: list[list[Hypothesis]]) -> list[Hypothesis]:
    return [hypothesis for each in found for hypothesis in each]


@pytest.mark.parametrize("prefixes", [None, PREFIXES])
@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_a_search_finds_the_same_and_scores_it_alike(
    norm: str, search: SearchConfig, prefixes: list[list[int]] | None
) -> None:
    model = float32_model(norm=norm)
    on_cpu, on_gpu = (
        TorchEngine(model.to(device)).translate(numbered(SOURCES, prefixes), search, batch_size=4)
        for device in (CPU, GPU)
    )
    assert [len(each) for each in on_gpu] == [search.n_best] * len(SOURCES)
    for found, expected in zip(flat(on_gpu), flat(on_cpu), strict=True):
        assert (found.tokens, found.finished) == (expected.tokens, expected.finished)
        np.testing.assert_allclose(found.token_scores, expected.token_scores, atol=1e-4)
        assert found.score == pytest.approx(expected.score, abs=1e-3)


def test_terms_ensembles_and_scores_are_those_of_a_cpu() -> None:
    models = [float32_model(), float32_model(norm="pre")]
    size = models[0].output.out_features
    words = Vocabulary(np.arange(size) == 5, np.ones(size, dtype=bool))
    wanted = [Terms(((Form((4, 6)), Form((7,))), (Form((8,)),)), words), None, *[None] * 7]
    sentences = [
        sentence._replace(terms=terms)
        for sentence, terms in zip(numbered(SOURCES), wanted, strict=True)
    ]
    found, scores = [], []
    for device in (CPU, GPU):
        first, *others = (model.to(device) for model in models)
        engine = TorchEngine(first, others=others)
        found.append(flat(engine.translate(sentences, SearchConfig(beam_size=3, max_length=12))))
        scores.append(engine.score(SOURCES, [each.tokens for each in found[0]]))
    assert [each.tokens for each in found[1]] == [each.tokens for each in found[0]]
    for theirs, ours in zip(*scores, strict=True):
        np.testing.assert_allclose(theirs, ours, atol=1e-4)


def logits_of(decoder: FastDecoder, device: Device) -> Tensor:
    """Logits of three steps for two sources whose rows are swapped: (steps, rows, vocabulary)."""
    state = decoder.start(torch.tensor([[3, 4, 5], [6, 7, 0]], device=device))
    found = []
    for tokens in ([1, 1], [5, 6], [7, 3]):
        found.append(decoder.step(torch.tensor(tokens, device=device), state).cpu())
        state.reorder(torch.tensor([1, 0]))
    return torch.stack(found)


def test_products_in_bfloat16_say_nearly_the_same() -> None:
    if not torch.cuda.is_bf16_supported(including_emulation=False):
        pytest.skip("this GPU does not multiply bfloat16")
    assert choose_product("bfloat16", torch.device(GPU)) is bfloat16_product
    model = float32_model()
    expected = logits_of(FastDecoder(model), CPU)
    found = logits_of(FastDecoder(model.to(GPU), bfloat16_product), GPU)
    assert 0 < float((found - expected).abs().mean() / expected.std()) < 0.1


def test_a_product_on_a_gpu_takes_the_weights_as_they_lie() -> None:
    weight, bias = torch.randn(256, 128, device=GPU), torch.randn(256, device=GPU)
    x = torch.randn(3, 128, device=GPU)
    before = torch.cuda.memory_allocated()
    product = plain_product(weight, bias)
    assert torch.cuda.memory_allocated() == before
    expected = x.double() @ weight.double().T + bias.double()
    torch.testing.assert_close(product(x), expected.float(), rtol=1e-5, atol=1e-4)


def test_the_best_tokens_and_the_normaliser_are_those_of_a_cpu() -> None:
    logits = torch.randn(300, 5000)
    logits[0, 7], logits[1, 8], logits[2] = torch.inf, torch.nan, -torch.inf
    ours = logits.to(GPU)
    torch.testing.assert_close(log_normaliser(ours).cpu(), log_normaliser(logits), equal_nan=True)
    for found, expected in zip(best_tokens(ours[3:], 5), best_tokens(logits[3:], 5), strict=True):
        assert torch.equal(found.cpu(), expected)


@pytest.mark.parametrize("name", ["texts", "several", "features"])
def test_a_classifier_gives_the_same_probabilities(tmp_path: Path, name: str) -> None:
    write_models(tmp_path)
    rng = np.random.default_rng(1)
    frames = [rng.normal(size=(length, 3)).astype(np.float32) for length in (3, 8, 1)]
    inputs: list[Any] = frames if name == "features" else ["a b c", "d", "b b a d c a"]
    on_cpu, on_gpu = (
        api.load_classifier(tmp_path / name, device=device).probabilities(inputs, batch_size=2)
        for device in (CPU, GPU)
    )
    np.testing.assert_allclose(on_gpu, on_cpu, atol=1e-5)


def test_a_translator_is_loaded_to_the_gpu_unless_another_device_is_named(tmp_path: Path) -> None:
    write_models(tmp_path)
    texts = ["a b", "d c a b"]
    auto, on_cpu = (
        api.load_translator(tmp_path / "translator", device=device, engine="torch")
        for device in ("auto", CPU)
    )
    assert isinstance(auto.engine, TorchEngine)
    assert auto.engine.model.output.weight.device.type == GPU
    ours, theirs = (flat(each.translate(texts, n_best=2)) for each in (auto, on_cpu))
    assert [found.text for found in ours] == [found.text for found in theirs]


def test_convolutions_have_all_digits_of_float32() -> None:
    set_up_torch(GPU, 0)
    convolution, x = nn.Conv1d(256, 256, 5), torch.randn(8, 256, 64)
    with torch.inference_mode():
        expected = convolution.double()(x.double())
        found = convolution.float().to(GPU)(x.to(GPU))
    # TF32 keeps 11 bits, so that it errs by some 2⁻¹².
    assert error_of(found.cpu().double(), expected) < 2**-17


@pytest.mark.parametrize("features", [False, True])
def test_a_convolved_input_is_classified_alike(features: bool) -> None:
    set_up_torch(GPU, 0)
    model = random_classifier(features, input_convolution=(3, 4)).float()
    rng = np.random.default_rng(2)
    rows: list[np.ndarray] = [
        rng.normal(size=(length, 6)).astype(np.float32) if features else rng.integers(1, 6, length)
        for length in (5, 2, 7)
    ]

    def collate(rows: Any) -> Tensor:
        padding = float("nan") if features else 0
        tensors = [torch.from_numpy(row) for row in rows]
        return nn.utils.rnn.pad_sequence(tensors, batch_first=True, padding_value=padding)

    inputs: Any = SimpleNamespace(cut=lambda row: row, collate=collate)
    on_cpu, on_gpu = (
        ClassifierEngine(model.to(device)).logits(rows, inputs) for device in (CPU, GPU)
    )
    np.testing.assert_allclose(on_gpu, on_cpu, rtol=1e-4, atol=1e-4)


def arrays(found: Any, place: str = "") -> Iterator[tuple[str, np.ndarray]]:
    """All that a record holds, by name."""
    for field in dataclasses.fields(found):
        value, name = getattr(found, field.name), f"{place}{field.name}"
        if isinstance(value, np.ndarray):
            yield name, value
        elif field.name in ("encoder", "decoder"):
            for number, layer in enumerate(value):
                yield from arrays(layer, f"{name}.{number}.")


def assert_records_alike(found: Any, expected: Any) -> None:
    ours, theirs = dict(arrays(found)), dict(arrays(expected))
    assert ours.keys() == theirs.keys()
    for name, array in ours.items():
        np.testing.assert_allclose(array, theirs[name], rtol=1e-4, atol=1e-4, err_msg=name)


def test_a_translation_is_recorded_alike() -> None:
    model = float32_model()
    on_cpu, on_gpu = (record_translation(model.to(each), SOURCE, TARGET) for each in (CPU, GPU))
    assert on_gpu.logits.shape == (len(TARGET) + 1, TARGET_VOCABULARY)
    assert_records_alike(on_gpu, on_cpu)


@pytest.mark.parametrize("features", [False, True])
def test_a_classification_is_recorded_alike(features: bool) -> None:
    model = random_classifier(features).float()
    row = torch.randn(7, 6) if features else torch.tensor([1, 5, 2, 2])
    on_cpu, on_gpu = (record_classification(model.to(device), row) for device in (CPU, GPU))
    assert_records_alike(on_gpu, on_cpu)


def test_full_memory_is_reported() -> None:
    with (
        pytest.raises(ClearheadError, match=r"(?s)memory of the GPU is full.*out of memory"),
        explain_full_memory("use less"),
    ):
        torch.empty(2**50, dtype=torch.uint8, device=GPU)
