"""Names of other packages for this device."""
