"""Tests of the set-up of a device, transfers to it, full memory, and the number of cores."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import numpy as np
import pytest
import torch
from torch import Tensor

from clearhead import api, device
from clearhead.decoding.engine import numbered
from clearhead.decoding.fast_decoder import FastDecoder
from clearhead.decoding.products import bfloat16_product, choose_product, packs_bfloat16
from clearhead.decoding.torch_engine import ClassifierEngine, ModelStepper, TorchEngine
from clearhead.device import (
    explain_full_memory,
    memory_of_process,
    multiplies_bf16,
    set_up_torch,
    short_waits,
)
from clearhead.errors import ClearheadError, ConfigError, TrainingError
from clearhead.inspect import recording
from clearhead.settings import SearchConfig
from clearhead.tasks.translation import TranslationTask
from clearhead.tokenizer import BOS
from fake_translator import run
from small_models import random_model, small_config
from small_runs import small_run, text_run
from small_translators import Classifier, Translator, random_classifier

TOO_MUCH = "CUDA out of memory. Tried to allocate 2.00 GiB."


def full(*_: Any, **__: Any) -> NoReturn:
    """Raise the error of PyTorch for a full GPU memory."""
    raise torch.OutOfMemoryError(TOO_MUCH)


def assert_full_memory(error: ClearheadError, where: str | None, *todo: str) -> None:
    assert error.what == "the memory of the GPU is full"
    assert (error.where, error.why) == (where, TOO_MUCH)
    assert all(part in str(error.todo) for part in todo)


def test_a_search_that_does_not_fit_into_a_gpu_is_a_user_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(FastDecoder, "step", full)
    model = random_model(small_config()).train()
    with pytest.raises(ClearheadError) as caught:
        TorchEngine(model).translate(numbered([[3, 4], [5]]), SearchConfig(beam_size=2))
    assert_full_memory(caught.value, "a batch of 2 sentences", "--batch-size", "--device cpu")
    assert model.training


def test_a_validation_that_does_not_fit_into_a_gpu_names_what_training_can_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FastDecoder, "step", full)
    with pytest.raises(ClearheadError) as caught:
        api.train(small_run(tmp_path, validate_every=4))
    assert str(caught.value.where).startswith("a batch of ")
    assert_full_memory(caught.value, caught.value.where, "search.beam_size", "training.device")


def test_inputs_that_do_not_fit_into_a_gpu_are_a_user_error() -> None:
    model = random_classifier(features=False).train()
    inputs: Any = SimpleNamespace(cut=lambda row: row, collate=full)
    with pytest.raises(ClearheadError) as caught:
        ClassifierEngine(model).logits([np.array([3, 4])], inputs)
    assert_full_memory(caught.value, "a batch of 1 inputs", "--batch-size", "--device cpu")
    assert model.training


def test_a_record_that_does_not_fit_into_a_gpu_is_a_user_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recording, "second_view", full)
    for subject, target in ((Translator(), "p"), (Classifier(), None)):
        with pytest.raises(ClearheadError) as caught:
            recording.record(subject, "x", target)
        assert_full_memory(caught.value, "record", "--device cpu")


@pytest.mark.parametrize(("part", "step"), [("loss", 0), ("evaluate", 4)])
def test_a_step_or_a_validation_that_does_not_fit_into_a_gpu_ends_training_with_advice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str, step: int
) -> None:
    monkeypatch.setattr(TranslationTask, part, full)
    with pytest.raises(TrainingError) as caught:
        api.train(small_run(tmp_path, validate_every=4))
    assert_full_memory(caught.value, f"after step {step}", "data.max_length", "device = 'cpu'")


def test_a_model_that_does_not_fit_into_a_gpu_is_an_error_of_the_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("clearhead.api.loading.load_translator", full)
    code, out, err = run("translate", "m", stdin="a\n")
    assert (code, out) == (ClearheadError.exit_code, "")
    assert err.startswith(f"clearhead: the memory of the GPU is full\nWhy: {TOO_MUCH}\n")


def test_other_failures_are_not_reported_as_full_memory() -> None:
    bug = RuntimeError("a bug")
    with pytest.raises(RuntimeError) as caught, explain_full_memory("use less"):
        raise bug
    assert caught.value is bug


@pytest.fixture
def products_and_convolutions() -> Iterator[tuple[Any, Any]]:
    """PyTorch's settings of their precision on a GPU; restored afterwards."""
    kinds: Any = torch.backends.cuda.matmul, torch.backends.cudnn.conv  # pyright: ignore[reportAttributeAccessIssue]
    before = [kind.fp32_precision for kind in kinds]
    yield kinds
    for kind, precision in zip(kinds, before, strict=True):
        kind.fp32_precision = precision


