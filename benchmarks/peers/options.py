"""Options that comparisons with peers share."""

from __future__ import annotations

import os
import shutil
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Sequence

from command import positive

from .roster import PEERS, PRECISIONS


def add_contest_options(parser: ArgumentParser, works: Sequence[str]) -> None:
    """Add the options that choose what is measured, how often, and with which peers."""
    parser.add_argument("work", nargs="?", choices=works, help="what to measure (default: all)")
    parser.add_argument(
        "--precision",
        nargs="+",
        choices=PRECISIONS,
        default=list(PRECISIONS),
        help="of training (default: both; bf16 only if the device has instructions for it)",
    )
    parser.add_argument("--rounds", type=positive, default=5, help="default: 5")
    parser.add_argument("--threads", type=positive, default=2, help="CPU threads (default: 2)")
    parser.add_argument(
        "--limit", type=positive, default=600, help="seconds per slice (default: 600)"
    )
    parser.add_argument(
        "--python",
        type=peer_and_python,
        action="append",
        default=[],
        metavar="PEER=PATH",
        help="a Python with the packages of a peer, instead of installing them",
    )


def peer_and_python(text: str) -> tuple[str, str]:
    """Parse `eole=/usr/bin/python3`: a peer and the path of an existing program.

    Not for peers without PyTorch: CTranslate2's specifications import PyTorch if it is installed,
    which would add to the measured memory.
    """
    name, _, path = text.partition("=")
    possible = [n for n, peer in PEERS.items() if peer.environment and peer.environment.torch]
    if name not in possible:
        raise ArgumentTypeError(f"{name!r} is none of {', '.join(possible)}")
    found = shutil.which(os.path.expanduser(path))
    if found is None:
        raise ArgumentTypeError(f"there is no program {path!r}")
    # Not resolved: the link to Python is what identifies a virtual environment.
    return name, os.path.abspath(found)


def possible_precisions(wanted: Sequence[str], device: str, bf16: bool) -> list[str]:
    """The wanted precisions; without bf16 if the device has no instructions for it."""
    if "bf16" not in wanted or bf16:
        return list(wanted)
    print(f"bf16 is skipped: this {device} has no instructions for it")
    return [precision for precision in wanted if precision != "bf16"] or ["float32"]
