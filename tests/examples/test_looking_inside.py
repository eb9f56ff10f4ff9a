"""All cells of the notebook `examples/looking-inside.ipynb`, on a model that has learned little."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

import clearhead
from clearhead.settings import read_config

pytestmark = pytest.mark.slow

NOTEBOOK = Path(__file__).parents[2] / "examples" / "looking-inside.ipynb"


def code_cells() -> list[str]:
    """The Python of each code cell; magics are left out."""
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    code = [cell["source"] for cell in cells if cell["cell_type"] == "code"]
    return ["".join(line for line in lines if not line.startswith("%")) for lines in code]


def run_cell(text: str, names: dict[str, Any]) -> Any:
    """Run a cell, and return the value of its last line as a notebook would show it."""
    tree = ast.parse(text)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, str(NOTEBOOK), "exec"), names)
    if last is None:
        return None
    assert isinstance(last, ast.Expr)
    return eval(compile(ast.Expression(last.value), str(NOTEBOOK), "eval"), names)


def test_every_cell_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    folder = tmp_path / "model"
    example = NOTEBOOK.parent / "phrasebook-en-es.toml"
    config = read_config(
        example,
        [
            f"folder={folder}",
            "model.encoder_layers=1",
            "model.decoder_layers=2",
            "training.max_steps=80",
            "training.validate_every=80",
            "training.schedule.warmup=20",
            "evaluation.max_sentences=4",
        ],
    )
    clearhead.train(config, observers=())
    monkeypatch.setenv("CLEARHEAD_MODEL", str(folder))
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    cells = code_cells()
    assert sum("sentences = 50\n" in cell for cell in cells) == 1
    shown = [run_cell(cell.replace("sentences = 50\n", "sentences = 6\n"), names) for cell in cells]
    capsys.readouterr()
    assert sum(isinstance(each, Figure) for each in shown) == 5
    assert sum(isinstance(each, clearhead.Record | clearhead.Explanation) for each in shown) == 2
    assert (tmp_path / "looking-inside.html").is_file()


def test_the_notebook_has_no_outputs() -> None:
    """Each user sees the numbers of their own model."""
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    assert not any(cell.get("outputs") for cell in cells)
