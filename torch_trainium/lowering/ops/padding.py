"""Padding by a constant, reflection or replication, and its gradients."""
