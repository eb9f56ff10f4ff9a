"""What the documents name is there: files of the code, and settings."""

from __future__ import annotations

import dataclasses
import re
import tomllib
import typing
from collections.abc import Iterator
from pathlib import Path

import pytest

from clearhead.cli.options import SearchOptions
from clearhead.data.arrays import LIST
from clearhead.decoding.texts import LONGEST_SOURCE
from clearhead.settings import RunConfig, config_from
from clearhead.settings.meaning import MEANT_FOR
from clearhead.settings.model import SIZES, Learned
from clearhead.settings.reading import SECTIONS as PARTS
from clearhead.settings.reading import paths

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


def settings() -> dict[str, tuple[str, str]]:
    """What `docs/settings.md` says of each setting: its default, and its meaning."""
    text = (HOUSE / "docs" / "settings.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w.]+)` \| (.*?) ?\| (.+) \|$", text, flags=re.MULTILINE)
    assert len(rows) == len({path for path, _, _ in rows}), "a setting is told twice"
    return {path: (default, meaning) for path, default, meaning in rows}


def default_of(path: str) -> object:
    value: typing.Any = RunConfig()
    for name in path.split("."):
        # Of the kinds of positions only one has a length, and it is not the default.
        value = getattr(value, name, Learned().max_length)
    return value


def parts(kind: type = RunConfig, section: str = "") -> Iterator[tuple[str, dict[str, typing.Any]]]:
    """Each section's path and the types of what is in it."""
    yield section, typing.get_type_hints(kind)
    for field in dataclasses.fields(kind):
        if part := PARTS.get(str(field.type)):
            yield from parts(part, f"{section}.{field.name}".lstrip("."))


def test_all_settings_are_told_and_no_others() -> None:
    sections = {path for path, _ in parts()} - {"model.positions", "model.dropout"}
    assert set(settings()) == set(paths()) - sections


def test_the_defaults_that_are_told_are_those_of_the_code() -> None:
    for path, (told, _) in settings().items():
        if path == "model.size":
            assert told == ""
            continue
        found = default_of(path)
        written = {"model.positions": {"kind": "sinusoidal"}, "model.dropout": 0.1}.get(path, found)
        read = tomllib.loads(f"it = {told.strip('`')}")["it"]
        assert read == (list(written) if isinstance(written, tuple) else written), path


def test_each_choice_of_a_setting_is_told() -> None:
    told = settings()
    for section, types in parts():
        for name, kind in types.items():
            path = f"{section}.{name}".lstrip(".")
            inner = [kind, *typing.get_args(kind)]
            choices = {
                choice
                for part in inner
                if typing.get_origin(part) is typing.Literal
                for choice in typing.get_args(part)
                if isinstance(choice, str)
            }
            if path == "model.positions.kind":
                choices = {"sinusoidal", "learned", "none"}
            missing = {c for c in choices if f'"{c}"' not in "".join(told.get(path, ()))}
            assert not missing, path
    assert all(f'"{size}"' in told["model.size"][1] for size in SIZES)


def test_dropout_that_a_table_leaves_out_is_as_told() -> None:
    names = [name for name in vars(RunConfig().model.dropout) if name != "layer_output"]
    told = settings()
    assert "what is not named is 0" in told["model.dropout"][1]
    for name in names:
        others = config_from({"model": {"dropout": {name: 0.3}}}, "a test").model.dropout
        assert sorted(vars(others).values()) == [0.0, 0.0, 0.0, 0.0, 0.3]


def test_the_search_settings_have_the_options_that_are_told() -> None:
    intro = (HOUSE / "docs" / "settings.md").read_text(encoding="utf-8").split("## `[search]`")[1]
    intro = intro.split("| setting")[0]
    options = {field.name for field in dataclasses.fields(SearchOptions)} | {"n_best"}
    named = {path.partition(".")[2] for path in settings() if path.startswith("search.")}
    for name in named - options:
        assert f"`{name}`" in intro, name
    for name in named & options:
        assert f"`{name}`" not in intro, name


def test_which_runs_a_setting_is_for_is_told() -> None:
    names = {
        ("translation", "text"): "translation",
        ("classification", "text"): "texts",
        ("classification", "features"): "sequences",
    }
    text = (HOUSE / "docs" / "settings.md").read_text(encoding="utf-8")
    headings = dict(re.findall(r"^## `\[(\w+)\]`(.*)$", text, flags=re.MULTILINE))
    for path, kinds in MEANT_FOR.items():
        told = settings()[path][1] if "." in path else headings[path]
        assert set(re.findall(r"\*(\w+)\*", told)) == {names[kind] for kind in kinds}, path
    marked = {path for path, (_, meaning) in settings().items() if re.search(r"\*\w", meaning)}
    # These mean something else, or have other choices, for the runs that are named.
    assert marked - set(MEANT_FOR) == {"classifier.multi_label", "evaluation.measure"}


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
