"""The experiments of a report against the functions for one sentence."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch

import clearhead
from clearhead import nn
from clearhead.decoding.engine import Hypothesis
from clearhead.inspect.report import contents as module
from clearhead.inspect.report.contents import Contents
from clearhead.inspect.subject import Subject
from small_translators import Classifier, Translator
from synthetic_reports import decoded

TEXTS = {
    **{"a b c d": "p q r", "a b e d": "s t", "d c b a": "u", "b c": "p q"},
    **{"e b e d": "t q", "e b c d": "u u"},
}


def report(
    translator: Any, texts: dict[str, str] = TEXTS
) -> tuple[list[dict[str, Any]], list[bytes]]:
    """The items of a report, and its blobs."""
    made = Contents("Experiments")
    number = made.add_model("m", translator.config, translator.model)
    for sentence, (text, target) in enumerate(texts.items()):
        subject = Subject.translation(translator, text, target)
        found = Hypothesis((), 0.0, (), 0.0, True, target)
        made.add_translation(number, sentence, subject, text, found, translator.target_tokenizer)
    made.add_patches()
    made.arrays.close()
    return made.to_dict()["items"], made.arrays.blobs


def test_the_lens_of_a_report_is_the_lens() -> None:
    translator: Any = Translator()
    items, blobs = report(translator)
    for item, (text, target) in zip(items, TEXTS.items(), strict=True):
        found = clearhead.lens(translator, text, target)
        assert item["lens"]["best"] == [[place[0] for place in layer] for layer in found.best]
        probabilities = decoded(item["lens"]["probabilities"], blobs)
        np.testing.assert_allclose(probabilities, found.probabilities[..., 0], atol=1e-6)


def test_a_link_of_a_report_is_a_knockout() -> None:
    translator: Any = Translator()
    items, blobs = report(translator)
    for item, (text, target) in zip(items, TEXTS.items(), strict=True):
        links = decoded(item["links"], blobs)
        before = Subject.translation(translator, text, target).replay.log_probabilities()[0]
        words = item["outputs"]["words"], item["source"]["words"]
        assert links.shape == tuple(map(len, words))
        for (i, (_, places)), (j, (_, keys)) in itertools.product(*map(enumerate, words)):
            with clearhead.edit(translator.model) as e:
                e.knockout(["decoder.1.cross", "decoder.2.cross"], query=places, key=keys)
                subject = Subject.translation(translator, text, target)
                with torch.no_grad():
                    after = subject.record.logits
            scores = after - np.log(np.exp(after).sum(axis=-1, keepdims=True))
            ids = subject.replay.outcome
            falls = before - np.take_along_axis(scores, ids, axis=-1)
            assert links[i, j] == pytest.approx(falls[places].sum(), abs=1e-5)


def test_the_patches_of_a_report_are_patch_maps_with_the_most_similar_sentences() -> None:
    translator: Any = Translator()
    items, blobs = report(translator)
    sentences = [*TEXTS]
    assert [[p["sentence"] for p in item["patches"]] for item in items] == [
        *([1, 5, 4], [0, 4, 5], [0, 1, 4], [], [1, 5, 0], [0, 4, 1])
    ]
    for item, text in zip(items, sentences, strict=True):
        for patch in item["patches"]:
            other = sentences[patch["sentence"]]
            found = clearhead.patch_map(translator, text, other, TEXTS[other])
            np.testing.assert_allclose(decoded(patch["values"], blobs), found.values, atol=1e-4)
            assert patch["unpatched"] == pytest.approx(found.unpatched)
            assert items[patch["sentence"]]["score"]["log_probability"] == pytest.approx(
                found.other
            )


def test_many_links_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LINKS", 11)
    items, _ = report(Translator())
    assert [item["links"] is None for item in items] == [True, *[False] * 5]
    items, _ = report(Translator(), {"a b": ""})
    assert items[0]["links"] is None


def test_a_source_without_positions_is_that_of_an_edit() -> None:
    translator: Any = Translator()
    items, blobs = report(translator)
    for item, (text, target) in zip(items, TEXTS.items(), strict=True):
        before = clearhead.record(translator, text, target)
        with clearhead.edit(translator.model) as e:
            e.without_positions("source")
            after = clearhead.record(translator, text, target)
            source = torch.tensor([translator.source_tokenizer.encode(text)])
            best = nn.beam_search(translator.model, source, 1)[0][0].tokens
        moved = decoded(item["unordered"]["moved"], blobs)
        for layer, head in np.ndindex(moved.shape):
            rows = zip(
                *(each.encoder_attentions[layer, head] for each in (before, after)), strict=True
            )
            mean = np.mean([np.maximum(x - y, 0).sum() for x, y in rows])
            assert moved[layer, head] == pytest.approx(mean, abs=1e-5)
        scores = torch.from_numpy(after.logits).log_softmax(dim=-1)
        ids = [*translator.target_tokenizer.encode(target), 2]
        expected = scores[range(len(ids)), ids].sum().item()
        assert item["unordered"]["log_probability"] == pytest.approx(expected, abs=1e-5)
        assert item["unordered"]["text"] == translator.target_tokenizer.decode(best)


def test_a_classifier_has_a_lens_and_no_links() -> None:
    classifier: Any = Classifier()
    made = Contents("Experiments")
    number = made.add_model("m", classifier.config, classifier.model)
    subject = Subject.classification(classifier, "x y")
    made.add_classification(number, 0, subject, "x y", [], classifier.labels)
    made.add_patches()
    made.arrays.close()
    (item,) = made.to_dict()["items"]
    assert item["links"] is None
    assert item["patches"] == []
    assert item["unordered"]["text"] in classifier.labels
    found = clearhead.lens(classifier, "x y")
    assert item["lens"]["best"] == [[place[0] for place in layer] for layer in found.best]
