"""The lowerings, one file per family of operators."""

from importlib import import_module

FAMILIES = (
    "activation",
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
    "embedding",
    "factories",
    "fft",
    "foreach",
    "functions",
    "indexing",
    "linalg",
    "loss",
    "matmul",
    "normalization",
    "optimizer",
    "padding",
    "pooling",
    "polynomials",
    "prims",
    "quantized",
    "random",
    "recurrent",
    "reduction",
    "scatter",
    "segments",
    "shape",
    "softmax",
    "sorting",
    "special",
    "upsampling",
)


def load() -> None:
    """Import every family, so that the registry is complete."""
    for family in FAMILIES:
        import_module(f"{__name__}.{family}")
