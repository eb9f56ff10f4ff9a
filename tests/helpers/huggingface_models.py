"""Small random encoders of `transformers` with tokenizers, as files of Hugging Face."""

from __future__ import annotations

import string
from pathlib import Path
from typing import Any

import torch
from torch import nn

LETTERS = (
    "the red ball how many people lived here in a b c d e f g h i j k l m n o p q r s t u v w x"
)


def bert_tokens(folder: Path) -> int:
    """Write a WordPiece tokenizer; the number of its tokens."""
    import transformers

    words = sorted({*LETTERS.split(), *(f"##{letter}" for letter in "abcdefghijklmnopqrstuvwxyz")})
    # The special tokens are not the first ones.
    vocabulary = [*words[:9], "[UNK]", "[PAD]", "[SEP]", "[CLS]", "[MASK]", *words[9:], "?", ","]
    file = folder / "vocab.txt"
    file.write_text("\n".join(vocabulary) + "\n", encoding="utf-8")
    tokens = transformers.BertTokenizer(vocab=str(file))
    tokens.save_pretrained(folder)
    return len(vocabulary)


def roberta_tokens(folder: Path) -> int:
    """Write a tokenizer of byte-level BPE."""
    import tokenizers
    import transformers

    learner = tokenizers.ByteLevelBPETokenizer()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    learner.train_from_iterator([LETTERS] * 4, vocab_size=300, special_tokens=special)
    learner.save_model(str(folder))
    tokens = transformers.RobertaTokenizer(
        vocab=str(folder / "vocab.json"), merges=str(folder / "merges.txt")
    )
    tokens.save_pretrained(folder)
    return len(tokens)


def xlm_roberta_tokens(folder: Path) -> int:
    """Write a unigram tokenizer; the number of its tokens."""
    import transformers

    pieces = sorted({f"\u2581{word}" for word in LETTERS.split()} | set(string.ascii_lowercase))
    special = [(token, 0.0) for token in ("<s>", "<pad>", "</s>", "<unk>")]
    vocabulary = [*special, ("\u2581", -2.0), *((piece, -3.0) for piece in pieces), ("<mask>", 0.0)]
    transformers.XLMRobertaTokenizer(vocab=vocabulary).save_pretrained(folder)
    return len(vocabulary)


TOKENS = {
    **{"Bert": bert_tokens, "DistilBert": bert_tokens},
    **{"Roberta": roberta_tokens, "XLMRoberta": xlm_roberta_tokens},
}
"""What writes the tokenizer of a kind of model into a folder."""

SHAPE = dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=20)
DISTILBERT_SHAPE = dict(dim=16, n_layers=2, n_heads=2, hidden_dim=20)


def written(folder: Path, kind: str, head: bool, **choices: Any) -> Any:
    """Write a random model with its tokenizer, and return the model."""
    import transformers

    folder.mkdir()
    torch.manual_seed(1)
    size = TOKENS[kind](folder)
    shape = DISTILBERT_SHAPE if kind == "DistilBert" else SHAPE
    tokens = transformers.AutoTokenizer.from_pretrained(folder)
    config = getattr(transformers, f"{kind}Config")(
        **{
            # More embeddings than tokens, as many models have.
            **{"vocab_size": size + 3, "max_position_embeddings": 40},
            **{"pad_token_id": tokens.pad_token_id, **shape, **choices},
        }
    )
    name = f"{kind}ForSequenceClassification" if head else f"{kind}Model"
    model = getattr(transformers, name)(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            nn.init.normal_(parameter, std=0.3)
    model.save_pretrained(folder)
    return model
