"""PyTorch's own case databases, run on a device and compared with the CPU.

python -m tests.conformance.run --all --jobs 2
"""
