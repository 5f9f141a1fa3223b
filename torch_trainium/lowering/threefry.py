"""The random words of docs/random.md: Threefry-2x32, by position in the generator's stream."""

from __future__ import annotations

import torch

from torch_trainium.errors import LoweringError
from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.values import Value

Words = tuple[Value, Value]

_PARITY = 0x1BD11BDA
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_WIDE_BLOCKS = 1 << 31
_SUBSTREAM_KEYS = 1 << 30


def block(x: Builder, key: Words, counter: Words) -> Words:
    """Two words of 32 bits for each counter (low and high word)."""
    keys = (*key, key[0] ^ key[1] ^ x.constant(_PARITY, torch.uint32))
    low, high = counter[0] + keys[0], counter[1] + keys[1]
    for group in range(5):
        for bits in _ROTATIONS[group % 2]:
            low = low + high
            high = _rotate_left(x, high, bits) ^ low
        low = low + keys[(group + 1) % 3]
        high = high + keys[(group + 2) % 3] + (group + 1)
    return low, high


def narrow_pairs(x: Builder, count: int) -> Words:
    """The words of the even and of the odd positions among `count`, rounded up to pairs."""
    (key, (low, high)), first = _start(x, count)
    halved = x.shift_right(low, 1) | x.shift_left(high, 31), x.shift_right(high, 1)
    return block(x, key, _counters(x, halved, first // 2, -(-count // 2)))


def narrow(x: Builder, count: int) -> Value:
    """One word of 32 bits for each of `count` positions."""
    return interleave(x, narrow_pairs(x, count), count)


def wide_words(x: Builder, count: int) -> Words:
    """The low and the high words of 64 bits for each of `count` positions."""
    (key, offset), first = _start(x, count)
    low, high = _counters(x, offset, first, count)
    return block(x, key, (low, high | x.constant(_WIDE_BLOCKS, torch.uint32)))


def wide(x: Builder, count: int) -> Value:
    """The same as integers of 64 bits."""
    return join(x, wide_words(x, count))


def substream_keys(x: Builder, count: int) -> Words:
    """A key for each of `count` positions, under which blocks 0, 1, 2... are its own."""
    (key, offset), first = _start(x, count)
    low, high = _counters(x, offset, first, count)
    return block(x, key, (low, high | x.constant(_SUBSTREAM_KEYS, torch.uint32)))


def join(x: Builder, words: Words) -> Value:
    """Low and high words as integers of 64 bits."""
    low, high = (word.to(torch.uint64) for word in words)
    return x.shift_left(high, 32) | low


def interleave(x: Builder, pairs: tuple[Value, Value], count: int) -> Value:
    """The first `count` of a[0], b[0], a[1], b[1]..."""
    flat = x.reshape(x.stack(pairs, dim=1), [-1])
    return x.slice_in_dim(flat, 0, 0, count)


def _start(x: Builder, count: int) -> tuple[tuple[Words, Words], int]:
    if count >= 1 << 32:
        raise LoweringError(f"one operator draws {count} random numbers; 2^32 - 1 is the most")
    (seed_low, seed_high, offset_low, offset_high), first = x.draw_positions(count)
    return ((seed_low, seed_high), (offset_low, offset_high)), first


def _counters(x: Builder, start: Words, first: int, count: int) -> Words:
    low = x.iota(torch.uint32, [count]) + start[0]
    high = start[1] + (low < start[0]).to(torch.uint32)
    if first:
        moved = low + first
        high, low = high + (moved < low).to(torch.uint32), moved
    return low, high


def _rotate_left(x: Builder, a: Value, bits: int) -> Value:
    return x.shift_left(a, bits) | x.shift_right(a, 32 - bits)
