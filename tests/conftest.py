"""What all tests share: checked shapes, one thread, reproducible hypothesis, the real data.

Also no waiting for the disk.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from jaxtyping import config, install_import_hook

from clearhead.device import imported

if TYPE_CHECKING:
    from clearhead.api import Translator

# As clearhead imports it, before a test module does: otherwise several threads are warned of.
imported("torch")

# Before anything imports them: the shapes in their signatures are then checked at every call, but
# only in the tests of these folders. A training takes half as long again with these checks.
CHECKED_IN = ("model", "losses", "decoding", "tasks", "inspect", "evaluation")
CHECKED = (
    *("clearhead.model", "clearhead.losses"),
    *("clearhead.decoding.fast_decoder", "clearhead.decoding.cache"),
)
install_import_hook(CHECKED, "beartype.beartype")

settings.register_profile("clearhead", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("clearhead")


def pytest_runtest_setup(item: pytest.Item) -> None:
    folder = item.path.relative_to(Path(__file__).parent).parts[0]
    config.update("jaxtyping_disable", folder not in CHECKED_IN)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with slow tests first, so that no worker begins with one when the others end."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    """The tests' tensors are small, and the cores are for the other workers."""
    import torch

    torch.set_num_threads(1)


@pytest.fixture(scope="session", autouse=True)
def _no_waiting_for_the_disk() -> Iterator[None]:
    """A small training syncs a hundred files; what a power cut leaves is tested in `faults`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", os.fstat)
        yield


@pytest.fixture(scope="session", autouse=True)
def _ctrl_c_arrives() -> None:
    """With `make test &` in a script it is ignored, also by the programs that tests start."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def clearhead_data() -> Path:
    """The folder with the real data (`multi30k/`, `trec/`, `japanese-vowels/`)."""
    folder = os.environ.get("CLEARHEAD_DATA")
    if not folder:
        pytest.skip("CLEARHEAD_DATA names no folder with the real data")
    path = Path(folder)
    if not path.is_dir():
        pytest.fail(f"CLEARHEAD_DATA = {folder} is not a folder")
    return path


@pytest.fixture(scope="session")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    """A small trained translator."""
    from clearhead import api
    from small_runs import small_run

    folder = tmp_path_factory.mktemp("translator")
    config = small_run(folder, max_steps=60, validate_every=60)
    api.train(config)
    return api.load_translator(config.folder, device="cpu")


@pytest.fixture(autouse=True)
def _denormal_numbers() -> Iterator[None]:
    """Training flushes denormal numbers in the whole process, but hypothesis needs them."""
    import torch

    yield
    torch.set_flush_denormal(False)
