"""The peers: what each can do, and the packages of its environment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

OWN = "clearhead"
PRECISIONS = ("float32", "bf16")


@dataclass(frozen=True)
class Environment:
    """The packages of a peer.

    `steps` are the arguments of calls of `pip install`; with `torch`, clearhead's PyTorch is
    installed first. `note` is printed below the tables.
    """

    steps: tuple[tuple[str, ...], ...]
    torch: bool = True
    note: str = ""

    @property
    def pinned(self) -> dict[str, str]:
        """The packages with a pinned version, and the version."""
        words = [word.partition("==") for step in self.steps for word in step]
        return {package: version for package, equal, version in words if equal}


@dataclass(frozen=True)
class Peer:
    """A toolkit.

    `module` is its script in this folder; without an `environment` it runs in that of the
    benchmark. `trains` has the precisions of training, `decodes` the types or engines of decoding,
    `starts` those whose cold start is measured. A `native` peer is written in C++.
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
            note="Marian in C++; only its trainer, as its decoder has no fixed number of steps",
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
            note="only with the requirements that it imports here",
        ),
    ),
    "sockeye": Peer(
        "sockeye",
        Environment(
            (("numpy", "pyyaml", "sacrebleu"), ("--no-deps", "sockeye==3.1.34")),
            note="requires torch < 1.14 and numpy < 2, but runs with newer versions",
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
    """The contenders in `training`, `decoding` or `cold`, clearhead first.

    `precisions` are those of training. Without `bf16` instructions none decodes in bf16.
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
