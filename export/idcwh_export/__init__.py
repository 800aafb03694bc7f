"""A trained model as one ONNX file, and the proof that the file computes what the model computes."""
