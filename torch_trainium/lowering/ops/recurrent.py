"""Cells of recurrent networks."""
