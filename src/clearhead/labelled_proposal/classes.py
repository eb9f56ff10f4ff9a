"""What follows from the classes of the examples and from their sizes."""

from __future__ import annotations

from clearhead.data.labelled_report import IMBALANCE
from clearhead.labelled_proposal.proposed import Proposed

FEW = 1000  # validation examples, among which the number of right ones tells little


def suit_classes(p: Proposed) -> None:
    """What follows from the classes and their sizes."""
    train = p.train
    lists = [place for found in p.parts.values() if (place := found.several or found.without)]
    if lists:
        p.say(
            "classifier.multi_label",
            True,
            "There are examples with several labels (in a list, or parted by |), or with none: "
            f"{lists[0]}. If what is there is one name: false.",
        )
    if len(train.classes) < 2:
        return
    (largest, most), (smallest, least) = train.classes[0], train.classes[-1]
    sizes = f"The largest class, {largest} ({most:,}), has {train.imbalance:.1f} times the "
    sizes += f"examples of the smallest, {smallest} ({least:,})"
    if train.imbalance <= IMBALANCE:
        p.say("classifier.class_weights", "none", f"{sizes}: no need to weigh them.")
        return
    p.say("classifier.class_weights", "balanced", f"{sizes}, which would else count for little.")


def suit_measure(p: Proposed) -> None:
    """What picks the best model."""
    if p.validated < FEW:
        few = f"About {p.validated:,} validation examples: too few to pick by those that are right."
        p.say("evaluation.measure", "loss", few)
    elif p.values["classifier.class_weights"] == "balanced":
        alike = "All classes count alike here, too. If only the share of right answers matters: "
        p.say("evaluation.measure", "macro_f1", alike + 'class_weights = "none" and "accuracy".')
