"""Whether data can be trained on, and belong together."""
