"""The five lessons in examples/reference, which are the reference systems."""

from __future__ import annotations

from typing import Any

from scripts import ROOT, load_script

PATHS = {path.name[0]: path for path in (ROOT / "examples/reference").glob("*.py")}


def lesson(letter: str) -> Any:
    """A lesson as a module; it computes on the CPU."""
    module: Any = load_script(str(PATHS[letter].relative_to(ROOT)))
    if hasattr(module, "DEVICE"):
        module.DEVICE = "cpu"
    return module


def model_of(letter: str, **sizes: int) -> Any:
    """The untrained model of a lesson; that of E has 11 symbols."""
    symbols = (11,) if letter == "e" else ()
    return lesson(letter).make_model(*symbols, **sizes)
