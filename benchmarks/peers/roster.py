"""Who is compared, what each can do, and what its environment holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

OWN = "clearhead"


@dataclass(frozen=True)
class Environment:
    """What is installed for a peer.

    `steps` are the arguments of `pip install`, one call each; with `torch`, clearhead's PyTorch
    comes first. `note` is said below the table.
    """

    steps: tuple[tuple[str, ...], ...]
    torch: bool = True
    note: str = ""

    @property
    def pinned(self) -> list[str]:
        """The packages whose version is named."""
        words = [word.partition("==") for step in self.steps for word in step]
        return [package for package, equal, _ in words if equal]


@dataclass(frozen=True)
class Peer:
    """A toolkit.

    `module` is its script in this folder; `environment` None is the one that runs `speed.py`.
    `decodes` are the kinds in which it decodes; `starts` those that a cold start is measured of.
    `native`: it is no toolkit in Python, but a program that only decodes.
    """

    module: str
    environment: Environment | None = None
    trains: bool = True
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
        Environment((("transformers==5.23.0", "sentencepiece"),)),
        starts=("float32",),
    ),
    "ctranslate2": Peer(
        "ctranslate2",
        Environment(
            (("ctranslate2==4.8.5", "sentencepiece"),),
            torch=False,
            note="without PyTorch, which its model specifications would import if it were there",
        ),
        trains=False,
        decodes=("float32", "int8"),
        starts=("float32", "int8"),
        native=True,
    ),
    "joeynmt": Peer(
        "joeynmt",
        Environment(
            (
                ("numpy", "pyyaml", "sacrebleu", "sentencepiece", "packaging", "subword-nmt"),
                ("importlib_metadata", "tensorboard", "matplotlib"),
                ("--no-deps", "joeynmt==2.3.0"),
            ),
            note="2.3.0 with only those of its requirements that it imports here",
        ),
    ),
    "eole": Peer(
        "eole",
        Environment(
            (
                ("numpy", "pyyaml", "sacrebleu", "pydantic", "safetensors", "rich", "six"),
                ("pyonmttok", "huggingface_hub", "tokenizers", "torch-optimi"),
                ("--no-deps", "eole==0.6.4"),
            ),
            note="0.6.4 with only those of its requirements that it imports here",
        ),
    ),
    "sockeye": Peer(
        "sockeye",
        Environment(
            (("numpy", "pyyaml", "sacrebleu"), ("--no-deps", "sockeye==3.1.34")),
            note="3.1.34 asks for torch < 1.14 and numpy < 2; it runs with newer ones",
        ),
    ),
}


@dataclass(frozen=True)
class Contender:
    """A peer in one of its kinds: a row of the table."""

    peer: str
    kind: str

    @property
    def label(self) -> str:
        """As the table has it."""
        return f"{self.peer} {self.kind}"

    @property
    def file_name(self) -> str:
        """What its files and folders are called, without an ending."""
        return self.label.replace(" ", "-")

    @property
    def is_own(self) -> bool:
        """Whether it is clearhead, with which the others are compared."""
        return self.peer == OWN


def contenders(
    work: str, names: Sequence[str], precisions: Sequence[str], bf16: bool
) -> list[Contender]:
    """All that take part in `training`, `decoding` or `cold`; clearhead always does, and first.

    `precisions` are those of training; `bf16` says whether the processor has instructions for
    bf16, without which nobody decodes in it.
    """
    found = []
    for name in dict.fromkeys((OWN, *names)):
        peer = PEERS[name]
        kinds = {
            "training": tuple(precisions) if peer.trains else (),
            "decoding": peer.decodes,
            "cold": peer.starts,
        }[work]
        possible = (kind for kind in kinds if bf16 or not kind.endswith("bfloat16"))
        found += [Contender(name, kind) for kind in possible]
    return found
