"""A dialogue on a terminal, through a pseudo-terminal."""

from __future__ import annotations

import codecs
import os
import pty
import re
import select
import subprocess
import termios
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from fake_translator import CHILD

WAIT_S = 60
AGAIN_S = 5
"""After which a key is pressed again: Python misses Ctrl-C between the prompt and its read."""


class Terminal:
    """A command on a terminal of its own.

    Args:
        options: of the command.
        stdout: where its output goes, if not to the terminal.
    """

    def __init__(self, *options: str, stdout: int | None = None) -> None:
        self.master, slave = pty.openpty()
        self.settings = termios.tcgetattr(slave)
        self.slave = slave
        self.shown = ""
        # One read may end within a character.
        self.decoder = codecs.getincrementaldecoder("utf-8")()

        def own_terminal() -> None:
            os.setsid()
            os.close(os.open(os.ttyname(0), os.O_RDWR))  # becomes the controlling terminal

        self.process = subprocess.Popen(
            [*CHILD, *options],
            stdin=slave,
            stdout=slave if stdout is None else stdout,
            stderr=slave,
            preexec_fn=own_terminal,
            env={**os.environ, "TERM": "dumb"},
        )

    def type(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    def read(self) -> None:
        self.shown += self.decoder.decode(os.read(self.master, 4096))

    def wait_for(self, pattern: str) -> None:
        """Read until the text that was not waited for yet has the pattern, and drop it."""
        until = time.monotonic() + WAIT_S
        while not (found := re.search(pattern, self.shown)):
            left = until - time.monotonic()
            assert left > 0, f"{pattern!r} is not in {self.shown!r}"
            if select.select([self.master], [], [], min(left, 1))[0]:
                self.read()
        self.shown = self.shown[found.end() :]

    def ended(self, key: str) -> int:
        """The exit code after a key that ends the dialogue."""
        until = time.monotonic() + WAIT_S
        press = 0.0
        while self.process.poll() is None:
            now = time.monotonic()
            assert now < until, f"it hangs after {self.shown!r}"
            if now >= press:
                self.type(key)
                press = now + AGAIN_S
            if select.select([self.master], [], [], 0.05)[0]:
                self.read()
        while select.select([self.master], [], [], 0)[0]:
            self.read()
        return self.process.returncode

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for end in (self.master, self.slave):
            with suppress(OSError):
                os.close(end)


@pytest.fixture
def terminals() -> Iterator[list[Terminal]]:
    opened: list[Terminal] = []
    yield opened
    for terminal in opened:
        terminal.close()


def test_each_result_follows_its_line_and_ctrl_d_ends(terminals: list[Terminal]) -> None:
    terminal = Terminal()
    terminals.append(terminal)
    terminal.wait_for("Ctrl-D")
    for line, answer in (("a b", "b a"), ("c ä", "ä c")):
        terminal.wait_for("> ")
        terminal.type(f"{line}\n")
        terminal.wait_for(f"{answer}\r\n")
    terminal.wait_for("> ")
    assert terminal.ended("\x04") == 0
    assert "clearhead" not in terminal.shown
    assert termios.tcgetattr(terminal.slave) == terminal.settings


def test_ctrl_c_ends_quietly_and_leaves_the_terminal_as_it_was(terminals: list[Terminal]) -> None:
    terminal = Terminal()
    terminals.append(terminal)
    terminal.wait_for("> ")
    terminal.type("a b\n")
    terminal.wait_for("b a\r\n(.|\n)*> ")
    terminal.type("half a line")
    # Ctrl-C drops what is typed and not read yet, and readline then waits for another key.
    terminal.wait_for("half a line")
    assert terminal.ended("\x03") == 130
    assert "clearhead" not in terminal.shown
    assert "Traceback" not in terminal.shown
    assert termios.tcgetattr(terminal.slave) == terminal.settings


@pytest.mark.slow
@pytest.mark.parametrize("key", ["\x03", "\x04"])
def test_the_prompt_is_not_in_a_redirected_output(
    terminals: list[Terminal], tmp_path: Path, key: str
) -> None:
    with (tmp_path / "out.txt").open("wb") as output:
        terminal = Terminal(stdout=output.fileno())
        terminals.append(terminal)
        terminal.wait_for("> ")
        terminal.type("a b\n")
        terminal.wait_for("> ")
        assert terminal.ended(key) == (130 if key == "\x03" else 0)
    assert (tmp_path / "out.txt").read_text() == "b a\n"
