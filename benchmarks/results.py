"""Records of measurements as JSON lines, and Markdown tables of them.

A record has these keys; unknown values are null:

- `script`, `measure`, `subject`: the benchmark, the measurement, and what was measured.
- `unit`, `median`, `min`, `max`: the figure. `range` is what `min` and `max` are the range of.
- `peer`: what the subject is compared with, if the figure is a ratio or a difference.
- `ratio`: clearhead's fastest row divided by this one (`of`, `median`, `min`, `max`).
- `more`: other figures of the measurement, such as peak memory.
- `claim`, `at_least`, `at_most`, `met`: the claim that the figure belongs to, and its target.
- `machine`: `processor`, `cores`, `memory_gb`, `bf16`, `gpu`.
- `versions`, `commit`, `date`, `command`, `note`: how to repeat the measurement.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any

from claims import CLAIMS

from clearhead.folder.files import write_bytes

FOLDER = Path(__file__).parent / "results"
KEYS = (
    *("script", "measure", "subject", "peer", "unit", "median", "min", "max", "range", "ratio"),
    *("more", "claim", "at_least", "at_most", "met", "machine", "versions", "commit", "date"),
    *("command", "note"),
)
MACHINE_KEYS = ("processor", "cores", "memory_gb", "bf16", "gpu")
PACKAGES = ("clearhead", "torch", "ctranslate2")
Record = dict[str, Any]


class Results:
    """Collects the records of one run and writes them.

    Args:
        script: the benchmark's name.
        words: its arguments; None: those of this process.
        output: the file to write; None: the script's own file in `results/`.
        peers: the version of each peer.
        gpu: the name of the GPU, if one is used.
    """

    def __init__(
        self,
        script: str,
        words: Sequence[str] | None,
        output: str | None = None,
        peers: Mapping[str, str] | None = None,
        gpu: str = "",
    ) -> None:
        self.script = script
        self.path = Path(output) if output else FOLDER / f"{script}.jsonl"
        self.records: list[Record] = []
        self._same = {
            "machine": machine(gpu),
            "versions": {**versions(), **(peers or {})},
            "commit": commit(),
            "date": datetime.now(UTC).date().isoformat(),
            "command": command_line(script, sys.argv[1:] if words is None else words),
        }

    def add(self, measure: str, unit: str, values: Sequence[float], **fields: Any) -> Record:
        """Add a measurement: the median and the range of its values; `fields` are other keys."""
        found = make_record(
            script=self.script,
            measure=measure,
            unit=unit,
            **{
                "median": rounded(median(values)) if values else None,
                "min": rounded(min(values)) if len(values) > 1 else None,
                "max": rounded(max(values)) if len(values) > 1 else None,
                **self._same,
                **fields,
            },
        )
        self.records.append(found)
        return found

    def write(self) -> None:
        """Write the records; they replace those of the same measurement on the same machine."""
        new = {identity(record) for record in self.records}
        old = read_records(self.path) if self.path.exists() else []
        write_records(self.path, [r for r in old if identity(r) not in new] + self.records)


def make_record(**fields: Any) -> Record:
    """A record with all keys in their order, and the target and verdict of its claim.

    Raises:
        ValueError: a key or the claim is unknown.
    """
    if unknown := fields.keys() - set(KEYS):
        raise ValueError(f"unknown keys: {sorted(unknown)}")
    found: Record = {key: fields.get(key) for key in KEYS}
    if found["note"]:
        found["note"] = without_paths(found["note"])
    if found["claim"] is None:
        return found
    if found["claim"] not in CLAIMS:
        raise ValueError(f"unknown claim: {found['claim']}")
    claim = CLAIMS[found["claim"]]
    found |= {"at_least": claim.at_least, "at_most": claim.at_most}
    # Without a median, the worse end of the range counts.
    ends = ("min", "max") if found["median"] is None else ("median", "median")
    low, high = (found[key] for key in ends)
    found["met"] = None if low is None or high is None else claim.met(low, high)
    return found


def rounded(value: float) -> float:
    """Six significant digits, more than any measurement has."""
    return float(f"{value:.6g}")


def identity(record: Record) -> tuple[object, ...]:
    """The key of a measurement on a machine."""
    where = tuple(record["machine"].get(key) for key in ("processor", "cores", "gpu"))
    what = record["claim"] or record["measure"]
    return (record["script"], what, record["subject"], record["unit"], *where)


def read_records(path: Path) -> list[Record]:
    """The records of a file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


def all_records(folder: Path = FOLDER) -> list[Record]:
    """The records of all files, in the order of the files' names."""
    return [record for path in sorted(folder.glob("*.jsonl")) for record in read_records(path)]


