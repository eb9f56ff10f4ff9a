"""Tests of /v1/inspect: what it answers is what `clearhead.edit` gives in Python."""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clearhead
from clearhead.api import Classifier, Translator, load_classifier, load_translator
from clearhead.folder.model_folder import CHECKPOINTS, WEIGHTS
from clearhead.folder.tensors import read_tensors
from exported_models import random_folder
from hostile import HOSTILE
from model_folders import replace_tensors, write_models
from running_server import RunningServer, running

TEXT = "s1 s2 s3 s4"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    write_models(folder)
    found = {
        "first": random_folder(folder / "first"),
        "second": random_folder(folder / "second", seed=2),
        "texts": folder / "texts",
        "features": folder / "features",
    }
    earlier, _ = read_tensors(found["second"] / WEIGHTS)
    (found["first"] / CHECKPOINTS).mkdir(parents=True)
    for step in (8, 4):
        name = f"{CHECKPOINTS}/step-{step:08}.safetensors"
        replace_tensors(found["first"], name, earlier, {"step": step})
    shutil.copy(found["first"] / WEIGHTS, found["first"] / CHECKPOINTS / "no-step.safetensors")
    (found["first"] / CHECKPOINTS / "damaged.safetensors").write_bytes(b"{")
    return found


@pytest.fixture(scope="module")
def served(
    folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningServer]:
    with running(*folders.values(), storage=tmp_path_factory.mktemp("store")) as server:
        yield server


@pytest.fixture(scope="module")
def translator(folders: dict[str, Path]) -> Translator:
    return load_translator(folders["first"], device="cpu")


@pytest.fixture(scope="module")
def classifier(folders: dict[str, Path]) -> Classifier:
    return load_classifier(folders["texts"], device="cpu")


def inspected(server: RunningServer, text: str = TEXT, **body: Any) -> Any:
    answer = server.post("/v1/inspect", {"text": text, **body})
    assert answer.status == 200, answer.body
    return answer.json


def test_without_edits_it_is_the_translation(served: RunningServer, translator: Translator) -> None:
    found = inspected(served)
    best = translator.translate([TEXT])[0][0]
    output = found["output"]
    assert (found["model"], output["text"]) == ("first", best.text)
    assert output["log_probability"] == pytest.approx(best.score, abs=1e-4)
    assert output["probability"] == pytest.approx(math.exp(best.score), rel=1e-4)
    assert [step["piece"] for step in output["steps"]][: len(best.tokens)] == best.text.split()
    each = [math.log(step["probability"]) for step in output["steps"]]
    np.testing.assert_allclose(each, best.token_scores, atol=1e-4)
    greedy = translator.translate([TEXT], beam_size=1)[0][0]
    assert found["greedy"]["text"] == greedy.text
    for step in found["greedy"]["steps"]:
        assert step["best"][0]["piece"] == step["piece"]
    assert (found["before"], found["before_now"], found["details"]) == (None, None, None)
    assert found["source"]["words"] == [[word, [i]] for i, word in enumerate(TEXT.split())]


EDITS: dict[str, tuple[dict[str, Any], Any]] = {
    "heads": (
        {"heads": ["encoder.1.self.1", "decoder.1"]},
        lambda e: e.scale(["encoder.1.self.1", "decoder.1"], 0.0),
    ),
    "words": ({"source_words": [0, 2]}, lambda e: e.hide([0, 2])),
    "positions": ({"positions": "without"}, lambda e: e.without_positions("source")),
    "a link of all heads": (
        {"links": [{"kind": "cross", "query": [0, 1], "key": [1]}]},
        lambda e: e.knockout(["decoder.1.cross", "decoder.2.cross"], [0, 1], [1]),
    ),
    "a link of one head": (
        {"links": [{"kind": "encoder", "layer": 1, "head": 2, "query": [1], "key": [2]}]},
        lambda e: e.knockout("encoder.1.self.2", 1, 2),
    ),
}


