"""A few hostile files for every reader; `fuzz.py` makes many, with a limit of memory."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clearhead.errors import ClearheadError

sys.path.append(str(Path(__file__).parent))

from readers import READERS, attack

Attack = Callable[[int], None]


@pytest.fixture(scope="module", params=READERS)
def attack_with(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Attack:
    """Reads one hostile folder, which the number determines."""
    if request.param == "export":
        pytest.importorskip("ctranslate2")
    folder, reader = tmp_path_factory.mktemp("fuzz"), READERS[request.param]
    (folder / "valid").mkdir()
    reader.write(folder / "valid")

    def attack_once(number: int) -> None:
        attack(reader, folder / "valid", folder / "work", Random(number))

    return attack_once


@pytest.mark.slow
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(number=st.integers(0, 2**32))
def test_a_hostile_file_is_read_or_raises_an_error_of_clearhead(
    number: int, attack_with: Attack
) -> None:
    with suppress(ClearheadError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        attack_with(number)


def test_valid_files_are_read(tmp_path: Path) -> None:
    for name, reader in READERS.items():
        if name in ("export", "set"):  # the first needs CTranslate2, the second is always hostile
            continue
        (tmp_path / name).mkdir()
        reader.write(tmp_path / name)
        reader.read(tmp_path / name, Random(1))
