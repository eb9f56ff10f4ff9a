"""Lesson A: a Transformer learns six English-Spanish pairs by heart and translates by beam search.

    .venv/bin/python examples/reference/a_shared_embeddings.py

You see the whole way from words to a translation: a vocabulary, batches, a model, a training loop,
a search. The script prints the loss of every tenth epoch, then eight translations with their
log-probabilities: of the six sentences, which must be right, and of two unseen ones.
"""

from __future__ import annotations

import sys

import torch
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from clearhead import nn

# --- The data: six pairs, and one vocabulary for both languages.

PAIRS = {
    "hello world": "hola mundo",
    "i love you": "te amo",
    "the cat is black": "el gato es negro",
    "good morning": "buenos dias",
    "this is a book": "este es un libro",
    "what is your name": "como te llamas",
}
UNSEEN = ("i love cat", "this is a cat")
PAD, START, END = 0, 1, 2
WORDS = sorted({word for pair in PAIRS.items() for text in pair for word in text.split()})
NAMES = ["<pad>", "<sos>", "<eos>", *WORDS, "<unk>"]
IDS = {name: number for number, name in enumerate(NAMES)}


def encode(text: str) -> list[int]:
    """The ids of the words of a text; a word that is not in the vocabulary is `<unk>`."""
    return [IDS.get(word, IDS["<unk>"]) for word in text.lower().split()]


def padded(rows: list[list[int]]) -> torch.Tensor:
    """Rows of ids as one tensor (rows, longest), with padding at their ends."""
    return pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=PAD)


# --- The model: one matrix is source embedding, target embedding and output layer.


def make_model(layers: int = 6, d_model: int = 512) -> nn.Transformer:
    """An untrained model; d_ff is four times its width."""
    return nn.Transformer(
        len(NAMES),
        len(NAMES),
        layers=layers,
        d_model=d_model,
        heads=8,
        norm="post",
        attention_bias=False,
        share_embeddings="all",
        dropout=0.0,
        initialisation="pytorch",
    )


# --- The loop: all pairs are one batch, so an epoch is one step.


def train(model: nn.Transformer, epochs: int = 100, rate: float = 1e-4) -> None:
    """Train the model on the six pairs."""
    source = padded([encode(text) for text in PAIRS])
    target = padded([[START, *encode(text), END] for text in PAIRS.values()])
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    for epoch in range(1, epochs + 1):
        # At each position the model reads the target up to there and predicts the next word.
        logits = model(source, target[:, :-1])  # (pairs, length, words)
        loss = F.cross_entropy(logits.transpose(1, 2), target[:, 1:], ignore_index=PAD)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if epoch % 10 == 0:
            print(f"epoch {epoch:3}: loss {loss.item():.6f}")


# --- The output: at each step the search keeps the three most probable beginnings.


def show(model: nn.Transformer) -> int:
    """Print the translations of all sentences; return how many of the six are wrong."""
    wrong = 0
    sentences = [*PAIRS, *UNSEEN]
    found = nn.beam_search(model, [encode(text) for text in sentences], beam_size=3, max_length=20)
    for sentence, (best, *_) in zip(sentences, found, strict=True):
        text = " ".join(NAMES[number] for number in best.tokens)
        wrong += text != PAIRS.get(sentence, text)
        mark = "unseen" if sentence in UNSEEN else "right" if text == PAIRS[sentence] else "WRONG"
        print(f"{sentence:<18} = {text:<18} {best.score:9.4f}  ({mark})")
    return wrong


if __name__ == "__main__":
    torch.manual_seed(1)
    model = make_model()
    train(model)
    sys.exit(show(model) > 0)
