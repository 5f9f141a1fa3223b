"""Sampling at the points of a grid, with gradients."""
