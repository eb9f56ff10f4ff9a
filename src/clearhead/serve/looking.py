"""What a model gives for a text while parts of it are switched off: the work of /v1/inspect."""

from __future__ import annotations

import base64
import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import torch

from clearhead.api.service import LimitError
from clearhead.decoding.engine import Hypothesis
from clearhead.decoding.texts import chosen_search
from clearhead.errors import ConfigError
from clearhead.inspect.edit import edit
from clearhead.inspect.heads import KINDS
from clearhead.inspect.report.contents import Contents
from clearhead.inspect.report.writing import given_output, traced
from clearhead.inspect.study import read_study
from clearhead.inspect.subject import Subject
from clearhead.inspect.view import attentions_of
from clearhead.inspect.words import Word, words_of
from clearhead.serve.inside import (
    Blobs,
    Checkpoint,
    Choice,
    Edits,
    InspectAnswer,
    InspectBody,
    Labelled,
    Output,
    Source,
    Step,
)
from clearhead.settings import NoPositions

LONGEST = {"quick": 200, "full": 60}
"""Source tokens at most, by the detail of an answer."""

BEST = 8
"""Tokens of each step of decoding."""

MOST_LABELS = 20
"""Labels of an answer."""

KEPT = 32
"""Results without edits that are kept for the next request with edits."""


class Seen(NamedTuple):
    """What a model gives by its search, and by greedy search if that is another one."""

    output: Output
    greedy: Output | None
    hypothesis: Hypothesis | None


