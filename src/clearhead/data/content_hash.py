"""Whether a file is that of before: a hash of its content."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from clearhead.data.arrays import files_of_array_folder
from clearhead.data.lines import open_packed
from clearhead.data.phrasebook import PHRASEBOOK, Part, phrasebook_pairs
from clearhead.errors import DataError


def content_hash(file: str, part: Part = "train") -> bytes:
    """32 bytes of hash of a file's bytes as they lie on disk, or of a part of the phrasebook.

    `part` is the part of a phrasebook named without one, as in `read_pairs`.

    Raises:
        DataError: the file is missing or cannot be read.
    """
    if file.startswith(PHRASEBOOK):
        pairs = phrasebook_pairs(file, part)
        return hashlib.blake2b(json.dumps(pairs).encode(), digest_size=32).digest()
    digest = hashlib.blake2b(digest_size=32)
    with open_packed(file) as stream:
        try:
            while block := stream.read(2**20):
                digest.update(block)
        except OSError as error:
            raise DataError("the file cannot be read", where=file, why=str(error)) from None
    return digest.digest()


# ---- data.folder_hash
# Whether a folder of feature sequences is that of before: a hash of what is read of it.


def folder_hash(folder: Path) -> bytes:
    """32 bytes of hash of the files that are read, their names within the folder, `labels.csv`.

    Raises:
        DataError: a file is missing or cannot be read.
    """
    digest = hashlib.blake2b(digest_size=32)
    for file in files_of_array_folder(folder):
        digest.update(os.fsencode(os.path.relpath(file, folder)))
        digest.update(content_hash(str(file)))
    return digest.digest()
