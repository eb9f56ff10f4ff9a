"""The HTML file of a report: arrays, joined modules, and texts that cannot break out of it."""

from __future__ import annotations

import json
import re
from collections import Counter
from html.parser import HTMLParser
from typing import Any

import hypothesis.extra.numpy as arrays
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import synthetic_reports
from clearhead.inspect.report import array_store
from clearhead.inspect.report.array_store import ArrayStore, Kind
from clearhead.inspect.report.page import (
    EXPORT,
    FOLDER,
    IMPORT,
    embedded_json,
    joined_modules,
    page,
)
from synthetic_reports import decoded

SHAPES = arrays.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=5)
FLOATS = arrays.arrays(np.float32, SHAPES, elements=st.floats(-1000, 1000, width=32))
WEIGHTS = arrays.arrays(np.float32, SHAPES, elements=st.floats(0, 1, width=32))
TOP_LEVEL = re.compile(
    r"^(?:export )?(?:async function|function|class|const|let) ([A-Za-z_$][\w$]*)", re.MULTILINE
)


class Elements(HTMLParser):
    """Collects the elements of a page, and the text of each script."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str | None]] = []
        self.scripts: dict[str | None, str] = {}
        self._script: str | None = None
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += attrs
        self._script = dict(attrs).get("id") if tag == "script" else None

    def handle_endtag(self, tag: str) -> None:
        self._script = None

    def handle_data(self, data: str) -> None:
        if self._script:
            self.scripts[self._script] = self.scripts.get(self._script, "") + data


def stored(kind: Kind, *values: Any) -> list[np.ndarray]:
    """Arrays after a way through a store."""
    store = ArrayStore()
    references = [store.add(value, kind) for value in values]
    store.close()
    return [decoded(reference, store.blobs) for reference in references]


@pytest.mark.slow
@given(st.lists(st.one_of(FLOATS, WEIGHTS), max_size=6), FLOATS, WEIGHTS)
def test_arrays_survive_within_their_precision(many: list[Any], one: Any, weights: Any) -> None:
    for value, found in zip(many, stored("float32", *many), strict=True):
        np.testing.assert_array_equal(found, value)
    np.testing.assert_allclose(stored("float16", one)[0], one, rtol=1e-3, atol=1e-7)
    steps = 255 * (np.sqrt(stored("weight8", weights)[0]) - np.sqrt(weights))
    assert np.abs(steps).max(initial=0) <= 0.501


def test_a_large_array_is_split_along_its_first_axis(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(array_store, "FULL", 100)
    store = ArrayStore()
    arrays = np.arange(4.0), np.arange(60.0).reshape(3, 20), np.ones(3)
    references = [store.add(each, "float32") for each in arrays]
    store.close()
    assert [each["blob"] for each in references] == [0, 1, 4]
    assert [each.get("split") for each in references] == [None, True, None]
    for reference, array in zip(references, arrays, strict=True):
        np.testing.assert_array_equal(decoded(reference, store.blobs), array)


def test_values_out_of_range_are_limited_or_an_error() -> None:
    assert stored("float16", np.array([1e6, -1e6]))[0].tolist() == [65504, -65504]
    for value in (np.nan, np.inf, -0.1, 1.1):
        with pytest.raises(ValueError, match=r"value|weight"):
            ArrayStore().add(np.array([value]), "weight8")


def test_names_are_unique_over_all_modules() -> None:
    names = [name for path in FOLDER.glob("*.js") for name in TOP_LEVEL.findall(path.read_text())]
    assert [name for name, count in Counter(names).items() if count > 1] == []


def test_an_import_names_an_export_of_its_module() -> None:
    for path in FOLDER.glob("*.js"):
        for line in re.findall(r"^import\s[^;]*;", path.read_text(), re.MULTILINE):
            found = re.fullmatch(r'import\s+\{([^}]*)\}\s+from\s+"\./([a-z_]+\.js)";', line)
            assert found, f"{path.name}: {line}"
            exported = re.findall(
                r"^export (?:async function|function|class|const) (\w+)",
                (FOLDER / found[2]).read_text(),
                re.MULTILINE,
            )
            wanted = {name.strip() for name in found[1].split(",") if name.strip()}
            assert wanted <= {*exported}, f"{path.name} imports from {found[2]}"
            used = EXPORT.sub("", IMPORT.sub("", path.read_text()))
            for name in wanted:
                assert re.search(rf"\b{name}\b", used), f"{path.name} does not use {name}"


def test_the_joined_modules_have_no_import_and_no_export() -> None:
    joined = joined_modules()
    assert not re.search(r"^\s*(import|export)\b", joined, re.MULTILINE)
    assert "</script" not in joined.lower()
    assert "<!--" not in joined
    assert "innerHTML" not in joined
    assert "</style" not in (FOLDER / "report.css").read_text().lower()


def test_every_module_is_in_the_page() -> None:
    joined = joined_modules()
    for path in FOLDER.glob("*.js"):
        first = next(line for line in path.read_text().splitlines() if line.startswith("//"))
        assert first in joined, path.name


@pytest.mark.slow
@given(st.recursive(st.text() | st.floats(allow_nan=False, allow_infinity=False), st.lists))
def test_embedded_json_survives_and_ends_no_element(value: Any) -> None:
    text = embedded_json(value)
    assert json.loads(text) == value
    assert not set("<>&\u2028\u2029") & set(text)
    assert text.isascii()


def test_a_number_that_is_not_finite_is_an_error() -> None:
    with pytest.raises(ValueError, match="JSON"):
        embedded_json([float("nan")])


@pytest.mark.parametrize(
    "text",
    [
        "</script><script>alert(1)</script>",
        "</title><img src=x onerror=alert(1)>",
        '"><svg onload=alert(1)>',
        "<!--",
        "{{ 7 * 7 }}{% raw %}",
        "\u2028\u202e\0\ud800",
    ],
)
def test_a_text_adds_no_element_and_no_attribute(text: str) -> None:
    ordinary, blobs = synthetic_reports.classifier_report()
    hostile, _ = synthetic_reports.classifier_report(text=text, labels=(text, "b", "c"))
    hostile |= {"title": text, "command": text, "generator": text}
    expected, found = Elements(page(ordinary, blobs)), Elements(page(hostile, blobs))
    assert found.tags == expected.tags
    assert [name for name, _ in found.attributes] == [name for name, _ in expected.attributes]
    assert json.loads(found.scripts["report"])["title"] == text


def test_the_page_needs_no_network() -> None:
    html = page(*synthetic_reports.translator_report())
    addresses = {
        name: value for name, value in Elements(html).attributes if name in {"src", "href"}
    }
    assert addresses == {"href": "data:,"}
    assert "default-src &#39;none&#39;" in html
    assert "unsafe" not in html.partition("</head>")[0].partition("<style>")[0]
    assert "url(" not in html
    assert "@import" not in html
