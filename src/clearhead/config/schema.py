"""Types checked by pydantic, whose schema takes far longer to build than to use."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from clearhead.config.run import RunConfig

if TYPE_CHECKING:
    from pydantic import TypeAdapter


def checked(tree: Mapping[str, Any]) -> RunConfig:
    """The run that a tree of plain values describes.

    Raises:
        pydantic.ValidationError: a type or a value is wrong.
    """
    # Through JSON, pydantic's strict mode takes a list for a tuple but no "3" for a 3.
    return _adapter().validate_json(json.dumps(tree, default=str), strict=True)


@functools.cache
def _adapter() -> TypeAdapter[RunConfig]:
    """Built once: each translation checks its search by it."""
    from pydantic import TypeAdapter

    return TypeAdapter(RunConfig)
