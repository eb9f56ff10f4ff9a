"""The displays of a run: plain lines and the live screen."""

from __future__ import annotations

import io
import math
import re
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from clearhead.training.display import (
    LiveScreen,
    Picture,
    PlainLines,
    choose_display,
    duration,
    sparkline,
)
from clearhead.training.events import Event, Note
from clearhead.training.task import Sample
from run_events import ENDED, EVENTS, PROGRESS, SAMPLES, STARTED, VALIDATED, Clock


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def drawn(picture: Picture, width: int, height: int) -> str:
    written = io.StringIO()
    Console(file=written, width=width, height=height, force_terminal=False).print(picture)
    return written.getvalue()


def plain_lines(*events: Event, interval_s: float = 10.0) -> list[str]:
    stream = io.StringIO()
    display = PlainLines(stream, interval_s)
    for event in events:
        display.observe(event)
    display.close()
    return stream.getvalue().splitlines()


def test_a_terminal_gets_the_live_screen_and_anything_else_plain_lines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    assert isinstance(choose_display(Terminal()), LiveScreen)
    assert isinstance(choose_display(io.StringIO()), PlainLines)
    monkeypatch.setenv("TERM", "dumb")
    assert isinstance(choose_display(Terminal()), PlainLines)


def test_progress_is_written_once_an_interval_of_training_and_the_rest_always() -> None:
    progress = [replace(PROGRESS, elapsed_s=float(s), step=s) for s in range(26)]
    lines = plain_lines(*progress[:13], VALIDATED, *progress[13:], ENDED)
    assert [line.split()[1] for line in lines if line.startswith("step")] == ["0", "10", "20"]
    assert sum(line.startswith("validation") for line in lines) == 1
    assert lines[-1].startswith("finished at step 12,000")


def test_lines_about_best_scores_and_ends_are_true() -> None:
    [line] = plain_lines(replace(VALIDATED, scores={"bleu": math.nan}, best_score=math.nan))
    assert "best" not in line
    [line] = plain_lines(replace(ENDED, finished=False, reason="interrupted"))
    assert line.startswith("stopped")
    assert "interrupted" in line


def test_plain_lines_hold_the_figures_and_nothing_that_steers_a_terminal() -> None:
    lines = plain_lines(*EVENTS)
    assert len(lines) == len(EVENTS)
    assert all(line.isprintable() for line in lines)
    for figure in ("2.314", "2.40e-03", "0.81", "9,210/s", "9,111/s", "6.1 %", "812 MB", "1 h 12"):
        assert figure in lines[2]
    assert lines[3].startswith("validation: bleu 38.21, best 38.40 at step 3,500")
    assert "chrf2 62.10" in lines[3]


@pytest.mark.parametrize("weights", ["current", "average"])
@pytest.mark.parametrize("is_best", [True, False])
def test_a_line_has_the_score_that_selects_the_model_first(weights: str, is_best: bool) -> None:
    scores = {"loss": 1.5, "chrf": 99.5, "bleu": 12.25}
    validated = replace(VALIDATED, scores=scores, weights=weights, is_best=is_best)
    for line in plain_lines(validated, replace(ENDED, scores=scores)):
        places = [line.index(score) for score in ("bleu 12.25", "loss 1.500", "chrf 99.50")]
        assert places == sorted(places)
    assert ENDED.folder in plain_lines(ENDED)[0]


def test_a_resumed_run_starts_with_its_best_score() -> None:
    assert "best" not in plain_lines(STARTED)[0]
    going_on = replace(STARTED, step=4_000, best_score=38.4, best_step=3_500)
    [line] = plain_lines(going_on)
    assert "resumes at step 4,000" in line
    assert line.endswith("best bleu 38.40 at step 3,500")


def test_the_signatures_of_the_scores_come_last_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    signatures = {"bleu": "nrefs:1|case:mixed|tok:13a", "chrf": "nrefs:1|nc:6"}
    events = *EVENTS[:-1], replace(ENDED, signatures=signatures)
    expected = [f"{name}: {signature}" for name, signature in signatures.items()]
    lines = plain_lines(*events)
    assert lines[-3].startswith("finished at step 12,000")
    assert lines[-2:] == expected
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    screen = LiveScreen(terminal)
    for event in events:
        screen.observe(event)
    assert terminal.getvalue().splitlines()[-2:] == expected
    assert terminal.getvalue().count("tok:13a") == 1


