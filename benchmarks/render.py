"""Write the results of the benchmarks into the documents, from the records in benchmarks/results.

    .venv/bin/python benchmarks/render.py             # update all documents
    .venv/bin/python benchmarks/render.py --check     # exit code 1 if one is out of date
    .venv/bin/python benchmarks/render.py --measurements speed   # print all figures of a script

The tables are in docs/explanation/benchmarks.md, all results in docs/explanation/benchmark-log.md,
and a summary in README.md and docs/index.md.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from claims import CLAIMS, SEARCHES, SIZES
from results import Record, all_records, comparison, figure, measurement_table, table, verdict

ROOT = Path(__file__).parents[1]
MACHINE = "AMD EPYC, AVX-512"
"""The processor of the short tables and of the summary. All its records have bf16 and two cores."""
NOT_RECORDED = "not recorded"
TABLES = {
    "quality": (
        *("multi30k-en-de", "multi30k-de-en", "trec", "vowels", "pretrained-accuracy", "linear"),
        *("marian-bleu", "placeholders", "glossary-placed", "glossary-rest", "confidence"),
        "alignment",
    ),
    "training": (
        *(f"training-{size}-{kind}" for size in SIZES for kind in ("float32", "bf16", "bf16-kept")),
        *(f"memory-{size}-{kind}-any" for size in SIZES for kind in ("float32", "bf16")),
        *("multi30k-en-de-minutes", "pretrained-time", "marian-time"),
    ),
    "decoding": (
        *(
            f"decoding-{size}-{search}-{peer}"
            for size in SIZES
            for search in SEARCHES
            for peer in ("auto", "python")
        ),
        *("cold-tiny", "cold-base"),
    ),
    "reliability": (
        *("demo-right", "same-bleu", "same-bleu-bf16", "batch-invariance", "killed-runs"),
        *("faults-of-saving", "disk-errors", "damaged-files", "hostile-files"),
        *("beside-1", "beside-2"),
    ),
}
"""The claims of each short table."""
DOCUMENTS = {
    ROOT / "docs" / "explanation" / "benchmarks.md": ("counts", "small", *TABLES),
    ROOT / "docs" / "explanation" / "benchmark-log.md": ("claims", "beside"),
    ROOT / "README.md": ("summary",),
    ROOT / "docs" / "index.md": ("summary",),
}
"""The documents, and the marks of what each contains."""


def main(words: list[str] | None = None) -> int:
    """Render; with `--check` return 1 if a document differs from what would be rendered."""
    parser = ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only report documents to update")
    parser.add_argument("--measurements", metavar="SCRIPT", help="print all figures of a script")
    options = parser.parse_args(words)
    records = all_records()
    if options.measurements:
        print(measurement_tables([r for r in records if r["script"] == options.measurements]))
        return 0
    tables = {
        "claims": claims_table(records),
        "summary": summary_list(records),
        "counts": counts(records),
        **{name: short_table(keys, records) for name, keys in TABLES.items()},
        "beside": beside_tables(records),
        "small": small_table([r for r in records if r["script"] == "small_sets"]),
    }
    outdated = 0
    for path, marks in DOCUMENTS.items():
        new = old = path.read_text(encoding="utf-8")
        for mark in marks:
            new = replaced(new, mark, tables[mark])
        if new != old and options.check:
            print(f"{path} is out of date: run benchmarks/render.py")
            outdated = 1
        elif new != old:
            path.write_text(new, encoding="utf-8")
    return outdated


def replaced(document: str, mark: str, text: str) -> str:
    """The document with the text between its two marks.

    Raises:
        ValueError: the document has no such marks.
    """
    begin, end = f"<!-- {mark}: begin, by benchmarks/render.py -->", f"<!-- {mark}: end -->"
    before, found, rest = document.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"the document has no marks {begin} and {end}")
    return f"{before}{begin}\n\n{text}\n\n{end}{after}"


def claims_table(records: Sequence[Record]) -> str:
    """A row for each claim and machine; only the first row of a claim has its text and target."""
    rows = []
    for claim in CLAIMS.values():
        first = [claim.text, claim.target]
        found = [claim_cells(record) for record in records if record["claim"] == claim.key]
        for cells in found or [["", "not measured", "", ""]]:
            rows.append([*first, *cells])
            first = ["", ""]
    return table(["claim", "target", "measured", "result", "machine", "command"], rows)


def claim_cells(record: Record) -> list[str]:
    """Figure, verdict, machine and command of the record of a claim."""
    cell = figure(record)
    if record["range"] not in (None, "rounds", "seeds", "folds"):
        cell += f", {record['range']}"
    cell = "; ".join(filter(None, (cell, comparison(record))))
    return [cell, verdict(record), machine_text(record["machine"]), f"`{record['command']}`"]


def shown_records(key: str, records: Sequence[Record]) -> list[Record]:
    """The newest records of a claim on `MACHINE`, or else on a machine that was not recorded.

    Of records without dates, the first and those of the same command.
    """
    for place in (MACHINE, NOT_RECORDED):
        here = [r for r in records if r["claim"] == key and r["machine"]["processor"] == place]
        if here:
            newest = max(here, key=lambda record: record["date"] or "")
            same = "date" if newest["date"] else "command"
            return [r for r in here if r["date"] == newest["date"] and r[same] == newest[same]]
    return []


def short_table(keys: Sequence[str], records: Sequence[Record]) -> str:
    """A row for each claim; it misses its target if one of its figures does."""
    rows = []
    for key in keys:
        claim, found = CLAIMS[key], shown_records(key, records)
        subjects: dict[str, list[str]] = {}
        for record in found:
            subjects.setdefault(figure(record), []).append(comparison(record))
        cells = ["; ".join(filter(None, (name, *of))) for name, of in subjects.items()]
        if found and found[0]["machine"]["processor"] == NOT_RECORDED:
            cells.append("machine not recorded")
        results = [record["met"] for record in found] or [None]
        result = verdict({"met": False if False in results else results[0]})
        rows.append([claim.text, claim.target, "<br>".join(cells) or "not measured", result])
    return table(["benchmark", "target", "measured", "result"], rows)


def counts(records: Sequence[Record]) -> str:
    """How many results there are, and how many miss their target."""
    met = [record["met"] for record in records if record["claim"]]
    return (
        f"The [log](benchmark-log.md) has all {len(met)} results, on all machines. "
        f"{len(met) - met.count(None)} of them have a target, and {met.count(False)} miss it."
    )


def summary_list(records: Sequence[Record]) -> str:
    """The claims with a summary, a sentence each."""
    return "\n".join(
        f"- {claim.summary.format(f'**{figure(shown_records(claim.key, records)[0])}**')}"
        for claim in CLAIMS.values()
        if claim.summary
    )


def measurement_tables(records: Sequence[Record]) -> str:
    """All figures that belong to no claim, a table for each measurement and machine."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        if record["claim"] is None:
            key = f"{record['measure']} ({record['unit']})", machine_text(record["machine"])
            groups.setdefault(key, []).append(record)
    return "\n\n".join(
        f"### {name}: {where}\n\n{measurement_table(group)}"
        for (name, where), group in groups.items()
    )


