from collections.abc import Sequence
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
        numbers: list[tuple[int, torch.dtype]],
        results: list[tuple[Any, int | None]],
        random_positions: int,
        workspace_bytes: int,
        nodes: list[tuple[Any, ...]],
        program: Any,
        checks: list[tuple[type[Exception], str]],
    ) -> None: ...
    def run(self, arguments: list[Any]) -> list[torch.Tensor] | None: ...
