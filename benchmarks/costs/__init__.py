"""What `growth.py` is made of."""
