"""Files of tensors: they come back bit for bit, or are found to be damaged."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from clearhead.checkpoint.tensors import read_tensors, write_tensors
from clearhead.errors import ModelFolderError


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
