"""Export of a trained model as one ONNX file, and the comparison of the file with the model."""

OPSETS = range(18, 24)
"""The opsets that torch.onnx.export can write. The first is the default."""
