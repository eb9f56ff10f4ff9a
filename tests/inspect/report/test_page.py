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
from clearhead.inspect.report.array_store import ArrayStore, decoded
from clearhead.inspect.report.page import (
    EXPORT,
    FOLDER,
    IMPORT,
    embedded_json,
    joined_modules,
    page,
)

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


@pytest.mark.slow
@given(st.lists(st.one_of(FLOATS, WEIGHTS), max_size=6))
def test_float32_arrays_survive(values: list[Any]) -> None:
    store = ArrayStore()
    references = [store.add(value, "float32") for value in values]
    store.close()
    for value, reference in zip(values, references, strict=True):
        np.testing.assert_array_equal(decoded(reference, store.blobs), value)


@given(FLOATS)
def test_float16_arrays_survive_within_their_precision(values: Any) -> None:
    store = ArrayStore()
    reference = store.add(values, "float16")
    store.close()
    np.testing.assert_allclose(decoded(reference, store.blobs), values, rtol=1e-3, atol=1e-7)


@given(WEIGHTS)
def test_weights_survive_within_a_half_step(values: Any) -> None:
    store = ArrayStore()
    reference = store.add(values, "weight8")
    store.close()
    steps = 255 * (np.sqrt(decoded(reference, store.blobs)) - np.sqrt(values))
    assert np.abs(steps).max(initial=0) <= 0.501


def test_a_large_array_is_split_along_its_first_axis(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(array_store, "FULL", 100)
    store = ArrayStore()
    small = store.add(np.arange(4.0), "float32")
    large = store.add(np.arange(60.0).reshape(3, 20), "float32")
    after = store.add(np.ones(3), "float32")
    store.close()
    assert large["split"]
    assert [small["blob"], large["blob"], after["blob"]] == [0, 1, 4]
    np.testing.assert_array_equal(decoded(large, store.blobs), np.arange(60).reshape(3, 20))
    np.testing.assert_array_equal(decoded(after, store.blobs), np.ones(3))


def test_values_too_large_for_a_half_are_limited() -> None:
    store = ArrayStore()
    reference = store.add(np.array([1e6, -1e6]), "float16")
    store.close()
    assert decoded(reference, store.blobs).tolist() == [65504, -65504]


@pytest.mark.parametrize("value", [np.nan, np.inf, -0.1, 1.1])
def test_what_is_no_weight_is_an_error(value: float) -> None:
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
