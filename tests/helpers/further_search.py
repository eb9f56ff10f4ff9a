"""A search setting that no search knows."""

from __future__ import annotations

from pydantic.dataclasses import dataclass

from clearhead.settings import SearchConfig
from clearhead.settings.declare import STRICT, setting


@dataclass(frozen=True, config=STRICT)
class FurtherSearch(SearchConfig):
    """The settings of a search, and one more."""

    further: int = setting(0, "a setting that this test adds")