@pytest.mark.parametrize(("edits", "change"), EDITS.values(), ids=EDITS)
def test_edits_are_those_of_python(
    served: RunningServer, translator: Translator, edits: dict[str, Any], change: Any
) -> None:
    plain = translator.translate([TEXT])[0][0]
    found = inspected(served, edits=edits)
    with clearhead.edit(translator) as e:
        change(e)
        best = translator.translate([TEXT])[0][0]
        (kept,) = translator.score([TEXT], [plain.text])
    assert found["output"]["text"] == best.text
    assert found["output"]["log_probability"] == pytest.approx(best.score, abs=1e-4)
    assert found["output"]["log_probability"] != pytest.approx(plain.score, abs=1e-6)
    assert found["before"]["text"] == plain.text
    if plain.finished:
        assert math.log(found["before_now"]) == pytest.approx(kept.score, abs=1e-3)
    assert inspected(served)["output"]["text"] == plain.text  # the edits are gone


@pytest.mark.parametrize(
    ("edits", "change"),
    [
        ({"heads": ["encoder.1"]}, lambda e: e.scale("encoder.1", 0.0)),
        ({"source_words": [1]}, lambda e: e.hide(1)),
    ],
)
def test_a_classifier_is_edited(
    served: RunningServer, classifier: Classifier, edits: dict[str, Any], change: Any
) -> None:
    text = "a b d"
    found = inspected(served, text, model="texts", edits=edits)
    plain = classifier.classify([text], top=3)[0]
    with clearhead.edit(classifier) as e:
        change(e)
        labels = classifier.classify([text], top=3)[0]
    assert [each["label"] for each in found["output"]["labels"]] == [p.label for p in labels]
    given = [each["probability"] for each in found["output"]["labels"]]
    np.testing.assert_allclose(given, [p.probability for p in labels], atol=1e-6)
    assert found["output"]["text"] == labels[0].label
    assert found["output"]["probability"] == pytest.approx(labels[0].probability, abs=1e-5)
    now = {p.label: p.probability for p in labels}
    assert found["before_now"] == pytest.approx(now[plain[0].label], abs=1e-6)


def test_the_details_are_a_report_under_the_edits(
    served: RunningServer, translator: Translator
) -> None:
    edits = {"heads": ["decoder.2.cross.1"]}
    found = inspected(served, edits=edits, detail="full", compare="first")
    report, blobs = found["details"]["report"], found["details"]["blobs"]
    assert [model["name"] for model in report["models"]] == ["first", "first, not edited"]
    now, before = report["items"]
    assert now["target"]["text"] == found["output"]["text"]
    assert now["score"]["log_probability"] == pytest.approx(
        found["output"]["log_probability"], abs=1e-4
    )
    assert before["target"]["text"] == found["before"]["text"] == found["other"]["text"]
    assert now["beam"]["hypotheses"][0]["text"] == found["output"]["text"]
    heads = now["effects"]["heads"]
    assert len(heads) == sum(found["attentions"].values())
    assert all(isinstance(blob, str) for blob in blobs)


def test_a_classifier_has_a_report(served: RunningServer) -> None:
    found = inspected(served, "a b d", model="texts", detail="full")
    (item,) = found["details"]["report"]["items"]
    assert item["labels"][0]["label"] == found["output"]["text"]


def test_checkpoints_are_chosen_by_name(served: RunningServer, folders: dict[str, Path]) -> None:
    found = inspected(served)
    listed = [(each["name"], each["step"], each["is_model"]) for each in found["checkpoints"]]
    assert listed == [
        ("no-step", None, False),
        ("step-00000004", 4, False),
        ("step-00000008", 8, False),
    ]
    earlier = inspected(served, checkpoint="step-00000004")
    assert earlier["output"] == inspected(served, model="second")["output"]
    edits = {"source_words": [1]}
    assert (
        inspected(served, checkpoint="step-00000004", edits=edits)["output"]
        == inspected(served, model="second", edits=edits)["output"]
    )


def test_the_search_is_that_of_the_request(served: RunningServer, translator: Translator) -> None:
    found = inspected(served, search={"beam_size": 1})
    assert found["output"]["text"] == translator.translate([TEXT], beam_size=1)[0][0].text
    assert found["greedy"] is None
    search = {"temperature": 3.0, "seed": 5}
    found = inspected(served, search=search)
    expected = translator.translate([TEXT], method="sampling", temperature=3.0, seed=5)[0][0]
    assert found["output"]["text"] == expected.text
    best = found["output"]["steps"][0]["best"]
    assert best[0]["drawn"] < best[0]["probability"]  # a high temperature makes all alike


