"""What the documents name is there: files of the code, and settings."""

from __future__ import annotations

import dataclasses
import re
import tomllib
from pathlib import Path

import pytest

from clearhead.data.arrays import LIST
from clearhead.decoding.texts import LONGEST_SOURCE
from clearhead.settings import RunConfig, config_from

HOUSE = Path(__file__).parent.parent
DOCUMENTS = ("README.md", "docs/reference-systems.md")
SECTIONS = tuple(
    field.name
    for field in dataclasses.fields(RunConfig)
    if dataclasses.is_dataclass(getattr(RunConfig(), field.name))
)


def quoted(document: str) -> list[str]:
    """What stands in single backquotes."""
    text = (HOUSE / document).read_text(encoding="utf-8")
    return re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))


@pytest.mark.parametrize("document", DOCUMENTS)
def test_each_file_of_the_code_that_is_named_is_there(document: str) -> None:
    named = [word for word in quoted(document) if re.fullmatch(r"[\w/-]+/[\w-]+\.(py|toml)", word)]
    assert named
    missing = [
        name
        for name in named
        if not (HOUSE / name).is_file() and not (HOUSE / "src" / "clearhead" / name).is_file()
    ]
    assert missing == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_each_setting_that_is_named_is_there(document: str) -> None:
    named = [
        match.group(1).split(".")
        for word in quoted(document)
        if (match := re.match(rf"((?:{'|'.join(SECTIONS)})\.\w+)( =|$)", word))
    ]
    assert named
    known = dataclasses.asdict(RunConfig())
    wrong = [".".join(path) for path in named if path[1] not in known[path[0]]]
    assert wrong == []


def test_the_settings_of_classification_are_in_the_readme() -> None:
    words = " ".join(quoted("README.md"))
    for setting in (
        *("data.text_column", "data.label_column", "data.missing"),
        *("classifier.multi_label", "classifier.encoder_from"),
        *('classifier.class_weights = "balanced"', "classifier.pooling", '"first"'),
    ):
        assert setting in words


def test_the_form_of_each_file_of_features_is_in_the_readme() -> None:
    rows = re.findall(r"^\| (.*) \|$", (HOUSE / "README.md").read_text("utf-8"), flags=re.MULTILINE)
    told = {form: text for form, _, text in (row.partition(" | ") for row in rows)}
    for form, names in {
        "`.ts`": ("@classLabel true", "?", "NaN"),
        "`.csv`": ("sequence", "label", "time", "nan"),
        "`.npz`": ("x", "y", "lengths"),
        "folder of `.npy` or `.npz`": (LIST, "file", "label"),
    }.items():
        assert set(names) <= set(re.findall(r"`([^`]+)`", told[form])), form


def test_the_command_of_each_reference_system_is_told() -> None:
    commands = quoted("docs/reference-systems.md")
    scripts = sorted((HOUSE / "examples" / "reference").glob("*.py"))
    assert scripts
    for script in scripts:
        command = f".venv/bin/python examples/reference/{script.name}"
        assert command in commands
        assert f"make reference SYSTEM={script.name[0]}" in commands
        assert f"\n    {command}\n" in script.read_text(encoding="utf-8")


@pytest.mark.parametrize("document", ["docs/settings.md", "docs/reference-systems.md"])
def test_where_a_source_is_cut_is_told(document: str) -> None:
    assert f"{LONGEST_SOURCE:,} tokens" in (HOUSE / document).read_text(encoding="utf-8")


def test_lists_are_not_broken_by_empty_lines() -> None:
    """Lines of a list follow one another, as the one of the commands does."""
    text = (HOUSE / "README.md").read_text(encoding="utf-8")
    assert not re.search(r"^- .*\n(  .*\n)*\n- ", text, flags=re.MULTILINE)


def test_the_configuration_of_labels_in_the_readme_is_one() -> None:
    text = (HOUSE / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```toml\n(.*?)```", text, flags=re.DOTALL)
    assert config_from(tomllib.loads(block)).task == "classification"
