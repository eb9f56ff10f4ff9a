"""What the command does when something goes wrong: a message and an exit code, no traceback."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Any

import typer
from typer.core import TyperGroup

from clearhead.errors import ClearheadError

INTERRUPTED = 130  # 128 + SIGINT, as a shell has it
BROKEN_PIPE = 141  # 128 + SIGPIPE


class CommandGroup(TyperGroup):
    """Runs a command and turns its failure into an exit code.

    A `ClearheadError` is printed and gives its own code. A bug keeps its traceback.
    """

    def invoke(self, ctx: Any) -> Any:
        """Run the command that the context names."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except ClearheadError as error:
            say(str(error))
            raise typer.Exit(error.exit_code) from None
        except BrokenPipeError:
            _forget_output()
            raise typer.Exit(BROKEN_PIPE) from None
        except KeyboardInterrupt:
            say("interrupted")
            raise typer.Exit(INTERRUPTED) from None
        return result


def say(text: str) -> None:
    """A line for the person at the terminal, on the standard error."""
    typer.echo(f"clearhead: {text}", err=True)


def _forget_output() -> None:
    """Nobody reads what is still buffered: Python would fail when it flushes it at the end."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
