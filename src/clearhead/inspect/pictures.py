"""Which pictures there are of an input and of a run, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial

import numpy as np
from matplotlib.figure import Figure

from clearhead.errors import ConfigError, DataError, nearest, warn
from clearhead.folder.model_folder import ModelFolder
from clearhead.inspect.alignment import Aligner, links, plain, scores, word_matrix
from clearhead.inspect.attention_over_training import animation, strip_figure
from clearhead.inspect.attention_watch import watched
from clearhead.inspect.charts import (
    faithfulness_figure,
    importance_figure,
    learning_figure,
    read_log,
)
from clearhead.inspect.drawing import LIGHT, Draw, Theme
from clearhead.inspect.explanation import TOO_LONG, is_short
from clearhead.inspect.figures import (
    alignment_figure,
    figures_of,
    head_effects_figure,
    word_effects_figure,
)
from clearhead.inspect.measures import MEASURES
from clearhead.inspect.record import Record
from clearhead.inspect.recording import ClassifierLike
from clearhead.inspect.replay import Effects, effects
from clearhead.inspect.study import read_study
from clearhead.inspect.subject import Subject
from clearhead.inspect.words import Word

OF_TRANSLATION = ("alignment", "word-effects", "head-effects", "cross-heads", "encoder-heads")
OF_CLASSIFICATION = ("word-effects", "head-effects", "encoder-heads", "encoder-layers")
"""The pictures to draw of an input if none is named."""

OF_RUN = (
    *("learning-curves", "importance", "faithfulness"),
    *("training-strip", "training-animation"),
)
"""The pictures that need no input."""

MOST_LABELS = 12
"""Labels of a classifier whose changes are shown, the most probable first."""


def pictures_of_translation(
    subject: Subject, chosen_aligner: Callable[[], Aligner | None], theme: Theme = LIGHT
) -> dict[str, Draw]:
    """The pictures of a sentence and its translation.

    Args:
        subject: the sentence and its translation.
        chosen_aligner: gives how the model aligns; if None, by the mean of all cross-attentions.
        theme: the colours.
    """
    words = _with_symbols(subject.outputs, subject.output_words)
    sources = _with_symbols(subject.source_pieces, subject.source_words)

    @cache
    def found() -> Effects:
        return effects(subject.replay, [word.positions for word in sources])

    def by_output(values: np.ndarray) -> np.ndarray:
        """(…, places, 1) -> (…, outputs): the log-probability of a word is that of its pieces."""
        return np.stack([values[:, list(w.positions), 0].sum(axis=1) for w in words], axis=1)

    def alignment() -> Figure:
        aligner = chosen_aligner()
        name, shift = (aligner.measure, aligner.shift) if aligner else ("all_layers", 0)
        rule = aligner.rule if aligner else "target"
        how = MEASURES[name].title.lower() if name in MEASURES else name
        rows = scores(subject, name)
        # With a shift the last output is read by a row that is not there if nothing follows it.
        rows = np.concatenate([rows, rows[-1:]])
        # Symbols, which attract attention, are aligned only if there is nothing else.
        first, second = subject.source_words or sources, subject.output_words or words
        matrix = word_matrix(rows, shift, first, second)
        found = plain(links(matrix, rule))
        return alignment_figure(matrix, found, _texts(first), _texts(second), how, theme)

    own: dict[str, Draw] = {
        "alignment": alignment,
        "word-effects": lambda: word_effects_figure(
            by_output(found().by_source).T, _texts(words), _texts(sources), theme=theme
        ),
        "head-effects": lambda: head_effects_figure(
            found().heads, by_output(found().by_head), _texts(words), theme
        ),
    }
    return _affordable(subject, own) | _of_record(subject, theme)


def pictures_of_classification(
    classifier: ClassifierLike, subject: Subject, theme: Theme = LIGHT
) -> dict[str, Draw]:
    """The pictures of an input of a classifier.

    Args:
        classifier: of the input.
        subject: the input and its labels.
        theme: the colours.
    """
    # Of independent labels those that the classifier gives; of others the most probable ones.
    if subject.multi_label:
        shown = subject.replay.outcome[:MOST_LABELS, 0]
    else:
        shown = subject.replay.best(MOST_LABELS)[0][0]
    labels = [classifier.labels[i] for i in shown]
    choices = np.tile(shown, (subject.places, 1))
    sources = _with_symbols(subject.source_pieces, subject.source_words)
    unit = "frame" if subject.record.unit == "frame" else "word"

    @cache
    def found() -> Effects:
        return effects(subject.replay, [word.positions for word in sources], choices=choices)

    own: dict[str, Draw] = {
        "word-effects": lambda: word_effects_figure(
            found().by_source[:, 0].T, labels, _texts(sources), unit, theme
        ),
        "head-effects": lambda: head_effects_figure(
            found().heads, found().by_head[:, 0], labels, theme
        ),
    }
    return _affordable(subject, own) | _of_record(subject, theme)


def pictures_of_record(record: Record, theme: Theme = LIGHT) -> dict[str, Draw]:
    """The pictures of an encoder without labels."""
    return dict(figures_of(record, theme))


def _affordable(subject: Subject, found: dict[str, Draw]) -> dict[str, Draw]:
    """The pictures without those of effects if the input is too long for them.

    Warns:
        UserWarning: pictures are left out.
    """
    if is_short(subject):
        return found
    warn(f"no pictures of effects: source and target are too long, since {TOO_LONG}")
    return {name: draw for name, draw in found.items() if not name.endswith("-effects")}


def _of_record(subject: Subject, theme: Theme) -> dict[str, Draw]:
    return dict(figures_of(subject.recorded(frozenset({"hidden_units"})), theme))


def _texts(words: Sequence[Word]) -> list[str]:
    return [word.text for word in words]


def _with_symbols(pieces: Sequence[str], words: Sequence[Word]) -> list[Word]:
    """The words of a sequence, and its symbols such as the end of the sentence, in their order."""
    inside = {position for word in words for position in word.positions}
    symbols = [Word(x, (i,)) for i, x in enumerate(pieces) if i not in inside]
    return sorted([*words, *symbols], key=lambda word: word.positions)


def pictures_of_run(
    folder: ModelFolder, theme: Theme = LIGHT
) -> tuple[dict[str, Draw], dict[str, str]]:
    """The pictures that need no input, and for each one that lacks data what to do.

    Raises:
        ModelFolderError: the study is damaged.
    """
    found: dict[str, Draw] = {}
    missing: dict[str, str] = {}
    log = folder.path / "training" / "log.jsonl"
    if log.is_file():
        found["learning-curves"] = lambda: learning_figure(read_log(log), theme)
    else:
        missing["learning-curves"] = f"the run has no log: there is no {log}"
    kept = watched(folder.path)
    for name, draw in (("training-strip", strip_figure), ("training-animation", animation)):
        for number, files in kept.items():
            found[name if number == 1 else f"{name}.{number}"] = partial(draw, files, theme)
        if name not in found:
            missing[name] = "keep attention during training: --set training.watch_attention=1"
    study = read_study(folder)
    if study is None:
        todo = f"measure it first: clearhead study {folder.path}"
        missing |= {"importance": todo, "faithfulness": todo}
    else:
        by = study["ablate_by"]
        found["importance"] = partial(importance_figure, study["importance"], theme, by)
        found["faithfulness"] = partial(faithfulness_figure, study["belief"], theme)
    return found, missing


def needs_input(name: str) -> bool:
    """Whether a picture shows an input. `training-strip.2` shows the second example of a run."""
    return name.partition(".")[0] not in OF_RUN


def chosen(
    names: Iterable[str], found: Mapping[str, Draw], missing: Mapping[str, str]
) -> list[tuple[str, Draw]]:
    """The pictures of these names.

    Raises:
        ConfigError: there is no picture of a name.
        DataError: it needs something that the model folder does not have.
    """
    pictures = []
    for name in dict.fromkeys(names):
        if name in missing:
            raise DataError(f"there are no data for the picture {name}", todo=missing[name])
        if name not in found:
            close = nearest(name, found)
            known = [each for each in found if "." not in each]
            raise ConfigError(
                f"there is no picture {name!r} of this model",
                why=f"its pictures are {', '.join(known)}, and those of layers and heads",
                todo=f"did you mean {close}?" if close else None,
            )
        pictures.append((name, found[name]))
    return pictures


def default_names(found: Mapping[str, Draw], is_translation: bool) -> list[str]:
    """The most useful pictures of an input: five, or fewer if the model has no labels."""
    if is_translation:
        return [name for name in OF_TRANSLATION if name in found]
    last = [name for name in found if name.endswith(".self")][-1:]
    return [name for name in (*OF_CLASSIFICATION, *last) if name in found]
