"""Operators as compiled programs on the device."""

DEVICE = "neuron"
