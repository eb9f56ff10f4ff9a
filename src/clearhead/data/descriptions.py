"""What was learned from the data and is kept beside the model, read back and checked."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

from clearhead.errors import ModelFolderError
from clearhead.files import FORMAT_VERSION


class Kept(Protocol):
    """What has a fingerprint."""

    def fingerprint(self) -> str:
        """A hash that changes with the content."""
        ...


T = TypeVar("T", bound=Kept)


def read_kept(folder: Path, name: str, what: str, build: Callable[[dict[str, Any]], T]) -> T:
    """What `write_description` wrote to `name.json`.

    Args:
        folder: the model folder.
        name: of the file, without `.json`.
        what: it is called in errors: "the label set".
        build: makes it from the file's tree; a ValueError, KeyError, TypeError or
            AttributeError means that the tree is damaged.

    Raises:
        ModelFolderError: the file is missing, damaged, or of another version.
    """
    path = folder / f"{name}.json"
    try:
        tree = json.loads(path.read_text(encoding="utf-8"))
        if tree["version"] != FORMAT_VERSION:
            raise ModelFolderError(
                f"{what} of format {tree['version']}; this clearhead reads {FORMAT_VERSION}",
                where=path,
            )
        kept = build(tree)
    except FileNotFoundError:
        raise ModelFolderError(f"the file of {what} is missing", where=path) from None
    except OSError as error:
        raise ModelFolderError(f"{what} cannot be read", where=path, why=str(error)) from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ModelFolderError(f"{what} is damaged", where=path, why=repr(error)) from None
    if kept.fingerprint() != tree.get("fingerprint"):
        why = "its contents and its hash disagree"
        raise ModelFolderError(f"{what} is damaged", where=path, why=why)
    return kept
