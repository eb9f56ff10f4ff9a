"""Looking for the best outputs of a model that is known only by its next-token logits."""
