"""Random numbers: the device's own generator, as 32-bit integer operations."""
