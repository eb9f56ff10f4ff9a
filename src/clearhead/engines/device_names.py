"""The names of devices; free of torch, for those who check a name before an engine is chosen."""

from __future__ import annotations

from clearhead.errors import ConfigError

DEVICES = ("cpu", "cuda", "auto")


def check_device(name: str) -> None:
    """Refuse what is not the name of a device.

    Raises:
        ConfigError: the name is none of `DEVICES`.
    """
    if name not in DEVICES:
        raise ConfigError(
            f"device = {name!r} is not the name of a device",
            todo=f"choose one of {', '.join(DEVICES)}",
        )
