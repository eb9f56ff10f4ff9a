"""Data files as checked examples: sentence pairs, labelled texts, sequences of features."""
