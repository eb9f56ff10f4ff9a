"""The card of a model, which training writes and exports take along."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clearhead.api import export_model, load_classifier, train
from small_runs import feature_run, small_run, text_run


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (text_run, ["classifies texts", "2 labels: ", "95 % interval", "144 of 144 examples"]),
        (feature_run, ["classifies sequences", "3 labels: ", "95 % interval", "frames"]),
        (small_run, ["translates from", "exact match", "pairs"]),
    ],
)
def test_a_card_has_the_data_the_scores_and_the_limits(
    tmp_path: Path, make: Any, words: list[str]
) -> None:
    config = make(tmp_path)
    train(config, observers=())
    text = (Path(config.folder) / "card.md").read_text()
    assert text.splitlines()[1] == f"# {Path(config.folder).name}"
    for title in ("## Data", "## Scores", "## Limits"):
        assert f"\n{title}\n" in text
    for word in words:
        assert word in text
    assert "None" not in text
    assert "threshold" not in text
    (Path(config.folder) / "card.md").write_text("completed")
    train(config, observers=())  # the run has ended
    assert (Path(config.folder) / "card.md").read_text() == "completed"
    train(config, observers=(), restart=True)
    assert (Path(config.folder) / "card.md").read_text() == text


def test_a_card_has_the_thresholds_of_several_labels(tmp_path: Path) -> None:
    short = {"max_steps": 2, "validate_every": 2}
    several, data = {"multi_label": True}, {"validation_share": 0.2}
    config = text_run(tmp_path, classifier=several, data=data, training=short)
    train(config, observers=())
    model = load_classifier(config.folder)
    assert min(model.thresholds) < 0.5  # the best F1 is below 1
    text = (Path(config.folder) / "card.md").read_text()
    for label, threshold in zip(model.labels, model.thresholds, strict=True):
        assert f"{label} ({threshold:.2f})" in text


def test_an_export_has_the_card(tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    config = text_run(tmp_path)
    train(config, observers=())
    card = Path(config.folder) / "card.md"
    copy = export_model(config.folder, "onnx") / "card.md"
    assert copy.read_bytes() == card.read_bytes()
    card.write_text(card.read_text() + "of a later training")
    export_model(config.folder, "onnx")
    assert copy.read_bytes() == card.read_bytes()
    copy.write_text("completed")
    export_model(config.folder, "onnx")
    assert copy.read_text() == "completed"
