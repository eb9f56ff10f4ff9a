"""The peers: what each can do, and what its environment holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

OWN = "clearhead"
PRECISIONS = ("float32", "bf16")


@dataclass(frozen=True)
class Environment:
    """What is installed for a peer.

    `steps` are the arguments of `pip install`, one call each; with `torch`, clearhead's PyTorch
    is installed first. `note` is printed below the tables.
    """

    steps: tuple[tuple[str, ...], ...]
    torch: bool = True
    note: str = ""

    @property
    def pinned(self) -> dict[str, str]:
        """The packages with a pinned version, and that."""
        words = [word.partition("==") for step in self.steps for word in step]
        return {package: version for package, equal, version in words if equal}


@dataclass(frozen=True)
class Peer:
    """A toolkit.

    `module` is its script in this folder; without an `environment` it runs in the benchmark's own.
    `trains` are the precisions in which it trains, `decodes` the types or engines with which it
    decodes, `starts` those of which a cold start is measured. A `native` peer is written in C++.
    """

    module: str
    environment: Environment | None = None
    trains: tuple[str, ...] = PRECISIONS
    decodes: tuple[str, ...] = ("float32",)
    starts: tuple[str, ...] = ()
    native: bool = False


PEERS = {
    OWN: Peer(
        "clearhead",
        decodes=(
            *("torch", "torch int8", "torch bfloat16"),
            *("ctranslate2", "ctranslate2 int8", "auto"),
        ),
        starts=("torch", "ctranslate2", "ctranslate2 int8", "auto"),
    ),
    "torch": Peer("torch_loop", decodes=()),
    "marian": Peer(
        "marian",
        Environment(
            (("pymarian==1.12.42", "numpy"),),
            torch=False,
            note="Marian in C++; its trainer only, since its decoder cannot be held to 40 steps",
        ),
        trains=("float32",),
        decodes=(),
        native=True,
    ),
    "huggingface": Peer(
        "huggingface_marian",
        Environment(
            (("transformers==5.23.0", "sentencepiece"),),
            note="the reimplementation of Marian's model in transformers",
        ),
        starts=("float32",),
    ),
    "ctranslate2": Peer(
        "ctranslate2",
        Environment(
            (("ctranslate2==4.8.5", "sentencepiece"),),
            torch=False,
            note="without PyTorch, which its model specifications would import",
        ),
        trains=(),
        decodes=("float32", "int8"),
        starts=("float32", "int8"),
        native=True,
    ),
    "eole": Peer(
        "eole",
        Environment(
            (
                ("numpy", "pyyaml", "sacrebleu", "pydantic", "safetensors", "rich", "six"),
                ("pyonmttok", "huggingface_hub", "tokenizers", "torch-optimi"),
                ("--no-deps", "eole==0.6.4"),
            ),
            note="with only those of its requirements that it imports here",
        ),
    ),
    "sockeye": Peer(
        "sockeye",
        Environment(
            (("numpy", "pyyaml", "sacrebleu"), ("--no-deps", "sockeye==3.1.34")),
            note="it requires torch < 1.14 and numpy < 2, but runs with newer ones",
        ),
    ),
}


@dataclass(frozen=True)
class Contender:
    """A peer with one precision or engine: a row of the table."""

    peer: str
    kind: str

    @property
    def label(self) -> str:
        """Its name in tables."""
        return f"{self.peer} {self.kind}"

    @property
    def file_name(self) -> str:
        """The name of its files and folders, without a suffix."""
        return self.label.replace(" ", "-")

    @property
    def is_own(self) -> bool:
        """Whether it is clearhead."""
        return self.peer == OWN


def contenders(
    work: str, names: Sequence[str], precisions: Sequence[str], bf16: bool
) -> list[Contender]:
    """All that take part in `training`, `decoding` or `cold`; clearhead always does, and first.

    Args:
        work: what they do.
        names: of the peers.
        precisions: of training.
        bf16: whether the processor has instructions for bf16; otherwise nobody decodes in it.
    """
    found = []
    for name in dict.fromkeys((OWN, *names)):
        peer = PEERS[name]
        kinds = {
            "training": tuple(p for p in precisions if p in peer.trains),
            "decoding": peer.decodes,
            "cold": peer.starts,
        }[work]
        found += [Contender(name, kind) for kind in kinds if bf16 or not kind.endswith("bfloat16")]
    return found
