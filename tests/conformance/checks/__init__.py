"""The checks that run on every entry of PyTorch's operator databases, as one table.

`forward`, `reference`, `sparse_*`, `jagged`   values against the CPU
`backward`, `gradcheck`, `gradgrad`, `forward_ad`   gradients
`inplace`, `out`, `view`, `variants`   other ways to call the operator
`noncontiguous`, `conj`, `neg`, `errors`   other inputs
"""

from . import gradients, inputs, variants
from .registry import CHECKS, Check

__all__ = ["CHECKS", "Check", "gradients", "inputs", "variants"]
