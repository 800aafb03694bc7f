"""Networks: backbones, hash layers, the model that is saved, and files of pretrained weights."""
