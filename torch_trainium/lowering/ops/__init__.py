"""The lowerings, one file per family of operators."""

from importlib import import_module

FAMILIES = (
    "activation",
    "adaptive_pooling",
    "arithmetic",
    "attention",
    "comparison",
    "complex_numbers",
    "convolution",
    "copying",
    "cumulative",
    "distance",
    "embedding",
    "factories",
    "fft",
    "foreach",
    "functions",
    "indexing",
    "linalg",
    "loss",
    "matmul",
    "matrix_functions",
    "normalization",
    "optimizer",
    "orthogonal",
    "padding",
    "pooling",
    "prims",
    "quantized",
    "random",
    "recurrent",
    "reduction",
    "scatter",
    "shape",
    "softmax",
    "sorting",
    "upsampling",
)


def load() -> None:
    """Import every family, so that the registry is complete."""
    for family in FAMILIES:
        import_module(f"{__name__}.{family}")
