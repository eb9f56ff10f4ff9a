"""Files of tensors: they come back bit for bit, or are found to be damaged."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from clearhead.errors import ModelFolderError
from clearhead.folder.manifest import entry_of
from clearhead.folder.tensors import read_tensors, write_tensors


def test_tensors_and_facts_come_back_bit_for_bit(tmp_path: Path) -> None:
    tensors = {
        "a": torch.randn(3, 4).T,
        "b": torch.tensor(float("nan")),
        "c": torch.randn(5).bfloat16(),
    }
    write_tensors(tmp_path / "file", tensors, {"step": 3, "names": ["ü"]})
    found, facts = read_tensors(tmp_path / "file")
    assert facts == {"step": 3, "names": ["ü"]}
    for name, tensor in tensors.items():
        torch.testing.assert_close(found[name], tensor, rtol=0, atol=0, equal_nan=True)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("facts", [None, "{"])
def test_lost_facts_are_an_error(tmp_path: Path, facts: str | None) -> None:
    path = tmp_path / "file"
    digest = write_tensors(path, {"a": torch.ones(2)}, {})
    metadata = {"digest": digest} | ({} if facts is None else {"facts": facts})
    save_file({"a": torch.ones(2)}, path, metadata=metadata)
    with pytest.raises(ModelFolderError, match="the weights are damaged"):
        read_tensors(path)


def raw(path: Path) -> tuple[dict[str, Any], bytes]:
    """The header and the numbers of a safetensors file."""
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    return json.loads(content[8 : 8 + length]), content[8 + length :]


def write_raw(path: Path, header: dict[str, Any], numbers: bytes) -> None:
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + numbers)


CHANGES: dict[str, Callable[[dict[str, Any]], None]] = {
    "facts": lambda header: header["__metadata__"].update(facts='{"batch": 520}'),
    "type": lambda header: header["a"].update(dtype="I32"),
    "shape": lambda header: header["a"].update(shape=[6, 4]),
    "name": lambda header: header.update(b=header.pop("a")),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_header_is_found(tmp_path: Path, change: str) -> None:
    path = tmp_path / "file"
    write_tensors(path, {"a": torch.randn(4, 6)}, {"batch": 120})
    header, numbers = raw(path)
    write_raw(path, header, numbers)
    assert read_tensors(path)[1] == {"batch": 120}
    CHANGES[change](header)
    write_raw(path, header, numbers)
    with pytest.raises(ModelFolderError, match="damaged"):
        read_tensors(path)


def test_a_file_of_an_early_version_is_read_and_its_numbers_are_checked(tmp_path: Path) -> None:
    path, tensor = tmp_path / "file", torch.randn(3, 2)
    digest = hashlib.blake2b(b"a" + tensor.numpy().tobytes(), digest_size=16).hexdigest()
    save_file({"a": tensor}, path, metadata={"facts": '{"step": 3}', "digest": digest})
    found, facts = read_tensors(path)
    assert torch.equal(found["a"], tensor)
    assert facts == {"step": 3}
    save_file({"a": tensor + 1}, path, metadata={"facts": '{"step": 3}', "digest": digest})
    with pytest.raises(ModelFolderError, match="damaged"):
        read_tensors(path)


def test_the_entry_of_a_manifest_counts(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_tensors(path, {"a": torch.ones(2)}, {})
    entry = entry_of(path)
    assert read_tensors(path, entry)[1] == {}
    write_tensors(path, {"a": torch.zeros(2)}, {})
    with pytest.raises(ModelFolderError):
        read_tensors(path, entry)


def test_the_same_tensors_and_facts_are_the_same_bytes(tmp_path: Path) -> None:
    """In every process: safetensors alone puts the metadata into a random order."""
    tensors = {"é \n": torch.ones(2), "b": torch.arange(3), "a": torch.zeros(0, 4)}
    facts = {"text": 'é "\\ \x7f\u2028\n\0', "number": 0.1, "nested": {"a": [1, None]}}
    write_tensors(tmp_path / "first", tensors, facts)
    for name in map(str, range(8)):
        write_tensors(tmp_path / name, tensors, facts)
        assert (tmp_path / name).read_bytes() == (tmp_path / "first").read_bytes()
    found, read = read_tensors(tmp_path / "first")
    assert read == facts
    assert found.keys() == tensors.keys()
    assert all(torch.equal(found[name], tensors[name]) for name in tensors)
