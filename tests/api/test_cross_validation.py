"""Cross-validation of a classifier: every example is scored by a model that has not seen it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clearhead.api import cross_validation
from clearhead.api.cross_validation import cross_validate
from clearhead.errors import ConfigError, DataError
from small_runs import feature_run, small_run, text_run


@pytest.mark.parametrize("make", [text_run, feature_run])
def test_each_example_is_scored_by_a_model_that_has_not_seen_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Any
) -> None:
    seen: list[set[str]] = []
    tested: list[set[str]] = []
    train, load = cross_validation.train, cross_validation.load_classifier

    def training(config: Any, *, examples: Any, **options: Any) -> Any:
        seen.append({each.place for each in examples})
        return train(config, examples=examples, **options)

    def loading(*given: Any) -> Any:
        model = load(*given)
        probabilities = model.probabilities

        def asked(examples: Any) -> np.ndarray:
            tested.append({each.place for each in examples})
            return probabilities(examples)

        model.probabilities = asked  # pyright: ignore[reportAttributeAccessIssue]
        return model

    monkeypatch.setattr(cross_validation, "train", training)
    monkeypatch.setattr(cross_validation, "load_classifier", loading)
    done: list[int] = []
    found = cross_validate(make(tmp_path), 3, progress=done.append)
    assert done == [1, 2, 3]
    assert len(found.folds) == 3
    for one, other in zip(seen, tested, strict=True):
        assert not one & other
    (result,) = found.report.systems.values()
    assert sum(map(len, tested)) == result.scores.examples == len(set.union(*tested))
    assert result.scores.accuracy > 60
    assert np.mean(found.folds) == pytest.approx(result.scores.accuracy, abs=2)
    assert result.linear_baseline is not None
    assert not (tmp_path / "run").exists()


def test_a_repetition_has_other_folds(tmp_path: Path) -> None:
    config = text_run(tmp_path, training={"max_steps": 2})
    one, other, again = (cross_validate(config, 2, repeat=n).folds for n in (0, 1, 0))
    assert one == again != other


def test_what_has_no_folds_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        cross_validate(small_run(tmp_path), 3)
    config = text_run(tmp_path)
    with pytest.raises(ConfigError):
        cross_validate(config, 1)
    path = tmp_path / "few.tsv"
    path.write_text("red\ta b\nblue\tc d\n")
    with pytest.raises(DataError):
        cross_validate(replace(config, data=replace(config.data, train=(str(path),))), 3)
