"""Query, training and database parts of a dataset: the protocols that split it, and the saved split."""
