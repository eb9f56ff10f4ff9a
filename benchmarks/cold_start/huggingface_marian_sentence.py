"""Translate a sentence of stdin with Hugging Face's Marian: load, tokenize, `generate`."""

# pyright: reportMissingImports=false

from __future__ import annotations

import sys

import sentencepiece
import torch
from transformers import MarianMTModel

folder, pieces, steps = sys.argv[1:]
tokenizer = sentencepiece.SentencePieceProcessor(model_file=pieces)
model = MarianMTModel.from_pretrained(folder).eval()
source = torch.tensor([tokenizer.encode(input())])
limits = {"min_new_tokens": int(steps), "max_new_tokens": int(steps)}
with torch.inference_mode():
    found = model.generate(input_ids=source, num_beams=5, **limits)
print(tokenizer.decode(found[0, 1:].tolist()))
