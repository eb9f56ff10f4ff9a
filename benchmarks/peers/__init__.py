"""What `speed.py` compares clearhead with, and how: each peer runs in a process of its own."""
