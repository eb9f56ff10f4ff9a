"""The contents of a report: what models compute for sentences, as one JSON object and arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import eq
from typing import Any

import numpy as np
import torch
from torch import nn

from clearhead.decoding.beam import Node
from clearhead.decoding.engine import Hypothesis, length_penalty
from clearhead.inspect.edit import edit
from clearhead.inspect.explanation import (
    alternatives,
    is_short,
    source_share,
    untranslated,
    warning_of,
    word_effects,
)
from clearhead.inspect.lens import lens_of, patched
from clearhead.inspect.measures import MEASURES, measures_for
from clearhead.inspect.record import Array, Record
from clearhead.inspect.replay import Effects, Means, TranslationReplay, link_effects
from clearhead.inspect.report.array_store import ArrayStore
from clearhead.inspect.subject import Subject
from clearhead.inspect.words import Word, words_of
from clearhead.model.layers import PreNorm
from clearhead.model.transformer import EncoderClassifier, EncoderDecoder
from clearhead.settings import NoPositions, RunConfig, SearchConfig
from clearhead.tokenizer import EOS, Tokenizer
from clearhead.version import __version__

WALK_BYTES = 24_000_000
"""The vectors of all layers are left out if they are larger."""

LINKS = 400
"""The links of words are left out if there are more, since each is a replay."""

DONORS = 3
"""Maximum number of sentences whose values are put into a sentence."""

SHOWN = (
    "removal",
    "gradient_input",
    "value_zeroing",
    "rollout",
    "norms",
    "all_layers",
    "last_layer",
)
"""The measures of a report, best known first; integrated gradients take too long."""

WALK: frozenset[str] = frozenset(
    {
        *("embeddings", "positions", "convolutions", "queries", "keys", "values", "scores"),
        *("head_outputs", "residuals", "norms", "hidden_units"),
    }
)


class Contents:
    """The contents of a report, sentence by sentence.

    Args:
        title: of the page.
        command: that wrote it, if any.
        check: called between two parts of the work; it may raise an error to end it.
    """

    def __init__(
        self,
        title: str,
        command: str | None = None,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self._check = check
        self.arrays = ArrayStore()
        self._models: list[dict[str, Any]] = []
        self._means: list[Means | None] = []
        self._items: list[dict[str, Any]] = []
        self._short: list[tuple[dict[str, Any], Subject]] = []  # to patch
        self._title, self._command = title, command

    def to_dict(self) -> dict[str, Any]:
        """The JSON object; its references are to `arrays`."""
        return {
            "version": 1,
            "title": self._title,
            "generator": f"clearhead {__version__}",
            "command": self._command,
            "models": self._models,
            "items": self._items,
        }

    def add_model(
        self,
        name: str,
        config: RunConfig,
        model: EncoderDecoder | EncoderClassifier,
        study: Mapping[str, Any] | None = None,
        means: Means | None = None,
    ) -> int:
        """Describe a model; returns its number."""
        self._means.append(means)
        translates = isinstance(model, EncoderDecoder)
        layer: Any = model.encoder.layers[0]
        attention = layer.self_attention
        embeddings = [each for each in model.modules() if isinstance(each, nn.Embedding)]
        source = embeddings[0].num_embeddings if embeddings else 0
        study = study or {}
        self._models.append(
            {
                "name": name,
                "task": config.task,
                "multi_label": not translates and config.classifier.multi_label,
                "unit": "frame" if config.input == "features" and not translates else "token",
                "encoder_layers": len(model.encoder.layers),
                "decoder_layers": len(model.decoder.layers) if translates else 0,
                "heads": attention.n_heads,
                "d_model": attention.output.out_features,
                "d_ff": layer.feed_forward.hidden.out_features,
                "d_k": attention.widths[0] // attention.n_heads,
                "d_v": attention.widths[2] // attention.n_heads,
                "vocabulary": [source, model.output.out_features],
                "parameters": sum(x.numel() for x in model.parameters()),
                "norm": "pre" if isinstance(layer.residuals[0], PreNorm) else "post",
                "activation": config.model.activation,
                "norm_form": config.model.norm_form,
                "input": {
                    "positions": not isinstance(config.model.positions, NoPositions),
                    "norm": config.model.embedding_norm,
                    "convolutions": list(config.model.input_convolution),
                    "spelled": bool(config.model.character_ngrams),
                },
                "belief": study.get("belief"),
                "roles": study.get("roles"),
                "importance": study.get("importance"),
                "ablate_by": study.get("ablate_by"),
                "effects_by": "zero" if means is None else "mean",
            }
        )
        return len(self._models) - 1

    def add_translation(
        self,
        model: int,
        sentence: int,
        subject: Subject,
        text: str,
        hypothesis: Hypothesis,
        tokenizer: Tokenizer,
        beam: Mapping[str, Any] | None = None,
    ) -> None:
        """Add a source with its translation."""
        item = self._item(model, sentence, subject, text, tokenizer.pieces)
        item["target"] = _side(hypothesis.text, subject.target_pieces, subject.target_words)
        item["score"]["normalised"] = _finite(hypothesis.normalised_score)
        item["score"]["finished"] = hypothesis.finished
        item["beam"] = beam
        self._items.append(item)
        if is_short(subject):
            self._short.append((item, subject))

    def add_patches(self) -> None:
        """Patch the short translations of a model with the most similar ones of as many tokens."""
        for item, subject in self._short:
            pieces = subject.source_pieces
            alike = [
                (sum(map(eq, pieces, donor.source_pieces)), other["sentence"], donor)
                for other, donor in self._short
                if len(donor.source_pieces) == len(pieces) and donor.source_pieces != pieces
            ]
            for _, sentence, donor in sorted(alike, key=lambda each: -each[0])[:DONORS]:
                replay = subject.reading(donor)
                values = patched(replay, donor.record.encoder, "encoder", replay.summed)
                item["patches"].append(
                    {
                        "sentence": sentence,
                        "unpatched": float(replay.log_probabilities().sum()),
                        "values": self.arrays.add(values, "float32"),
                    }
                )
        self._short.clear()

    def add_classification(
        self,
        model: int,
        sentence: int,
        subject: Subject,
        text: str,
        labels: Sequence[tuple[str, float]],
        names: Sequence[str],
    ) -> None:
        """Add an input with its labels."""
        item = self._item(model, sentence, subject, text, lambda ids: [names[i] for i in ids])
        item["labels"] = [{"label": label, "probability": p} for label, p in labels]
        if subject.record.pooling_weights is not None:
            item["pooling"] = self.arrays.add(subject.record.pooling_weights, "float32")
        self._items.append(item)

    def _item(
        self, model: int, sentence: int, subject: Subject, text: str, pieces: Any
    ) -> dict[str, Any]:
        """What translations and classifications have in common."""
        add, record = self.arrays.add, subject.record
        # An encoder without labels has no output to explain.
        short = is_short(subject) and subject.places > 0
        has_positions = self._models[model]["input"]["positions"]
        ids, best = alternatives(subject) if subject.places else (np.zeros((0, 1)),) * 2
        found = word_effects(subject, ids, self._means[model]) if short else None
        own = best[:, 0]
        attention = {"encoder": record.encoder_attentions, "decoder": None, "cross": None}
        if record.decoder:
            attention["decoder"] = record.decoder_attentions
            attention["cross"] = record.cross_attentions
        return {
            "model": model,
            "sentence": sentence,
            "source": _side(text, subject.source_pieces, subject.source_words),
            "target": None,
            "outputs": {
                "pieces": list(subject.outputs),
                "words": [[word.text, list(word.positions)] for word in subject.output_words],
            },
            "score": {
                "log_probability": float(own.sum()),
                "normalised": None,
                "finished": True,
                "places": own.tolist(),
            },
            "labels": None,
            "pooling": None,
            "attention": {
                name: None if weights is None else add(weights, "weight8")
                for name, weights in attention.items()
            },
            "measures": self._measures(subject, self._models[model]["belief"]) if short else [],
            "alternatives": {
                "pieces": [pieces(row.tolist()) for row in ids],
                "log_probabilities": add(best, "float32"),
            },
            "effects": None if found is None else self._of_effects(found),
            "share": None if found is None else _shares(subject, found),
            "untranslated": [] if found is None else untranslated(subject, found.by_source),
            "warning": None if found is None else warning_of(subject, found),
            "walk": self._walk(subject),
            "lens": self._lens(subject) if short else None,
            "links": self._links(subject) if short else None,
            "unordered": self._unordered(subject) if short and has_positions else None,
            "patches": [],
            "beam": None,
        }

    def _measures(self, subject: Subject, belief: Mapping[str, Any] | None) -> list[dict[str, Any]]:
        """The measures that are shown, and the one that may be believed."""
        self._check()
        best = next(iter(belief["believed"] if belief else []), SHOWN[0])
        shown = [name for name in SHOWN if name in measures_for(subject.model)]
        return [
            {
                "name": name,
                "title": MEASURES[name].title,
                "meaning": MEASURES[name].meaning,
                "nats": MEASURES[name].nats,
                "values": self.arrays.add(MEASURES[name].compute(subject), "float32"),
            }
            for name in dict.fromkeys((*shown, best))
        ]

    def _of_effects(self, found: Effects) -> dict[str, Any]:
        names = ("by_head", "by_source", "by_prefix", "source", "prefix")
        arrays = {name: self.arrays.add(getattr(found, name), "float32") for name in names}
        return {"heads": list(map(str, found.heads)), **arrays}

    def _lens(self, subject: Subject) -> dict[str, Any]:
        """The best output of each layer, and its probability."""
        self._check()
        found = lens_of(subject, top=1)
        probabilities = self.arrays.add(found.probabilities[..., 0], "float32")
        best = [[place[0] for place in layer] for layer in found.best]
        return {"best": best, "probabilities": probabilities}

    def _links(self, subject: Subject) -> dict[str, Any] | None:
        """What each link of an output word to a source word does; None without any, or of many."""
        self._check()
        sides = [[w.positions for w in x] for x in (subject.output_words, subject.source_words)]
        replay, count = subject.replay, len(sides[0]) * len(sides[1])
        if not (isinstance(replay, TranslationReplay) and 0 < count <= LINKS):
            return None
        return self.arrays.add(link_effects(replay, *sides), "float32")

    def _unordered(self, subject: Subject) -> dict[str, Any]:
        """What becomes of the encoder's attention and of the output if no positions are added."""
        self._check()
        before = subject.record
        with edit(subject.model) as e:
            e.without_positions("source")
            record, given = subject.recorded(frozenset()), subject.names_of(subject.given())
        logits = torch.from_numpy(record.logits).expand(1, subject.places, -1)
        moved = np.abs(record.encoder_attentions - before.encoder_attentions).sum(axis=-1) / 2
        return {
            "text": " ".join(word.text for word in words_of(given)),
            "log_probability": float(subject.replay.summed(logits)),
            "moved": self.arrays.add(moved.mean(axis=-1), "float32"),
        }

    def _walk(self, subject: Subject) -> dict[str, Any] | None:
        self._check()
        record = subject.recorded(WALK)
        vectors = _vectors(record)
        if 2 * sum(x.size for x in vectors.values()) > WALK_BYTES:
            return None
        return {name: self.arrays.add(x, "float16") for name, x in vectors.items()}


