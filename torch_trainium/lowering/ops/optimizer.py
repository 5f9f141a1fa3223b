"""Fused optimizer steps."""
