"""A smaller model without the heads that matter least (Michel et al. 2019, section 4)."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from clearhead.data.inputs import read_inputs
from clearhead.data.labels import Labels
from clearhead.decoding.torch_engine import trained_classifier, trained_translator
from clearhead.errors import ConfigError
from clearhead.folder.files import json_bytes
from clearhead.folder.model_folder import (
    PREPARED,
    PROVENANCE,
    SCORES,
    WEIGHTS,
    ModelFolder,
    check_is_new,
    new_folder,
    open_folder,
    read_temperature,
    read_thresholds,
    replace_files,
    write_folder,
    written,
)
from clearhead.folder.tensors import parameters_of, save_tensors
from clearhead.inspect.study import read_study
from clearhead.inspect.view import attentions_of, second_view
from clearhead.model.attention import MultiHeadAttention


def prune(folder: str | Path, heads: int, output: str | Path) -> Path:
    """Write a model folder in which each attention keeps its most important heads.

        clearhead.prune("runs/x", 2, "runs/y")

    How important a head is, `clearhead study` has measured: by how much the loss rises without it.
    Each attention keeps as many heads, so that the model stays one that can be trained on and
    exported in every format. Widths between layers and of a head stay.

    Args:
        folder: the model folder, which has been studied.
        heads: number of heads that each attention keeps.
        output: the folder to write, which must not exist.

    Returns:
        The output.

    Raises:
        ConfigError: there are not as many heads, or no study.
        ModelFolderError: the model folder is missing or damaged, or the output exists or cannot be
            written.
    """
    found, output = open_folder(folder), Path(os.path.expanduser(output))
    check_is_new(output)
    config = found.config.model
    if not 1 <= heads < config.n_heads:
        what = f"heads = {heads} is not between 1 and {config.n_heads - 1}"
        why = f"each attention of the model has {config.n_heads}"
        raise ConfigError(what, where="prune", why=why)
    study = read_study(found)
    if study is None:
        what, todo = "the importance of the heads is not known", f"clearhead study {found.path}"
        raise ConfigError(what, where=found.path, todo=f"measure it first: {todo}")
    rises = {row["head"]: row["loss"][0] for row in study["importance"]}
    device = torch.device("cpu")
    if found.config.task == "translation":
        model: nn.Module = trained_translator(found, device)
    else:
        model = trained_classifier(found, device, read_inputs(found).width, len(Labels.of(found)))
    view = second_view(model)
    for name, attention in attentions_of(view).items():
        order = sorted(range(config.n_heads), key=lambda i: -rises[f"{name}.{i + 1}"])
        _keep(attention, sorted(order[:heads]))
    smaller = replace(config, n_heads=heads, d_k=config.key_width, d_v=config.value_width)
    run = replace(found.config, folder=str(output), model=smaller)
    with new_folder(output) as unfinished:
        _write(unfinished, found, run, view)
    return output


@torch.no_grad()
def _keep(attention: MultiHeadAttention, heads: list[int]) -> None:
    """Leave an attention of a view only these heads, by their numbers from 0."""

    def kept(part: Tensor) -> Tensor:
        return part.unflatten(0, (attention.n_heads, -1))[heads].flatten(0, 1)

    packed, output = attention.packed, attention.output
    for name in ("weight", "bias"):
        whole = getattr(packed, name)
        if whole is not None:
            parts = map(kept, whole.split(attention.widths))
            setattr(packed, name, nn.Parameter(torch.cat(list(parts))))
    output.weight = nn.Parameter(kept(output.weight.T).T.contiguous())
    attention.widths = tuple(width // attention.n_heads * len(heads) for width in attention.widths)  # pyright: ignore
    attention.n_heads = len(heads)


def _write(path: Path, found: ModelFolder, run: Any, model: nn.Module) -> None:
    names = [name for name in PREPARED if name in found.entries or (found.path / name).is_file()]
    write_folder(path, run, {})
    known = found.tree(PROVENANCE) if (found.path / PROVENANCE).is_file() else {}
    facts = {**known, "pruned from": str(found.path)}
    files: dict[str, Any] = {name: written(found.read(name)) for name in names}
    files[WEIGHTS] = partial(save_tensors, tensors=parameters_of(model), facts={})
    files[PROVENANCE] = written(json_bytes(facts))
    if run.task == "classification":
        scores: dict[str, Any] = {"scores": {"temperature": read_temperature(found)}}
        if run.classifier.multi_label:
            scores["thresholds"] = read_thresholds(found, len(Labels.of(found)))
        files[SCORES] = written(json_bytes(scores))
    replace_files(path, files)