def _shares(subject: Subject, found: Effects) -> list[float | None] | None:
    """The share of the source in each output of a translator; None where it has no meaning."""
    if not subject.is_translation:
        return None
    return [None if np.isnan(share) else float(share) for share in source_share(found)]


def beam_tree(
    nodes: Sequence[Node],
    hypotheses: Sequence[Hypothesis],
    search: SearchConfig,
    tokenizer: Tokenizer,
) -> dict[str, Any]:
    """The tree of a beam search, as the page reads it."""
    alpha = search.length_penalty
    paths: dict[tuple[int, ...], int] = {}
    tokens: list[tuple[int, ...]] = []
    listed = []
    for number, node in enumerate(nodes):
        before = () if node.parent is None else tokens[node.parent]
        tokens.append((*before, node.token))
        if node.state != "pruned":
            paths[tokens[-1]] = number
        (piece,) = tokenizer.pieces([node.token])
        normalised = None
        if node.state == "finished":
            normalised = node.total / length_penalty(node.step + 1, alpha)
        facts = {name: value for name, value in vars(node).items() if name != "token"}
        listed.append({**facts, "id": number, "piece": piece, "normalised": normalised})
    ends = [(*h.tokens, EOS) if h.finished else tuple(h.tokens) for h in hypotheses]
    return {
        "beam_size": search.beam_size,
        "length_penalty": alpha,
        "nodes": listed,
        "hypotheses": [
            {
                "node": paths[end],
                "text": hypothesis.text,
                "total": hypothesis.score,
                "normalised": hypothesis.normalised_score,
                "finished": hypothesis.finished,
            }
            for hypothesis, end in zip(hypotheses, ends, strict=True)
            if end in paths
        ],
    }


def _side(text: str, pieces: Sequence[str], words: Sequence[Word]) -> dict[str, Any]:
    listed = [[word.text, list(word.positions)] for word in words]
    return {"text": text, "pieces": list(pieces), "words": listed}


def _vectors(record: Record) -> dict[str, Array]:
    """The values of the walk through the layers, by name."""
    vectors = dict(record.details)
    for stack, layers in (("encoder", record.encoder), ("decoder", record.decoder)):
        for number, layer in enumerate(layers, start=1):
            fields = {
                "attention_output": "self.output",
                "self_attention_output": "self.output",
                "cross_attention_output": "cross.output",
                "feed_forward_output": "feed_forward.output",
                "input": "input",
                "output": "output",
            }
            for name, x in vars(layer).items():
                if name in fields:
                    vectors[f"{stack}.{number}.{fields[name]}"] = x
    return vectors


def _finite(number: float) -> float | None:
    return number if np.isfinite(number) else None
