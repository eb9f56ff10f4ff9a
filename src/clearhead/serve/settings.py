"""What a server is started with; it travels to the processes of the server as JSON."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from clearhead.errors import ConfigError, DataError

VARIABLE = "CLEARHEAD_SERVE"
"""The environment variable that has the settings."""


@dataclass(frozen=True)
class ServeSettings:
    """What a server is started with.

    Args:
        folders: the model folders.
        storage: the folder of uploaded documents and glossaries, for all processes of the server.
        options: those of `LoadOptions`.
        normalise: bring all texts into the style of the training text, unless a request says
            otherwise.
        queue: requests for a model at the same time, the waiting ones included.
        characters: of a request.
        body: bytes of a request.
        seconds: of a request.
        rate: requests of a client in a minute; 0: any number.
        keys: a file of API keys; empty: nobody needs one.
        storage_bytes: of all files in it.
        log_texts: log the texts of requests, too.
        hosts: the names and addresses by which clients may call the server; empty: any.
        page: offer the page.
        inspect: let requests look inside the models.
    """

    folders: tuple[str, ...]
    storage: str
    options: dict[str, Any] = field(default_factory=dict)
    normalise: bool = False
    queue: int = 64
    characters: int = 100_000
    body: int = 10_000_000
    seconds: float = 60.0
    rate: int = 0
    keys: str = ""
    storage_bytes: int = 500_000_000
    log_texts: bool = False
    hosts: tuple[str, ...] = ()
    page: bool = True
    inspect: bool = True

    def to_environment(self) -> None:
        """Write the settings where `from_environment` finds them, also in child processes."""
        os.environ[VARIABLE] = json.dumps(asdict(self))

    @classmethod
    def from_environment(cls) -> ServeSettings:
        """The settings that `to_environment` wrote."""
        tree = json.loads(os.environ[VARIABLE])
        return cls(**{**tree, "folders": tuple(tree["folders"]), "hosts": tuple(tree["hosts"])})


class Keys:
    """The API keys of clients.

    Args:
        path: a file with a key on each line, after a name and a colon if it should have a name in
            logs: `anna: 6f1c…`. Empty lines and those that begin with `#` are ignored. Without a
            file every client is accepted.

    Raises:
        DataError: the file cannot be read.
        ConfigError: it has no key, or a key is short.
    """

    SHORTEST = 16

    def __init__(self, path: str = "") -> None:
        self._names: dict[bytes, str] = {}
        if not path:
            return
        try:
            text = Path(os.path.expanduser(path)).read_text(encoding="utf-8")
        except (OSError, UnicodeError) as error:
            raise DataError("the API keys cannot be read", where=path, why=str(error)) from None
        for number, line in enumerate(text.splitlines(), start=1):
            if not line.strip() or line.startswith("#"):
                continue
            name, _, key = line.rpartition(":")
            key = key.strip()
            if len(key) < self.SHORTEST:
                raise ConfigError(
                    f"a key has less than {self.SHORTEST} characters, so it could be guessed",
                    where=f"{path}:{number}",
                    todo="make one: openssl rand -hex 16",
                )
            name = name.strip() or f"key {hashlib.sha256(key.encode()).hexdigest()[:8]}"
            if name in self._names.values():
                what = f"two keys have the name {name!r}"
                raise ConfigError(what, where=f"{path}:{number}", todo="rename one")
            self._names[key.encode()] = name
        if not self._names:
            raise ConfigError("the file has no API key", where=path)

    def __bool__(self) -> bool:
        return bool(self._names)

    def name_of(self, key: str) -> str | None:
        """The name of a key; None if it is none. The time does not depend on the key."""
        given = key.encode("utf-8", "surrogatepass")
        found = [name for known, name in self._names.items() if hmac.compare_digest(known, given)]
        return found[0] if found else None
