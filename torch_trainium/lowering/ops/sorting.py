"""Sorting, the largest k, quantiles and searches."""
