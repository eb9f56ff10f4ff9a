"""All cells of the notebooks of `examples`, on a model that has learned little."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest
from matplotlib import pyplot
from matplotlib.figure import Figure

import clearhead
from clearhead.settings import read_config

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "examples"
LOOKING, EXPERIMENTS = EXAMPLES / "looking-inside.ipynb", EXAMPLES / "experiments.ipynb"


def code_cells(notebook: Path) -> list[str]:
    """The Python of each code cell; magics are left out."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    code = [cell["source"] for cell in cells if cell["cell_type"] == "code"]
    return ["".join(line for line in lines if not line.startswith("%")) for lines in code]


def run_cell(text: str, names: dict[str, Any]) -> Any:
    """Run a cell, and return the value of its last line as a notebook would show it."""
    tree = ast.parse(text)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "notebook", "exec"), names)
    if last is None:
        return None
    assert isinstance(last, ast.Expr)
    return eval(compile(ast.Expression(last.value), "notebook", "eval"), names)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A translator that has learned little."""
    folder = tmp_path_factory.mktemp("model") / "model"
    config = read_config(
        EXAMPLES / "phrasebook-en-es.toml",
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
    return folder


def run_all(notebook: Path, shorter: tuple[str, str] | None = None) -> list[Any]:
    """Run all cells, with one line of one cell replaced; return what each shows."""
    cells, names = code_cells(notebook), dict[str, Any]()
    if shorter is not None:
        assert sum(shorter[0] in cell for cell in cells) == 1
        cells = [cell.replace(*shorter) for cell in cells]
    return [run_cell(cell, names) for cell in cells]


def test_the_cells_that_look_inside_run(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setenv("CLEARHEAD_MODEL", str(folder))
    monkeypatch.chdir(tmp_path)
    shown = run_all(LOOKING, ("sentences = 50\n", "sentences = 6\n"))
    capsys.readouterr()
    assert sum(isinstance(each, Figure) for each in shown) == 5
    assert sum(isinstance(each, clearhead.Record | clearhead.Explanation) for each in shown) == 2
    assert (tmp_path / "looking-inside.html").is_file()


def test_the_cells_of_experiments_run(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setenv("CLEARHEAD_MODEL", str(folder))
    shown = run_all(EXPERIMENTS)
    assert len([each for each in shown if isinstance(each, Figure)]) == 1
    assert len([each for each in shown if isinstance(each, clearhead.Lens)]) == 1
    assert len([each for each in shown if isinstance(each, clearhead.PatchMap)]) == 1
    assert capsys.readouterr().out.count("head ") == 4
    pyplot.close("all")  # a notebook closes its figures itself


@pytest.mark.parametrize("notebook", [LOOKING, EXPERIMENTS], ids=lambda path: path.stem)
def test_the_notebook_has_no_outputs(notebook: Path) -> None:
    """Each user sees the numbers of their own model."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    assert not any(cell.get("outputs") for cell in cells)
