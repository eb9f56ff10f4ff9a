"""Checks of the precompiled rules with which SentencePiece normalises characters.

The library `tokenizers` trusts these rules: an index beyond the table ends the process or is an
exception in the middle of a text.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

LONGEST, LARGEST = 256, 2**21
"""More bytes than any character has in its normal form, and than the rules for all have."""

NODES = 4096  # of the table that are followed at a time


def check_charsmap(encoded: str) -> None:
    """Check that a rule finds its text, whatever the text to normalise is.

    The rules are a size in bytes, a table (a trie as a double array, as in Darts-clone) and the
    texts, each with a NUL at its end.

    Args:
        encoded: the rules in base64.

    Raises:
        ValueError: they are damaged or too large, or a text is longer than 256 bytes.
    """
    import numpy as np

    content = base64.b64decode(encoded, validate=True)
    if len(content) > LARGEST:
        raise ValueError(f"the rules for characters have more than {LARGEST:,} bytes")
    size = int.from_bytes(content[:4], "little")
    if size % 4 or size == 0 or 4 + size > len(content):
        raise ValueError("the table of the rules for characters has a wrong size")
    texts = content[4 + size :]
    texts.decode("utf-8")
    if max(map(len, texts.split(b"\0"))) > LONGEST:
        raise ValueError(f"a rule for characters writes more than {LONGEST} bytes")
    starts = _starts(np.frombuffer(content, "<u4", size // 4, offset=4).astype(np.int64))
    bytes_ = np.frombuffer(texts, np.uint8)
    if len(starts) and starts.max() >= len(bytes_):
        raise ValueError("a rule for characters has no text")
    if (bytes_[starts] & 0xC0 == 0x80).any():
        raise ValueError("the text of a rule starts inside a character")


def _starts(table: np.ndarray) -> np.ndarray:
    """Where the texts of all rules begin, from all nodes of the table that can be reached."""
    import numpy as np

    # The children of a node are at its base XOR their byte.
    bases = np.arange(len(table)) ^ ((table >> 10) << ((table & 512) >> 6))
    labels, values = table & 0x800000FF, table & 0x7FFFFFFF
    has_text = (table >> 8 & 1).astype(bool)
    bytes_ = np.arange(1, 256)
    reached = np.zeros(len(table), dtype=bool)
    reached[0] = True
    nodes = np.zeros(1, dtype=np.int64)
    while len(nodes):
        followed, nodes = nodes[:NODES], nodes[NODES:]
        if (bases[followed] | 255).max() >= len(table):
            raise ValueError("the table of the rules for characters ends before a node")
        children = bases[followed, None] ^ bytes_
        found = np.unique(children[labels[children] == bytes_])
        found = found[~reached[found]]
        reached[found] = True
        nodes = np.concatenate((found, nodes))
    return values[bases[reached & has_text]]
