"""The programs of the measurements, as ordinary PyTorch on meta tensors."""
