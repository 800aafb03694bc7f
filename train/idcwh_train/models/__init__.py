"""Networks: backbones, hash layers, the model that is saved, and files of pretrained weights."""

COMPACT = "compact"
"""The name of the backbone without ImageNet weights, which starts from random weights or a file."""
