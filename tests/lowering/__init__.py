"""PyTorch's own samples, operator by operator through the compiler, compared with the CPU.

python -m tests.lowering.conformance 'softmax*' --dtypes float32 bfloat16
"""
