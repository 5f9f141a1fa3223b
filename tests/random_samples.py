"""What the tests of random operators share: seeds, tensors and goodness-of-fit tests."""

from typing import Any

import numpy as np
import torch
from scipy import stats

SEED = 20240601
COUNT = 50_000
# Fixed seeds make a test's verdict the same in every run; this is the chance that a correct
# sampler was unlucky at its seed.
SIGNIFICANCE = 1e-4

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]


def seeded(seed: int = SEED) -> torch.Generator:
    return torch.Generator("neuron").manual_seed(seed)


def empty(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.empty(*sizes, dtype=dtype, device="neuron")


def full(value: float, *sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.full(sizes, value, dtype=dtype, device="neuron")


def probabilities(*sizes: int) -> torch.Tensor:
    return torch.linspace(0.1, 0.9, steps=int(np.prod(sizes))).reshape(sizes).to("neuron")


def numbers(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().cpu().double().numpy()


def assert_follows(samples: np.ndarray, distribution: Any) -> None:
    assert stats.kstest(samples, distribution.cdf).pvalue > SIGNIFICANCE


def assert_frequencies(samples: np.ndarray, distribution: Any) -> None:
    """Chi-square test of integers, values with few expected occurrences put together."""
    low, high = distribution.ppf(1e-3), distribution.ppf(1 - 1e-3)
    values = np.arange(low, high + 1)
    observed = np.array([(samples == v).sum() for v in values])
    expected = distribution.pmf(values) * samples.size
    observed = np.append(observed, samples.size - observed.sum())
    expected = np.append(expected, max(samples.size - expected.sum(), 1e-9))
    common = expected >= 5
    observed = np.append(observed[common], observed[~common].sum())
    expected = np.append(expected[common], expected[~common].sum())
    if expected[-1] == 0:
        observed, expected = observed[:-1], expected[:-1]
    assert stats.chisquare(observed, expected, sum_check=False).pvalue > SIGNIFICANCE
