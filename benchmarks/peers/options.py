"""The options that comparisons with peers share."""

from __future__ import annotations

import os
import shutil
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Sequence

from command import new_file, one_of, positive

from .roster import PEERS


def add_contest_options(parser: ArgumentParser, works: Sequence[str], cores: str) -> None:
    """What is done, how often, by whom, and where it is written down.

    Args:
        parser: gets the options.
        works: what can be done.
        cores: the help for the number of threads.
    """
    parser.add_argument(
        "works", nargs="*", type=one_of(works), metavar="WORK", help=f"{', '.join(works)} (all)"
    )
    precisions = ["float32", "bf16"]
    parser.add_argument(
        "--precision",
        nargs="+",
        choices=precisions,
        default=precisions,
        help="bf16 only where the device has instructions for it",
    )
    parser.add_argument("--rounds", type=positive, default=5)
    parser.add_argument("--threads", type=positive, default=2, help=cores)
    parser.add_argument("--limit", type=positive, default=600, help="seconds for one slice")
    parser.add_argument(
        "--python",
        type=peer_and_python,
        action="append",
        default=[],
        metavar="PEER=PATH",
        help="a Python that has what the peer needs, so that nothing is installed for it",
    )
    parser.add_argument("--json", type=new_file(), metavar="FILE", help="write all values there")


def peer_and_python(text: str) -> tuple[str, str]:
    """`marian=/usr/bin/python3` as the peer and the path of a program that is there.

    Not for CTranslate2, whose model specifications import PyTorch wherever it is: its memory would
    not be its own.
    """
    name, _, path = text.partition("=")
    places = {name: peer.environment for name, peer in PEERS.items()}
    named = [name for name, place in places.items() if place is not None and place.torch]
    if name not in named:
        raise ArgumentTypeError(f"{name!r} is none of {', '.join(named)}")
    found = shutil.which(os.path.expanduser(path))
    if found is None:
        raise ArgumentTypeError(f"there is no program {path!r}")
    # Not resolved: a virtual environment is known by its own link to Python.
    return name, os.path.abspath(found)
