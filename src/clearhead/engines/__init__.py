"""How a model is run: each engine translates token ids under a SearchConfig."""