def test_a_given_translation_is_looked_at(served: RunningServer, translator: Translator) -> None:
    found = inspected(served, target="t1 t2", edits={"source_words": [0]})
    (scored,) = translator.score([TEXT], ["t1 t2"])
    assert found["before"]["log_probability"] == pytest.approx(scored.score, abs=1e-4)
    assert found["output"]["text"] == "t1 t2"
    assert found["before_now"] == pytest.approx(found["output"]["probability"], rel=1e-4)


def test_two_models_are_compared(served: RunningServer) -> None:
    found = inspected(served, compare="second", detail="full")
    assert found["other"] == inspected(served, model="second")["output"]
    assert [model["name"] for model in found["details"]["report"]["models"]] == ["first", "second"]


def test_the_results_without_edits_are_kept(
    served: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "s5 s6 s5"
    first = inspected(served, text)
    from clearhead.serve import looking

    monkeypatch.setattr(looking, "seen", lambda *_: pytest.fail("it was kept"))
    assert inspected(served, text) == first


WRONG: list[tuple[int, dict[str, Any]]] = [
    (400, {"text": ""}),
    (400, {"text": " \n"}),
    (400, {}),
    (400, {"text": TEXT, "other": 1}),
    (400, {"text": TEXT, "edits": {"heads": ["decoder.9"]}}),
    (400, {"text": TEXT, "edits": {"heads": [""]}}),
    (400, {"text": TEXT, "edits": {"source_words": [4]}}),
    (400, {"text": TEXT, "edits": {"source_words": [-1]}}),
    (400, {"text": TEXT, "edits": {"links": [{"kind": "cross", "query": [], "key": [1]}]}}),
    (400, {"text": TEXT, "edits": {"links": [{"kind": "x", "query": [1], "key": [1]}]}}),
    (400, {"text": TEXT, "edits": {"links": [{"kind": "cross", "layer": 9, "query": [1]}]}}),
    (
        400,
        {
            "text": TEXT,
            "edits": {"links": [{"kind": "cross", "layer": 9, "query": [1], "key": [0]}]},
        },
    ),
    (
        400,
        {
            "text": "a",
            "model": "texts",
            "edits": {"links": [{"kind": "cross", "query": [1], "key": [0]}]},
        },
    ),
    (400, {"text": TEXT, "search": {"temperature": 0}}),
    (400, {"text": TEXT, "search": {"beam_size": 1000}}),
    (400, {"text": "\ud800"}),
    (404, {"text": TEXT, "model": "features"}),
    (404, {"text": TEXT, "model": "../first"}),
    (404, {"text": TEXT, "compare": "none"}),
    (404, {"text": TEXT, "checkpoint": "../../weights"}),
    (404, {"text": TEXT, "checkpoint": "damaged"}),
    (404, {"text": TEXT, "checkpoint": ""}),
    (413, {"text": "s1 " * 61, "detail": "full"}),
    (413, {"text": "s1 " * 201}),
]


@pytest.mark.parametrize(("status", "body"), WRONG)
def test_wrong_requests_are_refused(
    served: RunningServer, status: int, body: dict[str, Any]
) -> None:
    answer = served.post("/v1/inspect", body)
    assert answer.status == status, answer.body
    assert answer.json["error"]["what"]


def test_hostile_texts_are_answered(served: RunningServer) -> None:
    for text in HOSTILE:
        for model in ("first", "texts"):
            body = {"text": text[:4000], "model": model, "edits": {"source_words": [0]}}
            assert served.post("/v1/inspect", body).status in (200, 400, 413), text


def test_a_server_may_not_allow_it(folders: dict[str, Path], tmp_path: Path) -> None:
    with running(folders["texts"], storage=tmp_path, inspect=False) as server:
        assert server.post("/v1/inspect", {"text": "a"}).status == 404


def test_a_request_that_nobody_waits_for_ends_early(translator: Translator) -> None:
    from clearhead.errors import ClearheadError
    from clearhead.serve.inside import InspectBody
    from clearhead.serve.looking import Looker

    def over() -> None:
        raise ClearheadError("nobody waits for it")

    looker, body = Looker(), InspectBody.model_validate({"text": TEXT})
    with pytest.raises(ClearheadError, match="nobody waits"):
        looker.answer("first", translator, [], body, False, looker.contents(over))
