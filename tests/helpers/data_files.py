"""Files of data that tests write, and what they have in common."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

Write = Callable[[str, str | bytes], str]
"""Writes a file in the folder of a test, packed if its name ends in `.gz`, and gives its path."""

# tmp_path is one folder for all examples of a test: each example writes its files anew.
same_folder = settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])

line_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r\0"))
