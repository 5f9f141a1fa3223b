"""Decompositions of matrices, inverses and solutions."""
