"""Whether a folder of feature sequences is that of before: a hash of what is read of it."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from clearhead.data.content_hash import content_hash
from clearhead.data.feature_arrays import files_of_array_folder


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
