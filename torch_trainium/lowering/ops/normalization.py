"""Batch, layer, group and RMS normalization, and their gradients."""
