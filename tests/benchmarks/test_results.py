"""The records of the benchmarks, and the tables that are rendered from them."""

from __future__ import annotations

import importlib
import json
import platform
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from scripts import ROOT

sys.path.append(str(ROOT / "benchmarks"))
claims = importlib.import_module("claims")
render = importlib.import_module("render")
results = importlib.import_module("results")

RECORDS = results.all_records()
PATH = re.compile(r"(?<![\w.>])/\w+/")


def test_every_record_has_all_keys_and_the_target_of_its_claim() -> None:
    assert RECORDS
    for record in RECORDS:
        assert tuple(record) == results.KEYS
        assert tuple(record["machine"]) == results.MACHINE_KEYS
        assert results.make_record(**{k: v for k, v in record.items() if v is not None}) == record
        assert record["command"]
        assert record["commit"]
        if record["median"] is None:
            assert record["min"] is not None or record["note"]
        low, high = record["min"], record["max"]
        assert (low is None) == (high is None)
        if low is not None and record["median"] is not None:
            assert low <= record["median"] <= high


def test_no_record_names_a_host_or_a_path() -> None:
    for record in RECORDS:
        assert not PATH.search(json.dumps(record, ensure_ascii=False)), record
        assert platform.node() not in record["machine"]["processor"].split()


def test_a_measurement_is_recorded_once_a_machine() -> None:
    found = [results.identity(record) for record in RECORDS]
    assert len(set(found)) == len(found)


def test_the_documents_have_the_tables_that_are_rendered_from_the_records() -> None:
    assert render.main(["--check"]) == 0
    log = (ROOT / "docs" / "explanation" / "benchmark-log.md").read_text(encoding="utf-8")
    assert all(claim.text in log for claim in claims.CLAIMS.values())


@pytest.mark.parametrize("name", render.TABLES)
def test_a_short_table_has_about_a_dozen_claims_of_one_machine(name: str) -> None:
    keys = render.TABLES[name]
    assert 10 <= len(keys) <= 14
    for key in keys:
        assert claims.CLAIMS[key]
        found = render.shown_records(key, RECORDS)
        assert found
        assert {(r["machine"]["processor"], r["machine"]["cores"]) for r in found} <= {
            (render.MACHINE, 2),
            (render.NOT_RECORDED, None),
        }


def test_a_row_of_a_short_table_has_the_newest_figures_and_misses_if_one_does() -> None:
    def record(value: float, subject: str, **fields: Any) -> dict[str, Any]:
        machine = {"processor": render.MACHINE, "cores": 2}
        return results.make_record(
            claim="help", subject=subject, median=value, machine=machine, **fields
        )

    old = record(0.1, "old", command="a"), record(9, "other", command="b")
    new = record(0.1, "one", date="2026-01-02"), record(0.2, "two", date="2026-01-02")
    text, target = claims.CLAIMS["help"].text, "≤ 0.15"
    for records, cells in (
        (old, "0.10; old | met"),
        ((*old, *new), "0.10; one<br>0.20; two | **missed**"),
        ((), "not measured | –"),
    ):
        row = render.short_table(["help"], records).splitlines()[-1]
        assert row == f"| {text} | {target} | {cells} |"
    assert "all 4 results" in render.counts([*old, *new])
    assert "2 miss" in render.counts([*old, *new])


def test_the_best_of_a_small_set_is_bold_and_the_newest_figure_counts() -> None:
    def record(name: str, subject: str, value: float) -> dict[str, Any]:
        more = {"minutes": 2.0} if subject == "clearhead" else None
        note = "40 training and 9 test examples"
        return results.make_record(
            measure=f"{name}: accuracy", subject=subject, median=value, more=more, note=note
        )

    found = [
        *(record("a", "clearhead", 50.0), record("a", "peer", 75.0)),
        *(record("b", "clearhead", 75.0), record("a", "clearhead", 75.0)),
    ]
    rows = render.small_table(found).splitlines()[-2:]
    assert rows == ["| a | 40 | 2.0 | **75** | **75** |", "| b | 40 | 2.0 | **75** | – |"]


def test_the_summary_names_no_target_and_three_results() -> None:
    lines = render.summary_list(RECORDS).splitlines()
    assert len(lines) == 3
    assert all("{" not in line and "missed" not in line for line in lines)


def test_a_table_that_is_out_of_date_is_found_and_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = tmp_path / "document.md"
    mark = "<!-- summary: begin, by benchmarks/render.py -->\n41.79\n<!-- summary: end -->"
    document.write_text(f"Before.\n\n{mark}\n\nAfter.\n", encoding="utf-8")
    monkeypatch.setattr(render, "DOCUMENTS", {document: ("summary",)})
    assert [render.main(words) for words in (["--check"], [], ["--check"])] == [1, 0, 0]
    text = document.read_text(encoding="utf-8")
    assert render.summary_list(RECORDS) in text
    assert "41.79" not in text
    assert text.startswith("Before.")
    assert text.endswith("After.\n")
    with pytest.raises(ValueError, match="marks"):
        render.replaced("no marks", "summary", "table")


@pytest.mark.parametrize(
    ("claim", "values", "met"),
    [
        ("trec", [91.2], True),
        ("trec", [91.19, 91.0], False),
        ("help", [0.15], True),
        ("help", [0.16], False),
        ("multi30k-de-en", [1.0], None),
    ],
)
def test_the_median_is_compared_with_the_target(
    claim: str, values: list[float], met: bool | None, tmp_path: Path
) -> None:
    found = results.Results("x", [], str(tmp_path / "x.jsonl")).add("m", "%", values, claim=claim)
    assert found["met"] is met


def test_newer_records_replace_those_of_the_same_measurement_and_machine(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"

    def run(value: float, subject: str) -> None:
        found = results.Results("x", ["--rounds", "3"], str(path))
        found.add("speed", "tokens/s", [value, value + 2, value + 1], subject=subject)
        found.write()

    run(1, "one")
    run(5, "two")
    run(7, "one")
    read = [(r["subject"], r["median"], r["min"], r["max"]) for r in results.read_records(path)]
    assert read == [("two", 6, 5, 7), ("one", 8, 7, 9)]
    elsewhere = results.read_records(path)[0]
    elsewhere["machine"]["processor"] = "another"
    results.write_records(path, [elsewhere])
    run(9, "two")
    assert [r["median"] for r in results.read_records(path)] == [6, 10]
    assert [p.name for p in tmp_path.iterdir()] == ["x.jsonl"]


def test_a_record_has_the_machine_and_the_command(tmp_path: Path) -> None:
    words = ["a/model", f"{tmp_path}/test.en", "--output", "x.jsonl", f"--set=a={tmp_path}/b"]
    found = results.Results("x", words, "x.jsonl", {"eole": "0.6.4"}, "GPU").add("m", "s", [1.0])
    assert found["command"] == "python benchmarks/x.py a/model test.en --set=a=b"
    assert found["versions"]["eole"] == "0.6.4"
    assert {"python", "clearhead", "torch"} <= found["versions"].keys()
    assert found["machine"]["gpu"] == "GPU"
    assert found["machine"]["cores"] >= 1
    assert found["machine"]["memory_gb"] > 0
    assert platform.node() not in found["machine"]["processor"].split()
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", found["date"])
