"""Study a model: what its heads do, and which picture of it may be believed.

The command replays sentences of a sample (default: the validation data of the
run) and measures

  - how much the loss rises without each head, with its 95 % interval, beside
    an estimate from gradients; with --scores also how much chrF changes
  - what each head attends to, where the numbers show it: the previous token,
    the aligned word, punctuation and so on
  - which measure of attribution is faithful: whether the probability of the
    output falls when the source words that the measure ranks first are removed

The loss is that of the references or of the true labels of the sample; all else
is about what the model itself gives.

It prints tables, and keeps the result in FOLDER/inspection, where
`clearhead inspect` and --ablate-by mean find it.

  clearhead study runs/my-model
  clearhead study runs/my-model --source test.en --reference test.de --sentences 500
  clearhead study runs/trec --data test.tsv --json
"""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from clearhead.cli.failures import print_message, warnings_printed
from clearhead.cli.options import add_shared, positive, reject_unused
from clearhead.cli.streams import Counter
from clearhead.errors import ConfigError, DataError

if TYPE_CHECKING:
    from clearhead.api.classifier import Classifier
    from clearhead.api.translator import Translator
    from clearhead.data.reading.labelled import Labelled
    from clearhead.folder.model_folder import ModelFolder
    from clearhead.inspect.replay import Means
    from clearhead.inspect.subject import Subject

