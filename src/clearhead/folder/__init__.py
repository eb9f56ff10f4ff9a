"""The model folder on disk, and its files of tensors."""
