"""Clearhead as its users run it: a whole training, or a loaded translator, which works in turns.

As in `protocol`, requests and answers are lines of JSON. The first request names what to start, and
its answer comes after a first piece of work. Each further one asks for a turn of some seconds:

    {"seconds": 2, "sentences": 16, "beam_size": 5} -> {"units": 48, "seconds": 2.3}
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from clearhead import api
from clearhead.settings import DataConfig, ModelConfig, RunConfig, TokenizerConfig, TrainingConfig
from clearhead.training.events import Event, Progress

from .workload import DECODED


class Conversation:
    """The requests of the benchmark, and the answers to it."""

    def __init__(self) -> None:
        # Libraries may print to stdout, which must only contain answers: redirect it to stderr.
        self._answers: TextIO = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)

    def answer(self, **figures: float) -> None:
        """Send an answer."""
        self._answers.write(json.dumps(figures) + "\n")
        self._answers.flush()

    def next(self) -> dict[str, Any]:
        """Wait for the next request.

        Raises:
            SystemExit: there are no more.
        """
        line = sys.stdin.readline()
        if not line:
            raise SystemExit
        return json.loads(line)


class Turns:
    """An observer of a run, which goes on only when it is asked to.

    The first step of each turn is not counted.
    """

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation
        self._wanted_s = 0.0
        self._began = self._last = 0.0
        self._tokens = 0.0

    def observe(self, event: Event) -> None:
        """Count the target tokens of a step; at the end of a turn, answer and wait."""
        if not isinstance(event, Progress):
            return
        now = time.perf_counter()
        if not self._began:
            self._began = self._last = now
            return
        self._tokens += event.rates["target tokens"] * (now - self._last)
        self._last = now
        if now - self._began >= self._wanted_s:
            self._conversation.answer(units=self._tokens, seconds=now - self._began)
            self._wanted_s = self._conversation.next()["seconds"]
            self._began = self._tokens = 0.0

    def close(self) -> None:
        """Nothing is open."""


def train(conversation: Conversation, size: str, threads: int, folder: str, pairs: str) -> None:
    """Train a model on a file of pairs, without end and without validations."""
    training = TrainingConfig(
        max_steps=1_000_000,
        validate_every=1_000_000,
        report_every=1,
        precision="auto",
        device="cpu",
        threads=threads,
        # So that a step of each size takes some tenths of a second.
        batch_tokens=4096 if size == "tiny" else 1024,
    )
    config = RunConfig(
        folder=folder,
        data=DataConfig(
            train=(pairs,), validation=(pairs,), drop_duplicates=False, drop_held_out=False
        ),
        tokenizer=TokenizerConfig(kind="words", max_vocabulary=0),
        model=ModelConfig.of_size(size),
        training=training,
    )
    api.train(config, observers=[Turns(conversation)], resumable=False)


def decode(conversation: Conversation, engine: str, threads: int, folder: str, texts: str) -> None:
    """Translate the first lines of a file with a model, again and again.

    The first call for each kind of search is not timed.
    """
    translator = api.load_translator(
        folder, device="cpu", threads=threads, engine=engine, scores=False
    )
    lines = Path(texts).read_text(encoding="utf-8").splitlines()
    known = set()

    def translate(sentences: int, beam_size: int) -> list[int]:
        found = translator.translate(lines[:sentences], beam_size=beam_size, batch_size=sentences)
        return [len(hypotheses[0].tokens) for hypotheses in found]

    for request in _turns(conversation):
        wanted_s = request.pop("seconds")
        if tuple(request.values()) not in known:
            translate(**request)
            known.add(tuple(request.values()))
        began, seconds, lengths = time.perf_counter(), 0.0, list[int]()
        while not lengths or seconds < wanted_s:
            lengths += translate(**request)
            seconds = time.perf_counter() - began
        if set(lengths) != {DECODED}:
            raise ValueError(f"the outputs have {set(lengths)} tokens, not {DECODED}")
        conversation.answer(units=len(lengths), seconds=seconds)


def _turns(conversation: Conversation) -> Iterator[dict[str, Any]]:
    """The requests; the first one has been read, and a small piece of work answers it."""
    yield {"seconds": 0, "sentences": 1, "beam_size": 1}
    while True:
        yield conversation.next()


def main() -> None:
    """Start what the first request says."""
    conversation = Conversation()
    first = conversation.next()
    work = first.pop("work")
    if work == "training":
        train(conversation, **first)
    else:
        decode(conversation, work, **first)


if __name__ == "__main__":
    main()