@pytest.mark.parametrize(("exact", "before"), [("ieee", "tf32"), ("tf32", "ieee")])
def test_on_a_gpu_convolutions_are_as_exact_as_products(
    products_and_convolutions: tuple[Any, Any],
    monkeypatch: pytest.MonkeyPatch,
    exact: str,
    before: str,
) -> None:
    products, convolutions = products_and_convolutions
    products.fp32_precision, convolutions.fp32_precision = exact, before
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert set_up_torch("cpu", 0).type == "cpu"
    assert convolutions.fp32_precision == before
    assert set_up_torch("cuda", 0).type == "cuda"
    assert convolutions.fp32_precision == exact


def test_bfloat16_on_a_gpu_needs_its_instructions(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = torch.device("cuda")
    for has in (False, True):
        # Emulation does not count: it is slower than float32.
        monkeypatch.setattr(
            torch.cuda,
            "is_bf16_supported",
            lambda including_emulation=True, has=has: including_emulation or has,
        )
        assert multiplies_bf16(gpu) == has
        if has:
            assert choose_product("bfloat16", gpu) is bfloat16_product
        else:
            with pytest.raises(ConfigError, match="no instructions for bfloat16"):
                choose_product("bfloat16", gpu)


class Sent:
    """The tensors that were sent to another device, and those sent with a blocking transfer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.tensors: list[Tensor] = []
        self.waited: list[Tensor] = []
        to = Tensor.to

        def noting(tensor: Tensor, *where: Any, **choices: Any) -> Tensor:
            arrived = to(tensor, *where, **choices)
            if arrived.device != tensor.device:
                self.tensors.append(tensor)
                if not choices.get("non_blocking", False):
                    self.waited.append(tensor)
            return arrived

        monkeypatch.setattr(Tensor, "to", noting)


def test_a_step_sends_each_thing_once_waits_for_none_and_reads_nothing_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A tensor of the meta device has no numbers: reading one raises an error.
    depths = [small_config(decoder_layers=layers) for layers in (1, 3)]
    models = [random_model(config).to("meta") for config in depths]
    sent = Sent(monkeypatch)
    counts: list[list[int]] = []
    for model in models:
        stepper = ModelStepper(FastDecoder(model))
        stepper.start([[3, 4, 5], [6], [7, 8]])
        moves = [torch.tensor([0, 0, 1, 2]), torch.tensor([3, 1, 0])]  # beams; a sentence leaves
        counts.append([])
        for tokens, rows in zip([[BOS] * 3, [4, 5, 6, 7]], moves, strict=True):
            before = len(sent.tensors)
            assert stepper.step(torch.tensor(tokens)).device.type == "meta"
            stepper.reorder(rows)
            new = sent.tensors[before:]
            # The tensors are kept, so no memory is reused: one address is one tensor.
            assert len({tensor.data_ptr() for tensor in new}) == len(new)
            counts[-1].append(len(new))
        assert stepper.step(torch.tensor([3, 4, 5])).device.type == "meta"
    assert all(counts[0])
    assert counts[0] == counts[1], "something is sent to each layer"
    assert not sent.waited


def test_a_cpu_is_set_up_for_the_whole_process(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", threads.append)
    denormal = torch.full((64,), 1e-39)
    torch.set_flush_denormal(False)
    assert (denormal * 0.5).count_nonzero() == 64
    assert set_up_torch("cpu", 3) == torch.device("cpu")
    assert (denormal * 0.5).count_nonzero() == 0
    assert threads == [3]
    set_up_torch("cpu", 0)
    assert threads == [3]


@pytest.mark.skipif(not packs_bfloat16(), reason="this CPU has no bf16 products of oneDNN")
@pytest.mark.parametrize("choice", [None, *device.KERNELS])
def test_few_compiled_kernels_are_kept_unless_the_user_chose(choice: str | None) -> None:
    program = f"""
import torch
from clearhead.device import limit_kernels
limit_kernels()
last = 100 + {device.MOST_KERNELS}
for width in [*range(100, last + 1), last, 100]:
    torch.ones(8, width, dtype=torch.bfloat16) @ torch.ones(width, 8, dtype=torch.bfloat16)
"""
    others = {name: value for name, value in os.environ.items() if name not in device.KERNELS}
    chosen = {} if choice is None else {choice: "500"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**others, **chosen, "ONEDNN_VERBOSE": "profile_create"},
        capture_output=True,
        text=True,
        check=True,
    )
    found = re.findall(r"create:cache_(\w+)", done.stdout)
    new = ["miss"] * (device.MOST_KERNELS + 1)
    assert found == [*new, "hit", "miss" if choice is None else "hit"]


@pytest.mark.parametrize(("run_of", "is_limited"), [(text_run, True), (small_run, False)])
def test_only_the_training_of_classifiers_keeps_few_kernels(
    run_of: Callable[..., Any], is_limited: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in device.KERNELS:
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    api.dry_run(run_of(tmp_path))
    assert (device.KERNELS[0] in os.environ) == is_limited


@pytest.mark.parametrize("library", [None, SimpleNamespace()])
def test_another_c_library_is_left_alone(library: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device.sys, "platform", "darwin" if library is None else "linux")
    monkeypatch.setattr(ctypes, "CDLL", lambda _: library)
    device.keep_freed_memory()


# How threads wait

WAITING = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
OTHERS = {name: value for name, value in os.environ.items() if name not in WAITING}


@pytest.fixture
def _no_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process whose user has not chosen how threads wait."""
    for name in WAITING:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.skipif(sys.platform != "linux", reason="another system may have another OpenMP")
@pytest.mark.parametrize(
    "program",
    [
        "with contextlib.suppress(clearhead.ClearheadError): clearhead.train('missing.toml')",
        "with contextlib.suppress(clearhead.ClearheadError): clearhead.dry_run('missing.toml')",
        "clearhead.TextClassifier",
        "clearhead.record",
        "import clearhead.api.text_classifier",  # as joblib does in its processes
        "from clearhead.device import set_up_torch; set_up_torch('cpu', 2)",
        "from clearhead.decoding.ctranslate2_library import installed; installed()",
    ],
)
def test_libgomp_takes_the_limit_and_the_environment_is_put_back(program: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"import clearhead, contextlib, os\n{program}\nprint(os.environ)"],
        env={**OTHERS, "OMP_DISPLAY_ENV": "VERBOSE"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"GOMP_SPINCOUNT = '{device.SPIN_COUNT}'" in done.stderr
    assert "Warning" not in done.stderr
    assert not any(name in done.stdout for name in WAITING)


@pytest.mark.usefixtures("_no_choice")
def test_a_limit_holds_in_its_block_alone_also_after_an_error() -> None:
    def fail_inside() -> NoReturn:
        with short_waits():
            with short_waits():
                pass
            assert os.environ["GOMP_SPINCOUNT"] == str(device.SPIN_COUNT)
            raise KeyError

    with pytest.raises(KeyError):
        fail_inside()
    assert "GOMP_SPINCOUNT" not in os.environ


@pytest.mark.parametrize("name", WAITING)
@pytest.mark.usefixtures("_no_choice")
def test_a_choice_of_the_user_is_kept(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "7")
    before = dict(os.environ)
    with short_waits():
        assert dict(os.environ) == before
    assert dict(os.environ) == before


@pytest.mark.skipif(sys.platform != "linux", reason="another system may have another OpenMP")
@pytest.mark.usefixtures("_no_choice", "_one_thread_afterwards")
def test_a_library_that_was_imported_before_is_warned_of_once_if_threads_are_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    device.warn_of_long_waits.cache_clear()
    monkeypatch.delitem(device._imported, "torch", raising=False)
    set_up_torch("cpu", 1)
    with pytest.warns(UserWarning, match="GOMP_SPINCOUNT") as caught:
        set_up_torch("cpu", 2)
    assert "\n" not in str(caught[0].message)
    set_up_torch("cpu", 2)  # a second warning would be an error
    device.warn_of_long_waits.cache_clear()
    monkeypatch.setenv("GOMP_SPINCOUNT", "500")
    set_up_torch("cpu", 2)


# Threads of the program


@pytest.fixture
def _one_thread_afterwards() -> Iterator[None]:
    yield
    set_up_torch("cpu", 1)


def translated(noted: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Callable[[], Any]:
    monkeypatch.setattr(FastDecoder, "step", noted(FastDecoder.step))
    engine = TorchEngine(random_model(small_config()))
    return lambda: engine.translate(numbered([[3, 4]] * 9), SearchConfig(beam_size=2))


def classified(noted: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Callable[[], Any]:
    engine = ClassifierEngine(random_classifier(features=False))
    collate = noted(lambda rows: torch.as_tensor(np.array(rows)))
    inputs: Any = SimpleNamespace(cut=lambda row: row, collate=collate)
    return lambda: engine.logits([np.array([3, 4])], inputs)


def recorded(noted: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Callable[[], Any]:
    monkeypatch.setattr(recording, "second_view", noted(recording.second_view))
    return lambda: recording.record(Translator(), "a", "p")


@pytest.mark.parametrize("work", [translated, classified, recorded])
@pytest.mark.usefixtures("_one_thread_afterwards")
def test_a_thread_of_a_pool_has_what_the_process_was_set_up_with(
    work: Callable[..., Callable[[], Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[tuple[int, bool]] = []

    def noted(call: Callable[..., Any]) -> Callable[..., Any]:
        def noting(*arguments: Any, **options: Any) -> Any:
            denormal = bool((torch.full((64,), 1e-39) * 0.5).any())
            found.append((torch.get_num_threads(), denormal))
            return call(*arguments, **options)

        return noting

    compute = work(noted, monkeypatch)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(torch.set_num_threads, 3).result()
        pool.submit(torch.set_flush_denormal, False).result()
        for threads in (2, 1):
            found.clear()
            set_up_torch("cpu", threads)
            pool.submit(compute).result()
            assert set(found) == {(threads, False)}
        # What the thread's own program chooses later is kept.
        found.clear()
        pool.submit(torch.set_num_threads, 2).result()
        pool.submit(compute).result()
        assert {count for count, _ in found} == {2}


# Processors and cores


def write_topology(folder: Path, siblings: list[str]) -> None:
    """Write the files in which Linux lists, for each processor, those that share its core."""
    for processor, sharing in enumerate(siblings):
        topology = folder / f"cpu{processor}" / "topology"
        topology.mkdir(parents=True)
        (topology / "thread_siblings_list").write_text(f"{sharing}\n")


@pytest.mark.parametrize(
    ("siblings", "allowed", "expected"),
    [
        (["0", "1"], {0, 1}, 2),
        (["0-1", "0-1"], {0, 1}, 1),
        (["0,2", "1,3", "0,2", "1,3"], {0, 1, 2, 3}, 2),
        (["0,2", "1,3", "0,2", "1,3"], {0, 2}, 1),
        ([], {0, 1, 2}, 3),
    ],
)
def test_processors_that_share_a_core_count_once(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    siblings: list[str],
    allowed: set[int],
    expected: int,
) -> None:
    write_topology(tmp_path, siblings)
    monkeypatch.setattr(device, "PROCESSORS", tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: allowed, raising=False)
    assert device.real_cores() == expected
    assert device.processors() == len(allowed)


def test_intel_processors_are_recognised_by_their_vendor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    monkeypatch.setattr(device, "INFORMATION", cpuinfo)
    assert not device.intel()
    for vendor, expected in {"GenuineIntel": True, "AuthenticAMD": False}.items():
        cpuinfo.write_text(f"processor\t: 0\nvendor_id\t: {vendor}\n")
        assert device.intel() == expected


def test_without_affinity_every_processor_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert device.real_cores() == 6
    assert device.processors() == 6


def test_threads_are_as_before_after_the_block() -> None:
    before = torch.get_num_threads()
    with device.threads(before + 1):
        assert torch.get_num_threads() == before + 1
    assert torch.get_num_threads() == before
    with device.threads(0):
        assert torch.get_num_threads() == before
    assert torch.get_num_threads() == before


@pytest.mark.slow
def test_a_small_batch_of_a_narrow_model_needs_one_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counts: list[int] = []
    step = FastDecoder.step

    def noted(*arguments: Any) -> Any:
        counts.append(torch.get_num_threads())
        return step(*arguments)

    monkeypatch.setattr(FastDecoder, "step", noted)
    engine = TorchEngine(random_model(small_config()))
    with device.threads(2):
        for sources, beam_size, expected in (([[3, 4]], 5, 1), ([[3, 4]] * 9, 2, 2)):
            counts.clear()
            engine.translate(numbered(sources), SearchConfig(beam_size=beam_size))
            assert set(counts) == {expected}
        monkeypatch.setattr("clearhead.decoding.torch_engine.ONE_THREAD", 1)
        counts.clear()
        engine.translate(numbered([[3, 4]]), SearchConfig(beam_size=5))
        assert set(counts) == {2}


@pytest.mark.parametrize(
    ("groups", "files", "limit"),
    [
        ("0::/a/b\n", {"a/b/memory.max": "max\n", "a/memory.max": "5000\n"}, 5000),
        ("0::/a/b\n", {"a/b/memory.max": "3000\n", "a/memory.max": "5000\n"}, 3000),
        ("0::/\n", {"memory.max": "4000\n"}, 4000),
        ("0::/of/the/host\n", {"memory.max": "4000\n"}, 4000),
        (
            "5:devices:/\n4:cpu,memory:/a\n0::/\n",
            {"memory/a/memory.limit_in_bytes": "6000"},
            6000,
        ),
        ("4:memory:/docker/1\n", {"memory/memory.limit_in_bytes": "7000"}, 7000),
        ("4:memory:/\n", {"memory/memory.limit_in_bytes": str(2**63 - 4096)}, 8192),
        ("4:cpu:/\n", {"memory/memory.limit_in_bytes": "7000", "memory.max": "9"}, 8192),
        ("0::/a\n", {"a/memory.max": "nonsense"}, 8192),
        (None, {"memory.max": "9"}, 8192),
    ],
)
def test_the_memory_of_a_container_counts(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    groups: str | None,
    files: dict[str, str],
    limit: int,
) -> None:
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    if groups is not None:
        (tmp_path / "groups").write_text(groups)
    monkeypatch.setattr(device, "CGROUPS", tmp_path)
    monkeypatch.setattr(device, "GROUPS", tmp_path / "groups")
    sizes = {"SC_PHYS_PAGES": 2, "SC_PAGE_SIZE": 4096}
    monkeypatch.setattr(os, "sysconf", sizes.__getitem__)
    assert memory_of_process() == limit
