"""The losses of translation and classification."""
