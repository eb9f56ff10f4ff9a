"""How a tokenizer lies on disk: `name.json`, which describes it, and what belongs to it."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

FORMAT_VERSION = 1


def write_description(folder: Path, name: str, tree: dict[str, Any], fingerprint: str) -> None:
    """Write `name.json` with the format's version and the fingerprint."""
    tree = {"version": FORMAT_VERSION, "fingerprint": fingerprint, **tree}
    replace_file(folder / f"{name}.json", (json.dumps(tree, indent=1) + "\n").encode())


def replace_file(path: Path, content: bytes) -> None:
    """Write a file so that it is never seen half-written, not even after a power cut."""
    temporary = path.with_name(f".{path.name}.partial")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def content_hash(content: bytes) -> str:
    """32 hex digits that change with the content."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()
