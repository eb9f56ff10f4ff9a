"""Edit what a model computes, for a while: the experiments of interpretability.

Edits are in the modules of the model itself, as hooks and as changed inputs of attention, and are
removed at the end. Positions, units and places count from 0, as in the arrays of a record; layers
and heads count from 1, as in all names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from clearhead.decoding.torch_engine import TorchEngine
from clearhead.errors import ConfigError, DataError, nearest
from clearhead.inspect.heads import chosen_heads
from clearhead.inspect.record import Record
from clearhead.inspect.recording import is_translator
from clearhead.inspect.view import Edited, attentions_of, heads_of, layers_of
from clearhead.model.attention import Mask, MultiHeadAttention
from clearhead.model.layers import DecoderLayer, EncoderLayer
from clearhead.model.positions import Positions
from clearhead.model.transformer import EncoderClassifier, EncoderDecoder

Index = int | slice | Sequence[int] | None
"""One position, several, or all (None)."""


@contextmanager
def edit(subject: Any) -> Iterator[Edit]:
    """Edit what a model computes within a `with` block; after it the model is as before.

        with clearhead.edit(translator) as e:
            e.scale("decoder.3.cross.5", 0.0)
            translator.translate(["A man sleeps."])

    Within the block `translate`, `classify`, `evaluate`, `record`, `explain` and calls of the model
    all see the edits. A translator runs with PyTorch there, without a cache and thus slower.

    Args:
        subject: a translator, a classifier, or a model of `clearhead.nn`.

    Raises:
        ConfigError: it is none of these, or an ensemble.
    """
    own = isinstance(subject, EncoderDecoder | EncoderClassifier)
    translator = None if own or not is_translator(subject, "edit") else subject
    model: Any = subject if own else subject.model
    engine = None if translator is None else translator.engine
    made = Edit(model)
    try:
        if translator is not None and getattr(engine, "model", None) is None:
            translator.engine = TorchEngine(model)  # CTranslate2 has weights of its own
        yield made
    finally:
        if translator is not None:
            translator.engine = engine
        made.undo()
        made._edited_model = None


class Edit:
    """The edits of a model within `clearhead.edit`.

        with clearhead.edit(translator) as e:
            e.knockout("decoder.3.cross.5", query=0, key=1)

    Each edit adds to those before it. Positions count from the start of a sentence, from 0; those
    that a sentence does not have change nothing.
    """

    def __init__(self, model: nn.Module) -> None:
        self._edited_model: nn.Module | None = model
        self._undo: list[Callable[[], Any]] = []

    @property
    def _model(self) -> Any:
        if self._edited_model is None:
            raise ConfigError("the block of these edits has ended", todo="edit within a new one")
        return self._edited_model

    def scale(self, heads: str | Iterable[str], factor: float) -> None:
        """Multiply the output of heads; 0 switches them off.

        Args:
            heads: names such as `decoder.3.cross.5`; `decoder.3` stands for all heads below it.
            factor: the factor.

        Raises:
            ConfigError: there is no such head.
        """

        def scaled(off: list[int]) -> Any:
            def change(values: Tensor, mask: Mask | None, _: Tensor) -> tuple[Tensor, Mask | None]:
                factors = values.new_ones(values.size(1), 1, 1)
                factors[off] = factor
                return values * factors, mask

            return change

        self._of_heads(heads, scaled)

    def knockout(self, heads: str | Iterable[str], query: Index = None, key: Index = None) -> None:
        """Forbid heads to attend from some positions to others; the other weights sum to 1.

        Where a position may attend to nothing, the head gives zero.

        Args:
            heads: names, as in `scale`.
            query: the positions that attend; None: all.
            key: the positions that they may no longer attend to; None: all.

        Raises:
            ConfigError: there is no such head, or a position does not count from the start.
        """
        _check_positions(query)
        _check_positions(key)

        def knocked_out(off: list[int]) -> Any:
            def change(
                values: Tensor, mask: Mask | None, queries: Tensor
            ) -> tuple[Tensor, Mask | None]:
                shape = len(values), values.size(1), queries.size(2), values.size(2)
                open_ = torch.ones(shape, dtype=torch.bool, device=values.device)
                rows, columns = _inside(query, shape[2]), _inside(key, shape[3])
                for head in off:
                    open_[:, head, rows[:, None], columns] = False
                return values, open_ if mask is None else mask & open_

            return change

        self._of_heads(heads, knocked_out)

    def patch(self, name: str, position: Index, value: Record | Any) -> None:
        """Replace what a part of the model computes at some positions.

        Args:
            name: a layer and a field of its record, e.g. `encoder.2.output`,
                `decoder.1.cross_attention_output`; or `memory`, the output of the encoder.
            position: the positions; None: all.
            value: a record of another run, whose values are taken from the same positions; or an
                array (d_model,) or (length, d_model).

        Raises:
            ConfigError: there is no such part, or a position does not count from the start.
            DataError: at the next run, if the value has another width, or no such position.
        """
        _check_positions(position)
        module, is_input = self._site(name)
        found = torch.as_tensor(value_of(value, name) if isinstance(value, Record) else value)
        found = found.to(next(self._model.parameters()))

        def replaced(x: Tensor) -> Tensor:
            x, at = x.clone(), _inside(position, x.size(1))
            rows = found.expand(x.size(1), -1) if found.dim() == 1 else found
            if rows.dim() != 2 or rows.size(1) != x.size(2) or at.max(initial=-1) >= len(rows):
                raise DataError(
                    f"the value does not fit {name}",
                    where="patch",
                    why=f"its shape is {tuple(found.shape)}, that of {name} {tuple(x.shape[1:])}",
                )
            x[:, at] = rows[at]
            return x

        self._undo.append(changing(module, replaced, is_input))

    def neuron(
        self, name: str, unit: int | Sequence[int], value: float = 0.0, position: Index = None
    ) -> None:
        """Set hidden units of a feed-forward network to a value, after the activation.

        Args:
            name: the network, e.g. `decoder.2.feed_forward`.
            unit: one unit, or several.
            value: the value.
            position: the positions; None: all.

        Raises:
            ConfigError: there is no such network or unit, or a position does not count from the
                start.
        """
        _check_positions(position)
        stack, number, field = (*name.split("."), "", "")[:3]
        layer = self._layer(name, stack, number)
        units = [unit] if isinstance(unit, int) else [*unit]
        count = layer.feed_forward.hidden.out_features
        if field != "feed_forward" or not all(0 <= each < count for each in units):
            raise ConfigError(
                f"{name!r} has no hidden units {units}",
                where="neuron",
                why=f"names are like decoder.2.feed_forward, units from 0 to {count - 1}",
            )

        def set_units(hidden: Tensor) -> Tensor:
            hidden, at = hidden.clone(), _inside(position, hidden.size(1))
            hidden[:, at[:, None], units] = value
            return hidden

        self._undo.append(changing(layer.feed_forward.activation, set_units))

    def without_positions(self, side: str = "source") -> None:
        """Add no positions, so that attention sees a set: of the `source` or of the `target`.

        Raises:
            ConfigError: there is no such side.
        """
        sides = {"source": ("source_input", "input"), "target": ("target_input",)}
        parts = [getattr(self._model, n) for n in sides.get(side, ()) if hasattr(self._model, n)]
        found = [m for part in parts for m in part.modules() if isinstance(m, Positions)]
        if not found:
            what = f"the model has no positions of its {side!r}"
            raise ConfigError(what, where="without_positions", todo="choose source or target")

        def hook(module: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> Tensor:
            return args[0]

        self._undo.extend(module.register_forward_hook(hook).remove for module in found)

    def hide(self, position: Index) -> None:
        """Hide positions of the source as if they were padding: no part of the model reads them.

        Args:
            position: the positions; None: all.

        Raises:
            ConfigError: a position does not count from the start.
        """
        _check_positions(position)
        part = getattr(self._model, "source_input", None) or self._model.input
        before = part.mask

        def mask(x: Tensor) -> Tensor:
            found = before(x).clone()
            found[..., _inside(position, found.size(-1))] = False
            return found

        around = vars(part).get("mask")  # of an edit before
        part.mask = mask
        self._undo.append(partial(_restore, part, "mask", around))

    def undo(self) -> None:
        """Remove all edits."""
        while self._undo:
            self._undo.pop()()

    def _of_heads(self, names: str | Iterable[str], change: Callable[[list[int]], Any]) -> None:
        numbers: dict[str, list[int]] = {}
        for head in chosen_heads(names, heads_of(self._model)):
            numbers.setdefault(head.attention, []).append(head.number - 1)
        found = attentions_of(self._model)
        for name, off in numbers.items():
            edits, own = self._edited(found[name]).edits, change(off)
            edits.append(own)
            # The attention may be edited in a block around this one, which goes on.
            self._undo.append(partial(edits.remove, own))

    def _edited(self, attention: MultiHeadAttention) -> Edited:
        if not isinstance(attention.attend, Edited):
            before, attention.attend = attention.attend, Edited(attention.attend)
            self._undo.append(lambda: setattr(attention, "attend", before))
        return attention.attend

    def _layer(self, name: str, stack: str, number: str) -> EncoderLayer | DecoderLayer:
        kind = {"encoder": EncoderLayer, "decoder": DecoderLayer}.get(stack)
        layers = layers_of(self._model, kind) if kind else []
        if not (number.isdecimal() and 1 <= int(number) <= len(layers)):
            raise ConfigError(
                f"{name!r} is no part of a layer of this model",
                why="names begin with encoder or decoder and a layer, from 1",
            )
        return layers[int(number) - 1]

    def _site(self, name: str) -> tuple[nn.Module, bool]:
        """The module that computes a value, or else the module whose input it is, and which."""
        if name == "memory":
            return self._model.get_submodule("encoder"), False
        stack, number, field = (*name.split("."), "", "")[:3]
        layer = self._layer(name, stack, number)
        sites: dict[str, tuple[nn.Module, bool]] = {
            "input": (layer, True),
            "feed_forward_output": (layer.feed_forward, False),
            "output": (layer, False),
        }
        kinds = ("attention",) if stack == "encoder" else ("self_attention", "cross_attention")
        for kind, residual in zip(kinds, layer.residuals, strict=False):
            module = layer.get_submodule(kind if stack == "decoder" else "self_attention")
            sites[f"{kind}_output"] = (module, False)
            sites[f"after_{kind}"] = (residual, False)
        if field not in sites:
            close = nearest(field, sites)
            raise ConfigError(
                f"{name!r} is no value of a layer",
                where="patch",
                why=f"there are {', '.join(sites)}",
                todo=f"did you mean {stack}.{number}.{close}?" if close else None,
            )
        return sites[field]


def _restore(module: nn.Module, name: str, before: Any) -> None:
    """Give a module the attribute that it had before, or else that of its class."""
    if before is None:
        delattr(module, name)
    else:
        setattr(module, name, before)


def changing(
    module: nn.Module, change: Callable[[Tensor], Tensor], is_input: bool = False
) -> Callable[[], None]:
    """Change the output of a module, or else its first input; returns what undoes it."""

    def before(_: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return change(args[0]), *args[1:]

    def after(_: nn.Module, args: tuple[Any, ...], output: Tensor) -> Tensor:
        return change(output)

    if is_input:
        return module.register_forward_pre_hook(before).remove
    return module.register_forward_hook(after).remove


def value_of(record: Record, name: str) -> Any:
    """The array of a record that `Edit.patch` calls by this name."""
    if name == "memory":
        return record.memory
    stack, number, field = name.split(".")
    return getattr(getattr(record, stack)[int(number) - 1], field)


def _inside(index: Index, length: int) -> Any:
    """(n,) the positions of an index that a sequence of this length has."""
    every = np.arange(length)
    if index is None or isinstance(index, slice):
        return every[index or slice(None)]
    return every[np.isin(every, index)]


def _check_positions(index: Index) -> None:
    """Raise a ConfigError if an index does not count from the start, which all rows have alike."""
    bounds = [index.start, index.stop] if isinstance(index, slice) else np.ravel(index or 0)
    given = [each for each in bounds if each is not None]
    if not all(isinstance(x, int | np.integer) and type(x) is not bool and x >= 0 for x in given):
        raise ConfigError(
            f"{index!r} are no positions",
            why="sentences of a batch have padding at their ends, so positions count from the "
            "start, from 0",
            todo="give a number, a list, a slice, or None for all",
        )
