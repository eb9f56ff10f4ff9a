"""Whether data are those of before: a hash of what is read."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from clearhead.data.feature_arrays import files_of_array_folder
from clearhead.data.readers import PHRASEBOOK, Part, open_packed, phrasebook_pairs
from clearhead.errors import DataError


def content_hash(file: str, part: Part = "train") -> bytes:
    """32 bytes of hash of a file's bytes as they lie on disk, or of a part of the phrasebook.

    Of a folder: of the names and bytes of the files that are read of it.

    `part` is the part of a phrasebook named without one, as in `read_pairs`.

    Raises:
        DataError: the file is missing or cannot be read.
    """
    if file.startswith(PHRASEBOOK):
        pairs = phrasebook_pairs(file, part)
        return hashlib.blake2b(json.dumps(pairs).encode(), digest_size=32).digest()
    folder = Path(os.path.expanduser(file))
    digest = hashlib.blake2b(digest_size=32)
    if os.path.isdir(folder):
        for inner in files_of_array_folder(folder):
            digest.update(os.fsencode(os.path.relpath(inner, folder)))
            digest.update(content_hash(str(inner)))
        return digest.digest()
    with open_packed(file) as stream:
        try:
            while block := stream.read(2**20):
                digest.update(block)
        except OSError as error:
            raise DataError("the file cannot be read", where=file, why=str(error)) from None
    return digest.digest()
