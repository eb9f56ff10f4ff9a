"""Render tables from the records in benchmarks/results: the README's, and those of the documents.

.venv/bin/python benchmarks/render.py                  # write the table into README.md
.venv/bin/python benchmarks/render.py --check          # exit code 1 if it is out of date
.venv/bin/python benchmarks/render.py --summary        # print the small table
.venv/bin/python benchmarks/render.py --summary-into README.md docs/index.md
.venv/bin/python benchmarks/render.py --measurements speed   # print all figures of a script
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from claims import CLAIMS
from results import Record, all_records, figure, measurement_table, table, verdict

README = Path(__file__).parent / "README.md"
CLAIMS_MARK, SUMMARY_MARK = "claims", "summary"


def main(words: list[str] | None = None) -> int:
    """Render; with `--check` return 1 if a file differs from what would be rendered."""
    parser = ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail on a difference")
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--summary", action="store_true", help="print the small table")
    only.add_argument(
        "--summary-into",
        nargs="+",
        type=Path,
        metavar="FILE",
        help="write the small table between the marks of these files too",
    )
    only.add_argument("--measurements", metavar="SCRIPT", help="print all figures of a script")
    options = parser.parse_args(words)
    records = all_records()
    if options.summary:
        print(summary_table(records))
        return 0
    if options.measurements:
        print(measurement_tables([r for r in records if r["script"] == options.measurements]))
        return 0
    parts = [(README, CLAIMS_MARK, claims_table(records))]
    parts += [(path, SUMMARY_MARK, summary_table(records)) for path in options.summary_into or ()]
    stale = []
    for path, mark, text in parts:
        old = path.read_text(encoding="utf-8")
        new = replaced(old, mark, text)
        if new != old:
            stale.append(path.name)
            if not options.check:
                path.write_text(new, encoding="utf-8")
    if options.check and stale:
        print(f"out of date: {', '.join(stale)}; run benchmarks/render.py")
        return 1
    return 0


def replaced(document: str, mark: str, text: str) -> str:
    """The document with the text between its two marks.

    Raises:
        ValueError: the marks are not there.
    """
    begin, end = f"<!-- {mark}: begin, by benchmarks/render.py -->", f"<!-- {mark}: end -->"
    before, found, rest = document.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"the document has no marks {begin} and {end}")
    return f"{before}{begin}\n\n{text}\n\n{end}{after}"


def claims_table(records: Sequence[Record]) -> str:
    """A row for each claim and each machine that it was measured on; its name is in the first."""
    rows = []
    for claim in CLAIMS.values():
        found = [record for record in records if record["claim"] == claim.key]
        first = [claim.text, claim.target]
        for record in found:
            rows.append([*first, *claim_cells(record)])
            first = ["", ""]
        if not found:
            rows.append([*first, "", "not measured", "", ""])
    return table(["claim", "target", "measured", "", "machine", "command"], rows)


def claim_cells(record: Record) -> list[str]:
    """Figure, verdict, machine and command of a record about a claim."""
    who = " : ".join(filter(None, (record["subject"], record["peer"])))
    cell = figure(record)
    if record["range"] not in (None, "rounds", "seeds", "folds"):
        cell += f", {record['range']}"
    return [
        f"{cell}; {who}" if who else cell,
        verdict(record),
        machine_text(record["machine"]),
        f"`{record['command']}`",
    ]


def summary_table(records: Sequence[Record]) -> str:
    """Speed and quality in a few rows: of each claim the newest record, else the first."""
    rows = []
    for claim in CLAIMS.values():
        found = [record for record in records if record["claim"] == claim.key]
        if claim.summary and found:
            newest = max(found, key=lambda record: record["date"] or "")
            place = machine_text(newest["machine"])
            rows.append([claim.summary, figure(newest), claim.target, verdict(newest), place])
    return table(["", "measured", "target", "", "machine"], rows)


def measurement_tables(records: Sequence[Record]) -> str:
    """All figures that are no claims, a table for each measurement and machine."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        if record["claim"] is None:
            key = f"{record['measure']} ({record['unit']})", machine_text(record["machine"])
            groups.setdefault(key, []).append(record)
    return "\n\n".join(
        f"### {name}: {place}\n\n{measurement_table(group)}"
        for (name, place), group in groups.items()
    )


def machine_text(machine: dict[str, Any]) -> str:
    """The machine in a few words: `AMD EPYC, AVX-512, bf16, 2 cores`."""
    memory = f"{machine['memory_gb']:g} GB" if machine["memory_gb"] else ""
    cores = f"{machine['cores']} cores" if machine["cores"] else ""
    bf16 = "bf16" if machine["bf16"] else ""
    parts = (machine["gpu"], machine["processor"], bf16, cores, memory)
    return ", ".join(part for part in parts if part)


if __name__ == "__main__":
    sys.exit(main())
