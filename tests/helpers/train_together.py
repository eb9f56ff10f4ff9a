"""Train the runs of a file one after another, in each process that torchrun starts."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import clearhead

if __name__ == "__main__":
    for config in pickle.loads(Path(sys.argv[1]).read_bytes()):
        clearhead.train(config, observers=())
