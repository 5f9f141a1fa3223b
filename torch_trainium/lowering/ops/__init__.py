"""The lowerings, one file per family of operators."""

from importlib import import_module

FAMILIES = (
    "activation",
    "arithmetic",
    "attention",
    "comparison",
    "complex_numbers",
    "convolution",
    "copying",
    "cumulative",
    "embedding",
    "factories",
    "fft",
    "foreach",
    "functions",
    "grids",
    "indexing",
    "linalg",
    "loss",
    "masking",
    "matmul",
    "normalization",
    "optimizer",
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
    "windowing",
)


def load() -> None:
    """Import every family, so that the registry is complete."""
    for family in FAMILIES:
        import_module(f"{__name__}.{family}")
