"""The version of clearhead."""

__version__ = "0.1.0"
