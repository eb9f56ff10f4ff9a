"""Trains any task: the loop, one step, the files of a run, and what a run shows and logs."""
