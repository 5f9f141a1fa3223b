"""One operator on every tensor of a list."""
