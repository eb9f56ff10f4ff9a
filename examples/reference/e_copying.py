"""Lesson E: ten untrained models generate nine symbols each; then one learns to copy.

    .venv/bin/python examples/reference/e_copying.py

You see what a model does before it has learned anything, and that it learns a task from examples
alone. The untrained models read 1 2 … 10 and generate from the start symbol 0. The model that
learns is narrower, which is enough. It is tested on a thousand sequences that it has not seen.
"""

from __future__ import annotations

import sys

import torch
from torch.nn import functional as F

from clearhead import nn

# --- The data: 20,000 different sequences of 4 to 12 symbols, a thousand of them for the test.

PAD, START, END, FIRST, SYMBOLS = 0, 1, 2, 3, 13
SHORTEST, LONGEST = 4, 12
TRAINED, HELD_OUT = 19_000, 1000


def sequences(count: int) -> torch.Tensor:
    """Different random sequences (count, 12), with padding at their ends."""
    chance = torch.Generator().manual_seed(1)
    rows = torch.randint(FIRST, SYMBOLS, (2 * count, LONGEST), generator=chance)
    lengths = torch.randint(SHORTEST, LONGEST + 1, (2 * count, 1), generator=chance)
    rows = rows.masked_fill(torch.arange(LONGEST) >= lengths, PAD).unique(dim=0)
    return rows[torch.randperm(len(rows), generator=chance)[:count]]


def targets(source: torch.Tensor) -> torch.Tensor:
    """What a model learns to write (rows, 14): the start symbol, the sequence, the end symbol."""
    target = F.pad(source, (1, 1), value=PAD)
    target[:, 0] = START
    target[torch.arange(len(source)), (source != PAD).sum(dim=1) + 1] = END
    return target


TRAINING, TEST = sequences(TRAINED + HELD_OUT).split((TRAINED, HELD_OUT))

# --- The model: pre-norm, biases everywhere, norms that divide by the deviation plus epsilon.


def make_model(symbols: int, layers: int = 2, d_model: int = 512, heads: int = 8) -> nn.Transformer:
    """An untrained model; d_ff is four times its width."""
    return nn.Transformer(
        symbols,
        symbols,
        layers=layers,
        d_model=d_model,
        heads=heads,
        norm="pre",
        norm_form="std_plus_epsilon",
        norm_epsilon=1e-6,
        output_bias=True,
        share_embeddings="none",
        dropout=0.1,
        initialisation="xavier",
    )


@torch.no_grad()
def nine_symbols(model: nn.Transformer) -> list[int]:
    """The start symbol 0 and the nine symbols that the model adds greedily, for the input 1 … 10.

    `model.generate` searches faster: it keeps what it has computed in the steps before.
    """
    source, written = torch.arange(1, 11)[None], [0]
    for _ in range(9):
        logits = model(source, torch.tensor([written]))  # (1, symbols so far, symbols)
        written.append(int(logits[0, -1].argmax()))
    return written


def untrained() -> None:
    """Print what ten untrained models generate."""
    for number in range(10):
        torch.manual_seed(number)
        print(f"untrained model {number}:", *nine_symbols(make_model(11).eval()))


# --- The loop: 128 random sequences in a batch.


def train(model: nn.Transformer, steps: int = 1500, rate: float = 3e-3) -> None:
    """Train the model; the learning rate rises to its peak and falls again."""
    optimizer = torch.optim.Adam(model.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=rate, total_steps=steps)
    for step in range(1, steps + 1):
        source = TRAINING[torch.randint(TRAINED, (128,))]
        target = targets(source)
        logits = model(source, target[:, :-1])  # (rows, length, symbols)
        loss = F.cross_entropy(logits.transpose(1, 2), target[:, 1:], ignore_index=PAD)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 100 == 0:
            print(f"step {step:4}: loss {loss.item():.4f}")


# --- The output: copies of sequences that the model has not seen.


def show(model: nn.Transformer) -> int:
    """Print how many copies are right; return how many are wrong."""
    expected = [[symbol for symbol in row if symbol != PAD] for row in TEST.tolist()]
    right = sum(a == b for a, b in zip(model.generate(TEST), expected, strict=True))
    print(f"copying: {right} of {HELD_OUT} unseen sequences right")
    return HELD_OUT - right


if __name__ == "__main__":
    untrained()
    torch.manual_seed(1)
    model = make_model(SYMBOLS, d_model=64, heads=4)
    train(model)
    sys.exit(show(model) > 0)
