from collections.abc import Callable, Sequence
from typing import Any

import torch

class GraphProgram:
    def __init__(
        self,
        *,
        name: str,
        device: int,
        expectations: list[tuple[str, Any]],
        inputs: Sequence[int],
        numbers: Sequence[int],
        results: list[tuple[Any, int | None]],
        random_positions: int,
        workspace_bytes: int,
        nodes: list[tuple[Any, ...]],
        run: Callable[..., int],
        checks: list[tuple[type[Exception], str]],
    ) -> None: ...
    def run(self, arguments: list[Any]) -> list[torch.Tensor] | None: ...
