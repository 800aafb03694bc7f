"""Training on a frozen backbone, whose features are computed once and cached."""
