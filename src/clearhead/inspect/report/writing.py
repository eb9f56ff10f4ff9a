"""Write a report: models with inputs to explain, as one HTML file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from clearhead.decoding.engine import Hypothesis
from clearhead.decoding.torch_engine import TorchEngine
from clearhead.device import explain_full_memory
from clearhead.errors import ConfigError, DataError, type_of
from clearhead.folder.files import write_bytes
from clearhead.inspect.recording import is_translator
from clearhead.inspect.report.contents import Contents, beam_tree
from clearhead.inspect.report.page import page
from clearhead.inspect.study import read_study
from clearhead.inspect.subject import Subject
from clearhead.inspect.view import replacements
from clearhead.settings import SearchConfig
from clearhead.tokenizer.normal_form import is_blank


def write_report(
    path: str | Path,
    models: Mapping[str, Any],
    inputs: Sequence[Any],
    *,
    targets: Sequence[str | None] | None = None,
    names: Sequence[str] | None = None,
    search: Mapping[str, SearchConfig] | None = None,
    ablate_by: str = "zero",
    title: str = "Inside the model",
    command: str | None = None,
    progress: Callable[[int], None] | None = None,
) -> Path:
    """Write a report of models and inputs as one HTML file, which opens without a network.

        clearhead.write_report("report.html", {"small": translator}, ["A man rides a bicycle."])

    Args:
        path: of the file.
        models: translators or classifiers by name; each explains all inputs.
        inputs: texts, or for classifiers of features arrays (length, width).
        targets: for translators a text for each input, or None for its translation.
        names: a text for each input that is no text.
        search: for translators by name the settings of the search; the others use a beam search
            with their own settings. A beam search is also drawn as a tree.
        ablate_by: what replaces the output of a head that is switched off to see its effect:
            `zero`, or its `mean` over the sample of `clearhead study`.
        title: of the page.
        command: the command that wrote it.
        progress: called with the number of explanations that are done.

    Returns:
        The path.

    Raises:
        DataError: an input is empty or too long, or the file cannot be written.
        ConfigError: there is no model or no input; models read different inputs; the targets or
            names are not one for each input; or targets are given for a classifier.
        ModelFolderError: the means of the heads are needed and are not there.
    """
    _check(models, inputs, targets, names)
    contents = Contents(title, command)
    done = 0
    for name, model in models.items():
        # The study is about the complete model.
        study = None if model.ablated else read_study(model.folder)
        means = replacements(ablate_by, model.model, model.folder)
        number = contents.add_model(
            f"{name} {model.ablated}".rstrip(), model.config, model.model, study, means
        )
        for sentence, content in enumerate(inputs):
            target = None if targets is None else targets[sentence]
            text = content if names is None else names[sentence]
            with explain_full_memory("use a shorter input, or the CPU: --device cpu", "inspect"):
                try:
                    if model.config.task == "translation":
                        own = replace(model.search, method="beam", n_best=1)
                        how = search[name] if search and name in search else own
                        _add_translation(contents, number, sentence, model, content, target, how)
                    else:
                        _add_classification(contents, number, sentence, model, content, str(text))
                except DataError as error:
                    error.where = error.where or f"input {sentence + 1}"
                    raise
            done += 1
            if progress is not None:
                progress(done)
        contents.add_patches()
    contents.arrays.close()
    html = page(contents.to_dict(), contents.arrays.blobs)
    write_bytes(Path(path), html.encode(), DataError)
    return Path(path)


def _check(
    models: Mapping[str, Any],
    inputs: Sequence[Any],
    targets: Sequence[str | None] | None,
    names: Sequence[str] | None,
) -> None:
    if not isinstance(models, Mapping):
        raise _mistake("the models have no names", 'give a dict: {"my model": model}')
    if isinstance(inputs, str):
        raise _mistake("the inputs are a single text", "give a list: [text]")
    if not models or len(inputs) == 0:
        raise _mistake("a report needs a model and an input")
    for model in models.values():
        if isinstance(model, nn.Module):
            todo = "give what clearhead.load returns; look into a module with record and explain"
            raise _mistake(f"the model is {type_of(model)}, without data and a search", todo)
        is_translator(model, "write_report")  # or a classifier
    kinds = {(model.config.task, model.config.input) for model in models.values()}
    if len(kinds) > 1:
        raise _mistake("the models read different inputs", "write a report for each kind")
    if targets is not None and kinds.pop()[0] != "translation":
        raise _mistake("a classifier has no target", "leave targets out")
    for what, given in (("targets", targets), ("names", names)):
        if isinstance(given, str) or (given is not None and len(given) != len(inputs)):
            raise _mistake(f"the {what} are not one for each of the {len(inputs):,} inputs")


def _mistake(what: str, todo: str | None = None) -> ConfigError:
    return ConfigError(what, where="write_report", todo=todo)


def _add_translation(
    contents: Contents,
    number: int,
    sentence: int,
    translator: Any,
    text: str,
    target: str | None,
    search: SearchConfig,
) -> None:
    if is_blank(text):
        raise DataError("the input is empty", todo="give a sentence")
    beam = None
    if target is not None:
        subject, best = given_output(translator, text, target)
    else:
        search = replace(search, n_best=1)
        best = translator.translate([text], search=search)[0][0]
        subject = Subject.translation(translator, text, best)
        if search.method == "beam":
            beam = traced(translator, text, best, replace(search, n_best=search.beam_size))
    tokenizer = translator.target_tokenizer
    contents.add_translation(number, sentence, subject, text, best, tokenizer, beam)


def given_output(translator: Any, text: str, target: str) -> tuple[Subject, Hypothesis]:
    """A source with a translation that no search has found."""
    subject = Subject.translation(translator, text, target)
    scores = subject.replay.log_probabilities()[0, :, 0]
    ids = translator.target_tokenizer.encode(target)
    score, unknown = float(scores.sum()), float("nan")
    return subject, Hypothesis(tuple(ids), score, tuple(scores), unknown, True, target)


def traced(translator: Any, text: str, best: Hypothesis, search: SearchConfig) -> dict[str, Any]:
    """The tree of the beam search."""
    engine = translator.engine
    tracing = engine if isinstance(engine, TorchEngine) else TorchEngine(translator.model)
    found, nodes = tracing.trace(translator.source_tokenizer.encode(text), search)
    decode = translator.target_tokenizer.decode
    texts = [replace(each, text=decode(each.tokens)) for each in found]
    beam = beam_tree(nodes, texts, search, translator.target_tokenizer)
    beam["differs"] = tuple(found[0].tokens) != tuple(best.tokens)
    return beam


def _add_classification(
    contents: Contents, number: int, sentence: int, classifier: Any, content: Any, text: str
) -> None:
    subject = Subject.classification(classifier, content, needs_labels=False)
    found: list[tuple[str, float]] = []
    if classifier.labels:
        (labels,) = classifier.classify([content], top=len(classifier.labels))
        found = [(one.label, one.probability) for one in labels]
    contents.add_classification(number, sentence, subject, text, found, classifier.labels)
