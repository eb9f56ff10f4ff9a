"""Looking inside a model: the record of what it computed for an input, and pictures of it."""
