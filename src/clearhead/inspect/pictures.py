"""Pictures of a model, of an input and of a run, as matplotlib figures, and their names.

Layers and heads count from 0, or from the end if they are negative.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from clearhead.errors import ConfigError, DataError, nearest, reason, warn
from clearhead.folder.model_folder import ModelFolder
from clearhead.inspect.alignment import Aligner, kept_aligner, links, plain, scores, word_matrix
from clearhead.inspect.attention_watch import watched
from clearhead.inspect.drawing import (
    AMOUNT,
    CHANGE,
    FAINT,
    INK,
    LARGEST,
    LINES,
    NAME_SIZE,
    POINTS,
    SIDE_SIZE,
    Draw,
    Names,
    Panel,
    Scale,
    blank,
    check_formats,
    finish,
    fitting_cells,
    fixed_settings,
    heatmaps,
    label_text,
    write_figures,
)
from clearhead.inspect.explanation import TOO_LONG, is_short, untranslated
from clearhead.inspect.heads import KINDS, Attention, Head, Stack, listed
from clearhead.inspect.measures import MEASURES
from clearhead.inspect.own import inspected
from clearhead.inspect.record import FAINTEST, Array, Record
from clearhead.inspect.recording import has_target, record
from clearhead.inspect.replay import Effects, effects
from clearhead.inspect.study import read_study
from clearhead.inspect.subject import Subject
from clearhead.inspect.words import Word

OF_TRANSLATION = ("alignment", "word-effects", "head-effects", "cross-heads", "encoder-heads")
OF_CLASSIFICATION = ("word-effects", "head-effects", "encoder-heads")
"""The pictures to draw of an input if none is named."""

OF_RUN = ("learning-curves", "importance", "faithfulness", "training-strip")
"""The pictures that need no input."""

MOST_LABELS = 12
"""Labels of a classifier whose changes are shown, the most probable first."""


def figures(
    model: Any,
    source: Any,
    target: Any = None,
    folder: str | Path = "figures",
    only: str | Iterable[str] | None = None,
    formats: str | Iterable[str] = "png",
    tokenizer: Any = None,
) -> list[Path]:
    """Draw the pictures of an input and its output, as `clearhead figures` does.

        clearhead.figures(translator, "the cat is black", "el gato es negro", "pictures")

    Args:
        model: a translator, a classifier, or a model of `clearhead.nn`.
        source: a text, features or ids, as in `record`.
        target: for a translator its translation.
        folder: where the files are written; it is created if missing.
        only: names of pictures, as a list or separated by commas; by default the most useful.
        formats: `png`, `svg` or `pdf`, one or several.
        tokenizer: of a model of `clearhead.nn`, as in `record`.

    Returns:
        The files.

    Raises:
        ConfigError: there is no such picture or format; or as in `record`.
        DataError: as in `record`; or a file cannot be written.
    """
    formats = listed(formats)
    check_formats(formats)
    found = pictures_of_input(inspected(model, tokenizer), source, target)
    names = default_names(found, target is not None) if only is None else listed(only)
    return write_figures(chosen(names, found, {}), folder, formats)


def pictures_of_input(model: Any, source: Any, target: Any = None) -> dict[str, Draw]:
    """The pictures of an input and its output; an encoder without labels has those of a record."""
    if not has_target(model, target, "figures"):
        if not model.labels:
            return pictures_of_record(record(model, source))
        return pictures_of_subject(Subject.classification(model, source), model.labels)
    kept = None if model.folder is None else partial(kept_aligner, model.folder, model.model)
    subject = Subject.translation(model, source, target)
    return pictures_of_subject(subject, chosen_aligner=kept or (lambda: None))


def pictures_of_subject(
    subject: Subject,
    labels: Sequence[str] = (),
    chosen_aligner: Callable[[], Aligner | None] = lambda: None,
) -> dict[str, Draw]:
    """The pictures of an input and its output; a long one has none of effects.

    A classifier has the names of its labels. By default the mean of all cross-attentions aligns.
    """
    sources = _with_symbols(subject.source_pieces, subject.source_words)
    words = _with_symbols(subject.outputs, subject.output_words)
    # Of independent labels those that the classifier gives; of others the most probable ones.
    shown = subject.replay.outcome[:MOST_LABELS, 0]
    if labels and not subject.multi_label:
        shown = subject.replay.best(MOST_LABELS)[0][0]
    outputs = [labels[int(i)] for i in shown] if labels else _texts(words)

    @cache
    def found() -> Effects:
        choices = np.tile(shown, (subject.places, 1)) if labels else None
        return effects(subject.replay, [word.positions for word in sources], choices=choices)

    def by_output(values: Array) -> Array:
        """(…, places, k) -> (…, outputs): the log-probability of a word is that of its pieces."""
        if labels:
            return values[:, 0]
        return np.stack([values[:, list(w.positions), 0].sum(axis=1) for w in words], axis=1)

    def word_effects() -> Figure:
        unit = "frame" if subject.record.unit == "frame" else "word"
        return word_effects_figure(by_output(found().by_source).T, outputs, _texts(sources), unit)

    def head_effects() -> Figure:
        return head_effects_figure(found().heads, by_output(found().by_head), outputs)

    def alignment() -> Figure:
        aligner = chosen_aligner()
        name, shift = (aligner.measure, aligner.shift) if aligner else ("all_layers", 0)
        rule = aligner.rule if aligner else "target"
        how = MEASURES[name].title.lower() if name in MEASURES else name
        how += f", where the decoder {'reads' if shift else 'predicts'} the target word"
        rows = scores(subject, name)
        # With a shift the last output is read by a row that is not there if nothing follows it.
        rows = np.concatenate([rows, rows[-1:]])
        # Symbols, which attract attention, are aligned only if there is nothing else.
        first, second = subject.source_words or sources, subject.output_words or words
        matrix = word_matrix(rows, shift, first, second)
        none = untranslated(subject, found().by_source) if is_short(subject) else []
        dropped = [sources[i] for i in none]
        linked = [link for link in links(matrix, rule) if first[link.source] not in dropped]
        sides = _texts(first), _texts(second)
        return alignment_figure(matrix, plain(linked), *sides, how, _texts(dropped))

    own: dict[str, Draw] = {} if labels else {"alignment": alignment}
    if is_short(subject):
        own |= {"word-effects": word_effects, "head-effects": head_effects}
    else:
        warn(f"no pictures of effects: source and target are too long, since {TOO_LONG}")
    return own | pictures_of_record(subject.recorded(frozenset({"hidden_units"})))


def pictures_of_record(record: Record) -> dict[str, Draw]:
    """All heads of each kind of attention, the steps of each layer, and each head."""
    stacks: Sequence[Stack] = ("encoder", "decoder") if record.decoder else ("encoder",)
    kinds: Sequence[Attention] = tuple(KINDS) if record.decoder else ("encoder",)
    found: dict[str, Draw] = {
        f"{kind}-heads": partial(heads_figure, record, kind) for kind in kinds
    }
    for stack in stacks:
        for layer in range(len(_layers(record, stack))):
            found[f"{stack}.{layer + 1}"] = partial(layer_figure, record, layer, stack)
    for kind in kinds:
        _, stack, last, _ = KINDS[kind]
        for layer in range(len(_layers(record, stack))):
            place = f"{stack}.{layer + 1}.{last}"
            draw = found[place] = partial(attention_figure, record, kind, layer)
            for head in range(len(_layer_weights(record, kind, layer)[0])):
                found[f"{place}.{head + 1}"] = partial(draw, head)
    return found


def pictures_of_run(folder: ModelFolder) -> tuple[dict[str, Draw], dict[str, str]]:
    """The pictures that need no input, and for each one that lacks data what to do."""
    found: dict[str, Draw] = {}
    missing: dict[str, str] = {}
    log = folder.path / "training" / "log.jsonl"
    if log.is_file():
        found["learning-curves"] = lambda: learning_figure(read_log(log))
    else:
        missing["learning-curves"] = f"the run has no log: there is no {log}"
    for number, files in watched(folder.path).items():
        name = "training-strip" if number == 1 else f"training-strip.{number}"
        found[name] = partial(strip_figure, files)
    if "training-strip" not in found:
        todo = "keep attention during training: --set training.watch_attention=1"
        missing["training-strip"] = todo
    study = read_study(folder)
    if study is None:
        todo = f"measure it first: clearhead study {folder.path}"
        missing |= {"importance": todo, "faithfulness": todo}
    else:
        by = study["ablate_by"]
        found["importance"] = partial(importance_figure, study["importance"], by)
        found["faithfulness"] = partial(faithfulness_figure, study["belief"])
    return found, missing


def needs_input(name: str) -> bool:
    """Whether a picture shows an input. `training-strip.2` shows the second example of a run."""
    return name.partition(".")[0] not in OF_RUN


def chosen(
    names: Iterable[str], found: Mapping[str, Draw], missing: Mapping[str, str]
) -> list[tuple[str, Draw]]:
    """The pictures of these names."""
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
    """The most useful pictures of an input."""
    if is_translation:
        return [name for name in OF_TRANSLATION if name in found]
    last = [name for name in found if name.endswith(".self")][-1:]
    return [name for name in (*OF_CLASSIFICATION, *last) if name in found]


def _texts(words: Sequence[Word]) -> list[str]:
    return [word.text for word in words]


def _with_symbols(pieces: Sequence[str], words: Sequence[Word]) -> list[Word]:
    """The words of a sequence, and its symbols such as the end of the sentence, in their order."""
    inside = {position for word in words for position in word.positions}
    symbols = [Word(x, (i,)) for i, x in enumerate(pieces) if i not in inside]
    return sorted([*words, *symbols], key=lambda word: word.positions)


# --- Heat maps: attention, vectors, alignment, effects.

MANY = 20
"""With more positions the colour of a weight follows its square root."""

CLIPPED = 0.995
"""The share of the numbers of a layer that are within the scale of its colours."""

MOMENTS = 6
"""Validations of a strip, evenly chosen if there are more."""


def attention_figure(
    record: Record, attention: Attention = "encoder", layer: int = -1, head: int | None = None
) -> Figure:
    """The weights of one head, or their mean over all heads; queries down, keys across."""
    weights, place = _layer_weights(record, attention, layer)
    if head is None:
        values, which = weights.mean(axis=0), f"mean over its {_count(len(weights), 'head')}"
    else:
        number = _index(head, len(weights), "head")
        values, which = weights[number], f"head {number + 1} of {len(weights)}"
    (queries, rows), (keys, columns) = _sides(record, attention)
    down, across = Names(f"query: {queries}", rows), Names(f"key: {keys}", columns)
    cells = fitting_cells(values.shape, LARGEST, 0.75)
    panel = Panel("", values, down, across, cells, _ahead(attention, values))
    title = f"{KINDS[attention].title}, {place}, {which}"
    return heatmaps(title, [panel], _weight_scale(values), 1, _how_to_read(attention, keys))


def heads_figure(record: Record, attention: Attention = "encoder") -> Figure:
    """Every head of every layer on one page: layers down, heads across."""
    layers = [
        _layer_weights(record, attention, i)[0] for i in range(len(_layers(record, attention)))
    ]
    heads = max(map(len, layers))
    side = min(3.0, max(0.8, 12 / heads))
    panels = [
        _small_panel(
            f"head {head}" if layer == 1 else "", values, record, attention, f"layer {layer}", side
        )
        for layer, weights in enumerate(layers, start=1)
        for head, values in enumerate(weights, start=1)
    ]
    keys, _ = _sides(record, attention)[1]
    title = f"{KINDS[attention].title}: every head of every layer"
    note = _how_to_read(attention, keys)
    scale = _weight_scale(*(panel.values for panel in panels))
    return heatmaps(title, panels, scale, heads, note)


def strip_figure(files: Sequence[tuple[int, Path]]) -> Figure:
    """The attention of each head at steps of training, from the files of their records."""
    evenly = np.linspace(0, len(files) - 1, min(MOMENTS, len(files))).round().astype(int)
    moments = [(step, Record.load(path)) for step, path in (files[i] for i in evenly)]
    kind: Attention = "cross" if moments[0][1].decoder else "encoder"
    layers = range(len(_layers(moments[0][1], kind)))
    heads = [(i, j) for i in layers for j in range(len(_layer_weights(moments[0][1], kind, i)[0]))]
    side = max(0.8, min(2.4, 12 / len(moments), 20 / len(heads)))
    panels = [
        _small_panel(
            f"step {step:,}" if number == 0 else "",
            _layer_weights(record, kind, layer)[0][head].astype(float),
            record,
            kind,
            f"head {layer + 1}.{head + 1}",
            side,
        )
        for number, (layer, head) in enumerate(heads)
        for step, record in moments
    ]
    title = f"{KINDS[kind].title} over the course of training"
    keys, _ = _sides(moments[0][1], kind)[1]
    note = f"Head 2.1 is head 1 of layer 2. {_how_to_read(kind, keys)}"
    scale = Scale("attention weight", AMOUNT, 0.0, 1.0, max(panels[0].values.shape) > MANY)
    return heatmaps(title, panels, scale, len(moments), note)


def layer_figure(record: Record, layer: int = -1, stack: Stack = "encoder") -> Figure:
    """Inside a layer: its input and each step, with hidden units if the record has them."""
    layers = _layers(record, stack)
    number = _index(layer, len(layers), f"{stack} layer")
    vectors = {name: x for name, x in vars(layers[number]).items() if x.ndim == 2}
    steps = [(name.replace("_", " "), x) for name, x in vectors.items()]
    hidden = record.details.get(f"{stack}.{number + 1}.feed_forward.hidden_units")
    if hidden is not None:
        steps.insert(-2, ("hidden units", hidden))
    limits = [_limit(x) for _, x in steps]
    parts = [
        (f"{i}. {title}, ±{limit:.2g}", x)
        for i, ((title, x), limit) in enumerate(zip(steps, limits, strict=True), start=1)
    ]
    unit, names = _sides(record, stack)[0]
    height = min(0.2, max(0.11, 6 / len(names)))
    panels = [
        Panel(title, x, Names(unit, names), Names("", ()), (2.6 / x.shape[1], height), limit=limit)
        for (title, x), limit in zip(parts, limits, strict=True)
    ]
    return heatmaps(
        f"Inside layer {number + 1} of {len(layers)} of the {stack}, step by step",
        panels,
        Scale("share of the panel's limit", CHANGE, -1.0, 1.0),
        4 if len(parts) > 6 else 3,
        f"Rows are positions, columns are the {_count(steps[0][1].shape[1], 'dimension')} of their "
        "vectors or the hidden units. Each panel has its own scale, up to the number in its title.",
    )


def alignment_figure(
    matrix: Array,
    links: Iterable[tuple[int, int]],
    source: Sequence[str],
    target: Sequence[str],
    how: str,
    dropped: Sequence[str] = (),
) -> Figure:
    """The shares of source words (target words, source words), with a frame around each link."""
    positive = matrix.clip(min=0)
    shares = positive / np.maximum(positive.sum(axis=1, keepdims=True), np.finfo(float).tiny)
    down, across = Names("target word", target), Names("source word", source)
    marked = [(target, source) for source, target in links]
    panel = Panel("", shares, down, across, fitting_cells(shares.shape), marked=marked)
    note = f"By {how}. Each row sums to 1; a frame is a link between two words."
    if dropped:
        note += f" Perhaps not translated: {', '.join(map(label_text, dropped))}."
    scale = Scale("share of the target word", AMOUNT, 0.0, 1.0, max(shares.shape) > MANY)
    return heatmaps("Alignment of source and target words", [panel], scale, 1, note)


def head_effects_figure(heads: Sequence[Head], effects: Array, outputs: Sequence[str]) -> Figure:
    """What each head did for each output word or label, (heads, outputs)."""
    kinds = {
        kind: rows
        for kind in KINDS.values()
        if (rows := [row for row, head in enumerate(heads) if kind.has(str(head))])
    }
    beside = len(outputs) <= 12
    width = 4.2 if beside else LARGEST
    largest = max(map(len, kinds.values()))
    cells = min(0.42, width / len(outputs)), min(0.3, max(0.12, 3 / largest))
    panels = [
        Panel(
            kind.title,
            effects[rows],
            Names("layer.head", [_short(heads[row]) for row in rows]),
            Names("", outputs),
            cells,
        )
        for kind, rows in kinds.items()
    ]
    note = f"How much the log-probability of an output falls if a head is switched off. {HELPS}"
    scale, columns = _effect_scale(effects), len(panels) if beside else 1
    return heatmaps("What each head did", panels, scale, columns, note)


def word_effects_figure(
    effects: Array, outputs: Sequence[str], source: Sequence[str], unit: str = "word"
) -> Figure:
    """What each source word or frame did for each output word or label, (outputs, source)."""
    down, across = Names("output", outputs), Names(f"source {unit}", source)
    panel = Panel("", effects, down, across, fitting_cells(effects.shape))
    note = f"How much the log-probability of an output falls if a source {unit} is removed. {HELPS}"
    return heatmaps(f"What each source {unit} did", [panel], _effect_scale(effects), 1, note)


HELPS = (
    "Blue-green: it falls, so the part helps. Orange: it rises, so the part hinders. Effects do "
    "not add up: each of two parts that do the same can be missing without harm."
)


def _short(head: Head) -> str:
    return f"{head.attention.split('.')[1]}.{head.number}"


def _layers(record: Record, stack: str) -> Sequence[Any]:
    layers = record.encoder if stack == "encoder" else record.decoder
    if not layers:
        raise DataError("the record of a classifier has no decoder")
    return layers


def _layer_weights(record: Record, attention: Attention, layer: int) -> tuple[Array, str]:
    """The weights (heads, queries, keys) of a layer, and its place."""
    layers = _layers(record, attention)
    number = _index(layer, len(layers), "layer")
    weights = getattr(layers[number], KINDS[attention].field)
    return weights, f"layer {number + 1} of {len(layers)}"


def _index(number: int, count: int, what: str) -> int:
    if not -count <= number < count:
        raise DataError(f"there is no {what} {number}", why=f"there are {count}, counted from 0")
    return number % count


Side = tuple[str, Sequence[str]]
"""What positions are, and their names."""


def _sides(record: Record, attention: Attention) -> tuple[Side, Side]:
    """The queries and the keys of an attention."""
    source, read = (record.source_position, record.source), ("token that was read", record.target)
    rows = [" → ".join(label_text(part, 10) for part in row.split(" → ")) for row in record.rows]
    return (
        source if attention == "encoder" else ("reads → predicts", rows),
        read if attention == "decoder" else source,
    )


def _how_to_read(attention: Attention, keys: str) -> str:
    """What rows, columns and hatched cells are."""
    row = "A row is a query"
    if attention != "encoder":
        row += ": the decoder reads the token before the arrow and predicts the one after it"
    masked = " Hatched: masked, since these tokens come later." if attention == "decoder" else ""
    return f"{row}; a column is a key ({keys}).{masked}"


def _small_panel(
    title: str, values: Array, record: Record, attention: Attention, left: str, side: float
) -> Panel:
    """Weights (queries, keys), at most `side` inches wide and high, with a text at the left."""
    (_, rows), (_, columns) = _sides(record, attention)
    cells = min(0.3, side / len(columns)), min(0.3, side / len(rows))
    down, across = Names(left, rows), Names("", columns)
    return Panel(title, values, down, across, cells, _ahead(attention, values))


def _ahead(attention: Attention, values: Array) -> Array | None:
    """Later positions are masked in the decoder, which is not the same as a weight of zero."""
    return np.triu(np.ones_like(values, dtype=bool), k=1) if attention == "decoder" else None


def _weight_scale(*values: Array) -> Scale:
    """From 0 to the largest weight. Between many positions most weights are small."""
    largest = max(FAINTEST, *(float(x.max()) for x in values))
    return Scale("attention weight", AMOUNT, 0.0, largest, max(values[0].shape) > MANY)


def _effect_scale(effects: Array) -> Scale:
    largest = max(FAINTEST, float(np.abs(effects).max()))
    return Scale("fall of the log-probability without it", CHANGE, -largest, largest)


def _limit(x: Array) -> float:
    """The end of the scale of activations: a few larger ones would make all others pale."""
    return float(np.quantile(np.abs(x), CLIPPED)) or 1.0


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


# --- Charts: importance of heads, faithfulness of measures, learning curves.

MARKERS = "osD^vP*XhH"
"""Lines and groups differ by marker too, not by colour alone."""


def importance_figure(rows: Sequence[Mapping[str, Any]], ablate_by: str = "zero") -> Figure:
    """How much worse the model is without each head, the most important first."""
    names = [str(row["head"]) for row in rows]
    kinds = [kind for kind in KINDS.values() if any(map(kind.has, names))]
    columns: list[tuple[str, list[Sequence[float]]]] = [
        ("loss without it − with it", [row["loss"] for row in rows]),
        ("gradient estimate", [[row["gradient"]] for row in rows]),
    ]
    if all(row.get("chrf") for row in rows):
        columns.insert(1, ("chrF without it − with it", [row["chrf"] for row in rows]))
    pitch = 0.16 if len(rows) <= 60 else 0.13
    with fixed_settings():
        figure = blank()
        for number, (label, values) in enumerate(columns):
            axes = _rows(figure, 2.0 if number else 3.6, [] if number else names, len(rows), pitch)
            axes.axvline(0, color=FAINT, linewidth=0.8)
            for place, kind in enumerate(kinds):
                own = [i for i, name in enumerate(names) if kind.has(name)]
                style: dict[str, Any] = {"color": LINES[place], "marker": MARKERS[place]}
                _dots(axes, own, [values[i] for i in own], label=kind.title, **style)
            axes.set_xlabel(label, fontsize=SIDE_SIZE, loc="left")
        if len(kinds) > 1:
            figure.axes[0].legend(fontsize=NAME_SIZE, loc="lower right", framealpha=0.9)
        instead = "its mean output" if ablate_by == "mean" else "zero"
        note = (
            f"Mean over a sample, with its 95 % interval; {instead} replaces the output of the "
            "head. Above 0: the model needs it."
        )
        finish(figure, [figure.axes], "Importance of each head", note)
    return figure


def faithfulness_figure(belief: Mapping[str, Any]) -> Figure:
    """Which measure may be believed: the probability of the output as words are deleted."""
    rows = belief["rows"]
    styles = {
        row["measure"]: {
            "color": FAINT if row["measure"] == "random" else LINES[i % len(LINES)],
            "marker": MARKERS[i % len(MARKERS)],
        }
        for i, row in enumerate(rows)
    }
    pitch = max(0.28, 3.2 / len(rows))
    with fixed_settings():
        figure = blank()
        curves = figure.add_axes((0, 0, 4.2, pitch * len(rows)))
        for name, values in belief["curves"].items():
            strong = name in (*belief["believed"][:1], "random", "removal")
            line = {"linewidth": 2.0 if strong else 1.0, "markersize": 4}
            shares = [100 * share for share in belief["grid"]]
            curves.plot(shares, values, **styles[name], **line, zorder=3 if strong else 2)
        curves.set(xlim=(0, 100), ylim=(0, None))
        curves.grid(True)
        curves.tick_params(labelsize=NAME_SIZE, length=2)
        curves.set_xlabel(
            "deleted source words, in the order of the measure, %", fontsize=SIDE_SIZE
        )
        curves.set_ylabel("probability of the output", fontsize=SIDE_SIZE)
        titles = [row["title"] for row in rows]
        for key, names in (("comprehensiveness", titles), ("sufficiency", [])):
            axes = _rows(figure, 2.4, names, len(rows), pitch)
            for i, row in enumerate(rows):
                _dots(axes, [i], [row[key]], **styles[row["measure"]], size=5)
            good = "high" if key == "comprehensiveness" else "low"
            axes.set_xlabel(f"{key} ({good} is good)", fontsize=SIDE_SIZE, loc="left")
        title = "Which measure of attribution may be believed"
        finish(figure, [figure.axes], title, str(belief["text"]))
    return figure


def learning_figure(log: RunLog) -> Figure:
    """The loss, the score that selects the model, and the learning rate of a run by step."""
    if not log.loss:
        raise DataError("the log of the run has no steps yet")
    first, second = LINES[:2]
    score = log.scores.get(log.measure, []) if log.measure != "loss" else []
    heights = {"loss": 2.4} | ({log.measure: 1.7} if score else {}) | {"learning rate": 1.1}
    with fixed_settings():
        figure = blank()
        for label, height in heights.items():
            axes = figure.add_axes((0, 0, 6.5, height))
            axes.set_ylabel(label, fontsize=SIDE_SIZE)
            axes.grid(True)
            axes.tick_params(labelsize=NAME_SIZE, length=2, labelbottom=label == "learning rate")
        losses, *between, rates = figure.axes
        losses.plot(*zip(*log.loss, strict=True), color=first, linewidth=1.2, label="training")
        dots: dict[str, Any] = {"color": second, "marker": "o", "markersize": 3}
        if validation := log.scores.get("loss"):
            losses.plot(*zip(*validation, strict=True), **dots, label="validation")
            losses.legend(fontsize=NAME_SIZE, framealpha=0.9)
        for axes in between:
            axes.plot(*zip(*score, strict=True), **dots)
            best = [value for step, value in score if step == log.best_step]
            axes.plot([log.best_step] * len(best), best, "*", color=INK, markersize=10, zorder=4)
        rates.plot(*zip(*log.rate, strict=True), color=first, linewidth=1.2)
        last = max(step for step, _ in (*log.loss, *log.scores.get("loss", ())))
        for axes in figure.axes:
            axes.set_xlim(0, max(1, last) * 1.02)
        rates.set_xlabel("step", fontsize=SIDE_SIZE, loc="left")
        note = f"The star is the best {log.measure}, at step {log.best_step:,}." if score else ""
        finish(figure, [[axes] for axes in figure.axes], "Learning curves", note)
    return figure


@dataclass
class RunLog:
    """What the log of a run has about learning: lists of (step, value)."""

    loss: list[tuple[int, float]] = field(default_factory=list)
    rate: list[tuple[int, float]] = field(default_factory=list)
    scores: dict[str, list[tuple[int, float]]] = field(default_factory=dict)  # of validation data
    measure: str = "loss"  # the score that selects the model
    best_step: int = 0

    def forget_after(self, step: int) -> None:
        """Remove the steps that a run makes again."""
        for values in (self.loss, self.rate, *self.scores.values()):
            values[:] = [each for each in values if each[0] <= step]


def read_log(path: Path) -> RunLog:
    """Read `training/log.jsonl`; steps that a resumed run made again are counted once."""

    def add(values: list[tuple[int, float]], step: int, value: float | None) -> None:
        if value is not None:  # null in the log: the value was not finite
            values.append((int(step), float(value)))

    found = RunLog()
    try:
        # Not splitlines: a text in an event may have other line separators. A last line without a
        # line break is being written, or was when the run was killed.
        for line in path.read_text(encoding="utf-8").split("\n")[:-1]:
            event = json.loads(line)
            match event["event"]:
                case "RunStarted" | "WentBack":
                    found.forget_after(event["step"])
                case "Progress":
                    add(found.loss, event["step"], event["loss"])
                    add(found.rate, event["step"], event["learning_rate"])
                case "Validated" if event["weights"] == "current":
                    found.measure, found.best_step = event["measure"], event["best_step"]
                    for name, value in event["scores"].items():
                        add(found.scores.setdefault(name, []), event["step"], value)
    except OSError as error:
        raise DataError("the log cannot be read", where=path, why=reason(error)) from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError("the log is damaged", where=path, why=reason(error)) from None
    return found


def _rows(figure: Figure, width: float, names: Sequence[str], count: int, pitch: float) -> Axes:
    """Axes with a row for each name; the names of further axes beside it are left out."""
    axes = figure.add_axes((0, 0, width, pitch * count))
    size = min(NAME_SIZE, 0.8 * pitch * POINTS)
    axes.set_yticks(range(count), labels=names or [""] * count, fontsize=size)
    axes.set_ylim(count - 0.5, -0.5)
    axes.grid(True)
    axes.tick_params(length=0, axis="y")
    axes.tick_params(labelsize=7, length=2, axis="x")
    axes.ticklabel_format(axis="x", useOffset=False)
    axes.locator_params(axis="x", nbins=5)
    return axes


def _dots(
    axes: Axes,
    rows: Sequence[int],
    values: Sequence[Sequence[float]],
    size: float = 4,
    **style: Any,
) -> None:
    """A dot in each row, and a line from the low to the high end if there is an interval."""
    for row, (_, *interval) in zip(rows, values, strict=True):
        if interval:
            low, high = interval
            axes.hlines(row, low, high, color=style["color"], linewidth=1.4)
    means = [value[0] for value in values]
    axes.plot(means, rows, linestyle="none", markersize=size, **style)
