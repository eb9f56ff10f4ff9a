"""The benchmark's side of the protocol: a peer's process answers requests."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

BENCHMARKS = Path(__file__).parents[1]
PATIENCE_S = 5.0


class PeerError(Exception):
    """A peer failed; the message is one line."""


KEEPING = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**63 - 1)}
"""Variables that make the C library (glibc) keep freed memory, as the command `clearhead` does."""


def environment_of(threads: int, keep_memory: bool = False) -> dict[str, str]:
    """The environment variables of every process that is measured, the same for all peers."""
    count = str(threads)
    return {
        **os.environ,
        **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), count),
        **dict.fromkeys(("HF_HUB_OFFLINE", "PYTHONUNBUFFERED"), "1"),
        "TOKENIZERS_PARALLELISM": "false",
        **(KEEPING if keep_memory else {}),
    }


class PeerProcess:
    """Runs the module of a peer and sends it requests; ends the process on leaving the context.

    The output of the peer is written to `log`. An answer may take `limit_s` seconds. `more` are
    further environment variables.
    """

    def __init__(
        self,
        python: str,
        module: str,
        log: Path,
        threads: int,
        limit_s: float,
        keep_memory: bool = False,
        more: Mapping[str, str] | None = None,
    ) -> None:
        self.log = log
        self.limit_s = limit_s
        with log.open("ab") as stream:
            self._process = subprocess.Popen(
                [python, "-m", f"peers.{module}"],
                cwd=BENCHMARKS,
                env=environment_of(threads, keep_memory) | dict(more or {}),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stream,
                encoding="utf-8",
                # So that Ctrl-C only reaches the benchmark, which ends this process in `close`.
                start_new_session=True,
            )

    def __enter__(self) -> PeerProcess:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(at_once=kind is not None)

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """The answer to a request.

        Raises:
            PeerError: the peer failed, ended, or took too long.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        late = threading.Event()

        def stop() -> None:
            late.set()
            self._kill()

        timer = threading.Timer(self.limit_s, stop)
        timer.daemon = True
        timer.start()
        try:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.write(json.dumps(request) + "\n")
                self._process.stdin.flush()
            line = self._process.stdout.readline()
        finally:
            timer.cancel()
        if late.is_set():
            raise PeerError(f"took more than {self.limit_s:.0f} s")
        if not line:
            raise PeerError(last_line(self.log.read_text(encoding="utf-8", errors="replace")))
        answer = json.loads(line)
        if "error" in answer:
            raise PeerError(answer["error"])
        return answer

    def close(self, at_once: bool = False) -> None:
        """End the process; unless `at_once`, it has a few seconds to end by itself."""
        if not at_once:
            for stream in (self._process.stdin, self._process.stdout):
                if stream is not None:
                    with contextlib.suppress(BrokenPipeError):
                        stream.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(PATIENCE_S)
        self._kill()
        self._process.wait()

    def _kill(self) -> None:
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)


def last_line(output: str) -> str:
    """The last line that is not empty; in a traceback it is the error."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1] if lines else "no output"
