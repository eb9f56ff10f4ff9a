"""The tasks: each ties data, model, loss and evaluation together in one file."""
