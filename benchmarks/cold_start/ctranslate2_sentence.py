"""Translate a sentence of stdin with CTranslate2, as its documentation shows."""

# pyright: reportMissingImports=false

from __future__ import annotations

import sys

import ctranslate2
import sentencepiece

folder, pieces, compute_type, threads, steps = sys.argv[1:]
tokenizer = sentencepiece.SentencePieceProcessor(model_file=pieces)
translator = ctranslate2.Translator(folder, compute_type=compute_type, intra_threads=int(threads))
names = ["<pad>", "<s>", "</s>", "<unk>"]
sentence = [f"piece{i}" if i >= len(names) else names[i] for i in tokenizer.encode(input())]
limits = {"min_decoding_length": int(steps), "max_decoding_length": int(steps)}
found = translator.translate_batch([sentence], beam_size=5, **limits)
words = [piece.removeprefix("piece") for piece in found[0].hypotheses[0]]
print(tokenizer.decode([int(word) for word in words if word.isdigit()]))
