"""`clearhead train`: trains, or goes on with a run that was interrupted."""

from __future__ import annotations

import shlex
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clearhead.cli.failures import INTERRUPTED, say

if TYPE_CHECKING:
    from clearhead.settings import RunConfig
    from clearhead.training.events import Event


def train(
    config: Annotated[
        Path, typer.Argument(metavar="CONFIG.toml", help="Written by clearhead init, or by you.")
    ],
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="PATH=VALUE",
            help="A setting laid over the file's, by its dotted path; may be given again.",
        ),
    ] = None,
    restart: Annotated[
        bool, typer.Option("--restart", help="Begin anew; the run in the folder is deleted.")
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Only say what is in the data and what the run would need. The vocabulary is "
            "learned and the data are encoded for it, which takes its time; nothing is kept. Until "
            "it ends they lie in the folder for temporary files, which TMPDIR names.",
        ),
    ] = False,
) -> None:
    """Train a model: learns the vocabulary, trains, validates, writes the model folder.

    Said again, it goes on with an unfinished run from its last checkpoint, whether it was
    interrupted with Ctrl-C or killed. A terminal shows a live screen, anything else plain lines;
    the run's log is training/log.jsonl in the model folder, one JSON object a line.

    \b
    clearhead train my-model.toml
    clearhead train my-model.toml --dry-run
    clearhead train my-model.toml --set model.dropout=0.2 --set training.max_minutes=30
    """  # noqa: D301
    from clearhead.settings import read_config

    run = read_config(config, settings or ())
    # What a batch system, or a shutdown, sends first: time enough to write a checkpoint, or to
    # remove what a dry run has written.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if dry_run:
        from clearhead import api
        from clearhead.training.display import displays

        for line in api.dry_run(run, observers=displays(sys.stderr)).lines():
            typer.echo(line)
        return
    beginning = Beginning()
    if _finishes(run, restart, beginning):
        say(f"use the model: {USES[run.task, run.input].format(shlex.quote(run.folder))}")
    else:
        # Before training begins, the run that is to be deleted may stand as it was.
        again = restart and not beginning.seen
        say(f"to go on: {resuming_command(config, settings or (), again)}")
        raise typer.Exit(INTERRUPTED)


USES = {
    ("translation", "text"): "clearhead translate {} < in.txt > out.txt",
    ("classification", "text"): "clearhead classify {} < in.txt",
    ("classification", "features"): "clearhead classify {} --input in.ts",
}
"""What the model of each task and input is good for."""


class Beginning:
    """An observer that knows whether training has begun."""

    def __init__(self) -> None:
        self.seen = False

    def observe(self, event: Event) -> None:
        """Note what shows that the model is being trained."""
        from clearhead.training.events import RunStarted

        self.seen = self.seen or isinstance(event, RunStarted)

    def close(self) -> None:
        """Nothing is left to do."""


def resuming_command(config: Path, settings: Sequence[str], restart: bool) -> str:
    """The command that goes on with this run, to be copied into a shell."""
    words = ["clearhead", "train", str(config)]
    for setting in settings:
        words += ["--set", setting]
    if restart:
        words.append("--restart")
    return shlex.join(words)


def _finishes(run: RunConfig, restart: bool, beginning: Beginning) -> bool:
    """Train; False if somebody interrupted it."""
    from clearhead import api
    from clearhead.training.display import displays

    shown = displays(sys.stderr)
    try:
        return api.train(run, restart=restart, observers=[*shown, beginning]).finished
    except KeyboardInterrupt:
        # Not yet, or no longer, in the trainer's hands.
        return False
    finally:
        for display in shown:
            display.close()
