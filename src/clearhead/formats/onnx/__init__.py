"""ONNX: the export of a classifier, its comparison with the model, and the program that runs it."""
