"""The model folder: all that is needed to use a model; and beside it the state to resume from.

    config.json             the run's configuration, and the version of this layout
    weights.safetensors     the weights that scored best on the validation data, or the average of
                            the last ones where that is to be kept (training.keep)
    tokenizer…              what turns text into numbers and back
    labels, normaliser      a classifier's labels; the scale of its features
    scores.json             validation scores of these weights, with sacreBLEU's signatures and
                            the checksum of the weights
    provenance.json         data hashes, versions, steps: how the weights came about
    training/               only needed to go on: state, corpus, log; and checkpoints: the best, the
                            last few, and at a run's end their average

Nothing is pickled. Every file of the model, and the state, is written under another name and then
moved into place, so a machine that dies while writing loses nothing.
"""

from clearhead.checkpoint.folder import (
    FORMAT,
    JOINT_TOKENIZER,
    FolderPart,
    ModelFolder,
    folder_of,
    read_folder_config,
    read_model_folder,
    read_tokenizers,
    tokenizer_parts,
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
    "FolderPart",
    "ModelFolder",
    "folder_of",
    "load_parameters",
    "parameters_of",
    "read_digest",
    "read_folder_config",
    "read_json",
    "read_model_folder",
    "read_tensors",
    "read_tokenizers",
    "tokenizer_parts",
    "write_json",
    "write_model_folder",
    "write_tensors",
]
