"""Fast commands load few modules. Modules are counted, because seconds depend on the machine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from clearhead.cli import COMMANDS
from clearhead.folder.model_folder import WEIGHTS, write_folder
from clearhead.settings import RunConfig
from clearhead.tokenizer import JOINT, WordTokenizer

COMPUTING = {
    *("torch", "numpy", "scipy", "sklearn", "jaxtyping", "safetensors", "ctranslate2"),
    *("sacrebleu", "matplotlib", "tensorboard"),
}
CHECKING = {"pydantic", "rich", "sentencepiece"}

PRINT_MODULES = "import json, sys; print(json.dumps(list(sys.modules)), file=sys.stderr)"


def loaded_by(program: str) -> set[str]:
    """The modules that a new Python process has loaded after running a program."""
    command = [sys.executable, "-c", f"{program}\n{PRINT_MODULES}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stderr.splitlines()[-1]))


def loaded_by_command(*words: str) -> set[str]:
    return loaded_by(
        f"import contextlib, sys\nsys.argv = ['clearhead', *{words!r}]\n"
        "from clearhead.cli import main\nwith contextlib.suppress(SystemExit):\n    main()"
    )


def test_help_loads_the_command_line_alone() -> None:
    modules = loaded_by_command("--help")
    assert not modules & (COMPUTING | CHECKING)
    assert packages(modules) == {"cli", "errors", "terminal", "version"}


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_a_command_loads_the_command_line_alone(command: str) -> None:
    """Commands with search options also load the settings, which declare them."""
    modules = loaded_by_command(command, "--help")
    searches = command in ("translate", "evaluate", "inspect")
    assert not modules & (COMPUTING if searches else COMPUTING | CHECKING)
    assert packages(modules) == {"cli", "errors", "terminal", "version"} | (
        {"settings"} if searches else set()
    )


def packages(modules: set[str]) -> set[str]:
    """The packages of clearhead that modules are in."""
    return {name.split(".")[1] for name in modules if name.startswith("clearhead.")}


def test_a_model_folder_is_read_without_what_computes(tmp_path: Path) -> None:
    words = WordTokenizer.learn(["a few words"])
    write_folder(tmp_path, RunConfig(), {JOINT: words})
    (tmp_path / WEIGHTS).touch()
    modules = loaded_by(
        "from clearhead.folder.model_folder import open_folder\n"
        "from clearhead.tokenizer import read_tokenizers\n"
        f"found = open_folder({str(tmp_path)!r})\n"
        "source, target = read_tokenizers(found)\n"
        "assert source.encode_batch(['few words']) == target.encode_batch(['few words'])"
    )
    assert not modules & (COMPUTING | {"rich"})
