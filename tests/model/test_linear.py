"""The linear model beside an encoder: against scikit-learn, and where it counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from clearhead.model.build import build_classifier
from clearhead.model.kernels import RandomKernels
from clearhead.model.linear import LinearClassifier
from clearhead.model.ngrams import Ngrams
from clearhead.settings import ClassifierConfig
from clearhead.settings.run import KERNEL_WIDTH
from clearhead.tokenizer import PAD
from small_models import labelled_run, small_config

VOCABULARY, WIDTH, LABELS, EXAMPLES = 12, 2, 3, 60
LABEL = torch.arange(EXAMPLES) % LABELS
TRUTH = nn.functional.one_hot(LABEL, LABELS).double()


def texts() -> Tensor:
    """Texts of six random tokens, and twice one that is that of the label."""
    rng = np.random.default_rng(1)
    drawn = torch.from_numpy(rng.integers(1, VOCABULARY, (EXAMPLES, 6)))
    return torch.cat((drawn, (LABEL + 1)[:, None].expand(-1, 2)), dim=1)


def sequences() -> Tensor:
    """Waves of another frequency for each label, and noise."""
    rng = np.random.default_rng(1)
    waves = torch.sin(torch.arange(30) * (0.3 + 0.4 * LABEL[:, None]))
    noise = torch.from_numpy(rng.normal(size=(EXAMPLES, 30)))
    return torch.stack((waves + 0.5 * noise, noise), dim=2)


def made(kind: str) -> tuple[LinearClassifier, Tensor]:
    """A model that is not fitted, and examples."""
    torch.manual_seed(1)
    if kind == "texts":
        return LinearClassifier(Ngrams(1000, VOCABULARY, PAD), LABELS).double(), texts()
    kernels = RandomKernels(WIDTH, 200, KERNEL_WIDTH, 30)
    return LinearClassifier(kernels, LABELS).double(), sequences()


KINDS = pytest.mark.parametrize("kind", ["texts", "sequences"])


@KINDS
def test_it_is_the_linear_support_vector_machine_of_scikit_learn(kind: str) -> None:
    svm = pytest.importorskip("sklearn.svm")
    model, x = made(kind)
    weights = torch.linspace(0.5, 1.5, EXAMPLES).double()
    model.fit([x[:40], x[40:]], TRUTH, weights)
    theirs = svm.LinearSVC(C=model.features.cost, tol=1e-9, max_iter=1_000_000)
    # LIBLINEAR regularises the bias too, as ours does.
    rows = model.features(x).numpy()
    theirs.fit(rows, LABEL.numpy(), sample_weight=weights.numpy())
    expected = theirs.decision_function(rows)
    np.testing.assert_allclose(model.margins(x).numpy(), expected, atol=2e-3)
    assert (model.margins(x).argmax(dim=1) == LABEL).double().mean() > 0.9


@KINDS
def test_an_example_of_weight_0_is_as_if_it_had_no_label(kind: str) -> None:
    weights = torch.ones(EXAMPLES).double()
    weights[:5] = 0.0
    other = TRUTH.clone()
    other[:5] = other[:5].roll(1, dims=1)
    margins = []
    for truth in (TRUTH, other):
        model, x = made(kind)
        model.fit([x], truth, weights)
        margins.append(model.margins(x))
    torch.testing.assert_close(*margins)


@KINDS
def test_it_is_added_to_the_logits_only_outside_training(kind: str) -> None:
    of_kind: dict[str, dict[str, Any]] = {
        "texts": {"ngrams": 100},
        "sequences": {"kernels": 20, "kernel_reach": 30},
    }
    config = ClassifierConfig(dropout=0.0, **of_kind[kind])
    is_features = kind == "sequences"
    width = WIDTH if is_features else VOCABULARY
    model = build_classifier(labelled_run(small_config(), config, is_features), width, LABELS)
    _, x = made(kind)
    x = x.float() if is_features else x
    assert model.linear is not None
    model.linear.fit([x], TRUTH.float(), torch.ones(EXAMPLES))
    model.linear.factors.copy_(torch.tensor([0.5, 2.0]))
    both = model.eval()(x)
    margins = model.linear.margins(x)
    assert margins.abs().min() > 0
    alone = model.output(model.state(*model.encode(x)))
    torch.testing.assert_close(both, 0.5 * alone + 2 * margins)
    model.training = True
    torch.testing.assert_close(model(x), alone)


@KINDS
def test_steps_do_not_train_it(kind: str) -> None:
    model, x = made(kind)
    model.fit([x], TRUTH, torch.ones(EXAMPLES).double())
    assert not [name for name, each in model.named_parameters() if each.requires_grad]


def test_without_features_there_is_none() -> None:
    for is_features in (False, True):
        run = labelled_run(small_config(), ClassifierConfig(), is_features)
        model = build_classifier(run, WIDTH, LABELS)
        assert model.linear is None
        assert not [name for name, _ in model.named_parameters() if "linear" in name]
