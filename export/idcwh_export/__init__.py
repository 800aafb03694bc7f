"""A trained model as one ONNX file, and the proof that the file computes what the model computes."""

OPSETS = range(18, 24)
"""Opsets that torch.onnx.export can write without changing the network back; the first is the default."""