_Example = TypeVar("_Example")


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments and options."""
    parser.usage = "%(prog)s FOLDER [options]"
    add_shared(parser, "folder")
    for name, text in (
        ("--source", "translators: sentences of the sample"),
        ("--reference", "translators: their correct translations"),
        ("--data", "classifiers: examples with labels"),
    ):
        parser.add_argument(name, metavar="FILE", help=text)
    parser.add_argument(
        "--sentences",
        type=positive,
        metavar="N",
        default=200,
        help="maximum number of sentences or examples, the first ones (default: 200)",
    )
    parser.add_argument(
        "--scores",
        action="store_true",
        help="translators: also translate the sample without each head; takes minutes",
    )
    parser.add_argument("--json", dest="as_json", action="store_true", help="write a JSON object")
    parser.add_argument(
        "--ablate-by",
        choices=("zero", "mean"),
        default="zero",
        help="what replaces the output of a head: %(choices)s over the sample (default: zero)",
    )
    add_shared(parser, "--device", "--threads")


def run(args: Namespace) -> None:
    """Study the model, print the tables and keep the result."""
    from clearhead.api.loading import load
    from clearhead.api.translator import Translator

    with warnings_printed():
        model = load(args.folder, device=args.device, threads=args.threads, engine="torch")
        if isinstance(model, Translator):
            reject_unused({"--data": args.data}, "translators", "use --source and --reference")
            study = _of_translator(args, model)
        else:
            options = {"--source": args.source, "--reference": args.reference}
            options |= {"--scores": args.scores}
            reject_unused(options, "classifiers", "leave it out, or use --data")
            study = _of_classifier(args, model)
    print(json.dumps(study, indent=2) if args.as_json else "\n".join(_lines(study)), flush=True)


def _of_translator(args: Namespace, translator: Translator) -> dict[str, Any]:
    import torch

    from clearhead.inspect.ablation import mean_outputs
    from clearhead.inspect.subject import Subject
    from clearhead.tokenizer import BOS

    pairs, true = _short(
        args, _pairs(args, translator), lambda pair: Subject.translation(translator, *pair)
    )
    sources = [source for source, _ in pairs]
    with Counter(sys.stderr, len(sources), "translations") as counter:
        found = translator.translate(sources, progress=counter.show)
    own = [
        Subject.translation(translator, source, best)
        for source, (best, *_) in zip(sources, found, strict=True)
    ]
    device = translator.model.output.weight.device

    def inputs() -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        for source, target in pairs:
            ids = translator.source_tokenizer.encode(source)
            read = [BOS, *translator.target_tokenizer.encode(target)]
            read = read[: translator.model.target_input.max_length]
            yield torch.tensor([ids], device=device), torch.tensor([read], device=device)

    means = mean_outputs(translator.model, inputs())
    replacements = means if args.ablate_by == "mean" else None
    scores = _chrf_without(translator, pairs, replacements) if args.scores else None
    return _study(args, translator.folder, own, true, means, scores)


def _of_classifier(args: Namespace, classifier: Classifier) -> dict[str, Any]:
    import torch

    from clearhead.inspect.ablation import mean_outputs
    from clearhead.inspect.subject import Subject

    examples, predicted = _short(
        args,
        _examples(args, classifier),
        lambda each: Subject.classification(classifier, each.input),
    )
    true = [
        Subject.classification(classifier, each.input, each.labels)
        for each in examples
        if each.labels or classifier.config.classifier.multi_label
    ]
    device = classifier.model.output.weight.device
    rows = (classifier.encode(each.input)[0] for each in examples)
    means = mean_outputs(
        classifier.model, ((torch.as_tensor(row, device=device)[None],) for row in rows)
    )
    return _study(args, classifier.folder, predicted, true, means, None)


def _short(
    args: Namespace, sample: Iterable[_Example], subject_of: Callable[[_Example], Subject]
) -> tuple[list[_Example], list[Subject]]:
    """The first examples that are short enough to be recorded, with their subjects."""
    kept, subjects, skipped = [], [], 0
    for example in sample:
        if len(kept) == args.sentences:
            break
        try:
            subjects.append(subject_of(example))
        except DataError:
            skipped += 1
        else:
            kept.append(example)
    if skipped:
        print_message(f"skipped {skipped:,} that are empty or too long to be recorded")
    if not kept:
        raise DataError("the sample has no sentence to study", todo="name another sample")
    return kept, subjects


def _study(
    args: Namespace,
    folder: ModelFolder,
    own: Sequence[Subject],
    true: Sequence[Subject],
    means: Means,
    scores: dict[Any, list[float]] | None,
) -> dict[str, Any]:
    """Measure, and keep the result.

    Args:
        args: of the command.
        folder: of the model.
        own: inputs with the output of the model.
        true: inputs with the correct output, which the loss needs.
        means: of the outputs of the heads.
        scores: the change of chrF without each head.
    """
    from clearhead.inspect.findings import STUDY, write_finding, write_means
    from clearhead.inspect.importance import head_importance
    from clearhead.inspect.roles import head_roles
    from clearhead.inspect.study import importance_rows, measured_belief, roles_by_name

    replacements = means if args.ablate_by == "mean" else None
    with Counter(sys.stderr, len(true), "sentences without each head") as counter:
        importance = head_importance(true, replacements, progress=counter.show)
    with Counter(sys.stderr, len(own), "sentences for the measures") as counter:
        belief = measured_belief(own, progress=counter.show)
    study = {
        "sentences": len(true),
        "loss": float(importance.loss.sum() / importance.outputs.sum()),
        "ablate_by": args.ablate_by,
        "importance": importance_rows(importance, scores),
        "roles": roles_by_name(head_roles(own)),
        "belief": belief,
    }
    if folder.is_checkpoint:
        print_message("this is a checkpoint, which another may replace: the study is not kept")
    else:
        write_means(folder, means)
        print_message(f"wrote {write_finding(folder, STUDY, study)}")
    return study


def _pairs(args: Namespace, translator: Translator) -> Iterator[tuple[str, str]]:
    """The pairs of the sample that are not empty."""
    from clearhead.data.reading.pairs import read_pairs
    from clearhead.data.reading.parts import DataPart, check_recorded
    from clearhead.tokenizer.normal_form import is_blank

    given = args.source, args.reference
    if any(given) and not all(given):
        missing = "--reference" if args.source else "--source"
        raise DataError(f"{missing} is missing", todo=f"name a file: {missing} FILE")
    files = translator.config.data.validation
    if not any(given) and not files:
        what = "the run has no validation data to study"
        raise ConfigError(what, todo="name a sample: --source FILE --reference FILE")
    if not any(given):
        check_recorded(translator.folder.path, DataPart("validation", files))
    pairs = read_pairs([args.source, args.reference] if args.source else files, "validation")
    return ((p.source, p.target) for p in pairs if not (is_blank(p.source) or is_blank(p.target)))


def _examples(args: Namespace, classifier: Classifier) -> Iterator[Labelled]:
    """The examples of the sample that are not empty."""
    from clearhead.api.classifier import is_empty
    from clearhead.data.reading.parts import DataPart, check_recorded, read_examples

    classifier.label_set.check_any(classifier.folder.path)
    files = (args.data,) if args.data else classifier.config.data.validation
    if not files:
        raise ConfigError(
            "the run has no validation data to study", todo="name a sample: --data FILE"
        )
    if not args.data:
        check_recorded(classifier.folder.path, DataPart("validation", files))
    examples = (
        each for file in files for each in read_examples(file, classifier.config, classifier.labels)
    )
    return (each for each in examples if not is_empty(each))


def _chrf_without(
    translator: Translator, pairs: Sequence[tuple[str, str]], means: Means | None
) -> dict[Any, list[float]]:
    """For each head the change of chrF without it, and its 95 % interval by bootstrap."""
    import numpy as np

    from clearhead.decoding.texts import translate_texts
    from clearhead.decoding.torch_engine import TorchEngine
    from clearhead.evaluation.scores import sentence_chrf
    from clearhead.inspect.ablation import without_heads
    from clearhead.inspect.importance import ratio_intervals
    from clearhead.inspect.view import heads_of

    sources, references = zip(*pairs, strict=True)
    heads = heads_of(translator.model)
    tokenizers = translator.source_tokenizer, translator.target_tokenizer

    def chrf(model: Any) -> Any:
        engine = TorchEngine(model, scores=False)
        found = translate_texts(engine, tokenizers, sources, translator.search)
        texts = [best.text for best, *_ in found]
        return np.array(sentence_chrf(texts, references))

    complete, changes = chrf(translator.model), {}
    with Counter(sys.stderr, len(heads), "heads") as counter:
        for number, head in enumerate(heads, start=1):
            change = chrf(without_heads(translator.model, [head], means)) - complete
            interval = ratio_intervals(change[None], np.ones(len(change)))[0]
            changes[head] = interval.tolist()
            counter.show(number)
    return changes


def _lines(study: Mapping[str, Any]) -> Iterator[str]:
    """The tables for people."""
    roles = study["roles"]
    by = {"zero": "zero", "mean": "its mean output"}[study["ablate_by"]]
    yield f"Heads: rise of the loss if {by} replaces each, {study['sentences']:,} sentences"
    yield f"(loss {study['loss']:.4f}; nats per output, with 95 % intervals)"
    yield ""
    chrf = any(row["chrf"] for row in study["importance"])
    heading = f"{'head':20} {'rise':>8}  {'interval':>18}  {'gradient':>8}"
    yield heading + (f"  {'chrF':>6}  {'interval':>15}" if chrf else "") + "  attends to"
    for row in study["importance"]:
        mean, low, high = row["loss"]
        line = f"{row['head']:20} {mean:8.4f}  {f'{low:.4f} to {high:.4f}':>18}"
        line += f"  {row['gradient']:8.4f}"
        if chrf:
            change, worst, best = row["chrf"]
            line += f"  {change:6.2f}  {f'{worst:.2f} to {best:.2f}':>15}"
        named = ", ".join(f"{role} {score:.2f}" for role, score in roles.get(row["head"], []))
        yield f"{line}  {named}".rstrip()
    belief = study["belief"]
    yield ""
    yield "Measures: fall of the probability without the words that rank first (high is good),"
    yield "and what is missing with these words alone (low is good)"
    yield ""
    yield f"{'measure':22} {'without':>8}  {'interval':>16}  {'alone':>8}  {'interval':>16}"
    for row in belief["rows"]:
        lost, low, high = row["comprehensiveness"]
        missing, least, most = row["sufficiency"]
        yield (
            f"{row['title']:22} {lost:8.3f}  {f'{low:.3f} to {high:.3f}':>16}"
            f"  {missing:8.3f}  {f'{least:.3f} to {most:.3f}':>16}"
        )
    yield ""
    error = belief["completeness_error"]
    yield f"Integrated gradients miss the sum that they should have by {error:.3f} nats per output."
    yield ""
    yield belief["text"]
