"""The peers that `speed.py` and `gpu.py` compare clearhead with, each in its own process."""
