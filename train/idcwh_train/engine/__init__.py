"""The training engine: a run from its setup to its files, the trainer, checkpoints, evaluation."""
