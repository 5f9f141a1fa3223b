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
    "embedding",
    "factories",
    "fft",
    "foreach",
    "functions",
    "grids",
    "histogram",
    "indexing",
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
    "softmax",
    "sorting",
    "special",
    "synchronized_norm",
    "upsampling",
    "windowing",
)


def load() -> None:
    """Import every family, so that the registry is complete."""
    for family in FAMILIES:
        import_module(f"{__name__}.{family}")
