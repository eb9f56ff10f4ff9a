"""Alternatives of words, words that are perhaps not translated, and the probabilities of words."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clearhead
from clearhead.api import load_translator
from clearhead.inspect.explanation import alternatives
from clearhead.inspect.subject import Subject
from exported_models import random_folder
from model_folders import write_models
from running_server import RunningServer, running

SOURCE, TARGET = "s1 s2 s3 s4", "t1 t2 t3 t4"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("explained")
    write_models(folder)
    return [random_folder(folder / "model"), folder / "texts", folder / "features"]


@pytest.fixture(scope="module")
def served(
    folders: list[Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningServer]:
    with running(*folders, storage=tmp_path_factory.mktemp("store")) as server:
        yield server


def answer(server: RunningServer, path: str, **body: Any) -> Any:
    found = server.post(path, body)
    assert found.status == 200, found.body
    return found.json


def test_alternatives_are_the_most_probable_words_of_a_place(
    served: RunningServer, folders: list[Path]
) -> None:
    found = answer(served, "/v1/alternatives", text=SOURCE, translation=TARGET, word=2)
    assert found["range"] == [6, 8]
    by_word = {each["word"]: each["probability"] for each in found["alternatives"]}
    assert list(by_word.values()) == sorted(by_word.values(), reverse=True)
    subject = Subject.translation(load_translator(folders[0], engine="torch"), SOURCE, TARGET)
    ids, scores = alternatives(subject)
    for name, score in zip(subject.names_of(ids[2].tolist()), scores[2], strict=True):
        if name.startswith("t"):  # not the end
            assert by_word[name] == pytest.approx(math.exp(score), rel=1e-4)
    assert "t3" in by_word
    for each in found["alternatives"]:
        assert each["text"].startswith(f"t1 t2 {each['word']}")


def test_words_without_a_translation_are_those_of_the_explanation(
    served: RunningServer, folders: list[Path]
) -> None:
    found = answer(served, "/v1/explain", text=SOURCE, translation=TARGET)
    translator = clearhead.load(folders[0], engine="torch")
    known = clearhead.explain(translator, SOURCE, TARGET).untranslated
    assert tuple(SOURCE[start:end] for start, end in found["untranslated"]) == known


def test_labels_have_the_effects_of_their_words(served: RunningServer, folders: list[Path]) -> None:
    (label,) = answer(served, "/v1/explain", model="texts", text="a b c")["labels"]
    known = clearhead.explain(clearhead.load(folders[1]), "a b c")
    assert label["label"] == known.outputs[0]
    assert [each["text"] for each in label["words"]] == ["a", "b", "c"]
    effects = [each["effect"] for each in label["words"]]
    assert np.allclose(effects, known.by_source[:, 0, 0], atol=1e-4)


def test_words_have_the_probabilities_of_their_tokens(served: RunningServer) -> None:
    body = {"text": "s1 s2 s3", "words": True}
    (sentence,) = answer(served, "/v1/translate", **body)["translations"][0]["sentences"]
    words, text = sentence["words"], sentence["text"]
    assert [text[slice(*word["range"])] for word in words] == text.split()
    (score,) = answer(served, "/v1/score", sources=["s1 s2 s3"], targets=[text])["scores"]
    assert [word["probability"] for word in words] == pytest.approx(
        [math.exp(each) for each in score["token_scores"][: len(words)]]
    )


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/v1/alternatives", {"text": SOURCE, "translation": TARGET, "word": 4}, 400),
        ("/v1/alternatives", {"text": " ", "translation": TARGET, "word": 0}, 400),
        ("/v1/alternatives", {"text": SOURCE, "translation": "t1-t2", "word": 1}, 400),
        ("/v1/alternatives", {"text": "s1 " * 1100, "translation": TARGET, "word": 0}, 400),
        ("/v1/explain", {"text": "s1 " * 300, "translation": TARGET}, 400),
        ("/v1/explain", {"text": "\u200b", "translation": "\u200b"}, 200),
        ("/v1/explain", {"text": "a", "model": "features"}, 400),
        ("/v1/explain", {"text": "a", "model": "model"}, 404),
        ("/v1/explain", {"text": "", "translation": TARGET}, 400),
    ],
)
def test_what_cannot_be_explained_is_an_error_of_the_request(
    served: RunningServer, path: str, body: dict[str, Any], status: int
) -> None:
    assert served.post(path, body).status == status


def test_nobody_looks_inside_if_that_is_not_allowed(folders: list[Path], tmp_path: Path) -> None:
    with running(folders[0], storage=tmp_path, inspect=False) as server:
        for path in ("/v1/explain", "/v1/alternatives"):
            assert server.post(path, {}).status == 404