def small_table(records: Sequence[Record]) -> str:
    """A row for each small set: the last accuracy of each classifier, and the minutes of ours."""
    sets: dict[str, dict[str, Record]] = {}
    for record in records:
        sets.setdefault(record["measure"].partition(":")[0], {})[record["subject"]] = record
    names = dict.fromkeys(subject for found in sets.values() for subject in found)
    rows = []
    for name, found in sets.items():
        best = max(record["median"] for record in found.values())
        cells = [figure(found[each]) if each in found else "–" for each in names]
        for column, each in enumerate(names):
            if each in found and found[each]["median"] == best:
                cells[column] = f"**{cells[column]}**"
        own = found["clearhead"]
        examples = own["note"].partition(" training")[0]
        rows.append([name, examples, f"{own['more']['minutes']:.1f}", *cells])
    return table(["set", "training examples", "minutes", *names], rows)


def beside_tables(records: Sequence[Record]) -> str:
    """For each machine the relative speeds of `beside.py`: a column for each setting.

    A cell is the geometric mean over the measurements of a work and a size. The unit of each
    measurement is the speed of its fastest setting alone.
    """
    machines: dict[str, list[Record]] = {}
    for record in records:
        if record["script"] == "beside" and record["claim"] is None and record["median"]:
            machines.setdefault(machine_text(record["machine"]), []).append(record)
    parts = [f"{where}:\n\n{_beside_table(found)}" for where, found in machines.items()]
    return "\n\n".join(parts) or "not measured"


def _beside_table(records: Sequence[Record]) -> str:
    best: dict[str, float] = {}
    for record in records:
        best[record["measure"]] = max(record["median"], best.get(record["measure"], 0.0))
    cells: dict[tuple[str, str], dict[str, list[float]]] = {}
    for record in records:
        group = record["measure"].partition(",")[0]
        for beside, speed in {"alone": record["median"], **record["more"]}.items():
            values = cells.setdefault((group, beside), {}).setdefault(record["subject"], [])
            values.append(speed / best[record["measure"]])
    settings = list(dict.fromkeys(record["subject"] for record in records))
    rows = [
        [*names, *(f"{geometric_mean(v):.2f}" if (v := row.get(s)) else "–" for s in settings)]
        for names, row in cells.items()
    ]
    return table(["work", "busy processes", *(f"`{name}`" for name in settings)], rows)


def machine_text(machine: dict[str, Any]) -> str:
    """The machine in a few words: `AMD EPYC, AVX-512, bf16, 2 cores`."""
    memory = f"{machine['memory_gb']:g} GB" if machine["memory_gb"] else ""
    cores = f"{machine['cores']} cores" if machine["cores"] else ""
    bf16 = "bf16" if machine["bf16"] else ""
    return ", ".join(filter(None, (machine["gpu"], machine["processor"], bf16, cores, memory)))


if __name__ == "__main__":
    sys.exit(main())
