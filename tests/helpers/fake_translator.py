"""A translator of a few lines, and a way to run the command on it."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import nan
from pathlib import Path
from typing import Any

import pytest

from clearhead.cli import main
from clearhead.decoding.engine import Hypothesis
from clearhead.decoding.texts import warn_of_hypotheses
from clearhead.errors import DataError, Remark
from clearhead.settings import RunConfig, SearchConfig

CHILD = [
    sys.executable,
    "-c",
    "import sys; sys.path.insert(0, sys.argv.pop(1));"
    "from fake_translator import Backwards; from clearhead import cli;"
    "from clearhead.api import loading;"
    "loading.load_translator = lambda *_, **__: Backwards();"
    "sys.argv = ['clearhead', 'translate', 'm', *sys.argv[1:]]; cli.main()",
    str(Path(__file__).parent),
]
"""A process of its own that translates with the fake, for what only a real output does."""


class Words:
    """A tokenizer that only has pieces."""

    def pieces(self, ids: Sequence[int]) -> list[str]:
        return [f"piece{i}" for i in ids]


@dataclass
class Backwards:
    """A translator that reverses the words of each sentence, and keeps its calls.

    The sentence `boom` has an error; with `crash` the translator itself fails.
    """

    config: RunConfig = field(default_factory=RunConfig)
    calls: list[dict[str, Any]] = field(default_factory=list)
    target_tokenizer: Words = field(default_factory=Words)
    mend: Callable[[str], str] = lambda text: text
    path: Path = Path("nowhere")
    content: Mapping[str, bytes] = field(default_factory=dict)
    engine: None = None
    glossary: None = None

    @property
    def search(self) -> SearchConfig:
        return self.config.search

    def translate(
        self,
        texts: Sequence[str],
        *,
        search: SearchConfig | None = None,
        prefixes: Sequence[str] | None = None,
        normalise: bool = False,
        batch_size: int = 64,
        progress: Callable[[int], None] | None = None,
        offset: int = 0,
        on_error: str = "raise",
    ) -> list[list[Hypothesis]]:
        assert search is not None
        call = {"texts": texts, "search": search, "prefixes": prefixes, "offset": offset}
        self.calls.append(call)
        if "crash" in texts or ("boom" in texts and on_error == "raise"):
            raise DataError("boom")
        if progress:
            progress(len(texts))
        found = [[self.hypothesis(text, n) for n in range(search.n_best)] for text in texts]
        warn_of_hypotheses(found, offset)
        return found

    def hypothesis(self, text: str, rank: int) -> Hypothesis:
        if text == "boom":
            return Hypothesis((), nan, (), nan, finished=False, error=DataError("boom"))
        cut = (Remark("cut", "has many tokens and was cut to 9"),) if len(text.split()) > 9 else ()
        output = self.mend(" ".join(reversed(text.split())) + "'" * rank)
        scores = -1.5 - rank, (-1.0, -0.5 - rank), -0.75 - rank
        return Hypothesis((5, 6), *scores, True, output, cut, confidence=0.25)


def run(*arguments: str, stdin: str | bytes = b"") -> tuple[int, str, str]:
    """The exit code, the standard output and the standard error of the command."""
    given = stdin.encode() if isinstance(stdin, str) else stdin
    streams = {"stdin": io.BytesIO(given), "stdout": io.BytesIO(), "stderr": io.BytesIO()}
    code = 0
    with pytest.MonkeyPatch.context() as patch:
        for name, stream in streams.items():
            patch.setattr(sys, name, io.TextIOWrapper(stream, encoding="utf-8", newline=""))
        try:
            main(arguments)
        except SystemExit as end:
            code = int(end.code or 0)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
        return code, streams["stdout"].getvalue().decode(), streams["stderr"].getvalue().decode()
