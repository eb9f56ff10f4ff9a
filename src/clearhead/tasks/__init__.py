"""What a model is trained to do, and how well it does it."""
