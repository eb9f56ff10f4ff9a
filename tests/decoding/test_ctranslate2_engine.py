"""Tests that the CTranslate2 engine follows the search settings and scores like PyTorch."""

from __future__ import annotations

import math
import sys
import warnings
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clearhead import device
from clearhead.api.exporting import export_model
from clearhead.decoding import ctranslate2_library as library
from clearhead.decoding.ctranslate2_engine import CTranslate2Engine
from clearhead.decoding.ctranslate2_library import TABLE_POSITIONS
from clearhead.decoding.engine import Hypothesis, Sentence, length_penalty, longest_output, numbered
from clearhead.decoding.torch_engine import TorchEngine
from clearhead.errors import ClearheadError, ConfigError, ExportError, SearchError
from clearhead.settings import Learned, SearchConfig
from exported_models import (
    assert_same,
    fast_engine,
    forced_scores,
    random_folder,
    torch_engine,
)
from fake_translator import run
from further_search import FurtherSearch
from small_models import small_config

EOS, FIRST, SOURCES, TARGETS = 2, 3, 13, 16


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small random translator that often, but not always, ends its outputs; with its export."""
    shape = small_config(output_bias=True)
    path = random_folder(tmp_path_factory.mktemp("model"), shape, seed=4, scale=0.5, ends=1.5)
    export_model(path)
    return path


@pytest.fixture(scope="module")
def model(folder: Path) -> TorchEngine:
    return torch_engine(folder)


@pytest.fixture(scope="module")
def engine(folder: Path) -> CTranslate2Engine:
    return fast_engine(folder)


def random_sources(count: int = 40, seed: int = 5, longest: int = 12) -> list[list[int]]:
    draw = np.random.default_rng(seed)
    return [draw.integers(FIRST, SOURCES, draw.integers(1, longest)).tolist() for _ in range(count)]


def config(**choices: Any) -> SearchConfig:
    return SearchConfig(**{"max_length_offset": 5, **choices})


GREEDY_SEARCHES: list[dict[str, Any]] = [
    {},
    {"length_penalty": 0.0},
    {"min_length": 6},
    {"max_length": 3},
    {"max_length": 3, "min_length": 3},
    {"no_repeat_ngram": 1, "max_length": 8},
    {"no_repeat_ngram": 2},
    {"no_repeat_ngram": 3, "min_length": 9},
    {"max_length_ratio": 0.5, "max_length_offset": 0},
    {"max_length_ratio": 0.0, "max_length_offset": 0},
]


@pytest.mark.parametrize("choices", [{"beam_size": 1}, {"beam_size": 3, "n_best": 2}], ids=str)
def test_several_workers_give_what_one_gives(
    folder: Path, engine: CTranslate2Engine, choices: dict[str, Any]
) -> None:
    several = fast_engine(folder, threads=3)
    assert several.translators.of(40).num_translators == 3
    for count in (1, 2, 40):
        sources = random_sources(count)
        found = several.translate(numbered(sources), config(**choices))
        assert_same(found, engine.translate(numbered(sources), config(**choices)))


@pytest.mark.parametrize(
    ("workers", "sentences", "size"), [(1, 64, 0), (2, 64, 32), (3, 40, 14), (3, 2, 1), (16, 64, 4)]
)
def test_a_batch_is_divided_among_the_workers(
    folder: Path, monkeypatch: pytest.MonkeyPatch, workers: int, sentences: int, size: int
) -> None:
    sizes: list[int] = []

    class Spy:
        num_translators = workers

        def translate_batch(self, *_: Any, max_batch_size: int, **__: Any) -> None:
            sizes.append(max_batch_size)
            raise TypeError

        score_batch = translate_batch

    monkeypatch.setattr(library, "open_translator", lambda *_: Spy())
    engine = fast_engine(folder)
    with pytest.raises(TypeError):
        engine.translate(numbered([[3]] * sentences), config())
    with pytest.raises(TypeError):
        engine.score([[3]] * sentences, [(4,)] * sentences)
    assert sizes == [size, size]


@pytest.mark.parametrize(
    ("device", "gpus", "threads", "wider", "expected"),
    [
        ("cpu", 0, 3, 0, (3, 1)),
        ("cpu", 1, 3, 0, (3, 1)),
        ("auto", 0, 3, 0, (3, 1)),
        ("auto", 1, 3, 0, (1, 3)),
        ("cuda", 1, 3, 0, (1, 3)),
        ("cpu", 0, 3, 1, (1, 3)),
        ("cpu", 0, 1, 0, (1, 1)),
        ("cpu", 0, 0, 1, (1, 0)),
        ("cpu", 0, 0, 0, (2, 1)),
    ],
)
def test_threads_are_workers_of_a_narrow_model_on_a_cpu(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    device: str,
    gpus: int,
    threads: int,
    wider: int,
    expected: tuple[int, int],
) -> None:
    import ctranslate2

    made: list[tuple[int, int]] = []

    def translator(_: str, *, inter_threads: int, intra_threads: int, **__: Any) -> None:
        made.append((inter_threads, intra_threads))

    monkeypatch.setattr(ctranslate2, "Translator", translator)
    monkeypatch.setattr(ctranslate2, "get_cuda_device_count", lambda: gpus)
    monkeypatch.setattr(library, "real_cores", lambda: 1)
    monkeypatch.setattr(library, "intel", lambda: False)
    monkeypatch.setattr(library, "NARROW", small_config().d_model - wider)
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    fast_engine(folder, threads, device=device)
    assert made == [expected]


@pytest.mark.parametrize(
    ("threads", "cores", "choices", "expected"),
    [
        (2, 2, {}, (1, 2)),
        (4, 4, {}, (1, 2)),
        (4, 2, {}, (1, 2)),
        (2, 1, {}, (2, 1)),
        (1, 2, {}, (1, 1)),
        (2, 2, {"compute_type": "int8"}, (2, 1)),
    ],
)
def test_threads_share_a_single_sentence_if_each_has_a_core(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    threads: int,
    cores: int,
    choices: dict[str, str],
    expected: tuple[int, int],
) -> None:
    class Made:
        def __init__(self, *arguments: Any) -> None:
            *_, self.workers, self.threads = arguments

    monkeypatch.setattr(library, "open_translator", Made)
    monkeypatch.setattr(library, "real_cores", lambda: cores)
    monkeypatch.setattr(library, "intel", lambda: False)
    monkeypatch.setattr(library, "ONE_THREAD", small_config().d_model - 1)
    found = fast_engine(folder, threads, **choices).translators
    alone, many = found.of(1), found.of(2)
    assert isinstance(alone, Made)
    assert isinstance(many, Made)
    assert (alone.workers, alone.threads) == expected
    assert (many.workers, many.threads) == (threads, 1)
    # The narrowest models are as fast with one.
    monkeypatch.setattr(library, "ONE_THREAD", small_config().d_model)
    found = fast_engine(folder, threads, **choices).translators
    assert found.of(1) is found.of(2)
    assert (found.of(1).workers, found.of(1).threads) == (threads, 1)
    # Threads that share a product lose by it there, however wide it is.
    monkeypatch.setattr(library, "intel", lambda: True)
    monkeypatch.setattr(library, "NARROW", 0)
    found = fast_engine(folder, threads, **choices).translators
    assert found.of(1) is found.of(2)
    assert (found.of(1).workers, found.of(1).threads) == (threads, 1)


@pytest.mark.parametrize("choices", GREEDY_SEARCHES, ids=str)
def test_greedy_search_gives_what_pytorch_gives(
    model: TorchEngine, engine: CTranslate2Engine, choices: dict[str, Any]
) -> None:
    search = config(beam_size=1, **choices)
    sentences = numbered(random_sources())
    assert_same(engine.translate(sentences, search), model.translate(sentences, search))


@pytest.mark.parametrize("choices", [{}, {"min_length": 4}, {"no_repeat_ngram": 2}], ids=str)
def test_greedy_search_with_prefixes_gives_what_pytorch_gives(
    model: TorchEngine, engine: CTranslate2Engine, choices: dict[str, Any]
) -> None:
    sources, draw = random_sources(), np.random.default_rng(2)
    prefixes = [draw.integers(FIRST, TARGETS, draw.integers(0, 4)).tolist() for _ in sources]
    # A prefix may repeat what must not come twice.
    prefixes[:2] = [4, 4, 4], [4, 5, 4, 5, 4]
    search = config(beam_size=1, **choices)
    found = engine.translate(numbered(sources, prefixes), search)
    assert_same(found, model.translate(numbered(sources, prefixes), search))
    for prefix, (hypothesis,) in zip(prefixes, found, strict=True):
        assert list(hypothesis.tokens[: len(prefix)]) == prefix


@pytest.mark.parametrize("beam_size", [1, 3])
def test_a_prefix_beyond_the_longest_output_is_the_output(
    engine: CTranslate2Engine, model: TorchEngine, beam_size: int
) -> None:
    search, prefixes = config(beam_size=beam_size, max_length=2), [[4, 5, 6, 7]]
    found = engine.translate(numbered([[3, 4]], prefixes), search)
    assert_same(found, model.translate(numbered([[3, 4]], prefixes), search))
    assert found[0][0].tokens == (4, 5, 6, 7)


BEAM_SEARCHES: list[dict[str, Any]] = [
    {},
    {"length_penalty": 0.0},
    {"length_penalty": 2.0},
    {"n_best": 4},
    {"n_best": 4, "length_penalty": 0.0},
    {"min_length": 6, "n_best": 3},
    {"max_length": 4, "n_best": 4},
    {"no_repeat_ngram": 2, "n_best": 2},
    {"beam_size": 12, "n_best": 12, "max_length": 2},
]


@pytest.mark.slow
@pytest.mark.parametrize("prefixed", [False, True])
@pytest.mark.parametrize("choices", BEAM_SEARCHES, ids=str)
def test_the_hypotheses_of_a_beam_mean_what_ours_mean(
    model: TorchEngine, engine: CTranslate2Engine, choices: dict[str, Any], prefixed: bool
) -> None:
    search = config(**{"beam_size": 4, **choices})
    sources = random_sources(12)
    prefixes = [[4, 5][: i % 3] if prefixed else [] for i in range(len(sources))]
    found = engine.translate(numbered(sources, prefixes), search)
    for source, prefix, hypotheses in zip(sources, prefixes, found, strict=True):
        assert 1 <= len(hypotheses) <= search.n_best
        assert len({(h.tokens, h.finished) for h in hypotheses}) == len(hypotheses)
        ranks = [(not h.finished, -h.normalised_score) for h in hypotheses]
        assert ranks == sorted(ranks)
        for hypothesis in hypotheses:
            check_meaning(model, source, prefix, hypothesis, search)


def check_meaning(
    model: TorchEngine,
    source: list[int],
    prefix: list[int],
    hypothesis: Hypothesis,
    search: SearchConfig,
) -> None:
    """A hypothesis follows the search settings, and its scores are those of the model."""
    output = hypothesis.tokens
    steps = len(output) + hypothesis.finished
    longest = longest_output(len(source), search, len(prefix))
    assert steps == longest or hypothesis.finished
    assert steps <= longest
    assert not hypothesis.finished or len(output) >= search.min_length
    assert list(output[: len(prefix)]) == prefix
    assert min(output, default=FIRST) >= FIRST
    if search.no_repeat_ngram == 2 and not prefix:
        assert len(set(pairwise(output))) == max(0, len(output) - 1)
    wanted = forced_scores(model, source, output)[:steps]
    assert hypothesis.token_scores == pytest.approx(wanted, rel=1e-4, abs=1e-4)
    assert hypothesis.score == pytest.approx(sum(wanted), rel=1e-4, abs=1e-4)
    divided = hypothesis.score / length_penalty(steps, search.length_penalty)
    assert hypothesis.normalised_score == pytest.approx(divided)


def test_a_beam_finds_outputs_about_as_good_as_our_beam_does(
    model: TorchEngine, engine: CTranslate2Engine
) -> None:
    sentences, search = numbered(random_sources(60)), config(beam_size=5)
    found, wanted = engine.translate(sentences, search), model.translate(sentences, search)
    gains = [
        a[0].normalised_score - b[0].normalised_score for a, b in zip(found, wanted, strict=True)
    ]
    same = sum(a[0].tokens == b[0].tokens for a, b in zip(found, wanted, strict=True))
    assert same > len(sentences) / 2
    assert abs(float(np.mean(gains))) < 0.1


@pytest.mark.parametrize("search", [config(beam_size=1), config(beam_size=4, n_best=2)])
def test_a_sentence_gets_the_same_in_any_batch_and_order(
    engine: CTranslate2Engine, search: SearchConfig
) -> None:
    # Of very different lengths, so that a batch is searched further than its short ones may go.
    sources = [*random_sources(10, seed=8, longest=4), *([3, 5, 4] * n for n in range(1, 9))]
    prefixes = [[4][: i % 2] for i in range(len(sources))]
    alone = [
        engine.translate(numbered([source], [prefix]), search)[0]
        for source, prefix in zip(sources, prefixes, strict=True)
    ]
    for size in (3, 64):
        assert_same(engine.translate(numbered(sources, prefixes), search, batch_size=size), alone)
    backwards = engine.translate(numbered(sources[::-1], prefixes[::-1]), search)
    assert_same(backwards[::-1], alone)


def test_progress_counts_every_sentence(engine: CTranslate2Engine) -> None:
    done: list[int] = []
    engine.translate(numbered(random_sources(10)), config(), batch_size=4, progress=done.append)
    assert done == [4, 8, 10]
    assert engine.translate(numbered([]), config()) == []


def test_scores_that_are_not_wanted_are_left_out_and_change_no_output(folder: Path) -> None:
    sentences = numbered(random_sources(20))
    with_scores, without = fast_engine(folder), fast_engine(folder, scores=False)
    for choices in ({"beam_size": 1}, {"beam_size": 4}, {"beam_size": 4, "min_length": 5}):
        search = config(**choices)
        found, bare = (e.translate(sentences, search) for e in (with_scores, without))
        assert [x[0].tokens for x in found] == [x[0].tokens for x in bare]
        assert [x[0].finished for x in found] == [x[0].finished for x in bare]
        greedy = search.beam_size == 1
        assert all(math.isnan(x[0].score) == greedy for x in bare)
        assert all(bool(x[0].token_scores) == bool(search.min_length) for x in bare)
    search = config(beam_size=4, n_best=3)
    assert_same(without.translate(sentences, search), with_scores.translate(sentences, search))


def test_outputs_are_scored_in_parts_where_their_logits_are_many(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = fast_engine(folder)
    sources = random_sources(20)
    outputs = [tuple(range(FIRST, FIRST + i % 7)) for i in range(20)]
    whole = engine.score(sources, outputs)
    monkeypatch.setattr("clearhead.decoding.engine.SCORED_LOGITS", 20 * TARGETS)
    for parted, together in zip(engine.score(sources, outputs), whole, strict=True):
        assert parted == pytest.approx(together, abs=1e-5)


@pytest.mark.parametrize(
    ("choices", "named"),
    [
        ({"method": "sampling"}, "sampling"),
        ({"min_length": 4096}, "4097 tokens"),
        ({"max_length_ratio": 5.0}, "5125 tokens"),
    ],
)
def test_an_unsupported_search_is_an_error_that_names_the_setting(
    engine: CTranslate2Engine, choices: dict[str, Any], named: str
) -> None:
    with pytest.raises(SearchError) as caught:
        engine.translate(numbered([[3], [3] * 1024]), config(**choices))
    assert named in caught.value.what
    assert "--engine torch" in str(caught.value.todo)
    wheres = {"max_length_ratio": "sentence 2", "min_length": "sentence 1"}
    assert caught.value.where == next((wheres[name] for name in choices if name in wheres), None)


def test_positions_decide_which_searches_are_supported(engine: CTranslate2Engine) -> None:
    long = numbered([[3] * 1024])
    assert engine.unsupported(numbered([[3] * 100]), config(max_length_ratio=5.0)) is None
    assert engine.unsupported(long, config(max_length_ratio=5.0, max_length=100)) is None
    assert engine.unsupported(long, config(max_length_offset=100)) is None
    prefixed = [Sentence([3], [4] * 4000)]
    assert engine.unsupported(prefixed, config(max_length_offset=100)) is not None
    assert engine.unsupported([], FurtherSearch()) is None
    further = engine.unsupported([], FurtherSearch(further=1))
    assert further is not None
    assert "further" in further.what


@pytest.mark.parametrize("prefix", [[4, EOS], [99], [4] * (TABLE_POSITIONS + 1), [4, 4] * 2048])
def test_a_prefix_that_does_not_fit_is_named_by_its_sentence(
    engine: CTranslate2Engine, prefix: list[int]
) -> None:
    with pytest.raises(SearchError) as caught:
        engine.translate([Sentence([3], prefix, 7)], config())
    assert "sentence 8" in str(caught.value)


def test_learned_positions_bound_sources_and_outputs(tmp_path: Path) -> None:
    shape = small_config(positions=Learned(max_length=20))
    folder = random_folder(tmp_path, shape)
    export_model(folder)
    engine, model = fast_engine(folder), torch_engine(folder)
    assert engine.longest_source == model.longest_source == 20
    sources = [[3] * 20, [4, 5]]
    search = config(beam_size=1, min_length=30)
    found = engine.translate(numbered(sources), search)
    assert [len(each[0].tokens) for each in found] == [20, 20]
    assert_same(found, model.translate(numbered(sources), search))
    with pytest.raises(SearchError):
        engine.translate(numbered([[3]], [[4] * 21]), search)


def test_eight_bit_numbers_give_nearly_the_same_scores(folder: Path) -> None:
    sources = random_sources(10)
    outputs = [(3, 4, 5)] * 10
    exact = np.array(fast_engine(folder).score(sources, outputs))
    rough = np.array(fast_engine(folder, compute_type="int8").score(sources, outputs))
    assert 0 < np.abs(rough - exact).max() < 0.5


# Failures of CTranslate2


class Failing:
    """A CTranslate2 translator on a device that fails."""

    num_translators = 1

    def __init__(self, error: Exception) -> None:
        self.error = error

    def translate_batch(self, *_: Any, **__: Any) -> None:
        raise self.error

    score_batch = translate_batch


OUT_OF_MEMORY = "CUDA failed with error out of memory"


@pytest.mark.parametrize(
    "error", [RuntimeError(OUT_OF_MEMORY), RuntimeError("no libcublas.so.12"), MemoryError()]
)
def test_a_failure_while_translating_or_scoring_is_an_error_for_the_user(
    folder: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr(library, "open_translator", lambda *_: Failing(error))
    engine = fast_engine(folder)
    for fails in (
        lambda: engine.translate(numbered([[3]]), config()),
        lambda: engine.score([[3]], [(4,)]),
    ):
        with pytest.raises(ClearheadError) as caught:
            fails()
        assert caught.value.why == (str(error) or "MemoryError")
        assert "--device cpu" in str(caught.value.todo)
    code, out, err = run("translate", str(folder), "--engine", "ctranslate2", stdin="s1\n")
    assert (code, out) == (ClearheadError.exit_code, "")
    assert "clearhead: CTranslate2 failed on this device" in err


def test_a_bug_in_calling_ctranslate2_keeps_its_traceback(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library, "open_translator", lambda *_: Failing(TypeError("of ours")))
    with pytest.raises(TypeError):
        fast_engine(folder).translate(numbered([[3]]), config())


@pytest.mark.parametrize(
    ("error", "gpus", "kind"),
    [
        (ValueError("no such compute type"), 0, ConfigError),
        (RuntimeError(OUT_OF_MEMORY), 1, ClearheadError),
        (RuntimeError("cuBLAS failed with status 3"), 1, ClearheadError),
        (MemoryError(), 0, ClearheadError),
        # A word in the path is not about a GPU.
        (RuntimeError("Unable to open file 'model.bin' in model '{path}'"), 1, ExportError),
    ],
    ids=str,
)
def test_failures_while_loading_are_distinguished(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    gpus: int,
    kind: type[ClearheadError],
) -> None:
    import ctranslate2

    folder = random_folder(tmp_path / "CUDA out of memory")
    error = type(error)(str(error).format(path=export_model(folder)))

    def failing(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(ctranslate2, "Translator", failing)
    monkeypatch.setattr(ctranslate2, "get_cuda_device_count", lambda: gpus)
    with pytest.raises(ClearheadError) as raised:
        fast_engine(folder, device="cuda" if gpus else "cpu")
    assert type(raised.value) is kind
    assert raised.value.why == (str(error) or "MemoryError")


@pytest.mark.skipif(sys.platform != "linux", reason="another system may have another OpenMP")
@pytest.mark.parametrize(("narrow", "is_warned"), [(0, True), (256, False)])
def test_a_wide_model_in_a_library_that_waits_long_is_warned_of(
    narrow: int, is_warned: bool, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several workers of one thread each do not wait for each other."""
    library.installed()
    monkeypatch.delitem(device._imported, "ctranslate2", raising=False)
    for name in device.WAITING:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(library, "NARROW", narrow)
    monkeypatch.setattr(library, "intel", lambda: False)
    device.warn_of_long_waits.cache_clear()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fast_engine(folder, threads=2)
    device.warn_of_long_waits.cache_clear()
    assert ["GOMP_SPINCOUNT" in str(each.message) for each in caught] == [True] * is_warned
