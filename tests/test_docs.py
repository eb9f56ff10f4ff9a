"""The documents: links, names, examples, included source code, and the site."""

from __future__ import annotations

import dataclasses
import html
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import clearhead
from clearhead import nn
from clearhead.cli import COMMANDS
from clearhead.settings import RunConfig, config_from
from docs import rendered
from docs.examples import masked, run_page
from docs.included import source, updated

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
TUTORIALS = [
    DOCS / "tutorials" / f"{name}.md"
    for name in ("translator", "classifier", "inside", "program", "sequences")
]
PAGES = sorted(DOCS.rglob("*.md"))
DOCUMENTS = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")] + PAGES
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)

SHORTER = {
    r"^clearhead train (english|my-model)": (
        r"for file in data/*; do head -n 60 $file > short; mv short $file; done; \g<0>"
    ),
    r"examples/program\.py": str(ROOT / "examples" / "program.py"),
    r"training\.max_epochs=\d+": "training.max_epochs=0 --set training.max_steps=4 "
    "--set training.schedule.warmup=1 --set training.validate_every=2",
    r"^clearhead (study|align) .*$": r"\g<0> --sentences 3",
    r"--dry-run": r"\g<0> --set training.schedule.warmup=1",
    r"training\.max_steps=\d+": "training.max_steps=4 --set training.schedule.warmup=1",
    r"training\.validate_every=\d+": "training.validate_every=2",
    r"training\.report_every=\d+": "training.report_every=2",
    r"training\.schedule\.warmup=\d+": "training.schedule.warmup=1",
}
"""What is replaced in examples before they run here, so that they take seconds: few sentences, few
steps."""

WRITTEN_BY_THE_MODEL = re.compile(
    r"clearhead (translate runs/program|classify runs/gestures)|"
    r"\| clearhead (translate|classify)|\.(translate|classify)\("
)
"""Examples whose output is what the model writes, which is nonsense after few steps."""

DIFFERS = {
    r"(\d+ min )?\d+ s\b": "0 s",
    r"cpu bf16": "cpu float32",
    r"^memory: a bf16 kernel .*\n": "",
    r"^(validation[^:]*: .*?), .*": r"\1",
    r"^(finished at .*: \w+).*;": r"\1;",
    r"^(clearhead: translation: ).*": r"\1",
    r"\bp < ": "p = ",
    r"^(macro F1 .* %)  ?\(95 % interval: .*\)": r"\1",
    r"; a pretrained encoder may do better.*": "",
    r"^clearhead: warning: .*(translation|characters|training texts).*\n": "",
}
"""What differs between runs besides numbers: the unit of a duration, the precision, which
checkpoint is the best, which scores fit into a line, a translation, a very small p-value, whether
the macro F1 has an interval, whether the linear baseline is better, and what is unusual after few
steps on few sentences."""


def lines_of(output: str) -> set[str]:
    """The lines that shown and real output must have in common.

    Numbers, widths of columns and what `DIFFERS` lists are masked. The order and the number of
    equal lines do not count, because they depend on the machine and on the number of steps.
    """
    for pattern, replacement in DIFFERS.items():
        output = re.sub(pattern, replacement, output, flags=re.MULTILINE)
    return set(masked(output))


@pytest.mark.slow
def test_the_examples_of_readme_and_the_tutorials_print_what_is_shown(tmp_path: Path) -> None:
    def shorter(code: str) -> str:
        for pattern, replacement in SHORTER.items():
            code = re.sub(pattern, replacement, code, flags=re.MULTILINE)
        return code

    (tmp_path / "readme").mkdir()
    pages = [(page, tmp_path) for page in TUTORIALS] + [(ROOT / "README.md", tmp_path / "readme")]
    compared = 0
    for page, folder in pages:
        for code, shown, output in run_page(page, folder, shorter)[1]:
            if shown is None or WRITTEN_BY_THE_MODEL.search(code):
                continue
            compared += 1
            assert lines_of(output) == lines_of(shown), f"{page.name}: {code}"
    assert compared >= 16


