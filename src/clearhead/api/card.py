"""The card of a model: what it was trained on, how good it is, and what it does not know."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from clearhead.data.judging.text_style import TextStyles
from clearhead.data.labels import Labels
from clearhead.errors import DataError, first_few
from clearhead.evaluation.scores import wilson_interval
from clearhead.folder.files import write_bytes
from clearhead.folder.model_folder import (
    CARD,
    PROVENANCE,
    SCORES,
    ModelFolder,
    open_folder,
    read_thresholds,
)
from clearhead.settings.declare import Runs

MARK = "<!-- clearhead replaces this file. Remove this line to keep your changes. -->"
"""The first line of a card."""

SHOWN_LABELS = 20


def write_card(folder: Path) -> None:
    """Write the card of a trained model into its folder, unless somebody has changed it.

    Raises:
        DataError: it cannot be written.
        ModelFolderError: the folder is damaged.
    """
    found = open_folder(folder)
    if is_replaceable(path := found.path / CARD):
        write_bytes(path, "\n".join([MARK, *_lines(found)]).encode(), DataError)


def is_replaceable(path: Path) -> bool:
    """Whether there is no card, or one that nobody has made their own."""
    return not path.exists() or path.read_bytes().startswith(MARK.encode())


def _lines(found: ModelFolder) -> Iterator[str]:
    config, provenance, scored = found.config, found.tree(PROVENANCE), found.tree(SCORES)
    name, kind = found.path.name, config.kind
    reports = {report["name"]: report for report in provenance["reports"]}
    yield f"# {name}"
    yield ""
    if kind is Runs.TRANSLATION:
        languages = [each or "an unnamed language" for each in config.data.languages]
        yield f"A Transformer that translates from {languages[0]} to {languages[1]}."
    else:
        of = "texts" if kind is Runs.TEXTS else "sequences of features"
        yield f"A Transformer that classifies {of}."
    command, option = {
        Runs.TRANSLATION: ("translate", "< in.txt"),
        Runs.TEXTS: ("classify", "< in.txt"),
        Runs.SEQUENCES: ("classify", "--input in.ts"),
    }[kind]
    version, step = provenance["clearhead"], provenance["step"]
    yield f"It was trained with clearhead {version}, for {step:,} steps."
    yield from ("", f"    clearhead {command} {name} {option}", "", "## Data", "")
    for report in reports.values():
        yield from _of_part(report)
    yield from ("", "## Scores", "")
    yield from _scores(scored, reports, found)
    yield from ("", "## Limits", "")
    yield from (f"- {limit}" for limit in _limits(found, reports))
    yield ""


def _of_part(report: Mapping[str, Any]) -> Iterator[str]:
    unit = "pairs" if "pairs" in report else "examples"
    line = f"- {report['name']}: {report['kept']:,} of {report[unit]:,} {unit}"
    if classes := report.get("classes"):
        names = [f"{label} ({count:,})" for label, count in dict(classes).items()]
        line += f"; {len(names):,} labels: {first_few(names, SHOWN_LABELS)}"
    yield line
    for finding in report["findings"]:
        done = "left out" if finding["left_out"] else "kept"
        yield f"  - {done}: {finding['count']:,}, because {finding['text']}"


def _scores(
    scored: Mapping[str, Any], reports: Mapping[str, Any], found: ModelFolder
) -> Iterator[str]:
    examples = reports.get("validation", {}).get("kept", 0)
    values: dict[str, float] = scored["scores"]
    yield f"On {examples:,} examples of the validation data:" if examples else "On validation data:"
    yield ""
    for name, value in values.items():
        if name == "temperature":
            continue
        line = f"- {name.replace('_', ' ')}: {value:.4g}"
        if name == "accuracy" and examples:
            low, high = wilson_interval(round(value / 100 * examples), examples)
            line += f" (95 % interval: {low:.1f} to {high:.1f})"
        yield line
    if found.config.classifier.multi_label:
        names = Labels.of(found).names
        thresholds = zip(names, read_thresholds(found, len(names)), strict=True)
        each = first_few([f"{name} ({value:.2f})" for name, value in thresholds], SHOWN_LABELS)
        yield f"- a label is predicted if its probability is at least its threshold: {each}"
    yield ""
    data = "--data test.tsv"
    if found.config.kind is Runs.TRANSLATION:
        data = "--source test.en --reference test.de"
    yield "Weights and settings may be chosen by these examples, so test data give lower scores:"
    yield f"`clearhead evaluate {found.path.name} {data}`."


def _limits(found: ModelFolder, reports: Mapping[str, Any]) -> Iterator[str]:
    config = found.config
    unit = "frames" if config.kind is Runs.SEQUENCES else "tokens"
    yield f"It was trained on at most {config.data.max_length:,} {unit} at a time."
    if styles := TextStyles.of(found) if config.kind in Runs.TEXT else None:
        for side, style in styles.sides.items():
            if side == "target":
                continue
            forms = [
                text
                for is_so, text in (
                    (style.lower_cased, "in lower case"),
                    (style.tokenised, "with spaces before punctuation marks"),
                )
                if is_so
            ]
            if forms:
                looks = " and ".join(forms)
                yield f"The training text is {looks}; `--normalise` converts other text."
            if style.longest:
                words = "words" if style.spaced else "characters"
                yield f"Nearly all training texts have at most {style.longest:,} {words}."
    if config.task == "classification":
        names = Labels.of(found).names
        gets = "may get some" if config.classifier.multi_label else "gets one"
        yield (
            f"It knows {len(names):,} labels. An input of another kind {gets} of them, too, "
            "perhaps with a high probability."
        )
        if found.tree(SCORES)["scores"].get("temperature", 1.0) == 1.0:
            yield "Its probabilities are not calibrated: the validation examples were too few."
    else:
        yield "It may leave words out, or add some, above all in texts of another kind."
