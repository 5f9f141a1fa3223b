from collections.abc import Callable, Sequence
from typing import Any

import torch

Prepare = Callable[[Sequence[Any]], Callable[[], Any] | str]

def set_provider(
    programs_of: Callable[[str], tuple[Prepare, list[bool]]] | None,
) -> None: ...
def release() -> None: ...
def reserve_random(
    generator: torch.Generator | None, device: torch.device, elements: int
) -> tuple[int, int]: ...
def host_offset() -> int: ...

class ResultTensors:
    def __init__(
        self, rows: list[tuple[torch.dtype, tuple[int, ...], tuple[int, ...]]]
    ) -> None: ...
    def allocate(self, device: torch.device) -> list[torch.Tensor]: ...

class PlainCall:
    def __init__(
        self,
        capsule: Any,
        inputs: list[int],
        new_tensors: list[tuple[torch.dtype, tuple[int, ...], tuple[int, ...]]],
        results: list[tuple[int, int, bool]],
        numbers: list[tuple[int, torch.dtype, torch.dtype | None]]
        | Callable[[list[Any], tuple[int, int]], bytes],
        random_positions: int,
        returns: list[tuple[bool, list[int]]],
        raise_error: Callable[[int], None],
    ) -> None: ...
    @property
    def runs(self) -> int: ...
