"""Sequences of many lengths through few programs."""

import pytest
import torch
from torch.utils.data import DataLoader

from torch_trainium.compile import BucketCollator, bucket_of
from torch_trainium.errors import BucketError, RecompileWarning

LENGTHS = range(2, 202)


def scores(signal):
    """Of each row, a mean over positions that are not padding, which is zero."""
    return signal.square().sum(1) / (signal != 0).sum(1)


def sequences():
    generator = torch.Generator().manual_seed(0)
    return [{"signal": torch.rand(n, generator=generator) + 1} for n in LENGTHS]


@pytest.mark.filterwarnings("ignore::torch_trainium.errors.RecompileWarning")
def test_two_hundred_lengths_without_buckets_are_right_and_bounded(graphs):
    options = {"max_programs": 32}
    compiled = torch.compile(scores, backend="neuron", dynamic=True, options=options)
    for sample in sequences():
        signal = sample["signal"][None]
        torch.testing.assert_close(compiled(signal.to("neuron")).cpu(), scores(signal))
    (piece,) = graphs[0].pieces
    assert piece.compiles == len(LENGTHS)
    assert len(piece.programs) == 32


def test_two_hundred_lengths_with_buckets_are_few_programs(graphs):
    buckets = (32, 64, 128, 256)
    collate = BucketCollator(buckets, padding={"signal": 0})
    options = {"buckets": [*buckets, 4]}
    compiled = torch.compile(scores, backend="neuron", dynamic=True, options=options)
    for batch, start in zip(
        DataLoader(sequences(), batch_size=4, collate_fn=collate), range(0, 200, 4), strict=True
    ):
        given = compiled(batch["signal"].to("neuron")).cpu()
        for row, sample in zip(given, sequences()[start : start + 4], strict=True):
            torch.testing.assert_close(row, scores(sample["signal"][None])[0])
    (piece,) = graphs[0].pieces
    assert piece.compiles == len(buckets)


def test_a_length_that_is_no_bucket_names_argument_dimension_and_line():
    options = {"buckets": [8, 16]}
    compiled = torch.compile(lambda x: x.sin(), backend="neuron", dynamic=True, options=options)
    with pytest.raises(BucketError, match=r"dimension 0 of x is 9 long.*\[8, 16\].*test_buckets"):
        compiled(torch.ones(9, device="neuron"))
    assert compiled(torch.ones(8, device="neuron")).shape == (8,)


def test_a_storm_names_the_users_argument():
    compiled = torch.compile(lambda tokens: tokens.sin(), dynamic=True)
    with pytest.warns(RecompileWarning, match="dimension 0 of tokens "):
        for n in range(2, 12):
            compiled(torch.ones(n, device="neuron"))


def test_the_bucket_of_a_length():
    assert [bucket_of(n, (8, 16)) for n in (1, 8, 9, 16)] == [8, 8, 16, 16]
    with pytest.raises(ValueError, match="length=17 is longer than every bucket"):
        bucket_of(17, (8, 16))


def test_a_batch_is_padded_to_the_bucket_of_its_longest_sequence():
    collate = BucketCollator([8, 4], padding={"ids": 0, "labels": -100})
    batch = collate(
        [
            {"ids": [1, 2, 3], "labels": torch.tensor([1, 2, 3]), "weight": 0.5},
            {"ids": [4, 5, 6, 7, 8], "labels": torch.tensor([4]), "weight": 1.0},
        ]
    )
    assert batch["ids"].tolist() == [[1, 2, 3, 0, 0, 0, 0, 0], [4, 5, 6, 7, 8, 0, 0, 0]]
    assert batch["labels"].tolist() == [[1, 2, 3, *[-100] * 5], [4, *[-100] * 7]]
    assert batch["weight"].tolist() == [0.5, 1.0]


@pytest.mark.parametrize("buckets", [[], [0, 4], [4.0]])
def test_wrong_buckets_are_refused(buckets):
    with pytest.raises(ValueError, match="integers from 1 on"):
        BucketCollator(buckets, padding={})
