from collections.abc import Callable, Sequence
from typing import Any

def lend(address: int, code: int, bits: int, shape: tuple[int, ...], /) -> Any: ...
def store_handler() -> Any: ...
def bytes_stored() -> int: ...

class Program:
    def __init__(
        self,
        execute: Callable[[list[Any]], Any],
        lend: Callable[[int, Any], Any],
        input_types: tuple[Any, ...],
        number_types: tuple[Any, ...],
        address_type: Any,
        outputs: int,
        has_error: bool,
        /,
    ) -> None: ...
    def run(self, inputs: Sequence[int], numbers: bytes, outputs: Sequence[int], /) -> int: ...
    def arguments(
        self, inputs: Sequence[int], numbers: bytes, outputs: Sequence[int], /
    ) -> list[Any]: ...
    def capsule(self) -> Any: ...
