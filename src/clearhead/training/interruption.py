"""Ctrl-C and SIGTERM: finish the step, then stop.

The handler only sets `wanted`. The loop (`Trainer._train`) reads it after each step, leaves, and
`Trainer.run` writes the state with `Keeper.write_state`.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Sequence
from types import FrameType, TracebackType
from typing import Any

from clearhead.training.events import Note, Observer, notify

SIGNALS = (signal.SIGINT, signal.SIGTERM)
STOPPING = (
    "interrupted: stops after this step or validation; interrupt again to stop at once, "
    "at the last checkpoint"
)


class Interruption:
    """Context in which the first Ctrl-C or SIGTERM only sets `wanted`. A second one acts at once.

    A checkpoint is therefore never written in the middle of a step or a validation, and a resumed
    run computes what the uninterrupted one would have.

    Args:
        observers: get a note at once, because a validation may take minutes.
    """

    def __init__(self, observers: Sequence[Observer]) -> None:
        self.wanted = False
        self._observers = observers
        self._notifying: threading.Thread | None = None
        self._handlers_before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interruption:
        # Python allows signal handlers in the main thread only.
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                # A command started with nohup or & ignores Ctrl-C and must continue to do so.
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._handlers_before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._restore_handlers()
        if self._notifying is not None:
            self._notifying.join()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.wanted = True
        self._restore_handlers()
        # In a thread: the main thread may be in the middle of a write, which is not reentrant.
        arguments = (self._observers, Note(STOPPING))
        self._notifying = threading.Thread(target=notify, args=arguments)
        self._notifying.start()

    def _restore_handlers(self) -> None:
        while self._handlers_before:
            signal.signal(*self._handlers_before.popitem())
