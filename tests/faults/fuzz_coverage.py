"""The same as `fuzz.py`, guided by the lines that an input reaches; needs the package atheris.

    python tests/faults/fuzz_coverage.py toml -max_total_time=600 -rss_limit_mb=4000 -timeout=60

The first word is the reader, the others are options of libFuzzer. An input is one byte, the number
of a file of the reader, and the content of that file. A finding ends the program with an error.
"""

from __future__ import annotations

import contextlib
import shutil
import sys
import warnings
import zlib
from importlib import import_module
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

atheris = import_module("atheris")  # not a dependency of the project

HERE = Path(__file__).parent
sys.path += [str(HERE), str(HERE.parent / "helpers")]

from mutations import mutated  # noqa: E402
from readers import READERS  # noqa: E402


def main() -> None:
    """Fuzz one reader until libFuzzer ends the process."""
    name, *options = sys.argv[1:]
    reader, scratch = READERS[name], TemporaryDirectory()
    valid, work, seeds = (Path(scratch.name, each) for each in ("valid", "work", "seeds"))
    valid.mkdir()
    seeds.mkdir()
    with atheris.instrument_imports(include=["clearhead"]):
        from clearhead.errors import ClearheadError

        reader.write(valid)
        shutil.copytree(valid, work)
        for number in range(20):  # imports the modules of all formats
            with contextlib.suppress(ClearheadError):
                reader.read(work, Random(number))
    files = sorted(path.relative_to(valid) for path in valid.rglob("*") if path.is_file())
    for number, file in enumerate(files):
        (seeds / str(number)).write_bytes(bytes([number]) + (valid / file).read_bytes())

    def read(data: bytes) -> None:
        shutil.rmtree(work)
        shutil.copytree(valid, work)
        (work / files[(data or b"\0")[0] % len(files)]).write_bytes(data[1:])
        with contextlib.suppress(ClearheadError), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            reader.read(work, Random(zlib.crc32(data)))

    def mutate(data: bytes, most: int, seed: int) -> bytes:
        random = Random(seed)
        if len(data) < 2 or random.random() < 0.5:
            return atheris.Mutate(data, most)
        changed = Path(scratch.name, "changed").with_suffix(files[data[0] % len(files)].suffix)
        changed.write_bytes(data[1:])
        try:
            return (data[:1] + mutated(changed, random))[:most]
        except Exception:  # a file whose format earlier changes have spoilt
            return atheris.Mutate(data, most)

    words = [sys.argv[0], *options, str(seeds)]
    atheris.Setup(words, read, custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
