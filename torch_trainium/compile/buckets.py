"""A few lengths for sequences of any length, so that few programs serve all batches."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence


def bucket_of(length: int, buckets: Sequence[int]) -> int:
    """The shortest bucket that holds a sequence.

    Args:
        length: of the sequence.
        buckets: lengths, in ascending order.

    Raises:
        ValueError: all of them are shorter.

    """
    position = bisect_left(buckets, length)
    if position == len(buckets):
        raise ValueError(
            f"length={length} is longer than every bucket of {list(buckets)}; add a longer one, or "
            "cut the sequence"
        )
    return buckets[position]


class BucketCollator:
    """A `collate_fn` of `torch.utils.data.DataLoader` that pads each batch to one of few lengths.

    Samples are mappings from names to sequences, tensors or lists whose first dimension is padded,
    and to values of one size, which are stacked. All sequences of a batch get one length: the
    shortest bucket that holds the longest of them.

    Args:
        buckets: lengths to choose from.
        padding: of each sequence by name, what fills it up, such as
            `{"input_ids": 0, "attention_mask": 0, "labels": -100}`.

    Raises:
        ValueError: there are no buckets, or one is no positive integer.

    """

    def __init__(self, buckets: Iterable[int], padding: Mapping[str, float]) -> None:
        self.buckets = tuple(sorted(buckets))
        self.padding = dict(padding)
        if not self.buckets or not all(type(n) is int and n > 0 for n in self.buckets):
            raise ValueError(f"buckets={list(self.buckets)} are to be integers from 1 on")

    def __call__(self, samples: Sequence[Mapping[str, Any]]) -> dict[str, torch.Tensor]:
        """The batch, on the CPU.

        Raises:
            KeyError: a sample lacks a sequence.
            ValueError: a sequence is longer than every bucket.

        """
        longest = max(len(sample[name]) for sample in samples for name in self.padding)
        length = bucket_of(longest, self.buckets)
        return {
            name: self._padded(name, values, length)
            if name in self.padding
            else torch.stack([torch.as_tensor(value) for value in values])
            for name, values in _columns(samples).items()
        }

    def _padded(self, name: str, values: list[Any], length: int) -> torch.Tensor:
        rows = [torch.as_tensor(value) for value in values]
        # One row of the full length, so that the longest is that long.
        full = rows[0].new_empty((length, *rows[0].shape[1:]))
        fill = self.padding[name]
        return pad_sequence([*rows, full], batch_first=True, padding_value=fill)[: len(rows)]


def _columns(samples: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    return {name: [sample[name] for sample in samples] for name in samples[0]}