class BrokenPipe(Terminal):
    """A stream on which all writes after the first few fail."""

    def __init__(self, writes: int) -> None:
        super().__init__()
        self.writes = writes

    def write(self, text: str) -> int:
        if not self.writes:
            raise BrokenPipeError
        self.writes -= 1
        return super().write(text)


@pytest.mark.parametrize("kind", [PlainLines, LiveScreen])
@pytest.mark.parametrize("writes", range(4))
def test_training_continues_when_nobody_reads_its_lines_any_more(kind: Any, writes: int) -> None:
    stream = BrokenPipe(writes)
    display = kind(stream)
    for event in EVENTS:
        display.observe(event)
    assert stream.writes == 0
    written, stream.writes = stream.getvalue(), 100
    display.observe(Note("silent for good"))
    display.close()
    assert stream.getvalue() == written


def test_the_picture_shows_the_figures_the_best_score_and_the_sentences() -> None:
    picture = Picture(STARTED, Clock())
    picture.take(PROGRESS)
    picture.take(VALIDATED)
    text = drawn(picture, 80, 24)
    for figure in ("4,200 of 12,000", "2.314", "2.40e-03", "0.81", "9,210/s", "6.1 %", "812 MB"):
        assert figure in text
    assert "bleu 38.21" in text
    assert "38.40 at step 3,500" in text
    for sample in SAMPLES:
        assert sample.reference in text
        assert sample.output in text


def test_time_continues_between_two_events() -> None:
    clock = Clock()
    picture = Picture(STARTED, clock)
    picture.take(PROGRESS)
    clock.now = 30.0
    assert "2 min 10 s so far, 1 h 11 min left" in drawn(picture, 80, 24)
    clock.now = 10_000.0
    assert ", 0 s left" in drawn(picture, 80, 24)


@settings(max_examples=30)
@given(
    texts=st.lists(st.text(max_size=400), min_size=3, max_size=3),
    width=st.integers(20, 200),
    height=st.integers(24, 60),
    remaining=st.none() | st.floats(0, 1e6),
)
def test_the_picture_fits_the_terminal_whatever_the_sentences_are(
    texts: list[str], width: int, height: int, remaining: float | None
) -> None:
    picture = Picture(replace(STARTED, max_steps=None), Clock())
    picture.take(replace(PROGRESS, remaining_s=remaining))
    picture.take(replace(VALIDATED, samples=(Sample(*texts),) * 3))
    lines = drawn(picture, width, height).splitlines()
    assert not any("\x1b" in line or "\x07" in line for line in lines)
    if width >= 80:
        assert len(lines) < height


def test_the_live_screen_gives_the_cursor_back_and_ends_with_how_the_run_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    screen = LiveScreen(terminal)
    screen.close()
    for event in EVENTS:
        screen.observe(event)
    screen.close()
    screen.close()
    text = terminal.getvalue()
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")
    assert "finished at step 12,000" in text


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True, width=32), max_size=30))
def test_a_sparkline_rises_and_falls_with_its_finite_values(values: list[float]) -> None:
    finite = [value for value in values if math.isfinite(value)]
    line = sparkline(values)
    if len(finite) < 2:
        assert line == ""
        return
    assert len(line) == len(finite)
    ranked = [block for _, block in sorted(zip(finite, line, strict=True))]
    assert ranked == sorted(ranked)


@given(st.floats(0, 1e7))
def test_a_duration_is_the_time_but_for_what_its_units_leave_out(seconds: float) -> None:
    units = {"s": 1, "min": 60, "h": 3600, "d": 86400}
    parts = re.findall(r"(\d+) (s|min|h|d)\b", duration(seconds))
    assert 1 <= len(parts) <= 2
    shown = sum(int(number) * units[unit] for number, unit in parts)
    assert -0.5 <= seconds - shown < units[parts[-1][1]] + 0.5
    assert (duration(math.inf), duration(-3.0)) == ("unknown", "0 s")


def test_watching_a_run_needs_no_torch() -> None:
    modules = ("display", "events")
    imports = "; ".join(f"import clearhead.training.{name}" for name in modules)
    code = f"{imports}; import sys; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
