"""Greedy search, beam search and sampling; the fast decoder; the Engine protocol."""
