"""The model folder: everything that is needed to use a model or to resume its training.

    config.json             the run's configuration, and the version of this layout
    weights.safetensors     the weights with the best validation score, or the average of the last
                            ones (training.keep)
    tokenizer…              turn text into numbers and back
    labels, normaliser      a classifier's labels; the scale of its features
    scores.json             validation scores of these weights, with sacreBLEU's signatures and
                            the checksum of the weights
    provenance.json         the origin of the weights: data hashes, versions, steps
    training/               only needed to resume: state, corpus, log, and checkpoints (the best,
                            the last few, and at the end of a run their average)

Nothing is pickled. Every file is written under another name and then renamed, so a crash while
writing loses nothing.
"""

from clearhead.checkpoint.folder import (
    FORMAT,
    JOINT_TOKENIZER,
    ModelFolder,
    Saveable,
    folder_of,
    read_folder_config,
    read_model_folder,
    read_tokenizers,
    tokenizer_files,
    write_model_folder,
)
from clearhead.checkpoint.tensors import (
    CHECKPOINTS,
    WEIGHTS,
    load_parameters,
    parameters_of,
    read_digest,
    read_tensors,
    write_tensors,
)
from clearhead.files import read_json, write_json

__all__ = [
    "CHECKPOINTS",
    "FORMAT",
    "JOINT_TOKENIZER",
    "WEIGHTS",
    "ModelFolder",
    "Saveable",
    "folder_of",
    "load_parameters",
    "parameters_of",
    "read_digest",
    "read_folder_config",
    "read_json",
    "read_model_folder",
    "read_tensors",
    "read_tokenizers",
    "tokenizer_files",
    "write_json",
    "write_model_folder",
    "write_tensors",
]
