"""What each layer already knows: the logit lens, and patching between two inputs."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from clearhead.errors import ConfigError, DataError
from clearhead.inspect.edit import changing
from clearhead.inspect.heads import Stack
from clearhead.inspect.own import inspected
from clearhead.inspect.record import Array, heat_table
from clearhead.inspect.replay import Replay
from clearhead.inspect.subject import Subject
from clearhead.inspect.view import second_view
from clearhead.model.transformer import EncoderClassifier, EncoderDecoder

Metric = Callable[[Tensor], Tensor]
"""From logits (rows, places, outputs) to one number for each row."""


@dataclass(frozen=True, eq=False)
class Lens:
    """The best outputs of each layer, if it were the last one (nostalgebraist 2020).

        found = clearhead.lens(translator, "A man sleeps.", "Ein Mann schläft.")
        found.best[2][0]  # the best outputs of layer 2 for the first word

    Attributes:
        reads: what each position reads; empty for a classifier.
        outputs: what each place predicts in fact; of a classifier what it gives.
        layers: the names of the rows: `embeddings`, then each layer.
        best: (layers, places, k) the best outputs, best first.
        probabilities: (layers, places, k) theirs.
        of_output: (layers, places) the probability of the output in fact.
    """

    reads: tuple[str, ...]
    outputs: tuple[str, ...]
    layers: tuple[str, ...]
    best: tuple[tuple[tuple[str, ...], ...], ...]
    probabilities: Array
    of_output: Array

    def _repr_html_(self) -> str:
        """A table: a row for each layer, in each cell the best output, darker if more probable."""
        names = [f"reads {r}, predicts {o}" for r, o in zip(self.reads, self.outputs, strict=False)]
        head = "".join(f"<th>{html.escape(name)}</th>" for name in names or self.outputs)
        rows = ""
        for layer, best, probabilities in zip(
            self.layers, self.best, self.probabilities, strict=True
        ):
            cells = "".join(
                f'<td style="background: rgba(44, 148, 155, {0.6 * p[0]:.2f})" '
                f'title="{p[0]:.3f}">{html.escape(b[0])}</td>'
                for b, p in zip(best, probabilities, strict=True)
            )
            rows += f"<tr><th>{html.escape(layer)}</th>{cells}</tr>"
        caption = "Logit lens: the best output of each layer; darker is more probable"
        return f"<table><caption>{caption}</caption><tr><td></td>{head}</tr>{rows}</table>"


def lens(model: Any, source: Any, target: Any = None, top: int = 5, tokenizer: Any = None) -> Lens:
    """The outputs of each layer if it were the last one: its values, normalised and projected.

        found = clearhead.lens(translator, "A man sleeps.", "Ein Mann schläft.")
        found.best[2][0]  # the best outputs of layer 2 for the first word

    With x the output of a layer, norm the last norm of the stack and W the output layer:

        logits = W · norm(x)

    Args:
        model: a translator, a classifier, or a model of `clearhead.nn`.
        source: a text, features or ids, as in `record`.
        target: for a translator its translation.
        top: number of outputs for each place.
        tokenizer: of a model of `clearhead.nn`, as in `record`.

    Raises:
        ConfigError: as in `record`.
        DataError: as in `record`.
    """
    return lens_of(Subject.of(inspected(model, tokenizer), source, target, "lens"), top)


def lens_of(subject: Subject, top: int = 5) -> Lens:
    """The lens of what `lens` is given."""
    seen, view = subject.record, second_view(subject.model)
    layers = seen.decoder or seen.encoder
    values = np.stack([layers[0].input, *(each.output for each in layers)])
    with torch.no_grad():
        x = torch.as_tensor(values).to(view.output.weight)
        if isinstance(view, EncoderDecoder):
            logits = view.output(view.decoder.norm(x))[:, : subject.places]
        else:
            logits = _classified(view, view.encoder.norm(x), seen.input)[:, None]
        found = subject.replay.scores(logits).exp()
        ids = torch.as_tensor(subject.replay.outcome, device=found.device)
        found = found.expand(-1, len(ids), -1)
        of_output = found.gather(-1, ids.expand(len(found), -1, -1))[..., 0]
        if subject.multi_label:  # a column is of one label: the label itself, or its absence
            labels, top = found.size(-1) // 2, min(top, 2)
            every = torch.arange(2 * labels, device=found.device)
            found = found * (every % labels == ids % labels)
        best = found.topk(min(top, found.size(-1)), dim=-1)
    return Lens(
        reads=seen.target[: subject.places],
        outputs=subject.outputs,
        layers=_names(len(layers)),
        best=tuple(
            tuple(tuple(subject.names_of(place)) for place in layer)
            for layer in best.indices.tolist()
        ),
        probabilities=best.values.cpu().numpy(),
        of_output=of_output.cpu().numpy(),
    )


@dataclass(frozen=True, eq=False)
class PatchMap:
    """What a run becomes with single values of another run (Meng et al. 2022, causal tracing).

        pair = "A man sleeps.", "A dog sleeps."
        found = clearhead.patch_map(translator, *pair, target="Ein Mann schläft.")
        found.values - found.unpatched  # what each single value changes

    Attributes:
        values: (layers, positions) the metric with the output of a layer at a position replaced.
        unpatched: the metric of the run without a patch.
        other: the metric of the run that the values come from.
        layers: the names of the rows: `embeddings`, then each layer.
        positions: what each position reads.
    """

    values: Array
    unpatched: float
    other: float
    layers: tuple[str, ...]
    positions: tuple[str, ...]

    def _repr_html_(self) -> str:
        """A table of the change by each patch."""
        caption = (
            f"Change of the metric by a patch; without one it is {self.unpatched:.2f}, in the "
            f"other run {self.other:.2f}"
        )
        return heat_table(caption, self.values - self.unpatched, self.layers, self.positions)


def patch_map(
    model: Any,
    source: Any,
    other: Any,
    target: Any = None,
    stack: Stack = "encoder",
    metric: Metric | None = None,
    tokenizer: Any = None,
) -> PatchMap:
    """Run an input with single values of another input's run: where is the difference decided?

        pair = "A man sleeps.", "A dog sleeps."
        found = clearhead.patch_map(translator, *pair, target="Ein Mann schläft.")
        found.values - found.unpatched  # (layers, positions)

    For each layer (the embeddings included) and each position, the output of the layer at the
    position is that of the other run. Everything after it is computed anew.

    Args:
        model: a translator, a classifier, or a model of `clearhead.nn`.
        source: the input that is run.
        other: the input whose values are used. For the encoder it has as many positions.
        target: for a translator the target that both runs read.
        stack: the stack whose values are replaced.
        metric: from logits (rows, places, outputs), a tensor, to a number for each row (rows,); by
            default the summed log-probability of the target, or of the label of `source`.
        tokenizer: of a model of `clearhead.nn`, as in `record`.

    Raises:
        ConfigError: as in `record`; or there is no such stack.
        DataError: as in `record`; or the inputs differ in their number of positions.
    """
    if stack not in ("encoder", "decoder"):
        raise ConfigError(f"there is no stack {stack!r}", todo="choose encoder or decoder")
    model = inspected(model, tokenizer)
    subject, donor = (Subject.of(model, each, target, "patch_map") for each in (source, other))
    records = subject.record, donor.record
    layers, theirs = (getattr(each, stack) for each in records)
    if not layers or len(layers[0].input) != len(theirs[0].input):
        lengths = " and ".join(str(len(x[0].input)) if x else "no" for x in (layers, theirs))
        raise DataError(
            "the two inputs cannot be compared position by position",
            where="patch_map",
            why=f"they have {lengths} positions in the {stack}",
            todo="give inputs with as many tokens, or another stack",
        )
    metric = metric or subject.replay.summed
    unpatched, clean = (float(metric(each.replay.logits(1))) for each in (subject, donor))
    values = patched(subject.replay, theirs, stack, metric)
    names = records[0].source if stack == "encoder" else records[0].target
    return PatchMap(values, unpatched, clean, _names(len(layers)), names)


@torch.no_grad()
def patched(replay: Replay, theirs: Sequence[Any], stack: Stack, metric: Metric) -> Array:
    """(layers, positions) the metric of a replay with single values of the layers of a record."""
    modules = list(replay.view.get_submodule(f"{stack}.layers").children())
    rows = []
    for number, value in enumerate([theirs[0].input, *(each.output for each in theirs)]):
        found = []
        for part in replay.batches(range(len(value))):
            change = _diagonal(value, part)
            undo = changing(modules[max(0, number - 1)], change, is_input=number == 0)
            found.append(metric(replay.logits(len(part))).double().cpu().numpy())
            undo()
        rows.append(np.concatenate(found))
    return np.stack(rows)


def _diagonal(value: Array, positions: Sequence[int]) -> Callable[[Tensor], Tensor]:
    """In each row of a batch, replaces the vector at its position."""

    def replaced(x: Tensor) -> Tensor:
        x, at = x.clone(), [*positions]
        x[range(len(at)), at] = torch.as_tensor(value[at]).to(x)
        return x

    return replaced


def _classified(view: EncoderClassifier, memory: Tensor, row: Array) -> Tensor:
    """The logits of a classifier from outputs of its encoder (rows, length, d_model) for a row."""
    x = torch.as_tensor(row, device=memory.device).expand(len(memory), *row.shape)
    return view.logits(x, view.state(memory, view.input.mask(x)))


def _names(layers: int) -> tuple[str, ...]:
    return ("embeddings", *(f"layer {number}" for number in range(1, layers + 1)))
