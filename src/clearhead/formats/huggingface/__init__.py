"""Models of Hugging Face's `transformers` as models of clearhead, and back."""
