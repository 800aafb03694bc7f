"""Training on a frozen backbone: features that are computed once and cached."""
