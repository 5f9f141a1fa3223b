"""Complex numbers from their parts and back."""
