"""Download the data of the examples and benchmarks from their publishers, and check them.

    export CLEARHEAD_DATA=~/clearhead-data
    python3 examples/fetch_data.py                 # or: python3 examples/fetch_data.py FOLDER

The script only needs the standard library. It skips files that exist and have the right checksum.

- multi30k/: English-German image descriptions (Elliott et al. 2016), raw and tokenised by the
  publisher, as of December 2017, which is the text of the papers (the English training part was
  revised later). For research and education, non-commercial.
- trec/: questions with their classes (Li and Roth 2002). For research.
- japanese-vowels/: cepstra of nine speakers (Kudo et al. 1999), from the UCI archive, as hosted by
  sktime. For research, under the terms of the archive.

The data do not belong to clearhead. By downloading them you accept their publishers' terms.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import http.client
import os
import sys
import urllib.request
import zlib
from pathlib import Path
from typing import NamedTuple

MULTI30K = "https://raw.githubusercontent.com/multi30k/dataset/"
RAW = MULTI30K + "c9be912dc05a3ebf9ae5bb5f7f58c1791cda43ab/data/task1/raw/"
TOKENISED = MULTI30K + "7bee46bc74186b4b6254603143610f730d40bf66/data/task1/tok/"
TREC = "https://cogcomp.seas.upenn.edu/Data/QA/QC/"
VOWELS = "https://raw.githubusercontent.com/sktime/sktime/main/sktime/datasets/data/JapaneseVowels/"


class File(NamedTuple):
    """A file in the data folder, its URL, and the SHA-256 of its uncompressed content."""

    path: str
    url: str
    sha256: str


MULTI30K_SHA256 = """
train.en 460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6
train.de 2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72
val.en 1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227
val.de 660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660
test_2016_flickr.en 399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182
test_2016_flickr.de 4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16
train.lc.norm.tok.en 08925f8e0572bcd5a006702fc5fe20e2d77c6917d4eebd576fc20de6693c2119
train.lc.norm.tok.de cb5a23529b65ec2061f1dc446192a9c37382b63cc75f81a0be59d34894b3a505
val.lc.norm.tok.en 46573ce391ae227f1c72f873392436a20ef18e0a6d518098cfbd70b77c8572ec
val.lc.norm.tok.de 97232bd273eceb7207f689527386a97e4be2616b18ada47576bdaf96c8ae1f00
test_2016_flickr.lc.norm.tok.en 5b7f32627cf99eced828311b955dae9800bb52bc8b91cf8b6526829e605b29d2
test_2016_flickr.lc.norm.tok.de c6a33d39d48f9f510de147651316cd9d918e09ad0219df734a2f16b6baccacc4
"""
# fmt: off
FILES = (
    # The publisher compresses the raw text but not the tokenised text.
    *(File(f"multi30k/{name}.gz", TOKENISED + name if ".tok." in name else f"{RAW}{name}.gz", sha)
      for name, sha in (line.split() for line in MULTI30K_SHA256.split("\n") if line)),
    File("trec/train.txt", TREC + "train_5500.label",
         "9e4c8bdcaffb96ed61041bd64b564183d52793a8e91d84fc3a8646885f466ec3"),
    File("trec/test.txt", TREC + "TREC_10.label",
         "033f22c028c2bbba9ca682f68ffe204dc1aa6e1cf35dd6207f2d4ca67f0d0e8e"),
    File("japanese-vowels/JapaneseVowels_TRAIN.ts", VOWELS + "JapaneseVowels_TRAIN.ts",
         "68a430eabd919cc77f40b1f5f3bc0dcafacc1486bca9260785aeb7d262cc78cd"),
    File("japanese-vowels/JapaneseVowels_TEST.ts", VOWELS + "JapaneseVowels_TEST.ts",
         "b3d41d6a0ca3bcad3afb9ca7d4365382aa51341e2e58bae2a574babdda5b9462"),
)
# fmt: on


def main(words: list[str] | None = None) -> int:
    """Download what is missing; return 0 if all files exist at the end."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", nargs="?", default=os.environ.get("CLEARHEAD_DATA"))
    name = parser.parse_args(words).folder
    if not name:
        parser.error("no folder: set CLEARHEAD_DATA, or run fetch_data.py FOLDER")
    folder = Path(name).expanduser().resolve()
    failed: set[str] = set()
    for file in FILES:
        publisher = file.path.partition("/")[0]
        if publisher in failed:  # its other files would wait for the same timeout
            continue
        print(f"{file.path}: ", end="", flush=True)
        try:
            print(fetch(folder / file.path, file.url, file.sha256), flush=True)
        except (OSError, EOFError, ValueError, zlib.error, http.client.HTTPException) as error:
            failed.add(publisher)
            print(f"FAILED\n  from: {file.url}\n  why: {error or type(error).__name__}", flush=True)
    missing = [file.path for file in FILES if not is_right(folder / file.path, file.sha256)]
    if not missing:
        print(f"All {len(FILES)} files exist. Now run: export CLEARHEAD_DATA={folder}")
        return 0
    print(
        f"{len(missing)} of {len(FILES)} files are missing: {', '.join(missing)}\n"
        "What to do: run the script again later; complete files are kept. Or copy the files into"
        f" {folder} and run the script again to check them.",
        file=sys.stderr,
    )
    return 1


def fetch(path: Path, url: str, sha256: str) -> str:
    """Download a file unless it exists with this checksum; return what was done.

    Raises:
        ValueError: the content has another checksum.
        OSError, EOFError, zlib.error, http.client.HTTPException: the download failed or is damaged.
    """
    if is_right(path, sha256):
        return "exists already"
    request = urllib.request.Request(url, headers={"User-Agent": "clearhead-fetch-data"})
    with urllib.request.urlopen(request, timeout=60) as response:
        data = response.read()
    packed = url.endswith(".gz")
    content = gzip.decompress(data) if packed else data
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise ValueError(f"the SHA-256 is {found}, not {sha256}; the file is not kept")
    if path.suffix == ".gz" and not packed:
        data = gzip.compress(content, mtime=0)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    try:
        part.write_bytes(data)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
    return f"downloaded, {len(data):,} bytes"


def is_right(path: Path, sha256: str) -> bool:
    """Whether the file exists and its content has this checksum."""
    try:
        data = path.read_bytes()
        content = gzip.decompress(data) if path.suffix == ".gz" else data
    except (OSError, EOFError, zlib.error):
        return False
    return hashlib.sha256(content).hexdigest() == sha256


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("interrupted; complete files are kept, run the script again to continue")
