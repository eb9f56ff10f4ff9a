"""The inputs of a classifier: rows of texts, words with n-grams and features; batches; hiding."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import asdict
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import clearhead
from clearhead import api
from clearhead.api.start import starting_point
from clearhead.data.inputs import (
    FeatureInputs,
    NGrams,
    SpelledInputs,
    TextInputs,
    hide_words,
)
from clearhead.data.normaliser import Normaliser
from clearhead.data.reading.labelled import Labelled
from clearhead.errors import ConfigError, DataError
from clearhead.folder.files import write_json
from clearhead.folder.model_folder import FORMAT
from clearhead.model.build import build_classifier
from clearhead.model.inputs import SpelledEmbedding
from clearhead.model.transformer import EncoderClassifier
from clearhead.settings import RunConfig, config_from
from clearhead.tokenizer import BOS, PAD, WordTokenizer
from small_models import labelled_run, small_config

# Features


NAMES = ("height", "width")
FEATURES = FeatureInputs(Normaliser(np.zeros(2), np.ones(2), names=NAMES), "refuse", 8)


@pytest.mark.parametrize(
    "wrong",
    [
        [[1.0, 2.0], [3.0]],
        [[1.0, 2.0], 3.0],
        [np.zeros(2), np.zeros(3)],
        [[[1.0], [2.0, 3.0]]],
        torch.zeros(3, 2, requires_grad=True),
        torch.zeros(3, 2, dtype=torch.bfloat16),
    ],
)
@pytest.mark.parametrize("columns", [(), NAMES])
def test_what_is_no_array_is_rejected_with_its_place(wrong: Any, columns: tuple[str, ...]) -> None:
    right = Labelled([[1.0, 2.0]], (), "input 1")  # pyright: ignore[reportArgumentType]
    with pytest.raises(DataError, match="not an array of numbers") as raised:
        FEATURES.rows([right, Labelled(wrong, (), "input 2", columns)])
    assert raised.value.where == "input 2"
    assert raised.value.why
    assert raised.value.todo


@pytest.mark.parametrize("form", [list, tuple, np.array, torch.tensor])
def test_numbers_of_any_form_go_by_the_names_of_their_columns(form: Any) -> None:
    frames = [[1, 2], [3, 4], [5, 6]]
    (row,) = FEATURES.rows([Labelled(form(frames), (), "input 1", NAMES[::-1])])
    np.testing.assert_array_equal(row, np.array(frames)[:, ::-1])


def test_what_fills_a_gap_may_lie_far_from_the_training_data_and_a_value_may_not() -> None:
    normaliser = Normaliser(np.array([1.7e9]), np.array([128.0]))  # of seconds since 1970
    inputs = FeatureInputs(normaliser, "zero", 8)
    (row,) = inputs.rows([Labelled(np.array([[np.nan], [1.7e9]]), (), "input 1")])
    np.testing.assert_allclose(row[:, 0], [-1.7e9 / 128.0, 0.0])
    with pytest.raises(DataError, match="too far"):
        inputs.rows([Labelled(np.array([[0.0], [1.7e9]]), (), "input 1")])


# Spelled words


KNOWN = WordTokenizer(["blue", "how", "red", "what"])
LETTERS = st.characters(exclude_categories=["Z", "C"])
TEXTS = st.lists(st.text(LETTERS, min_size=1, max_size=9), max_size=6).map(" ".join)
VECTORS = 50


def spelled(max_length: int = 20, start: bool = False) -> SpelledInputs:
    return SpelledInputs(KNOWN, NGrams((2, 3), VECTORS), max_length, start)


def rows_of(*written: str) -> list[np.ndarray]:
    return spelled().rows([Labelled(text, (), "here") for text in written])


def test_the_ngrams_of_a_word_are_its_runs_of_characters_between_two_marks() -> None:
    assert NGrams((2, 4, 9), 7).spelling("how") == ["<h", "ho", "ow", "w>", "<how", "how>"]


@given(st.text(min_size=1, max_size=12), st.lists(st.integers(1, 6), min_size=1, max_size=3))
def test_each_ngram_has_a_number_from_1_that_follows_from_its_characters_alone(
    word: str, lengths: list[int]
) -> None:
    ngrams = NGrams(tuple(lengths), 7)
    numbers = ngrams.numbers(word)
    assert len(numbers) == sum(max(0, len(word) + 3 - length) for length in lengths)
    assert all(1 <= number <= 7 for number in numbers)
    longer = dict(zip(ngrams.spelling(f"x{word}"), ngrams.numbers(f"x{word}"), strict=True))
    by_ngram = dict(zip(ngrams.spelling(word), numbers, strict=True))
    assert all(longer.get(ngram, number) == number for ngram, number in by_ngram.items())


def test_a_word_of_any_length_and_a_character_of_no_text_are_spelt() -> None:
    (row,) = rows_of(f"how {'x' * 5_000}")
    assert row.shape[1] < 100
    assert len(NGrams((2,), VECTORS).numbers("x\ud800y")) == 4


def test_words_behind_the_longest_text_are_counted_and_not_spelt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = spelled(3)
    spelt: list[str] = []
    numbers = NGrams.numbers

    def noted(self: NGrams, word: str) -> list[int]:
        spelt.append(word)
        return numbers(self, word)

    monkeypatch.setattr(NGrams, "numbers", noted)
    words = ["what", "zebra", "how", "red", "quagga"]
    example = Labelled(" ".join(words), (), "here")
    (row,) = made.rows([example])
    assert len(row) == len(words)
    assert spelt == words[:3]
    assert made.names(example, row) == tuple(words[:3])


@pytest.mark.slow
def test_another_process_numbers_them_alike() -> None:
    program = (
        "from clearhead.data.inputs import NGrams\nprint(NGrams((2, 3), 1000).numbers('wörter'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str(NGrams((2, 3), 1000).numbers("wörter"))


@given(st.lists(TEXTS, min_size=1, max_size=4), st.integers(1, 7), st.booleans())
def test_a_batch_has_each_texts_words_and_ngrams_and_nothing_else(
    written: list[str], max_length: int, start: bool
) -> None:
    made = spelled(max_length, start)
    batch = made.collate(made.rows([Labelled(text, (), "here") for text in written]))
    for text, place in zip(written, batch.tolist(), strict=True):
        words = text.split()[:max_length]
        expected = [[BOS]] if start else []
        expected += [KNOWN.encode(word) + made.ngrams.numbers(word) for word in words]
        for found in place:
            wanted = expected.pop(0) if expected else []
            assert found == wanted + [PAD] * (len(found) - len(wanted))
        assert not expected
    assert made.real(batch) == sum(start + min(max_length, len(text.split())) for text in written)


def test_a_place_is_called_by_its_word_known_or_not() -> None:
    example = Labelled(" reddish\tbluer red qqq", (), "here")
    made = spelled(max_length=3, start=True)
    (row,) = made.rows([example])
    names = made.names(example, row)
    assert names == ("<sos>", "reddish", "bluer", "red")
    assert len(names) == len(made.collate([row])[0])


def test_a_hidden_word_loses_its_ngrams_and_the_others_keep_theirs() -> None:
    batch = spelled().collate(rows_of("what red zebra", "how"))
    everything = spelled().hide(batch, 1.0)
    assert everything[..., 1:].eq(0).all()
    assert everything[..., 0].tolist() == [[KNOWN.unk_id] * 3, [KNOWN.unk_id, PAD, PAD]]
    assert spelled().hide(batch, 0.0).equal(batch)


def spelled_classifier(**choices: object) -> EncoderClassifier:
    torch.manual_seed(1)
    config = small_config(character_ngrams=(2, 3), ngram_vectors=VECTORS, **choices)
    return build_classifier(labelled_run(config), len(KNOWN), 3).eval()


def part(model: EncoderClassifier) -> SpelledEmbedding:
    assert isinstance(model.input, SpelledEmbedding)
    return model.input


def test_a_words_vector_is_its_own_and_the_mean_of_its_ngrams() -> None:
    model = spelled_classifier(positions=clearhead.settings.NoPositions(), scale_embeddings=False)
    embedding = part(model)
    nn.init.normal_(embedding.embedding.weight)
    batch = spelled().collate(rows_of("what how"))
    table = embedding.ngrams.weight
    for word, vector in zip(("what", "how"), embedding(batch)[0], strict=True):
        numbers = NGrams((2, 3), VECTORS).numbers(word)
        mean = torch.stack([table[number] for number in numbers]).mean(dim=0)
        expected = embedding.embedding.weight[KNOWN.encode(word)[0]] + mean
        torch.testing.assert_close(vector, expected)


@pytest.mark.parametrize("how", ["pytorch", "xavier", "xavier_unit", "xavier_scaled"])
def test_an_unknown_word_has_its_ngrams_alone_and_no_ngram_adds_nothing(how: str) -> None:
    embedding = part(spelled_classifier(initialisation=how))
    assert embedding.embedding.weight[KNOWN.unk_id].eq(0).all()
    assert embedding.ngrams.weight[0].eq(0).all()
    spread = embedding.embedding.weight[:-1].std() / embedding.ngrams.weight[1:].std()
    assert how == "xavier" or 0.8 < spread < 1.25


def test_unknown_words_and_padding_of_ngrams_learn_nothing() -> None:
    model = spelled_classifier()
    batch = spelled().collate(rows_of("what zebra", "how"))
    model(batch).sum().backward()
    words, ngrams = part(model).embedding.weight.grad, part(model).ngrams.weight.grad
    assert words is not None
    assert ngrams is not None
    assert words[KNOWN.unk_id].eq(0).all()
    assert ngrams[0].eq(0).all()
    assert ngrams[NGrams((2, 3), VECTORS).numbers("zebra")].ne(0).any()


@pytest.mark.slow
@given(
    st.lists(TEXTS.filter(bool), min_size=1, max_size=4),
    st.booleans(),
    st.integers(0, 3),
    st.integers(0, 3),
)
def test_padding_changes_nothing(
    written: list[str], start: bool, places: int, columns: int
) -> None:
    model = spelled_classifier(input_convolution=(2, 3))
    made = spelled(start=start)
    batch = made.collate(made.rows([Labelled(text, (), "here") for text in written]))
    wider = nn.functional.pad(batch, (0, columns, 0, places))
    torch.testing.assert_close(model(wider), model(batch))


def test_words_so_short_that_they_have_no_ngram_are_words_still() -> None:
    made = SpelledInputs(KNOWN, NGrams((9,), VECTORS), 20, start=False)
    batch = made.collate(made.rows([Labelled("how red", (), "here")]))
    assert batch.tolist() == [[[KNOWN.encode(word)[0], 0] for word in ("how", "red")]]
    assert spelled_classifier()(batch).isfinite().all()


@pytest.mark.parametrize(
    ("section", "name", "value"),
    [("model", "character_ngrams", [3]), ("tokenizer", "split_punctuation", True)],
)
def test_what_is_for_words_is_rejected_where_the_vocabulary_of_an_encoder_has_pieces(
    tmp_path: Path, section: str, name: str, value: object
) -> None:
    pieces = RunConfig(task="classification")
    write_json(tmp_path / "config.json", {"format": FORMAT, "config": asdict(pieces)})
    (tmp_path / "weights.safetensors").touch()  # not read
    tree = {
        "task": "classification",
        "start_from": str(tmp_path),
        section: {name: value},
    }
    start = starting_point(config_from(tree), True, print)
    with pytest.raises(ConfigError, match="brings its own model and vocabulary") as raised, start:
        pass
    assert raised.value.where == f"{section}.{name}"


@pytest.mark.slow
def test_a_trained_classifier_knows_words_it_has_not_seen_by_how_they_are_spelt(
    tmp_path: Path,
) -> None:
    """The label is the ending of the words; training and test texts have no word in common."""
    rng = np.random.default_rng(1)
    stems = sorted({"".join(rng.choice(list("bcdfgklmnprt"), 4)) for _ in range(300)})
    lines = [(f"{stem}{ending}", ending) for stem in stems for ending in ("ation", "ungen")]
    seen, unseen = lines[:480], lines[480:]
    data = tmp_path / "train.tsv"
    data.write_text("".join(f"{label}\t{word}\n" for word, label in seen), encoding="utf-8")
    config = config_from(
        {
            "task": "classification",
            "folder": str(tmp_path / "run"),
            "data": {"train": [str(data)]},
            "tokenizer": {"kind": "words"},
            "model": {
                **{"encoder_layers": 1, "d_model": 16, "d_ff": 16, "n_heads": 2},
                **{"character_ngrams": [3, 4], "ngram_vectors": 500},
            },
            "training": {
                "max_steps": 80,
                "validate_every": 40,
                "schedule": {"kind": "constant", "peak": 1e-2, "warmup": 0},
            },
        }
    )
    assert api.train(config).finished
    classifier = api.load_classifier(config.folder)
    two = f"{unseen[0][0]} {unseen[1][0]}"
    assert clearhead.record(classifier, two).source == tuple(two.split())
    found = classifier.classify([word for word, _ in unseen])
    right = sum(
        labels[0].label == wanted for labels, (_, wanted) in zip(found, unseen, strict=True)
    )
    assert right >= 0.95 * len(unseen)


# Texts


@given(st.lists(st.text("abc ", max_size=9), min_size=1, max_size=4), st.booleans())
def test_a_batch_of_texts_has_their_ids_and_padding(written: list[str], start: bool) -> None:
    made = TextInputs(KNOWN, 3, start)
    examples = [Labelled(text, (), "here") for text in written]
    rows = made.rows(examples)
    batch = made.collate(rows)
    longest = max(len(text.split()) for text in written)
    assert batch.shape == (len(written), max(1, start + min(3, longest)))
    for text, place, row in zip(written, batch.tolist(), rows, strict=True):
        expected = [BOS] * start + KNOWN.encode(text)[:3]
        assert place == expected + [PAD] * (len(place) - len(expected))
        names = made.names(Labelled(text, (), "here"), row)
        assert len(names) == len(expected)


def test_an_input_that_is_no_text_is_rejected_with_its_place() -> None:
    with pytest.raises(DataError, match="not a text") as raised:
        TextInputs(KNOWN, 3, start=False).rows([Labelled(np.zeros((1, 1)), (), "input 3")])
    assert raised.value.where == "input 3"


# Noise


ROWS, LENGTH, WIDTH, UNK = 3, 5000, 4, 99

RARE = 1e-9
"""The probability that a correct share fails the test."""

rates = st.floats(0.01, 0.99)
seeds = st.integers(0, 2**32 - 1)


def some_ids(seed: int) -> Tensor:
    """Ids (ROWS, LENGTH), each row with a BOS, tokens, and padding; none of them is UNK."""
    ids = torch.randint(3, UNK, (ROWS, LENGTH), generator=torch.Generator().manual_seed(seed))
    ids[:, 0] = BOS
    for row in range(ROWS):
        ids[row, LENGTH - 100 * row :] = PAD
    return ids


def some_features(seed: int) -> Tensor:
    """Features (ROWS, LENGTH, WIDTH), none of them 0, with padding of NaN."""
    generator = torch.Generator().manual_seed(seed)
    features = 1 + torch.rand(ROWS, LENGTH, WIDTH, generator=generator)
    for row in range(ROWS):
        features[row, LENGTH - 100 * row :] = float("nan")
    return features


def assert_share(hidden: Tensor, rate: float) -> None:
    """Check that the share of hidden positions fits N independent trials, in each half of them.

    The probability of a share of q or farther from the rate is at most exp(-N · KL(q‖rate)) (the
    Chernoff bound).
    """
    for half in hidden.chunk(2):
        found = float(half.double().mean())
        pairs = ((found, rate), (1 - found, 1 - rate))
        divergence = sum(q * log(q / p) for q, p in pairs if q > 0)
        assert len(half) * divergence < -log(RARE), f"{found} hidden, not {rate}"


def assert_same(left: Tensor, right: Tensor) -> None:
    torch.testing.assert_close(left, right, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("kind", ["words", "frames"])
@settings(max_examples=30)
@given(rate=rates, seed=seeds)
def test_a_share_of_the_positions_of_each_row_is_hidden(kind: str, rate: float, seed: int) -> None:
    original = some_ids(seed) if kind == "words" else some_features(seed)
    torch.manual_seed(seed)
    if kind == "words":
        found, first = hide_words(original, UNK, rate), 1
        hidden = found == UNK
    else:
        found, first = FEATURES.hide(original, rate), 0
        hidden = (found == 0).all(dim=-1)  # the mean, as a whole
    assert_same(found[~hidden], original[~hidden])
    for row in range(ROWS):
        assert_share(hidden[row, first : LENGTH - 100 * row], rate)


def test_where_all_is_hidden_the_start_and_the_padding_stay() -> None:
    ids, features = some_ids(1), some_features(1)
    real = (ids != PAD) & (ids != BOS)
    assert_same(hide_words(ids, UNK, 1.0), torch.where(real, UNK, ids))
    zero_but_for_padding = torch.where(features.isnan(), features, 0.0)
    assert_same(FEATURES.hide(features, 1.0), zero_but_for_padding)


@pytest.mark.parametrize("kind", ["words", "frames"])
def test_what_is_hidden_is_drawn_from_torchs_generator_and_the_input_is_left_alone(
    kind: str,
) -> None:
    original = some_ids(2) if kind == "words" else some_features(2)
    before = original.clone()

    def hide(seed: int) -> Tensor:
        torch.manual_seed(seed)
        return hide_words(original, UNK, 0.5) if kind == "words" else FEATURES.hide(original, 0.5)

    assert_same(hide(5), hide(5))
    assert not torch.equal(hide(5).nan_to_num(-1.0), hide(6).nan_to_num(-1.0))
    assert_same(original, before)
