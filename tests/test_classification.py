"""Classification from files to labels: learning, resuming, using, and what is refused."""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

import clearhead
from clearhead import api
from clearhead.api.preparation import prepare
from clearhead.checkpoint import read_tensors
from clearhead.config import RunConfig, config_from
from clearhead.errors import ConfigError, DataError, ModelFolderError
from clearhead.tasks.classification import ClassificationTask, divergence, label_loss
from clearhead.tasks.reconstruction import hidden_spans
from test_training import Watcher, assert_same, final_state, small_run

COLOURS = {"red": "warm", "orange": "warm", "blue": "cold", "green": "cold"}
BOTH = {"red": '"warm"', "blue": '"cold"', "red blue": '"cold", "warm"'}
SMALL_MODEL = {"encoder_layers": 1, "d_model": 16, "d_ff": 32, "n_heads": 2, "dropout": 0.1}


def write_texts(folder: Path, count: int = 160) -> Path:
    """Texts whose label is what their colour is said to be."""
    chance = random.Random(3)
    path = folder / "train.tsv"
    lines = []
    for number in range(count):
        colour = chance.choice(list(COLOURS))
        words = [str(number), *chance.choices("abcdef", k=chance.randint(1, 6))]
        words.insert(chance.randint(0, len(words)), colour)
        lines.append(f"{COLOURS[colour]}\t{' '.join(words)}\n")
    path.write_text("".join(lines), encoding="utf-8")
    return path


def write_sequences(folder: Path, count: int = 120) -> Path:
    """Sequences whose label is the feature that is largest."""
    rng = np.random.default_rng(3)
    labels = rng.integers(0, 3, count)
    lengths = rng.integers(2, 9, count)
    frames = [rng.normal(size=(length, 3)) for length in lengths]
    for label, sequence in zip(labels, frames, strict=True):
        sequence[:, label] += 2.0
    path = folder / "train.npz"
    names = np.array(["first", "second", "third"])[labels]
    np.savez(path, x=np.concatenate(frames).astype(np.float32), lengths=lengths, y=names)
    return path


def text_run(folder: Path, name: str = "run", **sections: dict[str, Any]) -> RunConfig:
    tree = {
        "task": "classification",
        "folder": str(folder / name),
        "data": {"train": [str(write_texts(folder))], "max_length": 20},
        "tokenizer": {"max_vocabulary": 60, "sampling": 0.1, "byte_fallback": False},
        "model": SMALL_MODEL,
        "classifier": {"pooling": ["mean", "maximum", "attention"]},
        "training": {
            "batch_tokens": 200,
            "max_steps": 60,
            "validate_every": 20,
            "average_last": 2,
            "schedule": {"kind": "linear", "peak": 2e-2, "warmup": 5},
        },
    }
    return config_from({**tree, **{k: {**tree.get(k, {}), **v} for k, v in sections.items()}})


def feature_run(folder: Path, name: str = "run", **sections: dict[str, Any]) -> RunConfig:
    run = text_run(folder, name)
    tree: dict[str, Any] = dataclasses.asdict(run) | {"input": "features"}
    tree["data"] |= {"train": [str(write_sequences(folder))]}
    tree["model"] |= {"positions": {"kind": "none"}}
    return config_from({**tree, **{k: {**tree[k], **v} for k, v in sections.items()}})


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> api.Classifier:
    config = text_run(tmp_path_factory.mktemp("texts"), training={"max_steps": 150})
    api.train(config)
    return api.load_classifier(config.folder, device="cpu")


@pytest.fixture(scope="module")
def features(tmp_path_factory: pytest.TempPathFactory) -> api.Classifier:
    config = feature_run(tmp_path_factory.mktemp("features"))
    api.train(config)
    return api.load_classifier(config.folder, device="cpu")


def test_a_classifier_learns_the_labels_of_texts(texts: api.Classifier) -> None:
    assert texts.labels == ("cold", "warm")
    unseen = ["f red a", "b b green", "orange c d e a", "e blue"]
    assert [str(found[0]) for found in texts.classify(unseen)] == ["warm", "cold", "warm", "cold"]


def test_a_classifier_learns_the_labels_of_features(features: api.Classifier) -> None:
    rng = np.random.default_rng(9)
    sequences = [rng.normal(size=(n, 3)).astype("f4") for n in (3, 5, 8)]
    for label, sequence in enumerate(sequences):
        sequence[:, label] += 3.0
    found = [str(labels[0]) for labels in features.classify(sequences)]
    assert found == ["first", "second", "third"]


