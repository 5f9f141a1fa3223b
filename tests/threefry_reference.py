"""The random numbers of docs/random.md computed with NumPy alone, from the document's words."""

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint32]
Positions = NDArray[np.uint64]

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
WIDE = np.uint64(1 << 63)
SUBSTREAM = np.uint64(1 << 62)


def block(key: tuple[Words, Words], counter: tuple[Words, Words]) -> tuple[Words, Words]:
    """Threefry-2x32 with 20 rounds."""
    schedule = (*key, np.uint32(0x1BD11BDA) ^ key[0] ^ key[1])
    with np.errstate(over="ignore"):
        x0, x1 = counter[0] + key[0], counter[1] + key[1]
        for group in range(5):
            for bits in ROTATIONS[group % 2]:
                x0 = x0 + x1
                x1 = (x1 << np.uint32(bits) | x1 >> np.uint32(32 - bits)) ^ x0
            x0 = x0 + schedule[(group + 1) % 3]
            x1 = x1 + schedule[(group + 2) % 3] + np.uint32(group + 1)
    return x0, x1


def split(numbers: Positions) -> tuple[Words, Words]:
    """The low and high words of 64-bit numbers."""
    return numbers.astype(np.uint32), (numbers >> np.uint64(32)).astype(np.uint32)


def positions(offset: int, count: int) -> Positions:
    return np.uint64(offset) + np.arange(count, dtype=np.uint64)


def seed_key(seed: int) -> tuple[Words, Words]:
    return split(np.array([seed], dtype=np.uint64))


def narrow(seed: int, offset: int, count: int) -> Words:
    at = positions(offset, count)
    x0, x1 = block(seed_key(seed), split(at >> np.uint64(1)))
    return np.where(at % np.uint64(2) == 0, x0, x1)


def join(words: tuple[Words, Words]) -> Positions:
    return words[0].astype(np.uint64) | words[1].astype(np.uint64) << np.uint64(32)


def wide(seed: int, offset: int, count: int) -> Positions:
    return join(block(seed_key(seed), split(positions(offset, count) | WIDE)))


def substream(seed: int, position: int, count: int) -> Positions:
    key = block(seed_key(seed), split(np.array([position], dtype=np.uint64) | SUBSTREAM))
    return join(block(key, split(np.arange(count, dtype=np.uint64))))


def open_unit(words: Words) -> NDArray[np.float64]:
    """(word + 1/2) / 2^32 as float32 computes it, held in float64."""
    scaled = words.astype(np.float32) * np.float32(2**-32) + np.float32(2**-33)
    return scaled.astype(np.float64)


def normal(words: Words) -> NDArray[np.float64]:
    """Box-Muller on pairs of words."""
    radius = np.sqrt(-2 * np.log(open_unit(words[0::2])))
    angle = 2 * np.pi * words[1::2].astype(np.float64) / 2**32
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).reshape(-1)
