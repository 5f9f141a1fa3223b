"""Convolutions, plain, transposed and grouped, and their gradients."""
