"""Ctrl-C and the end of a batch job: a wish that is granted between two steps."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

from clearhead.training.events import Event, Note

SIGNALS = (signal.SIGINT, signal.SIGTERM)
GRANTED = "interrupted: it ends after this step or validation; again, to end at the last checkpoint"


class Interruption:
    """While entered, the first Ctrl-C or SIGTERM only sets `wanted`; a second one acts at once.

    So a checkpoint is never written in the middle of a step or of a validation, and what is
    resumed from it is what would have come without the interruption.

    Args:
        tell: told at once that the wish was heard, for a validation may take minutes.
    """

    def __init__(self, tell: Callable[[Event], None]) -> None:
        self.wanted = False
        self._tell = tell
        self._telling: threading.Thread | None = None
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interruption:
        # Python lets only the main thread have signals; another one's run cannot be interrupted.
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                # A command begun with nohup or & ignores Ctrl-C, and shall go on doing so.
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._ask)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._restore()
        if self._telling is not None:
            self._telling.join()

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self.wanted = True
        self._restore()
        # Here the main thread may stand in the middle of a write, which it cannot begin again.
        self._telling = threading.Thread(target=self._tell, args=(Note(GRANTED),))
        self._telling.start()

    def _restore(self) -> None:
        while self._before:
            signal.signal(*self._before.popitem())
