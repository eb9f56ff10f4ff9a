"""What `clearhead init --task classification` writes."""

from clearhead.labelled_proposal.proposing import propose_classification

__all__ = ["propose_classification"]
