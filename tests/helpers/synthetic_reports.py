"""Reports of models that do not exist: random numbers in the shapes of a translator and others."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from clearhead.inspect.report.array_store import ArrayStore

D_MODEL, D_FF, D_K, K = 16, 32, 8, 4
MEASURES = {
    "last_layer": ("Last layer", "Attention weights of the last layer, mean over its heads."),
    "rollout": ("Rollout", "Attention weights of all layers, multiplied."),
    "removal": ("Removal", "The log-probability minus that without the source word."),
}
SENTENCES = (
    ("A man rides a bi cycle .", "Ein Mann fährt Fahr rad ."),
    ("Two dogs play in the snow .", "Zwei Hunde spielen im Schnee ."),
)

Rng = np.random.Generator
Report = dict[str, Any]


def decoded(reference: Mapping[str, Any], blobs: Sequence[bytes]) -> np.ndarray:
    """The array (float32) of a reference, as the page decodes it."""
    shape, kind, first = reference["shape"], reference["kind"], reference["blob"]
    stored = {"weight8": "u1", "float16": "<f2", "float32": "<f4"}[kind]
    count = int(np.prod(shape))
    used = blobs[first : first + (shape[0] if reference.get("split") else 1)] if count else []
    content = b"".join(zlib.decompress(blob, wbits=-15) for blob in used)
    flat = np.frombuffer(content, stored, count, reference["start"] if count else 0)
    values = flat.astype(np.float32).reshape(shape)
    return np.square(values / 255) if kind == "weight8" else values


def translator_report(
    sentences: Sequence[tuple[str, str]] = SENTENCES,
    models: Sequence[str] = ("runs/multi30k",),
    title: str = "Two sentences",
    layers: int = 2,
    heads: int = 2,
    norm: str = "pre",
) -> tuple[Report, list[bytes]]:
    """The data of a report on translations, and its blobs."""
    rng, store = np.random.default_rng(0), ArrayStore()
    described = [_model(rng, name, "translation", layers, layers, heads, norm) for name in models]
    items = [
        _translation(
            rng,
            store,
            described[model],
            model,
            number,
            (number + 1) % len(sentences),
            source,
            target,
        )
        for number, (source, target) in enumerate(sentences)
        for model in range(len(models))
    ]
    store.close()
    return _report(title, described, items), store.blobs


def classifier_report(
    text: str = "What is the tall est mountain ?",
    labels: Sequence[str] = ("location", "number", "person"),
    unit: str = "token",
) -> tuple[Report, list[bytes]]:
    """The data of a report on a classification, and its blobs."""
    rng, store = np.random.default_rng(1), ArrayStore()
    model = _model(rng, "runs/trec", "classification", 2, 0, 2, "post") | {"unit": unit}
    source = _side(text)
    n_source = len(source["pieces"])
    probabilities = sorted(rng.dirichlet(np.ones(len(labels))).tolist(), reverse=True)
    item: dict[str, Any] = {
        "model": 0,
        "sentence": 0,
        "source": source,
        "target": None,
        "outputs": {"pieces": [labels[0]], "words": [[labels[0], [0]]]},
        "score": _score(np.log(probabilities[:1])),
        "labels": [
            {"label": label, "probability": p}
            for label, p in zip(labels, probabilities, strict=True)
        ],
        "pooling": store.add(rng.dirichlet(np.ones(n_source)), "float32"),
        "attention": {
            "encoder": store.add(_weights(rng, 2, 2, n_source, n_source), "weight8"),
            "decoder": None,
            "cross": None,
        },
        "measures": _measures(rng, store, 1, n_source),
        "alternatives": {
            "pieces": [list(labels)],
            "log_probabilities": store.add(np.log([probabilities]), "float32"),
        },
        "effects": _effects(rng, store, model, 1, len(source["words"]), 0, len(labels)),
        "share": None,
        "warning": None,
        "walk": _walk(rng, store, model, n_source, 0),
        "beam": None,
        "lens": _lens(rng, store, 3, [labels[0]]),
        "links": None,
        "unordered": None,
        "patches": [],
    }
    store.close()
    return _report("A question", [model], [item]), store.blobs


def _report(title: str, models: list[Report], items: list[Report]) -> Report:
    return {
        "version": 1,
        "title": title,
        "generator": "clearhead 0.1.0",
        "command": "clearhead inspect runs/multi30k -o report.html",
        "models": models,
        "items": items,
    }


def _model(
    rng: Rng, name: str, task: str, encoder: int, decoder: int, heads: int, norm: str
) -> Report:
    model: Report = {
        "name": name,
        "task": task,
        "multi_label": False,
        "unit": "token",
        "encoder_layers": encoder,
        "decoder_layers": decoder,
        "heads": heads,
        "d_model": D_MODEL,
        "d_ff": D_FF,
        "d_k": D_K,
        "d_v": D_K,
        "vocabulary": [8000, 8000],
        "parameters": 12_345_678,
        "norm": norm,
        "activation": "relu",
        "norm_form": "standard",
        "effects_by": "zero",
        "input": {"positions": True, "norm": False, "convolutions": [], "spelled": False},
    }
    grid = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5]
    curves = {
        name: (0.7 * np.exp(-speed * np.array(grid))).tolist()
        for name, speed in zip([*MEASURES, "random"], (3, 4, 6, 1.5), strict=True)
    }
    model["belief"] = {
        "text": "Removal may be believed: deleting the words it ranks first changes most.",
        "believed": ["removal"],
        "completeness_error": 0.01,
        "sentences": 200,
        "rows": [
            {
                "measure": name,
                "title": title,
                "comprehensiveness": [0.4 + 0.1 * i, 0.3 + 0.1 * i, 0.5 + 0.1 * i],
                "sufficiency": [0.3 - 0.1 * i, 0.2 - 0.1 * i, 0.4 - 0.1 * i],
            }
            for i, (name, (title, _)) in enumerate(MEASURES.items())
        ],
        "grid": grid,
        "curves": curves,
    }
    model["roles"] = {
        "encoder.1.self.1": [["previous token", 0.83]],
        "encoder.2.self.2": [["punctuation", 0.61], ["separator", 0.42]],
    }
    losses = {name: float(rng.normal(0.05, 0.1)) for name in _heads(model)}
    model["ablate_by"] = "zero"
    model["importance"] = [
        {
            "head": name,
            "loss": [loss, loss - 0.02, loss + 0.02],
            "chrf": [-5 * loss, -5 * loss - 0.4, -5 * loss + 0.4] if decoder else None,
            "gradient": abs(loss) * 0.8,
        }
        for name, loss in losses.items()
    ]
    return model


def _heads(model: Report) -> list[str]:
    kinds = [("encoder", "self"), ("decoder", "self"), ("decoder", "cross")]
    return [
        f"{stack}.{layer}.{kind}.{head}"
        for stack, kind in kinds
        for layer in range(1, model[f"{stack}_layers"] + 1)
        for head in range(1, model["heads"] + 1)
    ]


def _side(text: str) -> Report:
    """Pieces by spaces; a piece after one of at most three letters of a longer word joins it."""
    pieces = text.split(" ")
    words: list[list[Any]] = []
    for position, piece in enumerate(pieces):
        if piece in ("cycle", "rad", "est"):
            words[-1] = [words[-1][0] + piece, [*words[-1][1], position]]
        else:
            words.append([piece, [position]])
    return {"text": " ".join(word for word, _ in words), "pieces": pieces, "words": words}


def _translation(
    rng: Rng,
    store: ArrayStore,
    model: Report,
    number: int,
    sentence: int,
    other: int,
    source_text: str,
    target_text: str,
) -> Report:
    source, said = _side(source_text), _side(target_text)
    outputs = [*said["pieces"], "</s>"]
    n_source, places = len(source["pieces"]), len(outputs)
    target_words = [[word, [position + 1 for position in at]] for word, at in said["words"]]
    layers, heads = model["encoder_layers"], model["heads"]
    logs = -np.sort(rng.exponential(2, (places, K)).astype(np.float32))
    return {
        "model": number,
        "sentence": sentence,
        "source": source,
        "target": {"text": said["text"], "pieces": ["<s>", *said["pieces"]], "words": target_words},
        "outputs": {"pieces": outputs, "words": said["words"]},
        "score": _score(logs[:, 0]),
        "labels": None,
        "pooling": None,
        "attention": {
            "encoder": store.add(_weights(rng, layers, heads, n_source, n_source), "weight8"),
            "decoder": store.add(
                _weights(rng, layers, heads, places, places, causal=True), "weight8"
            ),
            "cross": store.add(_weights(rng, layers, heads, places, n_source), "weight8"),
        },
        "measures": _measures(rng, store, places, n_source),
        "alternatives": {
            "pieces": [[piece, *(f"other{k}" for k in range(1, K))] for piece in outputs],
            "log_probabilities": store.add(logs, "float32"),
        },
        "effects": _effects(rng, store, model, places, len(source["words"]), len(target_words), K),
        "share": [None, *rng.uniform(0.2, 0.9, places - 1).tolist()],
        "warning": "The source hardly counts: perhaps a hallucination." if sentence == 1 else None,
        "walk": _walk(rng, store, model, n_source, places),
        "beam": _beam(rng, outputs),
        "lens": _lens(rng, store, layers + 1, outputs),
        "links": store.add(rng.normal(0, 2, (len(said["words"]), len(source["words"]))), "float32"),
        "unordered": {
            "text": "a set",
            "log_probability": -9.5,
            "moved": store.add(rng.uniform(0, 1, (layers, heads)), "float32"),
        },
        "patches": [
            {
                "sentence": other,
                "unpatched": -20.0,
                "values": store.add(rng.normal(-18, 4, (layers + 1, n_source)), "float32"),
            }
        ],
    }


def _score(logs: Any) -> Report:
    places = [float(value) for value in logs]
    return {
        "log_probability": sum(places),
        "normalised": sum(places) / 2,
        "finished": True,
        "places": places,
    }


def _weights(
    rng: Rng, layers: int, heads: int, rows: int, columns: int, causal: bool = False
) -> Any:
    weights = np.empty((layers, heads, rows, columns), np.float32)
    for layer in range(layers):
        for head in range(heads):
            scores = rng.normal(0, 3, (rows, columns)).astype(np.float32)
            near = np.abs(np.arange(rows)[:, None] - np.arange(columns)[None])
            scores -= (near if head % 2 else np.sqrt(near)).astype(np.float32)
            if causal:
                scores[np.triu_indices(rows, 1, columns)] = -np.inf
            powers = np.exp(scores - scores.max(axis=1, keepdims=True))
            weights[layer, head] = powers / powers.sum(axis=1, keepdims=True)
    return weights


def _measures(rng: Rng, store: ArrayStore, places: int, n_source: int) -> list[Report]:
    kind = "float32" if places * n_source < 10_000 else "float16"
    measures = []
    for name, (title, meaning) in MEASURES.items():
        values = _weights(rng, 1, 1, places, n_source)[0, 0]
        if name == "removal":
            values = 3 * values - rng.uniform(0, 0.3, values.shape)
        measures.append(
            {
                "name": name,
                "title": title,
                "meaning": meaning,
                "nats": name == "removal",
                "values": store.add(values, kind),
            }
        )
    return measures


def _effects(
    rng: Rng, store: ArrayStore, model: Report, places: int, source: int, prefix: int, choices: int
) -> Report:
    def random(*shape: int) -> Any:
        kind = "float32" if np.prod(shape) < 100_000 else "float16"
        return store.add(rng.normal(0, 1, shape), kind)

    heads = _heads(model)
    return {
        "heads": heads,
        "by_head": random(len(heads), places, choices),
        "by_source": random(source, places, choices),
        "by_prefix": random(prefix, places, choices) if prefix else None,
        "source": random(places, choices),
        "prefix": random(places, choices) if prefix else None,
    }


def _walk(rng: Rng, store: ArrayStore, model: Report, n_source: int, n_target: int) -> Report:
    walk: Report = {}

    def keep(name: str, *shape: int) -> None:
        walk[name] = store.add(rng.normal(0, 1, shape), "float16")

    for side, length in (("source", n_source), ("target", n_target)):
        if length:
            keep(f"{side}.embeddings", length, D_MODEL)
            keep(f"{side}.positions", length, D_MODEL)
    for stack, length in (("encoder", n_source), ("decoder", n_target)):
        for layer in range(1, model[f"{stack}_layers"] + 1):
            keep(f"{stack}.{layer}.input", length, D_MODEL)
            keep(f"{stack}.{layer}.output", length, D_MODEL)
            for part in ("hidden_units", "output", "residuals", "norms"):
                width = D_FF if part == "hidden_units" else D_MODEL
                keep(f"{stack}.{layer}.feed_forward.{part}", length, width)
            attentions = [("self", length)] + [("cross", n_source)] * (stack == "decoder")
            for kind, keys in attentions:
                name, heads = f"{stack}.{layer}.{kind}", model["heads"]
                keep(f"{name}.queries", heads, length, D_K)
                keep(f"{name}.keys", heads, keys, D_K)
                keep(f"{name}.values", heads, keys, D_K)
                keep(f"{name}.scores", heads, length, keys)
                keep(f"{name}.head_outputs", heads, length, D_K)
                for part in ("output", "residuals", "norms"):
                    keep(f"{name}.{part}", length, D_MODEL)
    return walk


def _lens(rng: Rng, store: ArrayStore, layers: int, outputs: Sequence[str]) -> Report:
    probabilities = rng.uniform(0, 1, (layers, len(outputs)))
    return {"best": [[*outputs]] * layers, "probabilities": store.add(probabilities, "float32")}


def _beam(rng: Rng, outputs: Sequence[str], size: int = 5) -> Report:
    """A beam whose best hypothesis is the output, for at most 40 steps."""
    outputs = outputs[:40]
    nodes: list[Report] = [
        {"id": 0, "parent": None, "step": 0, "piece": "<s>", "score": 0.0, "total": 0.0,
         "state": "kept", "normalised": None}
    ]  # fmt: skip
    alive = [0]
    for step, piece in enumerate(outputs, start=1):
        last, kept = step == len(outputs), []
        for rank in range(size + 2):
            parent = nodes[alive[0 if rank == 0 else int(rng.integers(len(alive)))]]
            score = -0.2 - 0.3 * rank - float(rng.uniform(0, 0.2))
            total = parent["total"] + score
            state = "pruned" if rank >= size else "finished" if last and rank < 3 else "kept"
            nodes.append(
                {"id": len(nodes), "parent": parent["id"], "step": step,
                 "piece": piece if rank == 0 else f"alt{rank}", "score": score, "total": total,
                 "state": state, "normalised": total / step if state == "finished" else None}
            )  # fmt: skip
            if state != "pruned":
                kept.append(nodes[-1]["id"])
        alive = kept
    finished = [node for node in nodes if node["state"] == "finished"]
    return {
        "beam_size": size,
        "differs": False,
        "length_penalty": 0.6,
        "nodes": nodes,
        "hypotheses": [
            {"node": node["id"], "text": f"hypothesis {i}", "total": node["total"],
             "normalised": node["normalised"], "finished": True}
            for i, node in enumerate(finished, start=1)
        ],
    }  # fmt: skip
