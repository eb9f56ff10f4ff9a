"""How many cores there are, of processors that may share one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from clearhead.decoding import cores


def tell(folder: Path, siblings: list[str]) -> None:
    """Write of each processor which of them share its core, as Linux tells it."""
    for processor, sharing in enumerate(siblings):
        topology = folder / f"cpu{processor}" / "topology"
        topology.mkdir(parents=True)
        (topology / "thread_siblings_list").write_text(f"{sharing}\n")


@pytest.mark.parametrize(
    ("siblings", "allowed", "expected"),
    [
        (["0", "1"], {0, 1}, 2),
        (["0-1", "0-1"], {0, 1}, 1),
        (["0,2", "1,3", "0,2", "1,3"], {0, 1, 2, 3}, 2),
        (["0,2", "1,3", "0,2", "1,3"], {0, 2}, 1),
        ([], {0, 1, 2}, 3),
    ],
)
def test_processors_that_share_a_core_count_once(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    siblings: list[str],
    allowed: set[int],
    expected: int,
) -> None:
    tell(tmp_path, siblings)
    monkeypatch.setattr(cores, "PROCESSORS", tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: allowed, raising=False)
    assert cores.real_cores() == expected
    assert cores.processors() == len(allowed)


def test_intel_s_processors_are_known_by_their_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = tmp_path / "cpuinfo"
    monkeypatch.setattr(cores, "INFORMATION", told)
    assert not cores.intel()
    for vendor, expected in {"GenuineIntel": True, "AuthenticAMD": False}.items():
        told.write_text(f"processor\t: 0\nvendor_id\t: {vendor}\n")
        assert cores.intel() == expected


def test_elsewhere_every_processor_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert cores.real_cores() == 6
    assert cores.processors() == 6


def test_this_machine_has_at_least_one_core_and_no_more_than_processors() -> None:
    assert 1 <= cores.real_cores() <= (os.cpu_count() or 1)
