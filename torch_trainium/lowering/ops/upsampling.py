"""Interpolation, grids and pixel shuffles, with gradients."""
