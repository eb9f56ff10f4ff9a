"""Tests of the service: batches of several requests, turns, limits, reload."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import nan
from pathlib import Path
from typing import Any

import pytest

from clearhead.api import load_translator, service
from clearhead.api.service import (
    BusyError,
    LateError,
    LimitError,
    Limits,
    Service,
    StoppedError,
)
from clearhead.decoding.engine import Hypothesis
from clearhead.errors import ConfigError, DataError, SearchError
from clearhead.folder.model_folder import ModelFolder, open_folder
from clearhead.settings import SearchConfig
from clearhead.tokenizer import WordTokenizer
from exported_models import random_folder, write_random_weights

TEXTS = ["s1 s2", "s3", "", "s4 s5 s6", "s7 s8"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_folder(tmp_path_factory.mktemp("service") / "model")


@dataclass
class Gate:
    """A translator that computes a batch only when it is let; it keeps all batches."""

    folder: ModelFolder
    batches: list[list[str]] = field(default_factory=list)
    open: threading.Event = field(default_factory=threading.Event)
    begun: threading.Event = field(default_factory=threading.Event)

    source_tokenizer = WordTokenizer(["a"])

    @property
    def search(self) -> SearchConfig:
        return self.folder.config.search

    def hypotheses(self, texts: Sequence[str], **options: Any) -> list[list[Hypothesis]]:
        self.batches.append(list(texts))
        self.begun.set()
        assert self.open.wait(20)
        if "crash" in texts:
            raise DataError("crash")
        return [[Hypothesis((), nan, (), nan, True, text[::-1])] for text in texts]


def wait_until(found: Callable[[], bool]) -> None:
    """Wait until something is so, at most some seconds."""
    end = time.monotonic() + 20
    while not found():
        assert time.monotonic() < end
        time.sleep(0.01)


Running = tuple[Service, Gate, ThreadPoolExecutor]


@contextmanager
def gated(folder: Path, monkeypatch: pytest.MonkeyPatch, **options: Any) -> Iterator[Running]:
    """A service with a gate, which computes a first sentence so that others must wait."""
    gate = Gate(open_folder(folder))
    monkeypatch.setattr(service, "load", lambda *_: gate)
    with Service(folder, **options) as running, ThreadPoolExecutor(32) as pool:
        try:
            with running.ticket("first", seconds=20) as ticket:
                first = pool.submit(running.translate, ["first"], ticket=ticket)
                assert gate.begun.wait(20)
                yield running, gate, pool
                gate.open.set()
                first.result(20)
        finally:
            gate.open.set()


def waits(running: Service, requests: int) -> None:
    """Wait until so many requests are in the queue, the first one included."""
    wait_until(lambda: running.waiting == requests)
    time.sleep(0.05)  # between the ticket and the queue


def sent(
    pool: ThreadPoolExecutor, running: Service, texts: Sequence[str], client: str, **choices: Any
) -> Future[list[list[Hypothesis]]]:
    """Translate texts for a client in a thread."""

    def work() -> list[list[Hypothesis]]:
        with running.ticket(client) as ticket:
            return running.translate(texts, ticket=ticket, **choices)

    before = running.waiting
    future = pool.submit(work)
    waits(running, before + 1)
    return future


def test_the_translations_are_those_of_the_translator(folder: Path) -> None:
    expected = load_translator(folder, device="cpu").translate(TEXTS, n_best=2)
    with Service(folder) as running:
        found = running.translate(TEXTS, n_best=2)
        with ThreadPoolExecutor(8) as pool:
            single = list(pool.map(lambda text: running.translate([text], n_best=2)[0], TEXTS))
    for each in (found, single):
        assert [[h.tokens for h in hs] for hs in each] == [
            [h.tokens for h in hs] for hs in expected
        ]


def test_a_text_is_that_of_the_translator(folder: Path) -> None:
    text = "s1 s2. s3 s4\n\ns5"
    expected = load_translator(folder, device="cpu").translate_text(text)
    with Service(folder) as running:
        best, *others = running.translate_data(text, alternatives=2)
    assert best.data.decode() == expected
    assert len(others) == 2
    assert [pair.source for pair in best.sentences] == ["s1 s2.", "s3 s4", "s5"]
    targets = [pair.target for pair in best.sentences]
    assert f"{targets[0]} {targets[1]}\n\n{targets[2]}" == expected


def test_texts_of_a_list_are_computed_together(folder: Path) -> None:
    translator = load_translator(folder, device="cpu")
    texts, batches = ["s1 s2. s3", "", "s4\n\ns5"], list[service.Batch]()
    with Service(folder, on_batch=batches.append) as running:
        found = running.translate_texts(texts, alternatives=1)
        assert running.translate_texts([]) == []
    assert [best.data.decode() for best, _ in found] == list(map(translator.translate_text, texts))
    assert [[pair.source for pair in best.sentences] for best, _ in found] == [
        ["s1 s2.", "s3"],
        [],
        ["s4", "s5"],
    ]
    assert [batch.items for batch in batches] == [4]


def test_requests_that_wait_are_computed_together(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with gated(folder, monkeypatch) as (running, gate, pool):
        found = [sent(pool, running, [f"text {n}"], f"client {n}") for n in range(5)]
        gate.open.set()
        assert [each.result(20)[0][0].text for each in found] == [f"{n} txet" for n in range(5)]
    assert gate.batches == [["first"], [f"text {n}" for n in range(5)]]


def test_clients_take_turns(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long document does not keep a sentence of another client waiting."""
    document = [f"sentence {n}" for n in range(100)]
    with gated(folder, monkeypatch, batch_tokens=30) as (running, gate, pool):
        long = sent(pool, running, document, "one")
        short = sent(pool, running, ["short"], "two")
        gate.open.set()
        for each in (short, long):
            each.result(20)
    assert "short" in gate.batches[1]
    assert [text for batch in gate.batches[1:] for text in batch if text != "short"] == document


