"""Random Marian models of transformers, and folders of Hugging Face files with one of them."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import sentencepiece
import torch
from torch import nn

from clearhead.data.reading.phrasebook import phrasebook_pairs

SMALL: dict[str, Any] = dict(
    vocab_size=29,
    d_model=8,
    encoder_layers=1,
    decoder_layers=2,
    encoder_attention_heads=2,
    decoder_attention_heads=2,
    encoder_ffn_dim=12,
    decoder_ffn_dim=12,
    max_position_embeddings=64,
    pad_token_id=21,
    decoder_start_token_id=21,
    eos_token_id=3,
    forced_eos_token_id=None,
    bos_token_id=None,
)

TAGS = (">>spa<<", ">>fra<<")


def random_marian(seed: int = 1, tied: bool = True, **choices: Any) -> Any:
    """A random Marian model, every tensor drawn; `tied`: shared embeddings are equal."""
    import transformers

    torch.manual_seed(seed)
    config = transformers.MarianConfig(**(SMALL | choices))
    model = transformers.MarianMTModel(config).eval()
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:  # not the table of positions
            is_scale = name.endswith("layer_norm.weight")
            nn.init.normal_(parameter, float(is_scale), 0.2 if "layer_norm" in name else 0.7)
    nn.init.normal_(model.final_logits_bias, std=0.3)
    if config.share_encoder_decoder_embeddings and tied:
        shared: Any = model.model.shared.weight
        with torch.no_grad():
            for part in (model.model.encoder, model.model.decoder):
                part.embed_tokens.weight.copy_(shared)
    return model


@cache
def sentence_pieces(side: str, kind: str = "unigram", size: int = 120) -> bytes:
    """A SentencePiece model of one side of the phrasebook, normalised as in OPUS-MT."""
    pairs = phrasebook_pairs("phrasebook:en-es", "train")[:800]
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([pair[side == "target"] for pair in pairs]),
        model_writer=model,
        model_type=kind,
        vocab_size=size,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    return model.getvalue()


def vocabulary_of(models: Iterable[bytes], tags: tuple[str, ...] = ()) -> dict[str, int]:
    """A vocabulary of the pieces of the models, in the order of OPUS-MT: padding is the last."""
    pieces = dict.fromkeys(["</s>", "<unk>", *tags])
    for model in models:
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        pieces |= dict.fromkeys(map(processor.id_to_piece, range(len(processor))))
    pieces.pop("<s>", None)
    return {piece: i for i, piece in enumerate([*pieces, "<pad>"])}


def write_tokenizer(
    folder: Path, *, separate: bool = False, tags: tuple[str, ...] = (), kind: str = "unigram"
) -> tuple[int, int]:
    """Write the files of a MarianTokenizer; returns the sizes of the vocabularies."""
    folder.mkdir(parents=True, exist_ok=True)
    source, target = (sentence_pieces(side, kind) for side in ("source", "target"))
    (folder / "source.spm").write_bytes(source)
    (folder / "target.spm").write_bytes(target)
    if separate:
        # One id of the padding for both sides, as in transformers.
        vocabularies = vocabulary_of([source], tags), vocabulary_of([target])
        vocabularies = tuple(map(_padding_first, vocabularies))
        (folder / "target_vocab.json").write_text(json.dumps(vocabularies[1]))
    else:
        both = vocabulary_of([source, target], tags)
        vocabularies = both, both
    (folder / "vocab.json").write_text(json.dumps(vocabularies[0]))
    settings = {
        "tokenizer_class": "MarianTokenizer",
        "separate_vocabs": separate,
        "source_lang": "en",
        "target_lang": "es",
        "model_max_length": 512,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return len(vocabularies[0]), len(vocabularies[1])


def _padding_first(vocabulary: dict[str, int]) -> dict[str, int]:
    others = [piece for piece in vocabulary if piece not in ("<pad>", "</s>")]
    return {piece: i for i, piece in enumerate(["</s>", "<pad>", *others])}


def write_marian(folder: Path, *, seed: int = 1, files: Any = None, **choices: Any) -> Path:
    """Write Hugging Face files with a random Marian model; `files` are of `write_tokenizer`."""
    files = files or {}
    source, target = write_tokenizer(folder, **files)
    special = (1, 0) if files.get("separate") else (source - 1, 0)
    shape = {
        "vocab_size": source,
        "decoder_vocab_size": target,
        "share_encoder_decoder_embeddings": not files.get("separate"),
        "pad_token_id": special[0],
        "decoder_start_token_id": special[0],
        "eos_token_id": special[1],
    }
    model = random_marian(seed, **(shape | choices))
    model.generation_config.bad_words_ids = [[special[0]]]
    model.generation_config.num_beams = 4
    model.save_pretrained(folder)
    return folder
