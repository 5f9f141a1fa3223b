from collections.abc import Callable, Sequence
from typing import Any

import torch

Prepare = Callable[[Sequence[Any]], Callable[[], Any] | str]

def set_provider(programs_of: Callable[[str], Prepare] | None) -> None: ...
def reserve_random(
    generator: torch.Generator | None, device: torch.device, elements: int
) -> tuple[int, int]: ...
def host_offset() -> int: ...

class ResultTensors:
    def __init__(
        self, rows: list[tuple[torch.dtype, tuple[int, ...], tuple[int, ...]]]
    ) -> None: ...
    def allocate(self, device: torch.device) -> list[torch.Tensor]: ...
