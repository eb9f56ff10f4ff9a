"""The Python-Markdown extension of the documentation: equations, source code and command help.

- `$…$` in a line, and a block between two lines `$$`, are LaTeX. They become MathML.
- A line `{{ source: NAME }}` becomes the code of a function, class or method of `src/clearhead`,
  e.g. `PostNorm.forward`. `{{ source: NAME > TARGET }}` takes only the statements in it that assign
  to a target, e.g. `TokenEmbedding.__init__ > self.scale`.
- A line `{{ help: clearhead COMMAND }}` becomes the output of `clearhead COMMAND --help`.
- A line `{{ file: PATH }}` becomes the Markdown of a file of the repository.

A name that does not exist, or exists twice, fails the build.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from markdown import Extension, Markdown
from markdown.inlinepatterns import InlineProcessor
from markdown.preprocessors import Preprocessor
from math_core import LatexToMathML

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "clearhead"
DIRECTIVE = re.compile(r"\{\{ (source|help|file): (.+?) \}\}")
FENCE = re.compile(r"(```+|~~~+)")
Definition = ast.FunctionDef | ast.ClassDef

_latex = LatexToMathML()


def source(name: str) -> tuple[str, str]:
    """The file, relative to the repository, and the code that a `source` directive names.

    Raises:
        LookupError: there is not exactly one such definition, or no such assignment in it.
    """
    name, _, target = name.partition(" > ")
    found = [
        (path, node)
        for path in sorted(SOURCE.rglob("*.py"))
        for node in _definitions(ast.parse(path.read_text("utf-8")), name.split("."))
    ]
    if len(found) != 1:
        raise LookupError(f"src/clearhead has {len(found)} definitions of {name}, not one")
    path, node = found[0]
    lines = path.read_text("utf-8").splitlines()
    nodes: Sequence[ast.stmt] = _assignments(node, target) if target else [node]
    if not nodes:
        raise LookupError(f"{name} in {path} does not assign to {target}")
    pieces = ["\n".join(lines[_first(n) - 1 : n.end_lineno]) for n in nodes]
    return str(path.relative_to(ROOT)), "\n".join(textwrap.dedent(piece) for piece in pieces)


def command_help(command: str) -> str:
    """The help of `clearhead` or of `clearhead COMMAND`.

    Raises:
        subprocess.CalledProcessError: there is no such command.
    """
    names = command.removeprefix("clearhead").split()
    environment = os.environ | {"COLUMNS": "90", "NO_COLOR": "1", "PYTHONPATH": str(SOURCE.parent)}
    words = [sys.executable, "-m", "clearhead", *names, "--help"]
    done = subprocess.run(words, env=environment, capture_output=True, encoding="utf-8", check=True)
    return done.stdout.rstrip()


def mathml(latex: str, block: bool) -> str:
    """The MathML of an equation, in a line of its own or not."""
    return _latex.convert_with_local_state(latex, displaystyle=block)


def makeExtension(**settings: object) -> Extension:
    """Python-Markdown calls this function, by this name."""
    return _Documentation(**settings)


class _Documentation(Extension):
    def extendMarkdown(self, md: Markdown) -> None:
        # Before fenced code (25), which takes the source code; before escapes (180) and emphasis.
        md.preprocessors.register(_Directives(md), "clearhead", 40)
        md.inlinePatterns.register(_Equation(r"(?<![\\$])\$([^$\n]+?)\$", md), "mathml", 185)


class _Directives(Preprocessor):
    def run(self, lines: list[str]) -> list[str]:
        result: list[str] = []
        equation: list[str] | None = None
        fence = ""
        for line in lines:
            mark = FENCE.match(line)
            if fence or mark:
                result.append(line)
                if not fence and mark:
                    fence = mark[1]
                elif line.strip() == fence:
                    fence = ""
            elif line.strip() == "$$":
                if equation is None:
                    equation = []
                else:
                    block = mathml(" ".join(equation), block=True)
                    result += ["", f'<div class="equation">{block}</div>', ""]
                    equation = None
            elif equation is not None:
                equation.append(line)
            elif directive := DIRECTIVE.fullmatch(line):
                result += _included(*directive.groups())
            else:
                result.append(line)
        return result


class _Equation(InlineProcessor):
    def handleMatch(  # type: ignore[override]
        self, m: re.Match[str], data: str
    ) -> tuple[ElementTree.Element | str, int, int]:
        return self.md.htmlStash.store(mathml(m[1], block=False)), m.start(0), m.end(0)


def _included(kind: str, name: str) -> list[str]:
    if kind == "file":
        return (ROOT / name).read_text("utf-8").splitlines()
    if kind == "help":
        return ["", "```text", *command_help(name).splitlines(), "```", ""]
    path, code = source(name)
    return ["", f'```python title="{path}: {name}"', *code.splitlines(), "```", ""]


def _definitions(module: ast.Module, names: list[str]) -> list[Definition]:
    """The definitions in a module with these names, one within the other."""
    nodes: list[ast.Module | Definition] = [module]
    for name in names:
        nodes = [
            child
            for node in nodes
            for child in node.body
            if isinstance(child, Definition) and child.name == name
        ]
    return [node for node in nodes if isinstance(node, Definition)]


def _assignments(node: Definition, target: str) -> list[ast.stmt]:
    return [
        child
        for child in ast.walk(node)
        if isinstance(child, ast.Assign | ast.AugAssign | ast.AnnAssign)
        for to in (child.targets if isinstance(child, ast.Assign) else [child.target])
        if any(ast.unparse(t) == target for t in (to.elts if isinstance(to, ast.Tuple) else [to]))
    ]


def _first(node: ast.stmt) -> int:
    decorators = node.decorator_list if isinstance(node, Definition) else []
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])
