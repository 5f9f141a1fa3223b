"""Tensor parallelism as one rank sees it: sharded shapes and the collectives between them."""

import torch
from torch import Tensor


def all_reduce(x: Tensor, ranks: int) -> Tensor:
    """The sum of `x` over `ranks` ranks; `x` itself if there is one."""
    if ranks == 1:
        return x
    summed: Tensor = torch.ops._c10d_functional.all_reduce(x, "sum", _group(ranks))
    return torch.ops._c10d_functional.wait_tensor(summed)  # type: ignore[no-any-return]


def all_gather(x: Tensor, ranks: int) -> Tensor:
    """The shards of all ranks, stacked along the first dimension."""
    if ranks == 1:
        return x
    gathered = torch.ops._c10d_functional.all_gather_into_tensor(x, ranks, _group(ranks))
    return torch.ops._c10d_functional.wait_tensor(gathered)  # type: ignore[no-any-return]


def all_to_all(x: Tensor, ranks: int) -> Tensor:
    """Equal pieces of the first dimension exchanged between all ranks."""
    if ranks == 1:
        return x
    pieces = [x.shape[0] // ranks] * ranks
    exchanged = torch.ops._c10d_functional.all_to_all_single(x, pieces, pieces, _group(ranks))
    return torch.ops._c10d_functional.wait_tensor(exchanged)  # type: ignore[no-any-return]


def shard(size: int, ranks: int) -> int:
    """The part of a dimension that one rank holds, padded to equal parts."""
    return -(-size // ranks)


def heads_of(heads: int, kv_heads: int, ranks: int) -> tuple[int, int]:
    """Query and key/value heads of one rank.

    Key/value heads repeat where ranks exceed them; query heads are padded to whole groups.
    """
    local = max(1, kv_heads // ranks)
    return shard(shard(heads, ranks), local) * local, local


def _group(ranks: int) -> str:
    return f"ranks:{ranks}"