def test_probabilities_add_up_and_rank_as_the_logits_do(texts: api.Classifier) -> None:
    inputs = ["red a", "blue", "a b c"]
    probabilities, logits = texts.probabilities(inputs), texts.logits(inputs)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    assert (probabilities.argsort(axis=1) == logits.argsort(axis=1)).all()
    top = texts.classify(inputs, top=2)
    for row, predictions in zip(probabilities, top, strict=True):
        assert [p.probability for p in predictions] == sorted(row, reverse=True)


def test_neighbours_and_batches_do_not_matter(texts: api.Classifier) -> None:
    inputs = ["red", "blue a b c d e", "a", "green b c"]
    together = texts.logits(inputs)
    alone = np.concatenate([texts.logits([one]) for one in inputs])
    np.testing.assert_allclose(together, alone, atol=1e-5)
    np.testing.assert_allclose(texts.logits(inputs, batch_size=2), together, atol=1e-5)


def test_an_empty_text_has_no_label_and_a_long_one_is_cut_with_a_warning(
    texts: api.Classifier,
) -> None:
    assert texts.classify(["", "  ", "red"])[:2] == [[], []]
    with pytest.warns(UserWarning, match="input 12 has .* cut to 20"):
        texts.classify(["red", "a b c d e f " * 10], offset=10)
    with pytest.raises(TypeError, match="single string"):
        texts.classify("red")


@pytest.mark.parametrize("kind", [text_run, feature_run])
def test_an_interrupted_run_ends_with_the_same_bits_as_an_uninterrupted_one(
    tmp_path: Path, kind: Any
) -> None:
    noise = {"r_drop": 1.0, "word_dropout": 0.1, "accumulate": 2, "max_steps": 12}
    settings = {"training": {**noise, "validate_every": 4}}
    through = kind(tmp_path, "through", **settings)
    api.train(through)
    stopped = kind(tmp_path, "stopped", **settings)
    assert not api.train(stopped, observers=[Watcher(interrupt_at=4)]).finished
    assert api.train(stopped).finished
    assert_same(final_state(stopped), final_state(through))


def test_examples_may_have_several_labels_or_none(tmp_path: Path) -> None:
    lines = [
        f'{{"text": "{number} {colours}", "labels": [{labels}]}}'
        for number in range(60)
        for colours, labels in BOTH.items()
    ]
    data = tmp_path / "several.jsonl"
    data.write_text("\n".join(lines) + "\n", encoding="utf-8")
    config = text_run(
        tmp_path,
        data={"train": [str(data)]},
        classifier={"multi_label": True},
        training={"max_steps": 150},
    )
    api.train(config)
    model = api.load_classifier(config.folder)
    found = [sorted(map(str, labels)) for labels in model.classify(["7 red blue", "8 blue"])]
    assert found == [["cold", "warm"], ["cold"]]


def test_class_weights_give_every_class_the_same_weight_in_all(tmp_path: Path) -> None:
    config = text_run(tmp_path, classifier={"class_weights": "balanced"})
    task = prepare(config, None, tmp_path, ()).task
    assert isinstance(task, ClassificationTask)
    each = task.truth.astype(float) @ task._weights.numpy().astype(float)
    per_class = [each[task.truth[:, label]].sum() for label in range(task.truth.shape[1])]
    np.testing.assert_allclose(per_class, len(each) / len(per_class), rtol=1e-5)


@given(st.integers(2, 5), st.floats(0, 0.9), st.integers(1, 6))
def test_the_loss_is_pytorchs_own(labels: int, smoothing: float, rows: int) -> None:
    torch.manual_seed(labels)
    logits = torch.randn(rows, labels, dtype=torch.float64)
    ids = torch.randint(labels, (rows,))
    weights = torch.rand(labels, dtype=torch.float64)
    truth = F.one_hot(ids, labels).double()
    found = label_loss(logits, truth, torch.ones_like(weights), smoothing, multi_label=False)
    expected = F.cross_entropy(logits, ids, label_smoothing=smoothing, reduction="sum")
    torch.testing.assert_close(found, expected)
    found = label_loss(logits, truth, weights, 0.0, multi_label=False)
    expected = F.cross_entropy(logits, ids, weight=weights, reduction="sum")
    torch.testing.assert_close(found, expected)


def test_the_divergence_is_half_of_both_directions() -> None:
    torch.manual_seed(1)
    logits = torch.randn(6, 4, dtype=torch.float64)
    p, q = logits[:3].softmax(-1), logits[3:].softmax(-1)
    both = (p * (p / q).log()).sum() + (q * (q / p).log()).sum()
    torch.testing.assert_close(divergence(logits), both / 2)


