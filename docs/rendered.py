"""Find what the documentation site shows raw: `python docs/rendered.py site`.

A dollar, a backslash or `{{` outside code is the rest of an equation or of a template. The command
prints the page and the text, and exits with 1.
"""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path

CODE = {"code", "pre", "script", "style"}
RAW = re.compile(r"\$|\\|\{\{")


def raw_texts(page: str) -> list[str]:
    """The texts of an HTML page, outside code, that contain what should have been rendered."""
    parser = _Texts()
    parser.feed(page)
    parser.close()
    return [text for text in parser.texts if RAW.search(text)]


class _Texts(HTMLParser):
    """Collects the texts outside code."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self._code = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._code += tag in CODE

    def handle_endtag(self, tag: str) -> None:
        self._code -= tag in CODE

    def handle_data(self, data: str) -> None:
        if not self._code:
            self.texts.append(" ".join(data.split()))


def main(folder: str) -> int:
    """Check all pages in a folder."""
    pages = sorted(Path(folder).rglob("*.html"))
    found = [(page, text) for page in pages for text in raw_texts(page.read_text("utf-8"))]
    for page, text in found:
        print(f"{page}: not rendered: {text}", file=sys.stderr)
    if not pages:
        print(f"{folder} has no pages", file=sys.stderr)
    return int(bool(found) or not pages)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
