"""Files of tensors: they come back bit for bit, or are found to be damaged."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from clearhead.errors import ClearheadError, ModelFolderError
from clearhead.folder.manifest import entry_of
from clearhead.folder.tensors import read_facts, read_tensors, save_tensors


def test_tensors_and_facts_come_back_bit_for_bit_and_the_bytes_are_always_the_same(
    tmp_path: Path,
) -> None:
    """In every process: safetensors alone puts the metadata into a random order."""
    tensors = {
        **{"a": torch.randn(3, 4).T, "b": torch.tensor(float("nan")), "é \n": torch.arange(3)},
        **{"c": torch.randn(5).bfloat16(), "empty": torch.zeros(0, 4)},
    }
    facts = {"text": 'é "\\ \x7f\u2028\n\0', "number": 0.1, "nested": {"a": [1, None]}}
    for name in map(str, range(8)):
        save_tensors(tmp_path / name, tensors, facts)
        assert (tmp_path / name).read_bytes() == (tmp_path / "0").read_bytes()
    found, read = read_tensors(tmp_path / "0", entry_of(tmp_path / "0"))
    assert read == read_facts(tmp_path / "0") == facts
    assert found.keys() == tensors.keys()
    for name, tensor in tensors.items():
        torch.testing.assert_close(found[name], tensor, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("facts", [None, "{", "[]", "[" * 100_000])
def test_lost_facts_are_an_error(tmp_path: Path, facts: str | None) -> None:
    metadata = None if facts is None else {"facts": facts}
    save_file({"a": torch.ones(2)}, tmp_path / "file", metadata=metadata)
    for read in (read_tensors, read_facts):
        with pytest.raises(ModelFolderError) as caught:
            read(tmp_path / "file")
        assert caught.value.where == str(tmp_path / "file")


def test_the_entry_of_a_manifest_counts(tmp_path: Path) -> None:
    path = tmp_path / "file"
    save_tensors(path, {"a": torch.ones(2)}, {})
    entry = entry_of(path)
    save_tensors(path, {"a": torch.zeros(2)}, {})
    assert read_tensors(path)[0]
    with pytest.raises(ModelFolderError) as caught:
        read_tensors(path, entry)
    assert caught.value.where == str(path)


@pytest.mark.parametrize("kind", ["missing", "folder", "cut off"])
def test_what_is_no_file_of_tensors_is_named(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "file"
    if kind == "folder":
        path.mkdir()
    elif kind == "cut off":
        save_tensors(path, {"a": torch.ones(2)}, {})
        path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ClearheadError) as caught:
        read_tensors(path)
    assert caught.value.where == str(path)
