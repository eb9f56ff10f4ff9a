"""Train a model, or resume its training.

The command learns the vocabulary, trains, validates, and writes the model
folder. If it was interrupted (Ctrl-C) or killed, run it again to resume from the
last saved state. In a terminal it shows a live display, otherwise plain lines.
The log is training/log.jsonl in the model folder, one JSON object per line.

  clearhead train my-model.toml
  clearhead train my-model.toml --dry-run
  clearhead train my-model.toml --set model.dropout=0.2 --set training.max_minutes=30
"""

from __future__ import annotations

import shlex
import signal
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from clearhead.cli.failures import INTERRUPTED, print_message

if TYPE_CHECKING:
    from clearhead.settings import RunConfig
    from clearhead.training.events import Event


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments and options."""
    parser.usage = "%(prog)s CONFIG.toml [options]"
    parser.add_argument(
        "config",
        metavar="CONFIG.toml",
        type=Path,
        help="configuration of the run, e.g. from clearhead init",
    )
    parser.add_argument(
        "--set",
        dest="settings",
        action="append",
        default=[],
        metavar="PATH=VALUE",
        help="replace a setting of the file, e.g. model.dropout=0.2; can be repeated",
    )
    parser.add_argument(
        "--restart", action="store_true", help="delete the run in the model folder and start again"
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="report the data, and the memory and time that training needs, without training; "
        "temporary files are written to TMPDIR",
    )


def run(args: Namespace) -> None:
    """Train, or report what training needs."""
    from clearhead.settings import read_config

    config = read_config(args.config, args.settings)
    # Batch systems and shutdowns send SIGTERM first, and a terminal that closes sends SIGHUP: it
    # leaves time to write a checkpoint, or to remove the files of a dry run.
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)
    from clearhead.ranks import is_first, started

    if args.dry_run and not is_first():
        return
    if args.dry_run:
        from clearhead.api.training import dry_run
        from clearhead.training.display import displays

        print("\n".join(dry_run(config, observers=displays(sys.stderr)).lines()))
        return
    start = StartObserver()
    finished = _finishes(config, args.restart, start)
    if not is_first():
        return
    if finished:
        use = USES[config.task, config.input].format(shlex.quote(config.folder))
        print_message(f"use the model: {use}")
    else:
        # Until training begins, the old run is still there, so that --restart is still needed.
        words = [word for word in args.words if word != "--restart" or not start.seen]
        same = "" if started() == 1 else " (with torchrun, as before)"
        print_message(f"to resume: {shlex.join(['clearhead', *words])}{same}")
        raise SystemExit(INTERRUPTED)


USES = {
    ("translation", "text"): "clearhead translate {} < in.txt > out.txt",
    ("classification", "text"): "clearhead classify {} < in.txt",
    ("classification", "features"): "clearhead classify {} --input in.ts",
}
"""The command that uses a model, by task and input."""


class StartObserver:
    """An observer that notes whether training has begun."""

    def __init__(self) -> None:
        self.seen = False

    def observe(self, event: Event) -> None:
        """Note the start of training."""
        from clearhead.training.events import RunStarted

        self.seen = self.seen or isinstance(event, RunStarted)

    def close(self) -> None:
        """Do nothing."""


def _finishes(config: RunConfig, restart: bool, start: StartObserver) -> bool:
    """Train; False if the user interrupts it."""
    from clearhead.api.training import train
    from clearhead.training.display import displays

    try:
        return train(config, restart=restart, observers=[*displays(sys.stderr), start]).finished
    except KeyboardInterrupt:  # before the training loop handles it, or after
        return False
