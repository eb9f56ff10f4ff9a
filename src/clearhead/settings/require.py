"""What a setting must satisfy, said as a ValueError that reading turns into a ConfigError."""

from __future__ import annotations


def require(condition: bool, message: str) -> None:
    """Raise a ValueError with the message unless the condition holds."""
    if not condition:
        raise ValueError(message)