def test_requests_of_a_client_take_turns(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with gated(folder, monkeypatch, batch_tokens=30) as (running, gate, pool):
        long = sent(pool, running, ["long"] * 100, "one")
        short = sent(pool, running, ["short"], "one")
        gate.open.set()
        for each in (short, long):
            each.result(20)
    assert "short" in gate.batches[1]


def test_other_settings_wait_for_one_batch(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with gated(folder, monkeypatch, batch_tokens=30) as (running, gate, pool):
        one = sent(pool, running, ["one"] * 100, "one")
        two = sent(pool, running, ["two"] * 100, "two", beam_size=2)
        gate.open.set()
        for each in (one, two):
            each.result(20)
    kinds = [batch[0] for batch in gate.batches[1:]]
    assert all(len(set(batch)) == 1 for batch in gate.batches)
    assert kinds[:6] == ["one", "two"] * 3


def test_further_requests_are_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = Limits(requests=2)
    with gated(folder, monkeypatch, limits=limits) as (running, _, pool):
        second = sent(pool, running, ["second"], "two")
        with pytest.raises(BusyError) as refused:
            running.translate(["third"])
        assert refused.value.retry_after >= 1
        assert not second.done()
    assert second.result(20)[0][0].text == "dnoces"


def test_a_late_request_is_given_up(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with gated(folder, monkeypatch, limits=Limits(seconds=0.3)) as (running, gate, _):
        with pytest.raises(LateError):
            running.translate(["second"])
        assert len(gate.batches) == 1
    assert gate.batches == [["first"]]


def test_a_cancelled_request_is_not_computed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with gated(folder, monkeypatch) as (running, gate, pool):
        with running.ticket() as ticket:
            future = pool.submit(running.translate, ["cancelled"], ticket=ticket)
            time.sleep(0.1)
        other = sent(pool, running, ["other"], "two")
        gate.open.set()
        with pytest.raises(StoppedError):
            future.result(20)
        other.result(20)
    assert gate.batches == [["first"], ["other"]]


def test_an_error_is_that_of_its_batch(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with gated(folder, monkeypatch) as (running, gate, pool):
        bad = sent(pool, running, ["crash"], "one")
        gate.open.set()
        with pytest.raises(DataError):
            bad.result(20)
        assert running.translate(["good"])[0][0].text == "doog"


def test_closing_finishes_what_was_accepted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with gated(folder, monkeypatch) as (running, gate, pool):
        found = sent(pool, running, ["second"] * 50, "two")
        closing = threading.Thread(target=running.close)
        closing.start()
        time.sleep(0.1)
        with pytest.raises(StoppedError):
            running.translate(["third"])
        gate.open.set()
        assert len(found.result(20)) == 50
    closing.join(20)
    assert not closing.is_alive()


def test_closing_gives_up_what_takes_too_long(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with gated(folder, monkeypatch) as (running, gate, pool):
        found = sent(pool, running, ["second"], "two")
        closing = threading.Thread(target=running.close, args=[0.2])
        closing.start()
        time.sleep(0.4)
        gate.open.set()
        with pytest.raises(StoppedError):
            found.result(20)
    closing.join(20)
    assert not closing.is_alive()


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda s: s.translate(["s1"], beam_size=0), SearchError),
        (lambda s: s.translate(["s1"], no_such=1), SearchError),
        (lambda s: s.translate(["s1"], prefixes=[]), ConfigError),
        (lambda s: s.translate(["s" * 101]), LimitError),
        (lambda s: s.translate(["s1 " * 20]), LimitError),
        (lambda s: s.translate_data("s1", "no such format"), ConfigError),
        (lambda s: s.score(["s1"], []), ConfigError),
        (lambda s: s.classify(["s1"]), ConfigError),
    ],
)
def test_wrong_requests(
    folder: Path, call: Callable[[Service], Any], error: type[Exception]
) -> None:
    with Service(folder, limits=Limits(characters=100, tokens=10)) as running:
        with pytest.raises(error):
            call(running)
        assert running.translate(["s1"])
        assert running.waiting == 0


def test_samples_do_not_depend_on_other_requests(folder: Path) -> None:
    choices = {"method": "sampling", "seed": 3, "temperature": 1.5}
    expected = load_translator(folder, device="cpu").translate(["s1 s2"], **choices)
    with Service(folder) as running, ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: running.translate(["s1 s2"], **choices), range(20)))
    assert {each[0][0].tokens for each in found} == {expected[0][0].tokens}


