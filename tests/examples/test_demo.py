"""The exit code of `make demo` depends on the translations; the models here are fakes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from clearhead.data.reading.phrasebook import phrasebook
from scripts import load_script

pytestmark = pytest.mark.slow


class Reciting:
    """Translates the phrasebook without a mistake, except for some sentences."""

    def __init__(self, pair: str, wrong: set[str]) -> None:
        book = phrasebook(pair)
        self._known = {p.source: p.target for p in (*book.test, *book.reference)}
        self._wrong = wrong

    def translate(self, sentences: list[str]) -> list[list[Any]]:
        outputs = ["" if s in self._wrong else self._known.get(s, "?") for s in sentences]
        return [[SimpleNamespace(text=text)] for text in outputs]


def exit_code(monkeypatch: pytest.MonkeyPatch, wrong: set[str], finished: bool = True) -> int:
    demo = load_script("examples/demo.py")
    monkeypatch.setattr(demo.api, "train", lambda *_, **__: SimpleNamespace(finished=finished))
    monkeypatch.setattr(
        demo.api, "load_translator", lambda folder: Reciting(folder.split("phrasebook-")[1], wrong)
    )
    return demo.main()


def held_out(pair: str, percent: int) -> set[str]:
    """Some of the held-out sentences, none of which is a reference sentence."""
    book = phrasebook(pair)
    sentences = [p.source for p in book.test]
    assert not {p.source for p in book.reference} & set(sentences)
    return set(sentences[: len(sentences) * percent // 100])


@pytest.mark.parametrize("pair", ["en-es", "de-en"])
def test_the_demo_fails_where_too_few_unseen_sentences_are_right(
    pair: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    assert exit_code(monkeypatch, held_out(pair, 5)) == 0
    assert exit_code(monkeypatch, held_out(pair, 6)) == 1
    assert f"{pair}: 940 of 1000 unseen sentences exactly right (94.0 %)" in capsys.readouterr().out


@pytest.mark.parametrize("pair", ["en-es", "de-en"])
def test_the_demo_fails_where_a_known_sentence_is_wrong(
    pair: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    assert exit_code(monkeypatch, {phrasebook(pair).reference[-1].source}) == 1
    assert capsys.readouterr().out.count("(WRONG)") == 1


def test_an_interrupted_demo_prints_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit, match="interrupted; `make demo` starts again"):
        exit_code(monkeypatch, set(), finished=False)
