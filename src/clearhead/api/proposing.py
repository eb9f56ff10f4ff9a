"""Settings for labelled examples in memory, as `clearhead init` proposes them for files."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from clearhead.data.proposing.classification import propose_for_examples
from clearhead.data.proposing.survey import survey_labelled_sequences, survey_labelled_texts
from clearhead.data.reading.feature_sequences import of_one_width
from clearhead.data.reading.labelled import Labelled
from clearhead.data.reading.parts import Given, labelled_example
from clearhead.errors import DataError
from clearhead.settings import ClassifierConfig, RunConfig, config_from
from clearhead.settings.data import HUB, absolute_path


def propose(
    examples: Given,
    folder: str | Path,
    *,
    validation: Given = (),
    start_from: str | Path = "",
) -> RunConfig:
    """Settings of a classifier for labelled texts or feature sequences, as `clearhead init` has.

        config = clearhead.propose(examples, "runs/topics")
        clearhead.train(config, examples=examples)

    Args:
        examples: (text or features, label or list of labels), as in `train`.
        folder: the model folder that the run writes.
        validation: validation examples in the same form; without them a tenth is held out.
        start_from: a model folder, or a model of Hugging Face, whose encoder is trained further.

    Raises:
        DataError: there are no examples, or one has a wrong form.
        ModelFolderError: the model of `start_from` cannot be used.
    """
    if not isinstance(examples, Sequence) or not examples:
        raise DataError("there are no examples in a list", where="propose")
    for number, each in enumerate(examples, start=1):
        if not isinstance(each, list | tuple) or len(each) < 2:
            what = "the example is not (text or features, label)"
            raise DataError(what, where=f"example {number}", why=f"it is {each!r}"[:200])
    # A `Labelled` example always has a tuple of labels.
    several = any(
        isinstance(each[1], list | tuple) and not (isinstance(each, Labelled) and len(each[1]) == 1)
        for each in examples
    )
    input = "text" if isinstance(examples[0][0], str) else "features"
    labelled = labelled_examples(examples, "train", input, several)
    held_out = labelled_examples(validation, "validation", input, several)
    return run_for(
        labelled,
        {"folder": str(folder)},
        validation=held_out,
        multi_label=several,
        start_from=str(start_from),
    )


def labelled_examples(
    given: Given, part: str, input: Literal["text", "features"], multi_label: bool
) -> list[Labelled[Any]]:
    """Examples of `Given` that are checked; a DataError if one has a wrong form."""
    classifier = ClassifierConfig(multi_label=multi_label)
    config = RunConfig(task="classification", input=input, classifier=classifier)
    found = (labelled_example(each, number, part, config) for number, each in enumerate(given, 1))
    return list(of_one_width(found) if input == "features" else found)


def run_for(
    examples: Sequence[Labelled[Any]],
    settings: Mapping[str, Any],
    *,
    validation: Sequence[Labelled[Any]] = (),
    drops_duplicates: bool = True,
    multi_label: bool = False,
    start_from: str = "",
    **changes: Any,
) -> RunConfig:
    """The run of `settings` by dotted path, and of what is proposed for the rest.

    `changes` are those of `propose_for_examples`.
    """
    is_text = isinstance(examples[0].input, str)
    survey_of = survey_labelled_texts if is_text else survey_labelled_sequences
    survey, brought = survey_of(examples, "examples"), None
    if not drops_duplicates:
        survey = replace(survey, distinct=1.0)
    if start_from:
        from clearhead.api.start import brought_by

        if not start_from.startswith(HUB):
            start_from = absolute_path(start_from)
        brought = brought_by(start_from, "classification", "text" if is_text else "features")
    proposed = propose_for_examples(
        survey,
        survey_of(validation, "validation") if validation else None,
        multi_label=multi_label,
        start_from=start_from,
        brought=brought,
        **changes,
    )
    tree = tomllib.loads(proposed.to_toml("run"))
    if start_from:
        settings = {**settings, "start_from": start_from}
    return config_of(settings, tree)


def config_of(settings: Mapping[str, Any], tree: dict[str, Any] | None = None) -> RunConfig:
    """The run of settings by dotted path, over those of a tree.

    Raises:
        ConfigError: a setting is wrong.
    """
    tree = {} if tree is None else tree
    for path, value in settings.items():
        *sections, name = path.split(".")
        section = tree
        for each in sections:
            section = section.setdefault(each, {})
        section[name] = value
    return config_from(tree, where="the arguments")
