"""Encoding of images by ONNX Runtime: the model file, the device, and the encoding of many files."""
