"""What all APIs share: who a client is, and how the work of a request is done."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar

from starlette.requests import Request

from clearhead.api.loading import LoadOptions
from clearhead.api.service import Limits, Service, StoppedError, Ticket
from clearhead.errors import ClearheadError, warn
from clearhead.serve.metrics import Metrics
from clearhead.serve.models import Models
from clearhead.serve.settings import Keys, ServeSettings
from clearhead.serve.store import Store

Found = TypeVar("Found")

MOST_CLIENTS = 10_000
"""Clients whose requests of the last minute are counted."""

DOCUMENT_SECONDS = 3600.0
"""The longest time in which a document is translated."""

DRAIN_SECONDS = 20.0
"""How long documents may go on at the end, after all requests were answered."""


class AccessError(ClearheadError):
    """The API key of a request is missing or wrong."""


class RateError(ClearheadError):
    """A client sends too many requests; `retry_after` has seconds to wait."""

    def __init__(self, retry_after: int) -> None:
        super().__init__("too many requests", todo="wait, then go on more slowly")
        self.retry_after = retry_after


class Server:
    """The models, the keys, the store and the threads of a server.

    Args:
        settings: what it is started with.

    Raises:
        ClearheadError: the settings are wrong, or a model folder cannot be read.
    """

    def __init__(self, settings: ServeSettings) -> None:
        self.settings = settings
        self.keys = Keys(settings.keys)
        self.metrics = Metrics()
        limits = Limits(
            requests=settings.queue, characters=settings.characters, seconds=settings.seconds
        )
        # The confidence needs the score of a translation, but not those of its tokens.
        options = LoadOptions(**settings.options, scores=False)
        self.models = Models(settings.folders, options, limits, self.metrics.batch)
        self.store = Store(Path(settings.storage), settings.storage_bytes)
        # Tickets bound the work, so a thread is always free.
        workers = (settings.queue + 2) * len(self.models.services)
        self._pool = ThreadPoolExecutor(workers, "clearhead request")
        self._rates: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self.is_ready = False

    def start(self) -> None:
        """Load the models in the background, and translate a text with each."""
        threading.Thread(target=self._warm, name="clearhead start", daemon=True).start()

    def _warm(self) -> None:
        for name, service in self.models:
            while True:
                try:
                    self.try_out(service)
                    break
                except StoppedError:
                    return
                except ClearheadError as error:  # such as a folder that a training replaces
                    warn(f"the model {name} is not ready: {error}")
                    time.sleep(1)
        self.is_ready = True

    def try_out(self, service: Service) -> None:
        """Make a real translation or classification."""
        if service.task == "translation":
            service.translate(["."])
        elif service.folder.config.input == "text":
            service.classify(["."])
        else:
            service.call(lambda model: model.labels)

    def refusal(self) -> int | None:
        """Seconds to wait if no model can accept a request; None if one can."""
        services = self.models.services.values()
        if all(service.waiting >= service.limits.requests for service in services):
            return max(service.retry_after for service in services)
        return None

    def client(self, request: Request, key: str | None) -> str:
        """The name of the client that sent a request, which counts towards its rate.

        Raises:
            AccessError: keys are needed, and this is none.
            RateError: it sends too many.
        """
        name = request.client.host if request.client else "unknown"
        if self.keys:
            found = self.keys.name_of(key or "")
            if found is None:
                self._count(name)  # so that keys cannot be guessed quickly
                what = "the API key is wrong" if key else "an API key is needed"
                raise AccessError(what, todo="ask whoever runs this server")
            name = found
        request.scope["notes"]["client"] = name
        self._count(name)
        return name

    def _count(self, client: str) -> None:
        """Count a request; a client may save up the requests of a minute."""
        if not (rate := self.settings.rate):
            return
        now = time.monotonic()
        left, last = self._rates.pop(client, (float(rate), now))
        left = min(rate, left + (now - last) * rate / 60)
        self._rates[client] = max(0.0, left - 1), now
        if len(self._rates) > MOST_CLIENTS:
            self._rates.popitem(last=False)
        if left < 1:
            raise RateError(max(1, round((1 - left) * 60 / rate)))

    async def run(
        self,
        request: Request,
        service: Service,
        client: str,
        function: Callable[[Ticket], Found],
    ) -> Found:
        """The result of a function, which runs in a thread; cancelled if the client goes away."""
        with service.ticket(client) as ticket:
            work = asyncio.get_running_loop().run_in_executor(self._pool, function, ticket)
            gone = asyncio.create_task(has_gone(request))
            try:
                await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                gone.cancel()
                if not work.done():
                    ticket.cancel()
                    # Until its thread is free, the request counts.
                    await asyncio.wait({work})
            return work.result()

    def run_document(
        self, service: Service, client: str, function: Callable[[Ticket], None]
    ) -> None:
        """Run a function in a thread, which goes on after the answer.

        Raises:
            BusyError: there are too many requests.
        """
        with ExitStack() as held:
            ticket = held.enter_context(service.ticket(client, DOCUMENT_SECONDS))

            def work(held: ExitStack) -> None:
                with held:
                    function(ticket)

            self._pool.submit(work, held.pop_all())

    def normalise(self, wanted: bool | None) -> bool:
        """Whether texts are brought into the style of the training text, as a request wants it."""
        return self.settings.normalise if wanted is None else wanted

    def note(self, request: Request, model: str, text: str | list[str] = "") -> None:
        """Write the model and the size of a request into its line of the log."""
        notes = request.scope["notes"]
        notes["model"] = model
        notes["characters"] = len(text) if isinstance(text, str) else sum(map(len, text))
        if self.settings.log_texts:
            notes["text"] = text

    def counts(self) -> bytes:
        """The metrics."""
        for name, service in self.models:
            self.metrics.waiting(name, service.waiting)
        return self.metrics.text()

    def close(self) -> None:
        """Finish the requests that were accepted, and end."""
        self.models.close(DRAIN_SECONDS)
        self._pool.shutdown()
        self.store.close()


async def has_gone(request: Request) -> Any:
    """Wait until the client closes the connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
