"""Study a model over a sample: its heads, and which measure of attribution may be believed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeVar

import numpy as np
import torch
from pydantic import BaseModel, FiniteFloat, ValidationError
from torch import Tensor

from clearhead.decoding.texts import translate_texts
from clearhead.decoding.torch_engine import TorchEngine
from clearhead.errors import DataError, ModelFolderError, warn
from clearhead.evaluation.scores import sentence_chrf
from clearhead.folder.model_folder import ModelFolder
from clearhead.inspect.faithfulness import measured_belief
from clearhead.inspect.findings import FOLDER, STUDY, read_finding
from clearhead.inspect.heads import Head
from clearhead.inspect.importance import (
    head_importance,
    head_roles,
    importance_rows,
    ratio_intervals,
    roles_by_name,
)
from clearhead.inspect.measures import MEASURES
from clearhead.inspect.recording import (
    ClassifierLike,
    TranslatorLike,
    ids_of,
    is_translator,
)
from clearhead.inspect.subject import Counting, Subject, examples_of, pairs_of, uncounted
from clearhead.inspect.view import Means, heads_of, mean_outputs, without_heads

_Example = TypeVar("_Example")


def study_model(
    model: TranslatorLike | ClassifierLike,
    sample: Iterable[Any] | None = None,
    sentences: int = 200,
    scores: bool = False,
    ablate_by: Literal["zero", "mean"] = "zero",
    counting: Counting = uncounted,
) -> tuple[dict[str, Any], Means]:
    """Measure how much a model needs each head, what each does, and which measure to believe.

    The loss is that of the references or of the true labels of the sample; all else is about what
    the model itself gives. Of the sample (see `pairs_of`, `examples_of`) the first `sentences` are
    studied. With `scores` it is also translated without each head. Returns the study as data for
    JSON, and the mean outputs of the heads; see `findings`.
    """
    changes = None
    if is_translator(model, "study"):
        translator: Any = model
        pairs, true = _short(
            pairs_of(translator) if sample is None else sample,
            sentences,
            lambda pair: Subject.translation(translator, *pair),
        )
        sources = [source for source, _ in pairs]
        with counting(len(sources), "translations") as show:
            found = translator.translate(sources, progress=show)
        own = [
            Subject.translation(translator, source, best)
            for source, (best, *_) in zip(sources, found, strict=True)
        ]
        means = mean_outputs(translator.model, _inputs(translator, pairs))
        if scores:
            by = means if ablate_by == "mean" else None
            changes = _chrf_without(translator, pairs, by, counting)
    else:
        classifier: Any = model
        examples, own = _short(
            examples_of(classifier) if sample is None else sample,
            sentences,
            lambda each: Subject.classification(classifier, each.input),
        )
        true = [
            Subject.classification(classifier, each.input, each.labels)
            for each in examples
            if each.labels or classifier.multi_label
        ]
        device = classifier.model.output.weight.device
        rows = (classifier.encode(each.input)[0] for each in examples)
        means = mean_outputs(
            classifier.model, ((torch.as_tensor(row, device=device)[None],) for row in rows)
        )
    with counting(len(true), "sentences without each head") as show:
        importance = head_importance(true, means if ablate_by == "mean" else None, show)
    with counting(len(own), "sentences for the measures") as show:
        belief = measured_belief(own, show)
    return {
        "sentences": len(true),
        "loss": float(importance.loss.sum() / importance.outputs.sum()),
        "ablate_by": ablate_by,
        "importance": importance_rows(importance, changes),
        "roles": roles_by_name(head_roles(own)),
        "belief": belief,
    }, means


def _short(
    sample: Iterable[_Example], count: int, subject_of: Callable[[_Example], Subject]
) -> tuple[list[_Example], list[Subject]]:
    """The first examples that are short enough to be recorded, with their subjects."""
    kept, subjects, skipped = [], [], 0
    for example in sample:
        if len(kept) == count:
            break
        try:
            subjects.append(subject_of(example))
        except DataError:
            skipped += 1
        else:
            kept.append(example)
    if skipped:
        warn(f"skipped {skipped:,} that are empty or too long to be recorded")
    if not kept:
        raise DataError("the sample has no sentence to study", todo="name another sample")
    return kept, subjects


def _inputs(
    translator: TranslatorLike, pairs: Iterable[tuple[str, str]]
) -> Iterator[tuple[Tensor, Tensor]]:
    """What the model reads of each pair: the source, and the target after the start symbol."""
    device = translator.model.output.weight.device
    for source, target in pairs:
        ids, target_ids = ids_of(translator, source, target)
        read = [translator.model.bos_id, *target_ids]
        read = read[: translator.model.target_input.max_length]
        yield torch.tensor([ids], device=device), torch.tensor([read], device=device)


def _chrf_without(
    translator: Any, pairs: Sequence[tuple[str, str]], means: Means | None, counting: Counting
) -> dict[Head, list[float]]:
    """For each head the change of chrF without it, and its 95 % interval by bootstrap."""
    sources, references = zip(*pairs, strict=True)
    heads = heads_of(translator.model)
    tokenizers = translator.source_tokenizer, translator.target_tokenizer

    def chrf(model: Any) -> np.ndarray:
        engine = TorchEngine(model, scores=False)
        found = translate_texts(
            engine, tokenizers, sources, translator.search, translator.protection
        )
        return np.array(sentence_chrf([best.text for best, *_ in found], references))

    complete, changes = chrf(translator.model), {}
    with counting(len(heads), "heads") as show:
        for number, head in enumerate(heads, start=1):
            change = chrf(without_heads(translator.model, [head], means)) - complete
            interval = ratio_intervals(change[None], np.ones(len(change)))[0]
            changes[head] = interval.tolist()
            show(number)
    return changes


def table(study: Mapping[str, Any]) -> Iterator[str]:
    """The lines of the tables of a study, for people."""
    by = {"zero": "zero", "mean": "its mean output"}[study["ablate_by"]]
    yield f"Heads: rise of the loss if {by} replaces each, {study['sentences']:,} sentences"
    yield f"(loss {study['loss']:.4f}; nats per output, with 95 % intervals)"
    yield ""
    chrf = any(row["chrf"] for row in study["importance"])
    heading = f"{'head':20} {'rise':>8}  {'interval':>18}  {'gradient':>8}"
    yield heading + (f"  {'chrF':>6}  {'interval':>15}" if chrf else "") + "  attends to"
    for row in study["importance"]:
        mean, low, high = row["loss"]
        line = f"{row['head']:20} {mean:8.4f}  {f'{low:.4f} to {high:.4f}':>18}"
        line += f"  {row['gradient']:8.4f}"
        if chrf:
            change, worst, best = row["chrf"]
            line += f"  {change:6.2f}  {f'{worst:.2f} to {best:.2f}':>15}"
        roles = study["roles"].get(row["head"], [])
        yield f"{line}  {', '.join(f'{role} {score:.2f}' for role, score in roles)}".rstrip()
    belief = study["belief"]
    yield ""
    yield "Measures: fall of the probability without the words that rank first (high is good),"
    yield "and what is missing with these words alone (low is good)"
    yield ""
    yield f"{'measure':22} {'without':>8}  {'interval':>16}  {'alone':>8}  {'interval':>16}"
    for row in belief["rows"]:
        lost, low, high = row["comprehensiveness"]
        missing, least, most = row["sufficiency"]
        yield (
            f"{row['title']:22} {lost:8.3f}  {f'{low:.3f} to {high:.3f}':>16}"
            f"  {missing:8.3f}  {f'{least:.3f} to {most:.3f}':>16}"
        )
    yield ""
    error = belief["completeness_error"]
    yield f"Integrated gradients miss the sum that they should have by {error:.3f} nats per output."
    yield ""
    yield belief["text"]


Interval = tuple[FiniteFloat, FiniteFloat, FiniteFloat]
"""A mean, and the ends of its 95 % interval."""


class _ImportanceRow(BaseModel):
    head: str
    loss: Interval
    gradient: FiniteFloat
    chrf: Interval | None


class _BeliefRow(BaseModel):
    measure: str
    title: str
    comprehensiveness: Interval
    sufficiency: Interval


class _Belief(BaseModel):
    text: str
    believed: list[Literal[*MEASURES]]  # pyright: ignore[reportInvalidTypeForm]
    completeness_error: FiniteFloat
    sentences: int
    rows: list[_BeliefRow]
    grid: list[FiniteFloat]
    curves: dict[str, list[FiniteFloat]]


class _Study(BaseModel):
    sentences: int
    loss: FiniteFloat
    ablate_by: Literal["zero", "mean"]
    importance: list[_ImportanceRow]
    roles: dict[str, list[tuple[str, FiniteFloat]]]
    belief: _Belief


def read_study(found: ModelFolder) -> dict[str, Any] | None:
    """What `clearhead study` found out about these weights; None if it has not studied them."""
    tree = read_finding(found, STUDY)
    if tree is None:
        return None
    try:
        return _Study.model_validate(tree).model_dump(mode="json")
    except ValidationError as error:
        first = error.errors()[0]
        raise ModelFolderError(
            "the study of this model is damaged",
            where=found.path / FOLDER / STUDY,
            why=f"{'.'.join(map(str, first['loc']))}: {first['msg']}",
            todo=f"repeat it: clearhead study {found.path}",
        ) from None
