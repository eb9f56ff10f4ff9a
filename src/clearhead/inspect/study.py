"""Study a model over a sample: its heads, and which measure of attribution may be believed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, FiniteFloat, ValidationError

from clearhead.checkpoint.folder import ModelFolder
from clearhead.errors import ModelFolderError
from clearhead.inspect.faithfulness import GRID, RANDOM, Faithfulness
from clearhead.inspect.findings import FOLDER, STUDY, read_finding
from clearhead.inspect.heads import Head
from clearhead.inspect.importance import Importance, ratio_intervals
from clearhead.inspect.measures import MEASURES
from clearhead.inspect.record import Array
from clearhead.inspect.roles import named_roles

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
    measure: Literal[*MEASURES]  # pyright: ignore[reportInvalidTypeForm]
    sentences: int
    rows: list[_BeliefRow]
    grid: list[FiniteFloat]
    curves: dict[str, list[FiniteFloat]]


class _Study(BaseModel):
    sentences: int
    loss: FiniteFloat
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
    """Which measure may be believed, as data: one sentence, a table, and the curves.

    Exact removal is one of the measures.
    """
    lost = dict(zip(found.measures, found.comprehensiveness, strict=True))
    missing = dict(zip(found.measures, found.sufficiency, strict=True))
    sentences = len(lost[RANDOM])
    estimates = [name for name in found.measures if name not in (RANDOM, "removal")]
    best = max(estimates, key=lambda name: lost[name].mean())
    order = sorted(found.measures, key=lambda name: -lost[name].mean())
    return {
        "text": _sentence(lost, best, estimates),
        "measure": best,
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


def title_of(name: str) -> str:
    """The title of a measure, or of the random order."""
    return "Random order" if name == RANDOM else MEASURES[name].title


def _sentence(lost: Mapping[str, Array], best: str, estimates: Sequence[str]) -> str:
    """Which measure may be believed, and which are no better than chance."""
    poor = [name for name in estimates if _interval(lost[name] - lost[RANDOM])[1] <= 0]
    if best in poor:
        return (
            "Believe none of these measures but exact removal: no other one ranks source words "
            f"better than a random order over {len(lost[RANDOM])} sentences."
        )
    fall, exact, chance = (float(lost[name].mean()) for name in (best, "removal", RANDOM))
    text = (
        f"Believe “{title_of(best)}”: deleting the source words that it ranks first lowers the "
        f"probability of the output by {fall:.3f} on average ({exact:.3f} for exact removal, "
        f"{chance:.3f} for a random order)."
    )
    names = ", ".join(f"“{title_of(name)}”" for name in poor)
    return f"{text} No better than a random order: {names}." if poor else text


def _interval(values: Array) -> list[float]:
    """Mean over sentences and its 95 % interval."""
    return ratio_intervals(values[None], np.ones(len(values)))[0].tolist()
