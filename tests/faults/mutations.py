"""Hostile variants of valid files: changed bits, bytes, values of JSON and headers of arrays."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any

VALUES: list[Any] = [
    *(None, True, -1, 0, 1, 2**31, 2**63, 10**6, 10**30, 0.5, 1e308, -1e-320),
    *("", "x" * 10_000, "\x1b[31m", "a\nb", "\0", "../../etc/passwd", "/dev/zero", "\ud800"),
    *([], {}, [[]], [0] * 10_000, {"a": {}}, [None], {"kind": "learned", "max_length": 10**9}),
]
"""Values that a file may have in the place of another one."""

WORDS = [
    *(b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b"\r", b"\n\n", b"\t", b'"', b"'", b",", b":", b"\\"),
    *(b"NaN", b"-Infinity", b"1e999", b"1" * 5000, b"[" * 3000, b'{"a":' * 300, b"\x1b]0;x\x07"),
    *(b"a." * 3000, b"?", b"@data\n", b"@timeStamps true\n", b"(1,2)", b"|", b"\xe2\x80\xa8"),
    *(b"x" * 70_000, b"1_000", b"0x10", b"${HOME}", b"1979-05-27", b"# ", b"%", b"{}", b"[]"),
    *((2**63 - 1).to_bytes(8, "little"), (2**31).to_bytes(4, "little"), b"PK\x03\x04", b"\x1f\x8b"),
]
"""Bytes that mean something to a reader."""


def mutated(path: Path, random: Random) -> bytes:
    """A hostile variant of a file; the kind of change fits its format."""
    content = path.read_bytes()
    of_format: Callable[[bytes, Random], bytes] | None = {
        ".json": mutated_json,
        ".jsonl": mutated_lines,
        ".safetensors": mutated_tensors,
        ".npy": mutated_array,
        ".npz": mutated_archive,
    }.get(path.suffix)
    if of_format is None or random.random() < 0.3:
        return mutated_bytes(content, random)
    return of_format(content, random)


def mutated_bytes(content: bytes, random: Random) -> bytes:
    """One to four changes of bits or bytes."""
    changed = bytearray(content)
    for _ in range(random.choice((1, 1, 2, 4))):
        start = random.randrange(len(changed) + 1)
        end = min(len(changed), start + random.choice((1, 4, 64, len(changed))))
        match random.randrange(6):
            case 0 if start < len(changed):
                changed[start] ^= 1 << random.randrange(8)
            case 1:
                del changed[start:]
            case 2:
                del changed[start:end]
            case 3:
                changed[start:start] = changed[start:end][:100_000]
            case 4:
                changed[start:start] = random.choice(WORDS)
            case _:
                word = random.choice(WORDS)
                changed[start : start + len(word)] = word
    return bytes(changed)


def mutated_json(content: bytes, random: Random) -> bytes:
    """One to three values replaced, removed, moved or repeated; perhaps with NaN or deep lists."""
    tree = json.loads(content)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        holder, key = random.choice(list(_places(tree)) or [(None, None)])
        if holder is None:
            return json.dumps(random.choice(VALUES)).encode()
        match random.randrange(8):
            case 0:
                del holder[key]
            case 1:
                other, its_key = random.choice(list(_places(tree)))
                holder[key] = json.loads(json.dumps(other[its_key]))
            case 2 if isinstance(holder[key], list):
                holder[key] = holder[key] * random.choice((0, 2, 1000))
            case 3 if isinstance(holder[key], int | float):
                holder[key] = holder[key] * random.choice((-1, 0, 2, 10**6, 10**12))
            case 4:
                holder[key] = float(random.choice(("nan", "inf")))
            case _:
                holder[key] = deepcopy(random.choice(VALUES))
    return json.dumps(tree).encode()


def _places(tree: Any) -> Any:
    """Every container and key or index in it, with each value of a long list alike."""
    if isinstance(tree, dict):
        pairs = list(tree.items())
    else:
        pairs = list(enumerate(tree[:20])) if isinstance(tree, list) else []
    for key, value in pairs:
        yield tree, key
        yield from _places(value)


def mutated_lines(content: bytes, random: Random) -> bytes:
    """One line of JSON is changed."""
    lines = content.split(b"\n")
    number = random.randrange(len(lines) - 1)
    lines[number] = mutated_json(lines[number], random)
    return b"\n".join(lines)


def mutated_tensors(content: bytes, random: Random) -> bytes:
    """The header of a safetensors file is changed, with or without its length."""
    length = int.from_bytes(content[:8], "little")
    header = mutated_json(content[8 : 8 + length], random)
    if random.random() < 0.2:
        length = random.choice((0, 2**31, 2**63, 2**64 - 1))
    else:
        length = len(header)
    return length.to_bytes(8, "little") + header + content[8 + len(content[8 : 8 + length]) :]


def mutated_array(content: bytes, random: Random) -> bytes:
    """The text of the header of an array is changed: its type, order or shape."""
    end = content.index(b"\n")
    header = content[10:end].decode("latin-1")
    shapes = ("(10**12,)", "(1000000000000,)", "(0, 0)", "()", "(2, 2, 2)", "(-1,)", "(True,)")
    types = ("'|O'", "'<f8'", "'<U0'", "'<U9999999'", "'|V0'", "[('a', '<f4')]", "'<M8[s]'", "'?'")
    start = header.index("'shape': ") + 9
    match random.randrange(3):
        case 0:
            stop = header.index(")", start) + 1
            header = header[:start] + random.choice(shapes) + header[stop:]
        case 1:
            begin = header.index("'descr': ") + 9
            stop = header.index(", 'fortran", begin)
            header = header[:begin] + random.choice(types) + header[stop:]
        case _:
            header = header.replace("False", random.choice(("True", "None", "[" * 200, "9" * 999)))
    text = header.rstrip().encode("latin-1") + b"\n"
    return content[:8] + len(text).to_bytes(2, "little") + text + content[end + 1 :]


def mutated_archive(content: bytes, random: Random) -> bytes:
    """One array of an archive is changed, removed, repeated or renamed."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = random.choice(list(members))
    match random.randrange(5):
        case 0:
            del members[name]
        case 1:
            members[random.choice(list(members))] = members[name]
        case 2:
            members[random.choice(("x.npy", "../x.npy", "x", "y.npy"))] = members.pop(name)
        case 3:
            members[name] = mutated_bytes(members[name], random)
        case _:
            members[name] = mutated_array(members[name], random)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for each, array in members.items():
            archive.writestr(each, array)
    return file.getvalue()
