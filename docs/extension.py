"""The Python-Markdown extension of the documentation: equations.

`$…$`, also over the end of a line, and a block between two lines `$$` are LaTeX. They become
MathML. A block that is not closed fails the build. `docs/rendered.py` finds the rest of an
equation.
"""

from __future__ import annotations

import re
from xml.etree import ElementTree

from markdown import Extension, Markdown
from markdown.inlinepatterns import InlineProcessor
from markdown.preprocessors import Preprocessor
from math_core import LatexToMathML

FENCE = re.compile(r"(```+|~~~+)")
INLINE = r"(?<![\\$])\$(?![\s$])([^$]+?)(?<!\s)\$"
"""No space after the first dollar and before the last."""

_latex = LatexToMathML()


def mathml(latex: str, block: bool) -> str:
    """The MathML of an equation, in a line of its own or not."""
    return _latex.convert_with_local_state(latex, displaystyle=block)


def makeExtension(**settings: object) -> Extension:
    """Python-Markdown calls this function, by this name."""
    return _Equations(**settings)


class _Equations(Extension):
    def extendMarkdown(self, md: Markdown) -> None:
        # Before fenced code (25); after code in a line (190), before escapes (180) and emphasis.
        md.preprocessors.register(_Block(md), "equations", 40)
        md.inlinePatterns.register(_Inline(INLINE, md), "mathml", 185)


class _Block(Preprocessor):
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
            else:
                result.append(line)
        if equation is not None:
            raise ValueError(f"an equation is not closed: {' '.join(equation)[:60]}")
        return result


class _Inline(InlineProcessor):
    def handleMatch(  # type: ignore[override]
        self, m: re.Match[str], data: str
    ) -> tuple[ElementTree.Element | str, int, int]:
        return self.md.htmlStash.store(mathml(m[1], block=False)), m.start(0), m.end(0)
