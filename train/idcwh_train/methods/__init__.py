"""The losses, one file a method; `base.py` says what a method is and how it is found by name."""
