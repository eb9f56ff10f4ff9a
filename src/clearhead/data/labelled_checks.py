"""What is looked at in labelled examples before anything trains, and what is done about it.

An example is left out of the training data for the first of these reasons that holds:

- `empty`: the text is nothing but white space;
- `held_out`: the same example is in the validation or test data, where it would inflate the score
  (if `drop_held_out`; otherwise it is counted and kept);
- `duplicate`: the same example came before (if `drop_duplicates`; otherwise it is counted and
  kept);
- `long`: it has more than `max_length` tokens or frames (where lengths are given).

Counted and kept are `contradiction`, an input that came before with other labels, and
`held_out_input`, one that is in the validation or test data with other labels. Validation and
test data are judged by the same rules and kept whole; what these two rules find in the test data
is also in the validation data, by which the best model is picked.

Texts are the same when they are equal after spaces at their ends have been taken away, features
when all values are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from clearhead.data.checks import HELD_IN, pair_hash
from clearhead.data.features import count_features
from clearhead.data.labelled import Labelled, input_hash
from clearhead.data.labelled_report import LabelledReport, count_classes, finding_of
from clearhead.data.labels import Labels
from clearhead.data.report import Finding
from clearhead.data.tables import header_hint
from clearhead.errors import DataError
from clearhead.settings import DataConfig

RULES = {
    "empty": "the text is empty",
    "held_out": "the same example is in the {held_in} data",
    "duplicate": "the same example came before",
    "long": "more than {max_length} tokens or frames",
    "contradiction": "the same input came before with another label",
    "held_out_input": "the input is in the {held_in} data, with another label",
}
KEPT_RULES = ("contradiction", "held_out_input")

T = TypeVar("T", bound=Labelled[Any])


def check_labelled(
    name: str,
    examples: Sequence[T],
    config: DataConfig,
    held_out: Iterable[Labelled[Any]] = (),
    *,
    lengths: Callable[[Sequence[T]], Sequence[int]] | None = None,
    labelled: bool = True,
    named: str = "",
) -> tuple[tuple[T, ...], LabelledReport]:
    """The training examples that are used, and the report on all of them.

    Args:
        name: what the data are called in the report ("train").
        examples: all that were read.
        config: the limits.
        held_out: the validation and test examples, which are not trained on.
        lengths: gives those of some examples in tokens or frames; it is asked once, for all that no
            other rule leaves out, so that it can learn from them how to count. Without it none is
            too long.
        labelled: whether classes are learned: at least two, none of them too small.
        named: the file or folder that the examples were read from; places within the folder are
            given from there.

    Raises:
        DataError: no example is left; or there are fewer than two classes, or fewer than
            `smallest_class` examples of one.
    """
    checker = _Checker(config, held_out)
    verdicts = checker.verdicts(examples)
    left = [row for row, verdict in enumerate(verdicts) if verdict not in checker.dropped]
    if lengths is not None and left:
        for row, length in zip(left, lengths([examples[row] for row in left]), strict=True):
            if length > config.max_length:
                verdicts[row] = "long"
    kept = tuple(examples[row] for row in left if verdicts[row] not in checker.dropped)
    texts = _texts(config, HELD_IN)
    findings = _findings(examples, verdicts, texts, named, dropped=checker.dropped)
    features = count_features(kept, config.missing)
    counts = (len(examples), len(kept), count_classes(kept))
    report = LabelledReport(name, *counts, findings, True, features)
    if not kept:
        why = "\n".join(report.lines())
        raise DataError("no example is left to train on", where=name, why=why)
    if labelled:
        _check_classes(examples, report, config.smallest_class)
    return kept, report


def check_kept_labelled(
    name: str,
    examples: Sequence[Labelled[Any]],
    config: DataConfig,
    labels: Labels | None = None,
    *,
    lengths: Sequence[int] | None = None,
    validation: Iterable[Labelled[Any]] = (),
    named: str = "",
) -> LabelledReport:
    """The report on validation or test examples, of which none is left out.

    Args:
        name: what the data are called ("validation").
        examples: all that were read.
        config: the limits.
        labels: those of the training data, None where classes are not learned.
        lengths: of each example, in tokens or frames; without them none is too long.
        validation: for test examples, the validation examples, which should be others.
        named: the file or folder that the examples were read from, as in `check_labelled`.

    Raises:
        DataError: an example has a label that the training data lack.
    """
    if labels is not None:
        for example in examples:
            labels.encode(example.labels, example.place)
    # What these two say is said of training examples.
    checker = _Checker(replace(config, drop_held_out=True, drop_duplicates=True), validation)
    verdicts = checker.verdicts(examples)
    for row, length in enumerate(lengths or ()):
        if length > config.max_length and verdicts[row] not in checker.dropped:
            verdicts[row] = "long"
    texts = _texts(config, "validation")
    findings = _findings(examples, verdicts, texts, named, dropped=frozenset())
    count = len(examples)
    features = count_features(examples, config.missing)
    return LabelledReport(name, count, count, count_classes(examples), findings, False, features)


class _Checker:
    """Judges examples one after the other, and remembers them.

    Attributes:
        dropped: the rules by which a training example is left out.
    """

    def __init__(self, config: DataConfig, held_out: Iterable[Labelled[Any]] = ()) -> None:
        kept = {"held_out": not config.drop_held_out, "duplicate": not config.drop_duplicates}
        kept_rules = {*KEPT_RULES, *(rule for rule, is_kept in kept.items() if is_kept)}
        self.dropped = frozenset(RULES) - kept_rules
        self._seen: set[int] = set()
        self._seen_inputs: set[int] = set()
        hashes = [_hashes(example) for example in held_out]
        self._held_out = {both for both, _ in hashes}
        self._held_out_inputs = {content for _, content in hashes}

    def verdicts(self, examples: Sequence[Labelled[Any]]) -> list[str | None]:
        """For each example the first rule that it breaks, of all but `long`."""
        return [self._verdict(example) for example in examples]

    def _verdict(self, example: Labelled[Any]) -> str | None:
        both, content = _hashes(example)
        repeated, known = both in self._seen, content in self._seen_inputs
        self._seen.add(both)
        self._seen_inputs.add(content)
        broken = {
            "empty": isinstance(example.input, str) and not example.input.strip(),
            "held_out": both in self._held_out,
            "duplicate": repeated,
            "contradiction": known and not repeated,
            "held_out_input": content in self._held_out_inputs and both not in self._held_out,
        }
        # Those that leave it out come first: one that is only counted must not hide them.
        ordered = sorted(broken, key=lambda rule: rule not in self.dropped)
        return next((rule for rule in ordered if broken[rule]), None)


def _hashes(example: Labelled[Any]) -> tuple[int, int]:
    """Of the input with its labels, and of the input alone."""
    content = input_hash(example.input)
    return pair_hash(str(content), *sorted(example.labels)), content


def _texts(config: DataConfig, held_in: str) -> dict[str, str]:
    """What each rule says of the examples that break it."""
    limits = {"max_length": config.max_length, "held_in": held_in}
    return {rule: text.format(**limits) for rule, text in RULES.items()}


def _findings(
    examples: Sequence[Labelled[Any]],
    verdicts: Sequence[str | None],
    texts: Mapping[str, str],
    named: str,
    *,
    dropped: frozenset[str],
) -> tuple[Finding, ...]:
    breaking: dict[str, list[Labelled[Any]]] = {rule: [] for rule in RULES}
    for example, verdict in zip(examples, verdicts, strict=True):
        if verdict is not None:
            breaking[verdict].append(example)
    return tuple(
        finding_of(rule, texts[rule], found, named, left_out=rule in dropped)
        for rule, found in breaking.items()
        if found
    )


def _check_classes(
    examples: Sequence[Labelled[Any]], report: LabelledReport, smallest_class: int
) -> None:
    kept = dict(report.classes)
    read = dict(count_classes(examples))
    for name in sorted(read):
        count = kept.get(name, 0)
        if count >= smallest_class:
            continue
        place = next(example.place for example in examples if name in example.labels)
        allow = f", or allow it: data.smallest_class = {count}" if count else ""
        allow += header_hint(place)
        raise DataError(
            f"the class {name!r} has {count} training example{'' if count == 1 else 's'}, "
            f"and {smallest_class} are needed",
            where=place,
            why=f"{read[name] - count} more were left out" if read[name] > count else None,
            todo=f"add examples, merge it with another class or remove it{allow}",
        )
    if len(read) < 2:
        raise DataError(
            f"there is only one class: {next(iter(read))!r}" if read else "there is no label",
            where=examples[0].place,
            todo="give examples of at least two classes",
        )
