"""What a token costs in theory: floating-point operations of the products that a model needs.

A product of (a, b) and (b, c) counts 2·a·b·c, for it multiplies and adds. Counted are the
products with weights and the two of each attention, as Kaplan et al. 2020 (section 2.1) and
Chowdhery et al. 2022 (appendix B) do; norms, softmax, dropout, the optimizer and the look-up of
embeddings are no products. Of an attention the whole square of its weights counts, the half that a
causal mask hides too. Padding, and what is computed twice, is no need and never counts.
"""

from __future__ import annotations

from .shape import Shape


def training_flops(shape: Shape, vocabulary: int, source: int, target: int) -> int:
    """Operations of one training step for a pair of `source` and `target` tokens, EOS among them.

    The backward pass takes two products for each one of the forward pass: its gradient by either
    factor. So a weight costs 6 operations for each token that it multiplies.
    """
    forward = (
        encoder_flops(shape, source)
        + target * decoder_weights_flops(shape, vocabulary)
        # To the target's own places, and to the source's.
        + shape.layers * attention_flops(shape, target, target + source)
    )
    return 3 * forward


def decoding_flops(shape: Shape, vocabulary: int, source: int, steps: int, beam: int) -> int:
    """Operations of one sentence of `source` tokens, decoded by so many steps.

    The source is encoded once; the first step has one hypothesis, each later one `beam`, which
    attends to the steps so far and to the source.
    """
    total = encoder_flops(shape, source)
    for step in range(1, steps + 1):
        rows = 1 if step == 1 else beam
        total += rows * decoder_weights_flops(shape, vocabulary)
        total += shape.layers * attention_flops(shape, rows, step + source)
    return total


def encoder_flops(shape: Shape, source: int) -> int:
    """Operations of the forward pass over a source, as far as its keys and values for the decoder.

    A layer's weights: 4·d² for queries, keys, values and output, 2·d·d_ff for the feed-forward
    network, and in each layer of the decoder 2·d² for the memory's keys and values.
    """
    d = shape.d_model
    weights = shape.layers * (4 * d * d + 2 * d * shape.d_ff + 2 * d * d)
    return 2 * source * weights + shape.layers * attention_flops(shape, source, source)


def decoder_weights_flops(shape: Shape, vocabulary: int) -> int:
    """Operations of the products with weights for one target token.

    A layer's weights: 4·d² of the self-attention, 2·d² for the queries and the output of the
    attention to the memory, 2·d·d_ff; once d·vocabulary for the logits.
    """
    d = shape.d_model
    layer = 4 * d * d + 2 * d * d + 2 * d * shape.d_ff
    return 2 * (shape.layers * layer + d * vocabulary)


def attention_flops(shape: Shape, queries: int, keys: int) -> int:
    """Operations of QKᵀ and of weights times V, all heads together, in one layer."""
    return 2 * (2 * queries * keys * shape.d_model)
