"""What the benchmarks measured, as JSON lines: one record a measurement.

A record has these keys:

- `script`, `measure`, `subject`: which benchmark, what it measured, and of what.
- `unit`, `median`, `min`, `max`: the figure. `range` says what `min` and `max` are.
- `peer`: what the subject is compared with, where the figure is a ratio or a difference.
- `ratio`: of a peer's figure, that of clearhead's fastest row to it (`of`, `median`, `min`, `max`).
- `more`: other figures of the measurement, such as peak memory.
- `claim`, `at_least`, `at_most`, `met`: the claim that the figure is about, and its target.
- `machine`: `processor`, `cores`, `memory_gb`, `bf16`, `gpu`.
- `versions`, `commit`, `date`, `command`, `note`: what ran, when, how to repeat it.

Unknown values are null.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shlex
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any

from claims import CLAIMS

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
        words: its command line, without the program.
        output: the file to write; None: the script's own file in `results/`.
        peers: version of each peer.
        gpu: name of the GPU that was used, if any.
    """

    def __init__(
        self,
        script: str,
        words: Sequence[str],
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
            "command": command_line(script, words),
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
        """Write the records; older ones of the same measurement on the same machine go."""
        new = {identity(record) for record in self.records}
        old = read_records(self.path) if self.path.exists() else []
        write_records(self.path, [r for r in old if identity(r) not in new] + self.records)


def make_record(**fields: Any) -> Record:
    """A record with all keys in their order; targets and verdict are those of its claim.

    Raises:
        ValueError: a key is unknown, or the claim is.
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
    low, high = judged(found)
    found["met"] = None if low is None or high is None else claim.met(low, high)
    return found


def rounded(value: float) -> float:
    """Six significant digits, which is more than any measurement has."""
    return float(f"{value:.6g}")


def judged(record: Record) -> tuple[float | None, float | None]:
    """The figure that a target is compared with: the median, or the range where there is none."""
    if record["median"] is not None:
        return record["median"], record["median"]
    return record["min"], record["max"]


def identity(record: Record) -> tuple[object, ...]:
    """What tells a measurement on a machine apart from others."""
    place = tuple(record["machine"].get(key) for key in ("processor", "cores", "gpu"))
    what = record["claim"] or record["measure"]
    return (record["script"], what, record["subject"], record["unit"], *place)


def read_records(path: Path) -> list[Record]:
    """The records of a file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


def all_records(folder: Path = FOLDER) -> list[Record]:
    """The records of all files, in the order of the files' names."""
    return [record for path in sorted(folder.glob("*.jsonl")) for record in read_records(path)]


def write_records(path: Path, records: Iterable[Record]) -> None:
    """Write a file as a whole; an old one stays until the new one is complete."""
    lines = [json.dumps(record, ensure_ascii=False) + "\n" for record in records]
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.unfinished")
    unfinished.write_text("".join(lines), encoding="utf-8")
    unfinished.replace(path)


def machine(gpu: str = "") -> dict[str, Any]:
    """The machine: no name of a host, no path."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    name, flags = _cpu_information()
    wide = ("amx_tile", "AMX"), ("avx512f", "AVX-512"), ("avx2", "AVX2")
    best = next((f", {text}" for flag, text in wide if flag in flags), "")
    return {
        "processor": name + best,
        "cores": cores,
        "memory_gb": round(memory / 1e9, 1),
        "bf16": bool({"avx512_bf16", "amx_bf16"} & flags),
        "gpu": gpu or None,
    }


def _cpu_information() -> tuple[str, set[str]]:
    """Name and instruction sets of the processor, as far as Linux tells them."""
    path = Path("/proc/cpuinfo")
    found: dict[str, str] = {}
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            key, _, value = line.partition(":")
            found.setdefault(key.strip(), value.strip())
    name = found.get("model name") or platform.processor() or platform.machine()
    return name, set(found.get("flags", "").split())


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
    """The commit that is measured, with `-dirty` if files were changed; None outside of git."""
    words = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    try:
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def command_line(script: str, words: Sequence[str]) -> str:
    """The command that repeats a run, without `--output` and without this machine's folders."""
    kept = list(words)
    if "--output" in kept:
        place = kept.index("--output")
        del kept[place : place + 2]
    kept = [without_paths(word) for word in kept if not word.startswith("--output=")]
    return shlex.join(["python", f"benchmarks/{script}.py", *kept])


def without_paths(text: str) -> str:
    """The text with absolute paths cut down to their last part."""
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
    """A number with its digits that mean something: `1,234`, `40.79`, `0.92`."""
    if abs(value) >= 100 or value == int(value):
        return f"{value:,.0f}".replace("-", "−")
    if abs(value) < 0.1:
        return f"{value:.3g}".replace("-", "−")
    return f"{value:.2f}".replace("-", "−")


VERDICTS = {True: "met", False: "**missed**", None: "–"}


def verdict(record: Record) -> str:
    """`met`, `missed`, or a dash without a target or a figure."""
    return VERDICTS[record["met"]]


def line(record: Record) -> str:
    """A record about a claim in one line, for the terminal."""
    claim = CLAIMS[record["claim"]]
    who = " : ".join(filter(None, (record["subject"], record["peer"])))
    text = f"{claim.text}: {figure(record)}" + (f" [{who}]" if who else "")
    return f"{text}; target {claim.target}: {verdict(record).strip('*')}"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def measurement_table(records: Sequence[Record]) -> str:
    """The subjects of one measurement, the best first; a failure has its reason as its note."""
    names = list(dict.fromkeys(name for record in records for name in record["more"] or {}))
    compared = any(record["ratio"] for record in records)
    unit = records[0]["unit"]
    sign = -1 if unit.endswith("/s") else 1
    ordered = sorted(records, key=lambda r: (r["median"] is None, sign * (r["median"] or 0)))
    heads = ["", unit, *(["clearhead : peer"] if compared else []), *names, "note"]
    rows = []
    for record in ordered:
        more = record["more"] or {}
        cells = [record["subject"] or record["measure"], figure(record)]
        if compared:
            cells.append(figure({**record["ratio"], "unit": ""}) if record["ratio"] else "–")
        cells += [number(more[name]) if more.get(name) is not None else "–" for name in names]
        rows.append([*cells, (record["note"] or "").replace("|", "\\|")])
    return table(heads, rows)
