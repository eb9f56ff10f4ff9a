"""Inspection of models: a record of what a model computes for an input, and pictures of it."""
