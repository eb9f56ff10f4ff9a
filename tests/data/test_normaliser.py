"""Normalisation: learned over all frames, exact, and the same after saving and loading."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clearhead.data.normaliser import FARTHEST, NORMALISER, Normaliser
from clearhead.errors import DataError, ModelFolderError
from model_folders import folder_with

values = st.floats(-1e3, 1e3, width=32) | st.just(float("nan"))
same_folder = settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])


@st.composite
def sequences_of_values(draw: st.DrawFn) -> list[np.ndarray]:
    width = draw(st.integers(1, 3))
    frame = st.lists(values, min_size=width, max_size=width)
    drawn = draw(st.lists(st.lists(frame, min_size=1, max_size=6), min_size=1, max_size=5))
    return [np.array(sequence, dtype=np.float32) for sequence in drawn]


def random_sequences(seed: int = 1) -> list[np.ndarray]:
    generator = np.random.default_rng(seed)
    lengths = generator.integers(1, 9, 20)
    frames = [generator.normal([3, -200, 0.5], [1, 50, 0.01], (length, 3)) for length in lengths]
    return [sequence.astype(np.float32) for sequence in frames]


@given(sequences_of_values())
def test_means_and_deviations_are_those_of_all_frames_together(
    sequences: list[np.ndarray],
) -> None:
    normaliser = Normaliser.learn(iter(sequences))
    together = np.concatenate(sequences).astype(np.float64)
    for feature, column in enumerate(together.T):
        there = column[~np.isnan(column)]
        mean = there.mean() if len(there) else 0.0
        changes = len(set(there.tolist())) > 1
        assert normaliser.mean[feature] == pytest.approx(mean, rel=1e-9, abs=1e-9)
        deviation = there.std() if changes else 1.0
        assert normaliser.deviation[feature] == pytest.approx(deviation, rel=1e-6, abs=1e-9)


def test_a_large_mean_does_not_swallow_a_small_deviation() -> None:
    # In float64 the squares of 1e9 have no digits left for a deviation of 1.
    offsets = np.array([-1.0, 1.0] * 500)
    blocks = [(1e9 + part)[:, None] for part in np.split(offsets, 10)]
    normaliser = Normaliser.learn(blocks)
    assert normaliser.mean[0] == pytest.approx(1e9, abs=1e-3)
    assert normaliser.deviation[0] == pytest.approx(1.0, rel=1e-6)


def test_a_feature_that_never_changes_is_only_centred_and_one_without_values_is_zero() -> None:
    constant = [np.full((length, 1), 0.1, dtype=np.float32) for length in (3, 7, 1000)]
    normaliser = Normaliser.learn(constant)
    assert normaliser.deviation.tolist() == [1.0]
    assert np.abs(normaliser(constant[0])).max() < 1e-6
    normaliser = Normaliser.learn([np.array([[np.nan, 1.0]]), np.array([[np.nan, 3.0]])])
    assert (normaliser.mean.tolist(), normaliser.deviation.tolist()) == ([0.0, 2.0], [1.0, 1.0])


def test_normalised_training_data_have_mean_zero_and_deviation_one() -> None:
    sequences = random_sequences()
    normaliser = Normaliser.learn(sequences)
    scaled = [normaliser(sequence) for sequence in sequences]
    assert all(sequence.dtype == np.float32 for sequence in scaled)
    # All together: a sequence that is shifted is not centred by itself.
    together = np.concatenate(scaled).astype(np.float64)
    np.testing.assert_allclose(together.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(together.std(axis=0), 1, atol=1e-5)


def test_without_normalisation_features_stay_and_means_are_known() -> None:
    sequences = random_sequences()
    off = Normaliser.learn(sequences, enabled=False)
    np.testing.assert_array_equal(off(sequences[0]), sequences[0])
    np.testing.assert_array_equal(off.mean, Normaliser.learn(sequences).mean)
    assert off.width == 3


def test_another_width_is_rejected_with_the_place() -> None:
    with pytest.raises(DataError) as raised:
        Normaliser.learn(random_sequences()).check(np.zeros((5, 4), dtype=np.float32), "test.ts:9")
    assert raised.value.where == "test.ts:9"


@pytest.mark.parametrize(("names", "name"), [((), ""), (("pitch", "rate"), " (rate)")])
def test_a_value_out_of_all_proportion_is_rejected(names: tuple[str, ...], name: str) -> None:
    normaliser = Normaliser(np.array([0.0, 5.0]), np.array([1.0, 1e-3]), names=names)
    frames = np.array([[1.0, 5.0], [np.nan, 5.0 - 0.9e-3 * FARTHEST]])
    normaliser.check(frames)
    assert np.isfinite(normaliser(frames)).sum() == 3
    frames[1, 1] = 5.0 - 1.1e-3 * FARTHEST
    with pytest.raises(DataError) as raised:
        normaliser.check(frames, "a.ts:9")
    assert raised.value.where == "a.ts:9"
    assert str(raised.value.why).startswith(f"frame 2, feature 2{name} is ")


def test_no_value_is_far_from_a_feature_that_never_changes() -> None:
    constant = np.array([[3.0, 1.0], [3.0, 2.0], [3.0, 4.0]], dtype=np.float32)
    normaliser = Normaliser.learn([constant])
    far = np.array([[3.0 + 2 * FARTHEST, 1.0]], dtype=np.float32)
    normaliser.check(far)
    assert normaliser(far)[0, 0] > FARTHEST
    with pytest.raises(DataError) as raised:
        normaliser.check(far[:, ::-1])
    assert "feature 2" in str(raised.value.why)
    with pytest.raises(DataError):
        normaliser.check(np.array([[1e20, 1.0]], dtype=np.float32))


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("fill", [9.969209968386869e36, -1e34, 1e20, float(np.finfo("f4").max)])
def test_a_fill_value_is_rejected_whatever_the_scale(fill: float, enabled: bool) -> None:
    frames = np.array([[1.0, 2.0], [3.0, fill], [4.0, np.nan]], dtype=np.float32)
    normaliser = Normaliser.learn([frames], enabled=enabled)
    with pytest.raises(DataError) as raised:
        normaliser.check(frames, "a.ts:9")
    assert raised.value.where == "a.ts:9"
    assert str(raised.value.why).startswith("frame 2, feature 2 is ")
    assert "data.missing" in str(raised.value.todo)


@pytest.mark.parametrize(
    ("mean", "deviation"),
    [([0.0], [0.0]), ([0.0], [-1.0]), ([np.nan], [1.0]), ([0.0], [np.inf]), ([0.0, 1.0], [1.0])],
)
def test_moments_that_cannot_be_are_rejected(mean: list[float], deviation: list[float]) -> None:
    with pytest.raises(ValueError, match=r"deviation|shapes"):
        Normaliser(np.array(mean), np.array(deviation))


# On disk


@same_folder
@given(sequences_of_values(), st.booleans(), st.booleans())
def test_a_normaliser_comes_back_exactly(
    tmp_path: Path, sequences: list[np.ndarray], enabled: bool, named: bool
) -> None:
    names = [f"feature {number}" for number in range(sequences[0].shape[1])] if named else []
    normaliser = Normaliser.learn(sequences, enabled=enabled, names=names)
    loaded = Normaliser.of(folder_with(tmp_path, {NORMALISER: normaliser}))
    np.testing.assert_array_equal(loaded.mean, normaliser.mean)
    np.testing.assert_array_equal(loaded.deviation, normaliser.deviation)
    assert (loaded.enabled, loaded.names) == (enabled, tuple(names))


def test_a_damaged_file_is_rejected(tmp_path: Path) -> None:
    good = Normaliser.learn(random_sequences(), names=["a", "b", "c"])
    folder = folder_with(tmp_path, {NORMALISER: good})
    tree = folder.tree("normaliser.json")
    wrong = {
        "mean": ([1.0], "a", None, [1.0, None, 2.0], [float("nan")] * 3, [[1.0] * 3] * 3),
        "deviation": ([0.0] * 3, [[1.0], [1.0, 2.0]], {"a": 1}),
        "names": ("abc", [1, 2, 3], ["a", "b"], ["a", "b", "a"], None),
    }
    damaged = [{**tree, name: value} for name, values in wrong.items() for value in values]
    damaged += [{key: tree[key] for key in tree if key != name} for name in tree if name != "names"]
    for each in damaged:
        content = {"normaliser.json": json.dumps(each).encode()}
        with pytest.raises(ModelFolderError) as raised:
            Normaliser.of(replace(folder, content=content))
        assert raised.value.where == str(tmp_path / "normaliser.json")
