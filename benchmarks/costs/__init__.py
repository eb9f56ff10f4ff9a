"""What `growth.py` is made of, and what times the same work done in several ways."""
