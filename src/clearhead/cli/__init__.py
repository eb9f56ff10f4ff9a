"""The command `clearhead`.

Each command is a module of this package. Its docstring is the help, `add_arguments` declares its
arguments and options, and `run` takes their values. A command imports what it needs when it
runs, so that `--help` answers at once. Results go to the standard output, everything else to the
standard error.
"""

from __future__ import annotations

import shutil
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from functools import partial
from typing import Any

from clearhead.cli import (
    align,
    classify,
    evaluate,
    export,
    figures,
    import_,
    init,
    inspect,
    phrasebook,
    prune,
    score,
    serve,
    study,
    train,
    translate,
)
from clearhead.cli.failures import failures_reported
from clearhead.terminal import filtered_output
from clearhead.version import __version__

COMMANDS = {
    module.__name__.rpartition(".")[2].rstrip("_"): module
    for module in (
        *(init, train, translate, classify, evaluate, score, inspect, study, figures, align),
        *(prune, export, import_, phrasebook, serve),
    )
}

OVERVIEW = """\
Train a translator or a classifier on your own data, measure it, and use it.

  clearhead init my-model --train train.en train.de --validation val.en val.de
  clearhead train my-model.toml
  clearhead translate runs/my-model < in.txt > out.txt
  clearhead evaluate runs/my-model --source test.en --reference test.de
  clearhead score runs/my-model --source train.en --target train.de --worst 50
  clearhead classify runs/my-classifier < texts.txt
  clearhead inspect runs/my-model "A sentence." -o report.html
  clearhead study runs/my-model
  clearhead figures runs/my-model "A sentence."
  clearhead align runs/my-model --source a.en --target a.de > a.align
  clearhead prune runs/my-model --heads 2 -o runs/smaller
  clearhead export runs/my-model --format ctranslate2
  clearhead serve runs/my-model --port 8000
  clearhead import hf hf:bert-base-uncased runs/bert
"""


def main(words: Sequence[str] | None = None) -> None:
    """Run the command that the words name (default: the arguments of this process)."""
    with filtered_output(), failures_reported():
        words = sys.argv[1:] if words is None else words
        args, unknown = command_line(words).parse_known_args(words)
        args.words = words
        if "texts" in args:  # argparse knows them only where the folder is, before options
            args.texts += [word for word in unknown if not word.startswith("-")]
            unknown = [word for word in unknown if word.startswith("-")]
        if unknown:
            args.parser.error(_unknown(unknown, args.parser))
        # After the arguments, because `--help` loads as little as possible.
        from clearhead.device import keep_freed_memory, short_waits

        keep_freed_memory()
        with short_waits():
            args.run(args)


class Parser(ArgumentParser):
    """A parser that reports output which cannot be written; argparse ignores it.

    Characters that the stream cannot encode become `?`.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.color = False  # the escape sequences of Python 3.14 would be filtered

    def _print_message(self, message: str, file: Any = None) -> None:
        if message and (stream := file or sys.stderr):
            encoding = getattr(stream, "encoding", None) or "utf-8"
            stream.write(message.encode(encoding, "replace").decode(encoding))


def command_line(words: Sequence[str]) -> Parser:
    """The parser of all commands; it sets `run` and `parser` to those of the command.

    Only commands that the words name declare their arguments, which may need further modules.
    """
    width = min(100, shutil.get_terminal_size().columns)
    form = partial(RawDescriptionHelpFormatter, max_help_position=30, width=width)
    parser = Parser(
        "clearhead",
        usage="%(prog)s COMMAND [arguments]",
        description=OVERVIEW,
        epilog="Help on a command: clearhead train --help",
        formatter_class=form,
        allow_abbrev=False,
    )
    version = f"clearhead {__version__}"
    parser.add_argument(
        *("-V", "--version"), action="version", version=version, help="show the version and exit"
    )
    parser.set_defaults(run=lambda args: parser.print_help(), parser=parser)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", prog="clearhead")
    for name, module in COMMANDS.items():
        text = module.__doc__ or ""
        command = commands.add_parser(
            name,
            help=text.splitlines()[0],
            description=text,
            formatter_class=form,
            allow_abbrev=False,
        )
        if name in words:
            module.add_arguments(command)
        command.set_defaults(run=module.run, parser=command)
    return parser


def _unknown(words: Sequence[str], parser: ArgumentParser) -> str:
    """The error for words that the command does not take, with the option that may be meant."""
    from difflib import get_close_matches

    option = next((word.partition("=")[0] for word in words if word.startswith("-")), None)
    known = [name for action in parser._actions for name in action.option_strings]
    if option is None:
        is_input = " (name an input file with -i)" if "-i" in known else ""
        return f"unexpected argument: {words[0]}{is_input}"
    close = get_close_matches(option, known, n=1)
    hint = f"did you mean {close[0]}?" if close else f"for help: {parser.prog} --help"
    return f"unknown option: {option} ({hint})"