def test_hidden_spans_have_the_share_and_the_length_that_were_asked_for() -> None:
    hidden = hidden_spans((200, 300, 4), 0.15, 3.0, np.random.default_rng(1))
    assert hidden.mean() == pytest.approx(0.15, abs=0.01)
    starts = (hidden[:, 1:] & ~hidden[:, :-1]).sum() + hidden[:, 0].sum()
    assert hidden.sum() / starts == pytest.approx(3.0, abs=0.1)
    # Each feature is hidden by itself.
    agree = (hidden[..., 0] == hidden[..., 1]).mean()
    assert agree == pytest.approx(0.15**2 + 0.85**2, abs=0.02)


def test_an_encoder_learns_to_fill_in_and_a_classifier_begins_with_it(tmp_path: Path) -> None:
    before = feature_run(tmp_path, "before")
    before = dataclasses.replace(before, task="reconstruction")
    ended = api.train(before)
    assert ended.scores["loss"] > 0
    with pytest.raises(ModelFolderError, match="neither translates nor classifies"):
        api.load(before.folder)
    config = feature_run(tmp_path, "after", classifier={"encoder_from": before.folder})
    assert begins_with(config, before.folder)
    assert api.train(config).finished


def test_a_classifier_begins_with_the_encoder_and_vocabulary_of_a_translator(
    tmp_path: Path,
) -> None:
    translator = small_run(tmp_path, "translator")
    api.train(translator)
    shape = dataclasses.asdict(translator.model)
    config = text_run(tmp_path, model=shape, classifier={"encoder_from": translator.folder})
    assert begins_with(config, translator.folder)
    api.train(config)
    kept = api.load_classifier(config.folder).inputs.parts["tokenizer"].fingerprint()
    assert kept == api.load_translator(translator.folder).source_tokenizer.fingerprint()
    begun = {"encoder_from": translator.folder}
    other = text_run(tmp_path, "other", classifier=begun, model={"d_ff": 8})
    with pytest.raises(ModelFolderError, match="not of the shape"):
        api.train(other)


def begins_with(config: RunConfig, folder: str) -> bool:
    """Whether a new model of the run has the encoder of the folder."""
    model = prepare(config, None, Path(config.folder), ()).build_model()
    tensors, _ = read_tensors(Path(folder) / "weights.safetensors")
    own = dict(model.named_parameters())
    names = [name for name in tensors if name.startswith("encoder.")]
    return bool(names) and all(torch.equal(tensors[name], own[name]) for name in names)


def test_the_kinds_of_models_are_told_apart(texts: api.Classifier, tmp_path: Path) -> None:
    assert isinstance(clearhead.load(texts.folder.path), clearhead.Classifier)
    with pytest.raises(ModelFolderError, match="clearhead classify"):
        api.load_translator(texts.folder.path)


def test_settings_that_do_not_go_together_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not score"):
        text_run(tmp_path, evaluation={"measure": "bleu"})
    with pytest.raises(ConfigError, match="needs input"):
        config_from({"task": "translation", "input": "features"})
    with pytest.raises(ConfigError, match="pooling"):
        text_run(tmp_path, classifier={"pooling": ["median"]})
    with pytest.raises(ConfigError, match="names no file"):
        api.train(text_run(tmp_path, data={"train": []}))


def test_a_class_with_one_example_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    config = text_run(tmp_path)
    with Path(config.data.train[0]).open("a", encoding="utf-8") as file:
        file.write("lukewarm\tgrey a\n")
    with pytest.raises(DataError, match=r"lukewarm.* has 1 training example"):
        api.train(config)
    assert not (Path(config.folder) / "config.json").exists()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda x: x.__setitem__((4, 1), np.inf), "inf"),
        (lambda x: x.__setitem__((4, 1), np.nan), "has no value"),
    ],
)
def test_features_that_are_no_numbers_are_refused_with_their_place(
    tmp_path: Path, spoil: Any, message: str
) -> None:
    config = feature_run(tmp_path)
    path = Path(config.data.train[0])
    with np.load(path) as arrays:
        kept = {name: arrays[name].copy() for name in arrays.files}
    spoil(kept["x"])
    np.savez(path, **kept)
    with pytest.raises(DataError, match=message) as caught:
        api.train(config)
    assert "train.npz" in str(caught.value)


def test_features_of_another_width_are_refused(features: api.Classifier) -> None:
    with pytest.raises(DataError, match="2 features"):
        features.classify([np.zeros((4, 2), dtype=np.float32)])