def test_scores_links_and_terms(folder: Path) -> None:
    translator = load_translator(folder, device="cpu", engine="torch")
    pair = ["s1 s2"], ["t3 t4"]
    with Service(folder) as running:
        assert running.score(*pair)[0].score == pytest.approx(translator.score(*pair)[0].score)
        with running.ticket() as ticket:
            (found,) = running.align([("s1 s2", "t3 t4")], ticket=ticket)
            (best,), *_ = running.translate(["s1 s2"], terms={"s1": "t9"}, ticket=ticket)
        assert running.inside(lambda model: model.model.training) is False
    assert all(0 <= one < 2 and 0 <= other < 2 for one, other in found)
    assert "t9" in best.text.split()


def test_a_changed_folder_is_loaded_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "LOOK_EVERY", 0.05)
    path = random_folder(tmp_path / "model")
    words = "s1 s2 s3 s4"
    old = load_translator(path, device="cpu").translate([words])[0][0].tokens
    with Service(path) as running:
        assert running.translate([words])[0][0].tokens == old
        config = open_folder(path).config
        tokenizers = running.model.source_tokenizer, running.model.target_tokenizer
        write_random_weights(path, config, tokenizers, 7, 0.4, 0.0)
        new = load_translator(path, device="cpu").translate([words])[0][0].tokens
        assert new != old
        wait_until(lambda: running.translate([words])[0][0].tokens == new)


@pytest.mark.filterwarnings("ignore:the changed model is not loaded")
def test_a_damaged_folder_does_not_replace_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "LOOK_EVERY", 0.05)
    path = random_folder(tmp_path / "model")
    with Service(path) as running:
        old = running.translate(["s1"])[0][0].tokens
        (path / "manifest.json").write_text("{}")
        time.sleep(0.3)
        assert running.translate(["s1"])[0][0].tokens == old


def test_a_request_that_is_cancelled_while_more_are_awaited(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that computes goes on when nothing is left of a batch."""
    with Service(folder, gather=0.3) as running, ThreadPoolExecutor(2) as pool:
        running.translate(["s1"])
        time.sleep(0.1)  # until it waits
        running._is_shared = True
        with running.ticket() as ticket:
            future = pool.submit(running.translate, ["s2"], ticket=ticket)
            time.sleep(0.1)
        with pytest.raises(StoppedError):
            future.result(20)
        assert running.translate(["s3"])


def test_one_wrong_request_does_not_fail_the_others(folder: Path) -> None:
    def work(model: Any, items: Sequence[str]) -> Sequence[str]:
        if "bad" in items:
            raise DataError("bad")
        return items

    with Service(folder, gather=0.3) as running, ThreadPoolExecutor(2) as pool:
        running._is_shared = True
        good, bad = (pool.submit(running._run, work, [x], [1], None) for x in ("good", "bad"))
        assert good.result(20) == ["good"]
        with pytest.raises(DataError):
            bad.result(20)


def test_progress_is_reported_by_the_caller(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "PROGRESS", 0.05)
    found = list[tuple[int, int]]()
    with gated(folder, monkeypatch, batch_tokens=4) as (running, gate, pool):

        def note(done: int) -> None:
            found.append((threading.get_ident(), done))

        future = sent(pool, running, ["one"] * 10, "two", progress=note)
        gate.open.set()
        future.result(20)
    assert found[-1][1] == 10
    assert len({thread for thread, _ in found}) == 1
