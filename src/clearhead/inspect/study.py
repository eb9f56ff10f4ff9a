"""Study a model over a sample: its heads, and which measure of attribution may be believed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, FiniteFloat, ValidationError

from clearhead.errors import ModelFolderError
from clearhead.folder.model_folder import ModelFolder
from clearhead.inspect.faithfulness import GRID, RANDOM, Faithfulness, faithfulness
from clearhead.inspect.findings import FOLDER, STUDY, read_finding
from clearhead.inspect.heads import Head
from clearhead.inspect.importance import Importance, ratio_intervals
from clearhead.inspect.measures import (
    MEASURES,
    integrated_gradients_with_error,
    measures_for,
)
from clearhead.inspect.record import Array
from clearhead.inspect.roles import named_roles
from clearhead.inspect.subject import Subject

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
    """What `clearhead study` found out about these weights; None if it has not studied them.

    Raises:
        ModelFolderError: the file is damaged.
    """
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


def importance_rows(
    found: Importance, scores: Mapping[Head, Sequence[float]] | None = None
) -> list[dict[str, Any]]:
    """The importance of each head as data, the most important first.

    Args:
        found: the importance.
        scores: for each head the change of chrF without it: mean, low, high; if measured.
    """
    rows = [
        {
            "head": str(head),
            "loss": list(map(float, interval)),
            "gradient": float(gradient),
            "chrf": None if scores is None else list(map(float, scores[head])),
        }
        for head, interval, gradient in zip(
            found.heads, found.intervals(), found.gradient, strict=True
        )
    ]
    return sorted(rows, key=lambda row: -row["loss"][0])


def roles_by_name(scores: Mapping[Head, Mapping[str, float]]) -> dict[str, list[list[Any]]]:
    """The roles of the heads that have any, as data."""
    named = {str(head): [list(each) for each in named_roles(x)] for head, x in scores.items()}
    return {head: roles for head, roles in named.items() if roles}


def belief(found: Faithfulness) -> dict[str, Any]:
    """Which measures may be believed, as data: one sentence, a table, and the curves.

    `believed` has the measure with the largest comprehensiveness, and then those that do not differ
    from it: the 95 % interval of the difference, paired by sentence, contains 0. It is empty if
    none is better than a random order. Exact removal is one of the measures, but not judged.
    """
    lost = dict(zip(found.measures, found.comprehensiveness, strict=True))
    missing = dict(zip(found.measures, found.sufficiency, strict=True))
    sentences = len(lost[RANDOM])
    order = sorted(found.measures, key=lambda name: -lost[name].mean())
    estimates = [name for name in order if name not in (RANDOM, "removal")]
    good = [name for name in estimates if _interval(lost[name] - lost[RANDOM])[1] > 0]
    believed = [
        name for name in good if name == good[0] or _interval(lost[good[0]] - lost[name])[1] <= 0
    ]
    return {
        "text": _sentence(lost, believed, [name for name in estimates if name not in good]),
        "believed": believed,
        "sentences": sentences,
        "rows": [
            {
                "measure": name,
                "title": title_of(name),
                "comprehensiveness": _interval(lost[name]),
                "sufficiency": _interval(missing[name]),
            }
            for name in order
        ],
        "grid": GRID.tolist(),
        "curves": {
            name: x.mean(axis=0).tolist()
            for name, x in zip(found.measures, found.deletion, strict=True)
        },
    }


def measured_belief(
    subjects: Sequence[Subject], progress: Callable[[int], None] | None = None
) -> dict[str, Any]:
    """Test all measures by deletion; `belief` with the error of integrated gradients.

    `completeness_error` is the mean distance between the sum of the integrated gradients of an
    output and what they should sum to, in nats.

    Args:
        subjects: inputs with the outputs of the model.
        progress: called with the number of inputs that are done.
    """
    errors: list[float] = []

    def integrated_gradients(subject: Subject) -> Array:
        found, error = integrated_gradients_with_error(subject)
        errors.extend(np.abs(error))
        return found

    known = measures_for(subjects[0].model)
    measures = {name: measure.compute for name, measure in known.items()}
    measures["integrated_gradients"] = integrated_gradients
    found = faithfulness(subjects, measures, progress=progress)
    return belief(found) | {"completeness_error": float(np.mean(errors))}


def title_of(name: str) -> str:
    """The title of a measure, or of the random order."""
    return "Random order" if name == RANDOM else MEASURES[name].title


def _sentence(lost: Mapping[str, Array], believed: Sequence[str], poor: Sequence[str]) -> str:
    """Which measures may be believed, and which are no better than chance."""
    if not believed:
        return (
            "Believe none of these measures but exact removal: no other one ranks source words "
            f"better than a random order over {len(lost[RANDOM])} sentences."
        )
    first, *equal = believed
    fall, exact, chance = (float(lost[name].mean()) for name in (first, "removal", RANDOM))
    text = (
        f"Believe “{title_of(first)}”: deleting the source words that it ranks first lowers the "
        f"probability of the output by {fall:.3f} on average ({exact:.3f} for exact removal, "
        f"{chance:.3f} for a random order)."
    )
    if equal:
        text += f" Not measurably worse: {_titles(equal)}."
    return f"{text} No better than a random order: {_titles(poor)}." if poor else text


def _titles(names: Sequence[str]) -> str:
    return ", ".join(f"“{title_of(name)}”" for name in names)


def _interval(values: Array) -> list[float]:
    """Mean over sentences and its 95 % interval."""
    return ratio_intervals(values[None], np.ones(len(values)))[0].tolist()
