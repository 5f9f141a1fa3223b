"""The lowerings, one file per family of operators."""

from importlib import import_module

FAMILIES = (
    "activation",
    "adaptive_pooling",
    "arithmetic",
    "attention",
    "bessel",
    "bits",
    "comparison",
    "complex_numbers",
    "convolution",
    "copying",
    "ctc",
    "cumulative",
    "distance",
    "eigen",
    "embedding",
    "factories",
    "fft",
    "foreach",
    "functions",
    "grids",
    "histogram",
    "indexing",
    "least_squares",
    "linalg",
    "loss",
    "masking",
    "matmul",
    "matrix_functions",
    "normalization",
    "optimizer",
    "orthogonal",
    "padding",
    "pooling",
    "polynomials",
    "prims",
    "quantized",
    "random",
    "random_rejection",
    "recurrent",
    "reduction",
    "scatter",
    "segments",
    "shape",
    "singular_values",
    "softmax",
    "sorting",
    "special",
    "symmetric",
    "synchronized_norm",
    "triangular",
    "upsampling",
    "windowing",
)


def load() -> None:
    """Import every family, so that the registry is complete."""
    for family in FAMILIES:
        import_module(f"{__name__}.{family}")
