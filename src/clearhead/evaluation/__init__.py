"""Scores of translations and classifications, their intervals, and tests of significance."""
