"""Options that comparisons with peers share, and the precisions that a device supports."""

from __future__ import annotations

import os
import shutil
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Sequence

from command import one_of, positive

from .roster import PEERS, PRECISIONS


def add_contest_options(parser: ArgumentParser, works: Sequence[str], cores: str) -> None:
    """Add the options for what is done, how often and by whom.

    Args:
        parser: gets the options.
        works: what can be done.
        cores: help for the number of threads.
    """
    parser.add_argument(
        "works", nargs="*", type=one_of(works), metavar="WORK", help=f"{', '.join(works)} (all)"
    )
    parser.add_argument(
        "--precision",
        nargs="+",
        choices=PRECISIONS,
        default=list(PRECISIONS),
        help="of training (both; bf16 only if the device has instructions for it)",
    )
    parser.add_argument("--rounds", type=positive, default=5, help="(5)")
    parser.add_argument("--threads", type=positive, default=2, help=f"{cores} (2)")
    parser.add_argument("--limit", type=positive, default=600, help="seconds for a slice (600)")
    parser.add_argument(
        "--python",
        type=peer_and_python,
        action="append",
        default=[],
        metavar="PEER=PATH",
        help="a Python that has what the peer needs; nothing is installed for it then",
    )


def peer_and_python(text: str) -> tuple[str, str]:
    """Parse `eole=/usr/bin/python3`: a peer and the path of an existing program.

    Not for peers without PyTorch: CTranslate2's specifications import PyTorch if it is installed,
    and then its memory would not be its own.
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


def multiplies_bf16(device: str) -> bool:
    """Whether `cpu` or `cuda` has instructions for products of bf16 numbers."""
    import torch

    from clearhead.decoding.device import multiplies_bf16

    return multiplies_bf16(torch.device(device))


def possible_precisions(wanted: Sequence[str], device: str, bf16: bool) -> list[str]:
    """The wanted precisions without bf16 where the device lacks it; float32 if none is left.

    Args:
        wanted: of `float32` and `bf16`.
        device: `cpu` or `cuda`, for the message.
        bf16: whether it multiplies bf16 numbers at full speed.
    """
    if "bf16" not in wanted or bf16:
        return list(wanted)
    print(f"bf16 is left out: this {device} has no instructions for it")
    return [precision for precision in wanted if precision != "bf16"] or ["float32"]
