"""From files to batches: read, check, encode, batch.

`parts` knows where examples come from, `checks` which are used, and `preparation` turns them into
what the tasks train on: a `corpus` of pairs on disk, or labelled examples as `inputs` in memory.
"""
