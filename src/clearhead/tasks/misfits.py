"""Test data that do not fit what is learned: what an evaluation would refuse, found before."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from clearhead.data.labelled import Labelled, in_columns
from clearhead.data.labelled_report import finding_of
from clearhead.data.labels import Labels
from clearhead.data.report import Finding
from clearhead.errors import DataError
from clearhead.tasks.inputs import Inputs

SHOWN_NAMES = 5


def in_columns_if_alike(examples: Iterable[Labelled], names: Sequence[str]) -> list[Labelled]:
    """Each example as `in_columns` gives it; as it is, where it has other features."""

    def put(example: Labelled) -> Labelled:
        try:
            return in_columns(example, names)
        except DataError:
            return example

    return [put(example) for example in examples]


def unknown_labels(examples: Sequence[Labelled], labels: Labels, named: str) -> list[Finding]:
    """The examples with a label that the training data lack, in at most one finding.

    Args:
        examples: of the test data.
        labels: those of the training data.
        named: the file or folder that the examples were read from.
    """
    known = set(labels.names)
    found = [example for example in examples if not known.issuperset(example.labels)]
    if not found:
        return []
    names = sorted({name for example in found for name in example.labels} - known)
    more = len(names) - SHOWN_NAMES
    shown = ", ".join(map(repr, names[:SHOWN_NAMES])) + (f" and {more:,} more" if more > 0 else "")
    what = f"the training data lack the label{'s' * (len(names) > 1)} {shown}"
    text = f"the model cannot be judged by it: {what}"
    return [finding_of("unknown_label", text, found, named)]


def unreadable(examples: Sequence[Labelled], inputs: Inputs, named: str) -> list[Finding]:
    """The examples that cannot be brought into the numbers that the model reads.

    They have, for instance, another number of features than the training data, or lack values
    where `data.missing` is "refuse".

    Args:
        examples: of the test data.
        inputs: what makes numbers of them.
        named: the file or folder that the examples were read from.

    Returns:
        a finding for each reason.
    """
    reasons: dict[str, list[Labelled]] = {}
    for example in examples:
        try:
            inputs.rows([example])
        except DataError as error:
            reasons.setdefault(error.what, []).append(example)
    return [
        finding_of("unreadable", f"the model cannot be judged by it: {what}", found, named)
        for what, found in reasons.items()
    ]
