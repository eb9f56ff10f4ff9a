"""A model that many callers use at the same time: a bounded queue, and batches of several requests.

One thread owns the model. It takes items of several requests at a time, so that one request does
not wait for another one to end, and many small requests are as fast as one large one.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from clearhead.api.classifier import Classifier, Prediction
from clearhead.api.documents import links_of, means_of, texts_with, translated_with
from clearhead.api.loading import LoadOptions, load
from clearhead.api.translator import Translator
from clearhead.data.labels import Labels
from clearhead.decoding.ctranslate2_library import NAME
from clearhead.decoding.engine import Hypothesis
from clearhead.decoding.texts import chosen_search
from clearhead.errors import ClearheadError, ConfigError, SearchError, warn
from clearhead.folder.manifest import MANIFEST
from clearhead.folder.model_folder import ModelFolder, open_folder
from clearhead.settings import SearchConfig
from clearhead.text.documents import Format, Result
from clearhead.text.paragraphs import Links, Means

LOOK_EVERY = 1.0
"""Seconds between two looks whether the model folder has changed."""

RETRY_EVERY = 30.0
"""Seconds after which a model is loaded again that could not be loaded."""

MOST_WAITING = 60.0
"""The longest time in seconds that a refused caller is asked to wait."""

MOST_GLOSSARIES, MOST_TERMS = 16, 5000
"""Glossaries of requests that are kept ready for the next request, and terms of one."""

GATHERING = 0.05
"""The share of the time of a batch in which requests for the next one are gathered at most."""

PRIORITY = 10
"""The niceness of the threads that compute."""

PROGRESS = 0.5
"""Seconds between two reports of progress."""


class BusyError(ClearheadError):
    """The queue is full, so the request was refused; `retry_after` has seconds to wait."""

    def __init__(self, what: str, retry_after: int, **parts: Any) -> None:
        super().__init__(what, **parts)
        self.retry_after = retry_after


class LateError(ClearheadError):
    """A request took longer than its limit, so it was given up."""


class StoppedError(ClearheadError):
    """A request was cancelled, or the service was closed."""


class LimitError(ClearheadError):
    """A request is larger than the service allows."""


@dataclass(frozen=True)
class Limits:
    """What a service does at most.

    Args:
        requests: at the same time, the waiting ones included; further ones are refused.
        characters: of a request.
        tokens: of the sources of a request.
        seconds: of a request, after which it is given up.
    """

    requests: int = 64
    characters: int = 100_000
    tokens: int = 1_000_000
    seconds: float = 60.0


class Ticket:
    """One request of a client: all that is computed for it ends with it.

    Attributes:
        client: whose request it is; clients take turns.
        deadline: when the request is given up, by `time.monotonic`.
        is_cancelled: whether nobody waits for it any more.
    """

    def __init__(self, client: str, seconds: float) -> None:
        self.client = client
        self.deadline = time.monotonic() + seconds
        self.is_cancelled = False

    def cancel(self) -> None:
        """Give the request up; what is not yet computed is left out."""
        self.is_cancelled = True

    @property
    def is_over(self) -> bool:
        """Whether it was cancelled, or is too late."""
        return self.is_cancelled or time.monotonic() > self.deadline

    @property
    def error(self) -> ClearheadError:
        """Why the request is over."""
        if self.is_cancelled:
            return StoppedError("the request was cancelled")
        what, todo = "the request took too long", "send a shorter text, or try again later"
        return LateError(what, todo=todo)


Operation = Callable[[Any, Sequence[Any]], Sequence[Any]]
"""A function of the model and some items. Items of equal operations are computed together."""


@dataclass(frozen=True)
class Translating:
    """Translates items, each a text and the beginning of its translation.

    `translator` is the one to use, if it is not the model itself.
    """

    search: SearchConfig
    normalise: bool = False
    translator: Translator | None = None

    def __call__(
        self, model: Translator, items: Sequence[tuple[str, str]]
    ) -> list[list[Hypothesis]]:
        texts, prefixes = ([*side] for side in zip(*items, strict=True))
        return (self.translator or model).hypotheses(
            texts,
            search=self.search,
            prefixes=prefixes if any(prefixes) else None,
            normalise=self.normalise,
            batch_size=len(texts),
            on_error="return",
        )


@dataclass(frozen=True)
class Sampling:
    """Draws translations of items: a number, on which the draw depends, a text and a beginning."""

    search: SearchConfig
    normalise: bool = False

    def __call__(
        self, model: Translator, items: Sequence[tuple[int, str, str]]
    ) -> list[list[Hypothesis]]:
        return [
            model.hypotheses(
                [text],
                search=self.search,
                prefixes=[prefix] if prefix else None,
                normalise=self.normalise,
                offset=number,
                on_error="return",
            )[0]
            for number, text, prefix in items
        ]


@dataclass(frozen=True)
class Scoring:
    """Scores items, each a source and its translation."""

    normalise: bool = False

    def __call__(self, model: Translator, items: Sequence[tuple[str, str]]) -> list[Hypothesis]:
        sources, targets = zip(*items, strict=True)
        return model.score(sources, targets, normalise=self.normalise, batch_size=len(items))


@dataclass(frozen=True)
class Classifying:
    """Classifies items."""

    top: int | None = None
    normalise: bool = False

    def __call__(self, model: Classifier, items: Sequence[Any]) -> list[list[Prediction]]:
        return model.classify(items, top=self.top, normalise=self.normalise, batch_size=len(items))


@dataclass(frozen=True)
class Aligning:
    """Links the words of items, each a sentence and its translation."""

    normalise: bool = False

    def __call__(self, model: Translator, items: Sequence[tuple[str, str]]) -> list[Links]:
        return links_of(model, items, self.normalise)


@dataclass(frozen=True, eq=False)
class Calling:
    """Calls a function with the model, alone."""

    function: Callable[[Any], Any]

    def __call__(self, model: Any, items: Sequence[None]) -> list[Any]:
        return [self.function(model)]


@dataclass(eq=False)
class _Request:
    """Items that wait for an operation, and their results."""

    operation: Operation
    items: Sequence[Any]
    sizes: Sequence[int]
    ticket: Ticket
    done: Future[list[Any]] = field(default_factory=Future)
    taken: int = 0
    results: dict[int, Any] = field(default_factory=dict)

    def add(self, found: Mapping[int, Any]) -> None:
        self.results |= found
        if len(self.results) == len(self.items) and not self.done.done():
            self.done.set_result([self.results[i] for i in range(len(self.items))])

    def fail(self, error: BaseException) -> None:
        if not self.done.done():
            self.done.set_exception(error)


class Batch(NamedTuple):
    """What was computed together: numbers of requests, items and tokens, and the seconds."""

    requests: int
    items: int
    tokens: int
    seconds: float


class Service:
    """A model that many callers, in several threads, use at the same time.

        with clearhead.Service("runs/my-model", limits=clearhead.Limits(seconds=10)) as service:
            service.translate(["A man sleeps."])

    The model is loaded when it is first needed. If the model folder changes, the service loads it
    again; requests go on with the old model until then, and none is lost. Translations have their
    warnings in `Hypothesis.warnings` alone.

    Args:
        folder: a model folder, or several of translators that work together.
        options: what runs the model, and how.
        limits: what it does at most.
        batch_tokens: about the number of source tokens that are computed together.
        gather: seconds to wait for another request before a batch, if there were several before.
        on_batch: called after each batch.

    Raises:
        ModelFolderError: the folder is missing, damaged, or of another version.
    """

    def __init__(
        self,
        folder: str | Path | Sequence[str | Path],
        options: LoadOptions | None = None,
        *,
        limits: Limits | None = None,
        batch_tokens: int = 1024,
        gather: float = 0.003,
        on_batch: Callable[[Batch], None] | None = None,
    ) -> None:
        self._folders = [folder] if isinstance(folder, str | Path) else [*folder]
        self._options = options or LoadOptions()
        self.limits = limits or Limits()
        self._batch_tokens, self._gather, self._on_batch = batch_tokens, gather, on_batch
        self.folder: ModelFolder = open_folder(self._folders[0])
        self._model: Any = None
        self._loading = threading.Lock()
        self._changed = threading.Condition()
        self._waiting: OrderedDict[str, deque[_Request]] = OrderedDict()
        self._tickets: set[Ticket] = set()
        self._is_shared = False
        self._closed = threading.Event()
        self._tokens_waiting = 0
        self._speed = self._seconds = 0.0  # of the latest batch: tokens a second, and its time
        self._inside: Service | None = None
        self._making = threading.Lock()
        self._termed: WeakKeyDictionary[Translator, dict[Any, Translator]] = WeakKeyDictionary()
        self._threads = [
            threading.Thread(target=work, name=f"clearhead {work.__name__}", daemon=True)
            for work in (self._compute, self._reload)
        ]
        for thread in self._threads:
            thread.start()

    def _load(self) -> Any:
        """The model, loaded in a thread that computes after the threads that answer."""
        with ThreadPoolExecutor(1, initializer=_lower_priority) as loading:
            # The threads of CTranslate2 inherit the priority.
            return loading.submit(load, self._folders, self._options).result()

    def __enter__(self) -> Service:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def model(self) -> Any:
        """The translator or classifier, which is loaded now if it was not yet."""
        with self._loading:
            if self._model is None:
                self._stamp = self._stamped()
                self._model = self._load()
                self.folder = self._model.folder
            return self._model

    @property
    def task(self) -> str:
        """`translation` or `classification`."""
        return self.folder.config.task

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of a classifier, which is not loaded for that; empty for a translator."""
        return Labels.of(self.folder).names if self.task == "classification" else ()

    @property
    def waiting(self) -> int:
        """The number of requests that are not finished."""
        return len(self._tickets)

    @contextmanager
    def ticket(self, client: str = "", seconds: float | None = None) -> Iterator[Ticket]:
        """A request of a client; all that is computed within the block belongs to it.

            with service.ticket("client 1", seconds=10) as ticket:
                service.translate(["A man sleeps."], ticket=ticket)

        Raises:
            BusyError: there are too many requests at the same time.
            StoppedError: the service is closed.
        """
        with self._changed:
            if self._closed.is_set():
                raise StoppedError("the service is closed")
            if len(self._tickets) >= self.limits.requests:
                raise BusyError(
                    f"there are {len(self._tickets):,} requests already",
                    self.retry_after,
                    todo="try again later",
                )
            ticket = Ticket(client, seconds or self.limits.seconds)
            self._tickets.add(ticket)
        try:
            yield ticket
        finally:
            ticket.cancel()
            with self._changed:
                self._tickets.remove(ticket)
                self._changed.notify_all()

    def _own(self, ticket: Ticket | None) -> AbstractContextManager[Ticket]:
        """A ticket that is given, or else a new one."""
        return self.ticket() if ticket is None else nullcontext(ticket)

    def translate(
        self,
        texts: Sequence[str],
        *,
        prefixes: Sequence[str] | None = None,
        normalise: bool = False,
        terms: Mapping[str, str] | None = None,
        progress: Callable[[int], None] | None = None,
        ticket: Ticket | None = None,
        **choices: Any,
    ) -> list[list[Hypothesis]]:
        """The hypotheses of each sentence, best first; see `Translator.translate`.

        Args:
            texts: one sentence each.
            prefixes: for each text the beginning of its translation.
            normalise: bring the texts into the style of the training text first.
            terms: terms with the translations that they must have.
            progress: called again and again with the number of sentences that are done.
            ticket: the request that this belongs to; by default a new one.
            choices: single settings of `SearchConfig`; the beam is as wide as `n_best` at least.

        Raises:
            LimitError: the texts have more characters or tokens than the service allows.
            BusyError, LateError, StoppedError: see these.
            ClearheadError: as in `Translator.translate`.
        """
        self.check_task("translation")
        self.check_size(sum(map(len, texts)))
        translator: Translator = self.model
        if prefixes is not None and len(prefixes) != len(texts):
            raise ConfigError(f"there are {len(texts)} texts and {len(prefixes)} prefixes")
        if choices.get("method") != "sampling":
            beam = choices.get("beam_size", translator.search.beam_size)
            most = choices.get("n_best", 1)
            choices |= {"beam_size": most} if 0 < beam < most else {}
        search = chosen_search(translator.search, choices)
        begun = prefixes or [""] * len(texts)
        if search.method == "sampling":
            if terms:
                what, todo = "sampling does not place terms", "leave the temperature out"
                raise SearchError(what, todo=todo)
            drawn = list(zip(range(len(texts)), texts, begun, strict=True))
            sizes = self._tokens(texts)
            return self._run(Sampling(search, normalise), drawn, sizes, ticket, progress)
        operation = Translating(search, normalise, self._with_terms(translator, terms or {}))
        items = list(zip(texts, begun, strict=True))
        return self._run(operation, items, self._tokens(texts), ticket, progress)

    def _with_terms(self, translator: Translator, terms: Mapping[str, str]) -> Translator | None:
        """The translator with these terms, the same one for the same terms; None without terms."""
        if not terms:
            return None
        if len(terms) > MOST_TERMS:
            raise LimitError(f"there are {len(terms):,} terms, and {MOST_TERMS:,} are allowed")
        key = tuple(terms.items())
        with self._making:
            made = self._termed.setdefault(translator, {})
            if key not in made:
                if len(made) >= MOST_GLOSSARIES:
                    del made[next(iter(made))]
                made[key] = translator.with_terms(terms)
            return made[key]

    def translate_data(
        self,
        data: bytes | str,
        format: str = "text",
        *,
        where: str = "the text",
        column: str | int | None = None,
        alternatives: int = 0,
        progress: Callable[[int, int], None] | None = None,
        ticket: Ticket | None = None,
        **options: Any,
    ) -> list[Result]:
        """A text of several sentences, or a document, in the other language.

        The first result is the best one. Each of the `alternatives` after it has the next best
        translation of each sentence, where there is one.

        Args:
            data: the content; a `str` for texts and texts with markup.
            format: as in `Translator.translate_document`.
            where: the name of the document, for errors and remarks.
            column: of a table: its name, or its number from 0.
            alternatives: the number of further results.
            progress: called with the numbers of sentences that are done, and of all.
            ticket: the request that this belongs to; by default a new one.
            options: those of `translate`.

        Raises:
            ClearheadError: as in `translate` and `Translator.translate_document`.
        """
        self.check_task("translation")
        if isinstance(data, str):
            self.check_size(len(data))
        with self._own(ticket) as ticket:
            return [
                translated_with(means, data, format, where, column)
                for means in self._means(alternatives, progress, ticket, options)
            ]

    def translate_texts(
        self,
        texts: Sequence[str],
        format: str | Format = "text",
        *,
        alternatives: int = 0,
        ticket: Ticket | None = None,
        **options: Any,
    ) -> list[list[Result]]:
        """Several texts, each as in `translate_data`; their sentences are translated together.

        A format is a name, or one of its own.
        """
        self.check_task("translation")
        self.check_size(sum(map(len, texts)))
        with self._own(ticket) as ticket:
            ranks = [
                texts_with(means, texts, format, "the text")
                for means in self._means(alternatives, None, ticket, options)
            ]
        return [[*each] for each in zip(*ranks, strict=True)]

    def _means(
        self,
        alternatives: int,
        progress: Callable[[int, int], None] | None,
        ticket: Ticket,
        options: dict[str, Any],
    ) -> list[Means]:
        """What documents are translated with: for the best translations, and for each next one."""
        known: dict[str, list[Hypothesis]] = {}
        options = {**options, "n_best": alternatives + 1}

        def run(rank: int, texts: Sequence[str]) -> list[list[Hypothesis]]:
            new = [text for text in dict.fromkeys(texts) if text not in known]

            def done(count: int) -> None:
                if progress is not None:
                    progress(count, len(new))

            found = self.translate(new, progress=done, ticket=ticket, **options)
            for hypotheses in found:
                if (error := hypotheses[0].error) is not None:
                    raise error
            known.update(zip(new, found, strict=True))
            return [[known[text][min(rank, len(known[text]) - 1)]] for text in texts]

        def link(pairs: Sequence[tuple[str, str]]) -> Sequence[Links]:
            return self.align(pairs, normalise=options.get("normalise", False), ticket=ticket)

        return [means_of(self.model, partial(run, rank), link) for rank in range(alternatives + 1)]

    def score(
        self,
        sources: Sequence[str],
        targets: Sequence[str],
        *,
        normalise: bool = False,
        ticket: Ticket | None = None,
    ) -> list[Hypothesis]:
        """How probable each target is as the translation of its source; see `Translator.score`."""
        self.check_task("translation")
        self.check_size(sum(map(len, (*sources, *targets))))
        if len(sources) != len(targets):
            raise ConfigError(f"there are {len(sources)} sources and {len(targets)} targets")
        items = list(zip(sources, targets, strict=True))
        return self._run(Scoring(normalise), items, self._tokens(sources), ticket)

    def classify(
        self,
        texts: Sequence[str],
        *,
        top: int | None = None,
        normalise: bool = False,
        ticket: Ticket | None = None,
    ) -> list[list[Prediction]]:
        """The most probable labels of each text, best first; see `Classifier.classify`."""
        self.check_task("classification")
        self.check_size(sum(map(len, texts)))
        sizes = [len(text) // 4 + 1 for text in texts]
        return self._run(Classifying(top, normalise), texts, sizes, ticket)

    def align(
        self,
        pairs: Sequence[tuple[str, str]],
        *,
        normalise: bool = False,
        ticket: Ticket | None = None,
    ) -> list[Links]:
        """The links between the words of each pair of a sentence and its translation.

        Words and punctuation marks count from 0, as in `clearhead align`. With `normalise`, the
        sentences are brought into the style of the training text first.
        """
        self.check_task("translation")
        if not pairs:
            return []
        sizes = [len(source) + len(target) + 1 for source, target in pairs]
        with self._own(ticket) as ticket:
            return self._inner()._run(Aligning(normalise), pairs, sizes, ticket)

    def call(self, function: Callable[[Any], Any], ticket: Ticket | None = None) -> Any:
        """The result of a function of the model, which no other request uses meanwhile."""
        return self._run(Calling(function), [None], [1], ticket)[0]

    def inside(self, function: Callable[[Any], Any], ticket: Ticket | None = None) -> Any:
        """The result of a function that looks inside the model.

        It gets a model of its own, which PyTorch runs. So it may change it with `clearhead.edit`,
        and other requests go on meanwhile.
        """
        with self._own(ticket) as ticket:
            return self._inner().call(function, ticket)

    def _inner(self) -> Service:
        """The service of the model that is looked into."""
        with self._loading:
            if self._inside is None:
                engine = "torch" if self.task == "translation" else "auto"
                options = replace(self._options, engine=engine, compute_type="")
                self._inside = Service(self._folders, options, limits=self.limits)
            return self._inside

    def close(self, seconds: float | None = None) -> None:
        """Finish the requests that were accepted, and end. Further ones are refused.

        Those that are not finished after so many seconds are given up; None: all are finished.
        """
        with self._changed:
            self._closed.set()
            self._changed.notify_all()
            if not self._changed.wait_for(lambda: not self._tickets, seconds):
                for ticket in self._tickets:
                    ticket.cancel()
                self._changed.wait_for(lambda: not self._tickets)
        for thread in self._threads:
            thread.join()
        if self._inside is not None:
            self._inside.close()

    def check_task(self, task: str) -> None:
        """Raise a `ConfigError` if the model has another task."""
        if self.task != task:
            kinds = {"translation": "translator", "classification": "classifier"}
            raise ConfigError(f"the model is a {kinds[self.task]}, not a {kinds[task]}")

    def check_size(self, characters: int) -> None:
        """Raise a `LimitError` if a request has too many characters."""
        if characters > (most := self.limits.characters):
            what = f"the request has {characters:,} characters, and {most:,} are allowed"
            raise LimitError(what, todo="divide the text")

    def _tokens(self, texts: Sequence[str]) -> list[int]:
        tokenizer = self.model.source_tokenizer
        sizes = [len(ids) + 1 for ids in tokenizer.encode_batch(texts)]
        if sum(sizes) > (most := self.limits.tokens):
            what = f"the request has {sum(sizes):,} tokens, and {most:,} are allowed"
            raise LimitError(what, todo="divide the text")
        return sizes

    def _run(
        self,
        operation: Operation,
        items: Sequence[Any],
        sizes: Sequence[int],
        ticket: Ticket | None,
        progress: Callable[[int], None] | None = None,
    ) -> list[Any]:
        """The result for each item."""
        if ticket is None:
            with self.ticket() as ticket:
                return self._run(operation, items, sizes, ticket, progress)
        if not items:
            return []
        request = _Request(operation, items, sizes, ticket)
        with self._changed:
            if ticket.is_over:
                raise ticket.error
            self._waiting.setdefault(ticket.client, deque()).append(request)
            self._tokens_waiting += sum(sizes)
            self._changed.notify_all()
        while not request.done.done():
            left = ticket.deadline - time.monotonic()
            wait([request.done], max(0.0, min(left, PROGRESS) if progress else left))
            if progress is not None:
                progress(len(request.results))
            if not request.done.done() and ticket.is_over:
                raise ticket.error
        return request.done.result()

    def _compute(self) -> None:
        """The thread that owns the model: compute batch after batch."""
        _lower_priority()
        while (batch := self._next()) is not None:
            try:
                self._compute_batch(*batch)
            except Exception as error:
                # What is wrong with one request is not the fault of the others.
                for request, indices in batch[1].items():
                    try:
                        if len(batch[1]) == 1:
                            raise error
                        self._compute_batch(batch[0], {request: indices})
                    except Exception as own:
                        request.fail(own)

    def _compute_batch(self, operation: Operation, parts: dict[_Request, list[int]]) -> None:
        items = [request.items[i] for request, indices in parts.items() for i in indices]
        begin = time.monotonic()
        found = iter(operation(self.model, items))
        self._seconds = seconds = time.monotonic() - begin
        tokens = sum(r.sizes[i] for r, indices in parts.items() for i in indices)
        self._speed = tokens / max(seconds, 1e-6)
        for request, indices in parts.items():
            request.add({i: next(found) for i in indices})
        if self._on_batch is not None:
            self._on_batch(Batch(len(parts), len(items), tokens, seconds))

    def _next(self) -> tuple[Operation, dict[_Request, list[int]]] | None:
        """The next operation, and the indices of its items by request; None at the end."""
        with self._changed:
            while True:
                self._drop()
                if self._waiting and self._is_shared:
                    self._wait_for_more()
                    self._drop()
                if self._waiting:
                    parts = self._take()
                    self._is_shared = len(parts) > 1
                    return next(iter(parts)).operation, parts
                if self._closed.is_set() and not self._tickets:
                    return None
                self._is_shared = False
                self._changed.wait()

    def _wait_for_more(self) -> None:
        """Wait until a batch is full, or no more requests come."""
        until = time.monotonic() + max(self._gather, GATHERING * self._seconds)
        while self._tokens_waiting < self._batch_tokens:
            left = min(self._gather, until - time.monotonic())
            if left <= 0 or not self._changed.wait(left):
                return

    def _drop(self) -> None:
        """Remove the requests that are over."""
        for client, requests in [*self._waiting.items()]:
            for request in [each for each in requests if each.ticket.is_over]:
                requests.remove(request)
                self._tokens_waiting -= sum(request.sizes[request.taken :])
                request.fail(request.ticket.error)
            if not requests:
                del self._waiting[client]

    def _take(self) -> dict[_Request, list[int]]:
        """Take the items of a batch. Clients take turns, and so do the requests of a client."""
        operation = next(iter(self._waiting.values()))[0].operation
        parts: dict[_Request, list[int]] = {}
        tokens, served = 0, dict[str, None]()
        while tokens < self._batch_tokens:
            before = tokens
            for client, requests in [*self._waiting.items()]:
                request = next((r for r in requests if r.operation == operation), None)
                if request is None or tokens >= self._batch_tokens:
                    continue
                parts.setdefault(request, []).append(request.taken)
                tokens += request.sizes[request.taken]
                request.taken += 1
                served[client] = None
                requests.remove(request)
                if request.taken < len(request.items):
                    requests.append(request)
                if not requests:
                    del self._waiting[client]
            if tokens == before:
                break
        self._tokens_waiting -= tokens
        for client in served:
            if client in self._waiting:
                self._waiting.move_to_end(client)
        return parts

    @property
    def retry_after(self) -> int:
        """Seconds after which what waits now will be computed, about."""
        seconds = self._tokens_waiting / self._speed if self._speed else 1.0
        return round(min(MOST_WAITING, max(1.0, seconds)))

    def _stamped(self) -> list[tuple[int, ...]]:
        """What changes when a folder or its export does."""
        found = list[tuple[int, ...]]()
        for folder in map(Path, self._folders):
            for path in (folder / MANIFEST, folder / NAME / MANIFEST):
                try:
                    state = os.stat(os.path.expanduser(path))
                except OSError:
                    continue
                found.append((state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns))
        return found

    def _reload(self) -> None:
        """The thread that loads the model again when its folder changes."""
        while not self._closed.wait(LOOK_EVERY):
            if self._model is None or (stamp := self._stamped()) == self._stamp:
                continue
            try:
                model = self._load()
            except Exception as error:
                warn(f"the changed model is not loaded, so the one before is used: {error}")
                self._closed.wait(RETRY_EVERY)
                continue
            with self._loading:
                self._model, self.folder, self._stamp = model, model.folder, stamp


def _lower_priority() -> None:
    """Let other threads of this process go first, where threads have a priority of their own.

    When all cores compute, a request is still read, answered or refused at once.
    """
    if sys.platform == "linux":
        thread = threading.get_native_id()
        with suppress(OSError):  # it may not be raised again
            lowest = max(PRIORITY, os.getpriority(os.PRIO_PROCESS, thread))
            os.setpriority(os.PRIO_PROCESS, thread, lowest)
