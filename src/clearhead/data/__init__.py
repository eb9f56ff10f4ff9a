"""Data: readers, checks, the memory-mapped corpus, batches by tokens, the phrasebook."""