def test_output_is_renewed_in_the_blocks_that_show_it(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    example = "```sh\nprintf 'start\\nb 2\\nc 3\\nend\\n'\n```\n"
    page.write_text(
        f"{example}\n```text\nold\n```\n{example}Only a part:\n\n```text\nb 7\nc 8\n```\n"
    )
    text, examples = run_page(page, tmp_path)
    assert text == (
        f"{example}\n```text\nstart\nb 2\nc 3\nend\n```\n"
        f"{example}Only a part:\n\n```text\nb 2\nc 3\n```\n"
    )
    assert [(each.shown, each.output) for each in examples] == [
        ("old\n", "start\nb 2\nc 3\nend\n"),
        ("b 7\nc 8\n", "b 2\nc 3\n"),
    ]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    text = FENCED.sub("", document.read_text("utf-8"))
    dead = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        path = document.parent / name if name else document
        if not path.exists() or (anchor and anchor not in anchors(path)):
            dead.append(target)
    assert dead == []


def anchors(page: Path) -> set[str]:
    """The anchors of the headings and API entries of a page."""
    text = FENCED.sub("", page.read_text("utf-8"))
    headings = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    plain = [re.sub(r"[^\w\s-]", "", heading).strip().lower() for heading in headings]
    return {re.sub(r"\s+", "-", heading) for heading in plain} | set(entries(text))


def entries(text: str) -> list[str]:
    return re.findall(r"^::: (\S+)$", text, flags=re.MULTILINE)


def quoted(document: Path) -> list[str]:
    """The texts in single backquotes."""
    return re.findall(r"`([^`\n]+)`", FENCED.sub("", document.read_text("utf-8")))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_of_the_project_that_are_named_exist(document: Path) -> None:
    folders = "|".join(path.name for path in (*ROOT.iterdir(), *(ROOT / "src/clearhead").iterdir()))
    named = [
        word
        for word in quoted(document)
        if re.fullmatch(rf"({folders})/[\w/.-]+\.(py|toml|md)", word)
    ]
    missing = [
        name
        for name in named
        if not any((folder / name).is_file() for folder in (ROOT, ROOT / "src" / "clearhead"))
    ]
    assert missing == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_settings_that_are_named_exist(document: Path) -> None:
    known: dict[str, Any] = dataclasses.asdict(RunConfig())
    sections = "|".join(name for name, value in known.items() if isinstance(value, dict))
    named = [
        match[1].split(".")
        for word in quoted(document)
        if (match := re.match(rf"((?:{sections})\.\w+)( =|$)", word))
    ]
    known["model"] |= {"size": None}  # a shorthand
    files = {"bin", "js", "json", "model", "onnx", "py"}
    wrong = [f"{a}.{b}" for a, b in named if b not in known[a] and b not in files]
    assert wrong == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_configurations_that_are_shown_are_valid(document: Path) -> None:
    for block in re.findall(r"```toml\n(.*?)```", document.read_text("utf-8"), flags=re.DOTALL):
        config_from(tomllib.loads(block), where=document.name)


def test_each_reference_system_has_its_commands() -> None:
    commands = quoted(DOCS / "reference-systems.md")
    scripts = sorted((ROOT / "examples" / "reference").glob("*.py"))
    assert scripts
    for script in scripts:
        assert f".venv/bin/python examples/reference/{script.name}" in commands
        assert f"make reference SYSTEM={script.name[0]}" in commands


def test_the_reference_has_every_public_name_and_every_command() -> None:
    named = entries((DOCS / "reference" / "api.md").read_text("utf-8"))
    public = [f"clearhead.{name}" for name in sorted(clearhead.__all__) if name != "nn"]
    assert sorted(named) == public
    named = entries((DOCS / "reference" / "nn.md").read_text("utf-8"))
    assert sorted(named) == [f"clearhead.nn.{name}" for name in sorted(nn.__all__)]
    commands = (DOCS / "reference" / "commands.md").read_text("utf-8")
    for name in COMMANDS:
        assert f"<!-- help: clearhead {name} -->" in commands


def test_the_navigation_has_every_page() -> None:
    site = tomllib.loads((ROOT / "zensical.toml").read_text("utf-8"))["project"]

    def pages(item: Any) -> list[str]:
        if isinstance(item, str):
            return [item]
        items = item.values() if isinstance(item, dict) else item
        return [page for each in items for page in pages(each)]

    assert sorted(pages(site["nav"])) == sorted(str(page.relative_to(DOCS)) for page in PAGES)


@pytest.mark.parametrize(
    ("name", "error"), [("no_such_function", "0 definitions"), ("sinusoids > nothing", "nothing")]
)
def test_source_that_does_not_exist_fails_the_build(name: str, error: str) -> None:
    with pytest.raises(LookupError, match=error):
        source(name)


def test_source_code_in_the_pages_is_up_to_date() -> None:
    pages = [page.read_text("utf-8") for page in PAGES]
    assert sum(page.count("<!-- source: ") for page in pages) >= 20
    assert [updated(page, ["source"]) for page in pages] == pages


@pytest.mark.slow
def test_command_help_in_the_pages_is_up_to_date() -> None:
    page = (DOCS / "reference" / "commands.md").read_text("utf-8")
    assert updated(page) == page


def test_included_code_that_is_missing_or_old_is_replaced() -> None:
    comment = "<!-- source: PostNorm.forward -->\n"
    new = updated(f"Text.\n\n{comment}\nMore.\n")
    assert "```python" in new
    assert "self.norm(x" in new
    assert new.endswith("```\n\nMore.\n")
    assert updated(new.replace("self.norm(x", "norm(x")) == new


def test_what_is_not_rendered_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "a" / "index.html"
    page.parent.mkdir()
    for text, left in [
        ("<p>all <math><mi>x</mi></math> <code>$HOME {{ \\</code></p><pre>$ ls</pre>", None),
        ("<p>a <code>b</code> $k =\ny</p>", "$k = y"),
        ("<p>of \\epsilon</p>", "\\epsilon"),
        ("<title>{{ file: x }}</title>", "{{ file: x }}"),
    ]:
        page.write_text(text)
        assert rendered.main(str(tmp_path)) == int(left is not None)
        assert (left or "") in capsys.readouterr().err
    page.unlink()
    assert rendered.main(str(tmp_path)) == 1


@pytest.mark.parametrize(
    ("text", "equations", "left"),
    [
        ("The $q(k) = (1 -\n\\epsilon)[k = y]$ of $V$.", 2, False),
        ("$$\nx = \\frac{1}{2}\n$$\n", 1, False),
        ("`$HOME`, `${NAME}`\n\n```\n$$\n```\n", 0, False),
        ("Between $5 and\n$6.", 0, True),
        ("{{ source: attention }}", 0, True),
    ],
)
def test_equations_are_rendered_also_over_the_end_of_a_line(
    text: str, equations: int, left: bool
) -> None:
    page = markdown(text)
    assert page.count("<math") == equations
    assert bool(rendered.raw_texts(page)) is left


def test_an_equation_that_is_not_closed_fails_the_build() -> None:
    with pytest.raises(ValueError, match="not closed"):
        markdown("$$\nx\n")


def markdown(text: str) -> str:
    """The HTML of a page."""
    pytest.importorskip("math_core", reason="needs the extra docs")
    from markdown import Markdown

    from docs.extension import makeExtension

    return Markdown(extensions=["pymdownx.superfences", makeExtension()]).convert(text)


@pytest.mark.slow
def test_the_site_builds_strictly_and_requests_nothing_from_outside(tmp_path: Path) -> None:
    pytest.importorskip("zensical", reason="needs the extra docs")
    shutil.copytree(DOCS, tmp_path / "docs")
    shutil.copy(ROOT / "zensical.toml", tmp_path)
    for name in ("src", "benchmarks"):
        (tmp_path / name).symlink_to(ROOT / name)
    built = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path / "docs")},
        capture_output=True,
        encoding="utf-8",
    )
    assert built.returncode == 0, built.stdout + built.stderr

    pages = sorted((tmp_path / "site").rglob("*.html"))
    assert len(pages) >= len(PAGES)
    for page in pages:
        text = page.read_text("utf-8")
        assert rendered.raw_texts(text) == [], page
        loaded = re.findall(r"<(?:script|img|iframe|source|video)\b[^>]*\bsrc=\"([^\"]+)\"", text)
        loaded += re.findall(r"<link\b(?![^>]*rel=\"canonical\")[^>]*\bhref=\"([^\"]+)\"", text)
        assert not [url for url in loaded if re.match(r"(https?:)?//", html.unescape(url))], page
    for sheet in (tmp_path / "site").rglob("*.css"):
        assert not re.search(r"(url\(|@import)\s*[\"']?(https?:)?//", sheet.read_text("utf-8"))

    paper = (tmp_path / "site/explanation/paper/index.html").read_text("utf-8")
    equations = (DOCS / "explanation" / "paper.md").read_text("utf-8").count("\n$$\n") // 2
    assert paper.count('<math display="block"') == equations > 0