def write_records(path: Path, records: Iterable[Record]) -> None:
    """Write a file completely or not at all."""
    lines = [json.dumps(record, ensure_ascii=False) + "\n" for record in records]
    write_bytes(path, "".join(lines).encode())


def machine(gpu: str = "") -> dict[str, Any]:
    """The machine, without its host name."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    found: dict[str, str] = {}
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        key, _, value = line.partition(":")
        found.setdefault(key.strip(), value.strip())
    flags = set(found.get("flags", "").split())
    wide = ("amx_tile", "AMX"), ("avx512f", "AVX-512"), ("avx2", "AVX2")
    best = next((f", {text}" for flag, text in wide if flag in flags), "")
    return {
        "processor": found.get("model name", platform.machine()) + best,
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(memory / 1e9, 1),
        "bf16": bool({"avx512_bf16", "amx_bf16"} & flags),
        "gpu": gpu or None,
    }


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that are installed."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def commit() -> str | None:
    """The commit, with `-dirty` if files were changed; None outside of a git repository."""
    words = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    try:
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def command_line(script: str, words: Sequence[str]) -> str:
    """The command that repeats a run, without `--output` and without the names of folders."""
    kept = list(words)
    if "--output" in kept:
        first = kept.index("--output")
        del kept[first : first + 2]
    kept = [without_paths(word) for word in kept if not word.startswith("--output=")]
    return shlex.join(["python", f"benchmarks/{script}.py", *kept])


def without_paths(text: str) -> str:
    """The text, with only the last part of absolute paths."""
    return re.sub(r"(?<![\w.~])~?(?:/[^\s/'\":,]+)+/([^\s/'\":,]+)", r"\1", text)


def figure(record: Record) -> str:
    """The figure with its range: `2.66 (2.38–2.70)`, `4.1–6.7`."""
    low, high = record["min"], record["max"]
    span = "" if low is None or high is None else f"{number(low)}–{number(high)}"
    if record["median"] is None:
        return span or "–"
    unit = {"%": " %", "times": "×", "s": " s", "MB": " MB"}.get(record["unit"], "")
    return f"{number(record['median'])}{unit}" + (f" ({span})" if span else "")


def number(value: float) -> str:
    """A number with its significant digits: `1,234`, `40.79`, `0.92`."""
    style = ",.0f" if abs(value) >= 100 or value == int(value) else ".2f"
    return format(value, ".3g" if 0 < abs(value) < 0.1 else style).replace("-", "−")


def verdict(record: Record) -> str:
    """`met`, `missed`, or a dash without a target or a figure."""
    return {True: "met", False: "**missed**", None: "–"}[record["met"]]


def comparison(record: Record) -> str:
    """The subject and what it is compared with: `clearhead bf16 : eole bf16`."""
    return " : ".join(filter(None, (record["subject"], record["peer"])))


def line(record: Record) -> str:
    """The record of a claim in one line, for the terminal."""
    claim, who = CLAIMS[record["claim"]], comparison(record)
    text = f"{claim.text}: {figure(record)}" + (f" [{who}]" if who else "")
    return f"{text}; target {claim.target}: {verdict(record).strip('*')}"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def measurement_table(records: Sequence[Record]) -> str:
    """The subjects of one measurement, the best first; the note of a failure is its reason."""
    names = list(dict.fromkeys(name for record in records for name in record["more"] or {}))
    compared = any(record["ratio"] for record in records)
    unit = records[0]["unit"]
    sign = -1 if unit.endswith("/s") else 1
    ordered = sorted(records, key=lambda r: (r["median"] is None, sign * (r["median"] or 0)))
    heads = ["subject", unit, *(["clearhead : peer"] if compared else []), *names, "note"]
    rows = []
    for record in ordered:
        more = record["more"] or {}
        cells = [record["subject"] or record["measure"], figure(record)]
        if compared:
            cells.append(figure({**record["ratio"], "unit": ""}) if record["ratio"] else "–")
        cells += [number(more[name]) if more.get(name) is not None else "–" for name in names]
        rows.append([*cells, (record["note"] or "").replace("|", "\\|")])
    return table(heads, rows)


def print_results(records: Sequence[Record]) -> None:
    """Print a table for each measurement, then the claims."""
    for name in dict.fromkeys(record["measure"] for record in records):
        if rows := [r for r in records if r["measure"] == name and r["claim"] is None]:
            print(f"### {name}\n\n{measurement_table(rows)}\n")
    for record in records:
        if record["claim"] is not None:
            print(line(record))
    print(flush=True)
