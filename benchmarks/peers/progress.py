"""What is being done, on stderr."""

from __future__ import annotations

import sys
import time


class Progress:
    """Says on stderr what is going on, and how long the rest of it will take."""

    def __init__(self, what: str, total: int) -> None:
        self.what, self.total, self.done = what, total, 0
        self.began = time.monotonic()

    def next(self, text: str) -> None:
        """Another step begins."""
        left = ""
        if self.done:
            seconds = (time.monotonic() - self.began) / self.done * (self.total - self.done)
            left = f", {seconds / 60:.0f} min left of this" if seconds >= 60 else ", < 1 min left"
        print(f"{self.what}: {text} ({self.done}/{self.total}{left})", file=sys.stderr, flush=True)
        self.done += 1
