"""Write a report as one HTML file that needs no network.

The modules of the page are ordinary ES modules in files of their own. A report in one file cannot
import them, so they are joined: in the order of their imports, without `import` lines and without
the word `export`. For that, a name at the top level of a module is in no other module.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

from clearhead.terminal import printable_line

FOLDER = Path(__file__).parent
ENTRY = "embedded_report.js"
"""The module that starts the page; no other module imports it."""

IMPORT = re.compile(r'^import\s+\{[^}]*\}\s+from\s+"\./([a-z_]+\.js)";\n', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:async function|function|class|const|let) )", re.MULTILINE)

IN_JSON = {"<": r"\u003c", ">": r"\u003e", "&": r"\u0026"}
"""Characters that could end the element in which JSON is written, and their escapes."""


def page(report: Mapping[str, Any], blobs: Sequence[bytes]) -> str:
    """The HTML of a report, in the format that `docs/reference/report-format.md` describes.

    All of its texts may come from strangers: the page shows them as text.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    script, style = joined_modules(), (FOLDER / "report.css").read_text(encoding="utf-8")
    environment = Environment(
        loader=FileSystemLoader(FOLDER), autoescape=True, undefined=StrictUndefined
    )
    return environment.get_template("report.html.jinja").render(
        title=printable_line(report["title"]),
        policy=content_security_policy(script, style),
        report=embedded_json(report),
        blobs=[base64.b64encode(blob).decode("ascii") for blob in blobs],
        script=script,
        style=style,
    )


def joined_modules() -> str:
    """The modules of the page as one module."""
    sources = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.js")}
    imports = {name: IMPORT.findall(source) for name, source in sources.items()}
    order = [name for name in TopologicalSorter(imports).static_order() if name != ENTRY]
    bodies = [EXPORT.sub("", IMPORT.sub("", sources[name])) for name in (*order, ENTRY)]
    return "\n" + "\n".join(bodies)


def embedded_json(value: object) -> str:
    """JSON in ASCII that is safe inside a `script` element."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return re.sub("[<>&]", lambda found: IN_JSON[found[0]], text)


def content_security_policy(script: str, style: str) -> str:
    """A policy that allows this script and this style, and nothing else."""
    return "; ".join(
        [
            "default-src 'none'",
            f"script-src {_hash(script)}",
            f"style-src {_hash(style)}",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        ]
    )


def _hash(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"