class Looker:
    """Looks at models; keeps the latest results without edits."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Any, Seen] = OrderedDict()
        self._lock = threading.Lock()

    def contents(self, check: Callable[[], None]) -> Contents:
        """The contents of a report, whose work ends when `check` raises an error."""
        return Contents("", check=check)

    def details(self, contents: Contents) -> Blobs:
        """The report, when all is in it."""
        contents.arrays.close()
        blobs = [base64.b64encode(blob).decode("ascii") for blob in contents.arrays.blobs]
        return Blobs(report=contents.to_dict(), blobs=blobs)

    def answer(
        self,
        name: str,
        model: Any,
        checkpoints: list[Checkpoint],
        body: InspectBody,
        normalise: bool,
        contents: Contents | None,
    ) -> InspectAnswer:
        """What a model gives while it is edited; the report of it goes into the contents."""
        text = model.normalised(body.text) if normalise else body.text
        source = source_of(model, text, LONGEST[body.detail])
        before = self._unedited(model, text, body)
        now, before_now = before, None
        with edited(model, body.edits, source) as is_edited:
            if is_edited:
                now = seen(model, text, body)
                before_now = probability_of(model, text, before, now)
            if contents is not None:
                describe(contents, name, model, text, body, now)
        attentions = attentions_of(model.model)
        search = chosen_search(model.search, body.search.choices()) if translates(model) else None
        draws = search is not None and search.method == "sampling"
        return InspectAnswer(
            model=name,
            checkpoint=body.checkpoint,
            checkpoints=checkpoints,
            attentions={each: found.n_heads for each, found in attentions.items()},
            positions=not isinstance(model.config.model.positions, NoPositions),
            vocabulary=model.model.output.out_features,
            beam_size=None if search is None or draws else search.beam_size,
            temperature=search.temperature if search is not None and draws else None,
            source=source,
            output=now.output,
            greedy=now.greedy,
            before=before.output if body.edits else None,
            before_now=before_now,
            other=None,
            details=None,
        )

    def other(
        self, name: str, model: Any, body: InspectBody, normalise: bool, contents: Contents | None
    ) -> Output:
        """What the model to compare with gives, which is not edited."""
        text = model.normalised(body.text) if normalise else body.text
        source_of(model, text, LONGEST[body.detail])
        found = self._unedited(model, text, body)
        if contents is not None:
            describe(contents, name, model, text, body, found)
        return found.output

    def _unedited(self, model: Any, text: str, body: InspectBody) -> Seen:
        key = model.folder.weights_sha256, text, body.target, body.search.model_dump_json()
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        found = seen(model, text, body)
        with self._lock:
            self._kept[key] = found
            if len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return found


def source_of(model: Any, text: str, longest: int) -> Source:
    """A text as the model reads it.

    Raises:
        LimitError: it has more than `longest` tokens.
    """
    if translates(model):
        subject = Subject.translation(model, text, "")
    else:
        subject = Subject.classification(model, text)
    if len(subject.source_pieces) > longest:
        what = f"the text has {len(subject.source_pieces):,} tokens, and {longest:,} are shown"
        raise LimitError(what, todo="give a shorter one")
    words = words_of(subject.source_pieces, subject.source_special)
    return Source(text=text, pieces=[*subject.source_pieces], words=listed(words))


@contextmanager
def edited(model: Any, edits: Edits, source: Source) -> Iterator[bool]:
    """A block in which a model is edited; gives whether it is.

    Raises:
        ConfigError: there is no such head, or no such word.
    """
    if not edits:
        yield False
        return
    with edit(model) as e:
        if edits.heads:
            e.scale(edits.heads, 0.0)
        for word in edits.source_words:
            if word >= len(source.words):
                what = f"there is no word {word} in the source"
                raise ConfigError(what, why=f"there are {len(source.words)}, counted from 0")
            e.hide(source.words[word][1])
        for link in edits.links:
            kind = KINDS[link.kind]
            layers = {name.split(".")[1] for name in attentions_of(model.model) if kind.has(name)}
            chosen = layers if link.layer is None else [link.layer]
            head = "" if link.head is None else f".{link.head}"
            names = [f"{kind.stack}.{layer}.{kind.last}{head}" for layer in chosen]
            e.knockout(names or [link.kind], link.query, link.key)
        if edits.positions == "without":
            e.without_positions("source")
        yield True


def seen(model: Any, text: str, body: InspectBody) -> Seen:
    """What a model gives for a text, as it is now."""
    if not translates(model):
        return Seen(_classified(model, text), None, None)
    search = chosen_search(model.search, body.search.choices())
    drawn_at = search.temperature if search.method == "sampling" else None
    if body.target is not None:
        subject, best = given_output(model, text, body.target)
    else:
        ((best, *_),) = model.hypotheses([text], search=replace(search, n_best=1))
        subject = Subject.translation(model, text, best)
    greedy = None
    if body.target is None and (search.method == "sampling" or search.beam_size > 1):
        plain = replace(model.search, method="beam", beam_size=1, n_best=1)
        ((likeliest, *_),) = model.hypotheses([text], search=plain)
        greedy = _output(model, Subject.translation(model, text, likeliest), likeliest, drawn_at)
    return Seen(_output(model, subject, best, drawn_at), greedy, best)


def _output(
    model: Any, subject: Subject, hypothesis: Hypothesis, temperature: float | None
) -> Output:
    """A translation with the best tokens of each step."""
    replay, pieces = subject.replay, model.target_tokenizer.pieces
    with torch.no_grad():
        (logits,) = replay.logits(1)
        scores = replay.scores(logits)
        best = scores.topk(min(BEST, scores.size(-1)))
        own = scores.gather(-1, torch.as_tensor(replay.outcome, device=scores.device))[:, 0]
        cooled = (logits.double() / (temperature or 1.0)).softmax(dim=-1)
        drawn = cooled.gather(-1, best.indices).tolist()
    names = [pieces(row) for row in best.indices.tolist()]
    likely = best.values.double().exp().tolist()
    steps = [
        Step(
            piece=piece,
            probability=math.exp(score),
            best=[
                Choice(piece=each, probability=p, drawn=None if temperature is None else q)
                for each, p, q in zip(names[place], likely[place], drawn[place], strict=True)
            ],
        )
        for place, (piece, score) in enumerate(zip(subject.outputs, own.tolist(), strict=True))
    ]
    total = float(own.double().sum())
    return Output(
        text=hypothesis.text,
        probability=math.exp(total),
        log_probability=total,
        finished=hypothesis.finished,
        words=listed(subject.output_words),
        steps=steps,
        labels=[],
    )


def _classified(model: Any, text: str) -> Output:
    """The labels of a text."""
    (every,) = model.classify([text], top=len(model.labels))
    (given,) = model.classify([text])
    total = float(Subject.classification(model, text).replay.log_probabilities().sum())
    labels = [Labelled(label=each.label, probability=each.probability) for each in every]
    return Output(
        text=", ".join(each.label for each in given),
        probability=math.exp(total),
        log_probability=total,
        finished=True,
        words=[],
        steps=[],
        labels=labels[:MOST_LABELS],
    )


def probability_of(model: Any, text: str, before: Seen, now: Seen) -> float | None:
    """The probability that a model, as it is now, has for what it gave before."""
    if before.hypothesis is not None:
        replay = Subject.translation(model, text, before.hypothesis).replay
        return math.exp(float(replay.log_probabilities().sum()))
    known = {each.label: each.probability for each in now.output.labels}
    return known.get(before.output.labels[0].label)


def describe(
    contents: Contents, name: str, model: Any, text: str, body: InspectBody, found: Seen
) -> None:
    """Add what a model computes, as it is now, to the contents of a report."""
    study = None if body.checkpoint else read_study(model.folder)
    number = contents.add_model(name, model.config, model.model, study)
    if found.hypothesis is None:
        labels = [(each.label, each.probability) for each in found.output.labels]
        subject = Subject.classification(model, text)
        contents.add_classification(number, 0, subject, text, labels, model.labels)
        return
    best, beam = found.hypothesis, None
    search = chosen_search(model.search, body.search.choices())
    if search.method == "beam" and body.target is None:
        beam = traced(model, text, best, replace(search, n_best=search.beam_size))
    subject = Subject.translation(model, text, best)
    contents.add_translation(number, 0, subject, text, best, model.target_tokenizer, beam)


def translates(model: Any) -> bool:
    """Whether a model is a translator."""
    return model.config.task == "translation"


def listed(words: Sequence[Word]) -> list[tuple[str, list[int]]]:
    """Words as an answer has them."""
    return [(word.text, [*word.positions]) for word in words]
