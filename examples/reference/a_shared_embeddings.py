"""Lesson A: a Transformer learns six English-Spanish pairs by heart and translates by beam search.

    .venv/bin/python examples/reference/a_shared_embeddings.py

You see the whole way from words to a translation: a vocabulary, batches, the model, a training
loop, a search. The script prints the loss of every tenth epoch, then eight translations with their
log-probabilities: of the six pairs, which must be exact, and of two unseen sentences.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from clearhead import nn

# The data: six pairs, and one vocabulary for both languages.

PAIRS = {
    "hello world": "hola mundo",
    "i love you": "te amo",
    "the cat is black": "el gato es negro",
    "good morning": "buenos dias",
    "this is a book": "este es un libro",
    "what is your name": "como te llamas",
}
UNSEEN = ("i love cat", "this is a cat")
PAD, START, END, UNKNOWN = "<pad>", "<sos>", "<eos>", "<unk>"
WORDS = [PAD, START, END, *sorted(set(" ".join([*PAIRS, *PAIRS.values()]).split())), UNKNOWN]
IDS = {word: number for number, word in enumerate(WORDS)}


def encode(text: str) -> list[int]:
    """The ids of the words of a text; a word that was never seen is `<unk>`."""
    return [IDS.get(word, IDS[UNKNOWN]) for word in text.lower().split()]


def padded(rows: list[list[int]]) -> torch.Tensor:
    """Rows of ids as one tensor (rows, longest), with padding at their ends."""
    return pad_sequence([torch.tensor(row) for row in rows], batch_first=True)


def make_model(**others: Any) -> nn.Transformer:
    """The model of the lesson: post-norm, no bias in attention, one matrix for three tasks."""
    return nn.Transformer(
        len(WORDS),
        len(WORDS),
        **{
            "size": "base",  # 6 + 6 layers, d_model 512, d_ff 2048, 8 heads
            "norm": "post",
            "attention_bias": False,
            "share_embeddings": "all",  # source embedding, target embedding, projection
            "dropout": 0.0,
            "initialisation": "pytorch",
            **others,
        },
    )


def main(epochs: int = 100, rate: float = 1e-4, **others: Any) -> int:
    """Train and translate; return 1 if a training sentence is translated wrongly."""
    torch.manual_seed(1)
    model = make_model(**others)
    source = padded([encode(text) for text in PAIRS])
    read = padded([[IDS[START], *encode(text)] for text in PAIRS.values()])
    predicted = padded([[*encode(text), IDS[END]] for text in PAIRS.values()])

    # The loop: all pairs in each step, so an epoch is one step.
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    for epoch in range(1, epochs + 1):
        logits = model(source, read)  # (pairs, target, words)
        loss = F.cross_entropy(logits.transpose(1, 2), predicted, ignore_index=IDS[PAD])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if epoch % 10 == 0:
            print(f"epoch {epoch:3}: loss {loss.item():.6f}")

    # The output: the three best beginnings are kept at each step.
    sentences, wrong = [*PAIRS, *UNSEEN], 0
    found = nn.beam_search(model, [encode(each) for each in sentences], 3, max_length=20)
    for sentence, (best, *_) in zip(sentences, found, strict=True):
        text = " ".join(WORDS[number] for number in best.tokens)
        expected = PAIRS.get(sentence)
        mark = "unseen" if expected is None else "right" if text == expected else "WRONG"
        wrong += mark == "WRONG"
        print(f"{sentence:<18} = {text:<18} {best.score:9.4f}  ({mark})")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
