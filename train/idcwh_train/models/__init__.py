"""Networks: backbones, hash layers, the model that is saved, and files of pretrained weights."""

COMPACT = "compact"
"""The backbone without pretrained weights: it starts from random weights, or from a file."""
