"""Losses that are made together with the products before them."""
