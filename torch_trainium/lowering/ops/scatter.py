"""Writing to elements chosen by indices."""
