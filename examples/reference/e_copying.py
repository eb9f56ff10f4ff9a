"""Lesson E: ten untrained models generate nine symbols each; then one learns to copy.

    .venv/bin/python examples/reference/e_copying.py

You see what a model does before it has learned anything, and how a task is learned from examples
alone. The untrained models read 1 2 … 10 and generate from the start symbol 0. The trained model is
narrower, which is enough, and is tested on a thousand sequences that it has not seen.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch.nn import functional as F

from clearhead import nn

# The data: sequences of 4 to 12 of ten symbols, and the same sequences as targets.

PAD, START, END, FIRST, LAST = 0, 1, 2, 3, 12
LONGEST = 12


def batch(rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Random sources (rows, 12) and their copies as targets (rows, 14)."""
    source = torch.randint(FIRST, LAST + 1, (rows, LONGEST))
    length = torch.randint(4, LONGEST + 1, (rows, 1))
    source[torch.arange(LONGEST) >= length] = PAD
    target = torch.full((rows, LONGEST + 2), PAD)
    target[:, 0], target[:, 1:-1] = START, source
    target[torch.arange(rows), length[:, 0] + 1] = END
    return source, target


def make_model(symbols: int, **others: Any) -> nn.Transformer:
    """The model of the lesson: pre-norm, biases everywhere, a norm of its own."""
    return nn.Transformer(
        symbols,
        symbols,
        **{
            "size": "base",  # d_model 512, d_ff 2048, 8 heads
            "layers": 2,
            "norm": "pre",
            "norm_form": "std_plus_epsilon",  # divides by (std + ε), std unbiased
            "norm_epsilon": 1e-6,
            "output_bias": True,
            "share_embeddings": "none",
            "dropout": 0.1,
            "initialisation": "xavier",
            **others,
        },
    )


@torch.no_grad()
def untrained(model: nn.Transformer) -> list[int]:
    """The start symbol 0 and the nine symbols that a model adds greedily, for the input 1 … 10."""
    source, written = torch.arange(1, 11)[None], [0]
    for _ in range(9):
        logits = model(source, torch.tensor([written]))  # (1, symbols so far, 11)
        written.append(int(logits[0, -1].argmax()))
    return written


def main(steps: int = 1500, **others: Any) -> int:
    """Run the untrained models and train one; return 1 if it makes a mistake."""
    for number in range(10):
        torch.manual_seed(number)
        print(f"untrained model {number}:", *untrained(make_model(11, **others).eval()))

    torch.manual_seed(1)
    model = make_model(LAST + 1, **{"d_model": 64, "d_ff": 256, "heads": 4, **others})
    optimizer = torch.optim.Adam(model.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=3e-3, total_steps=steps)
    for step in range(1, steps + 1):
        source, target = batch(128)
        logits = model(source, target[:, :-1])  # (rows, target, symbols)
        loss = F.cross_entropy(logits.transpose(1, 2), target[:, 1:], ignore_index=PAD)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 100 == 0:
            print(f"step {step:4}: loss {loss.item():.4f}")

    # The output: copies of a thousand sequences. With 10^12 possible ones they are new.
    source, _ = batch(1000)
    expected = [[symbol for symbol in row if symbol != PAD] for row in source.tolist()]
    right = sum(a == b for a, b in zip(model.generate(source), expected, strict=True))
    print(f"copying: {right} of {len(expected)} unseen sequences right")
    return int(right < len(expected))


if __name__ == "__main__":
    sys.exit(main())
