"""The interface of an engine: StableHLO in, programs out, run on buffers the caller owns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

Number = bool | int | float | complex


@dataclass(frozen=True)
class Buffer:
    """A dense row-major array: a StableHLO element type such as "f32" and sizes."""

    element: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        """As in "f32[16x128]"."""
        return f"{self.element}[{'x'.join(map(str, self.shape))}]"


@dataclass(frozen=True)
class Signature:
    """What a program takes and gives, in the order of its function's arguments and results.

    Attributes:
        inputs: arrays that it reads.
        scalars: element types of the numbers that follow them, one zero-dim array each.
        outputs: arrays that it writes.
        has_error: whether one more result, an i32, says what went wrong: 0 is nothing.

    """

    inputs: tuple[Buffer, ...]
    scalars: tuple[str, ...]
    outputs: tuple[Buffer, ...]
    has_error: bool = False


class Program(Protocol):
    """A compiled program, loaded and ready."""

    signature: Signature

    def run(self, inputs: Sequence[int], scalars: Sequence[Number], outputs: Sequence[int]) -> int:
        """Run on the arrays at these addresses, and wait.

        Inputs are aligned to `ALIGNMENT_BYTES`; they are read where they are. Outputs may overlap
        inputs: every input is read before an output is written. Returns the error, 0 if none.
        """
        ...

    def workspace_bytes(self) -> int:
        """Memory that a run takes beside inputs and outputs."""
        ...

    def bound(
        self, inputs: Sequence[int], scalars: Sequence[Number], outputs: Sequence[int]
    ) -> Callable[[], Any]:
        """A run on these arrays with everything prepared but the execution, to measure it."""
        ...

    def pack(self, scalars: Sequence[Number]) -> bytes:
        """Numbers as C++ passes them: 16 bytes each, a `runtime::ProgramNumber`."""
        ...

    def capsule(self) -> Any:
        """The same for C++: a `runtime::LoadedProgram`, see csrc/runtime/loaded_program.h."""
        ...

    def serialize(self) -> bytes:
        """Bytes from which `Engine.load` makes the program again, on the same machine."""
        ...


class Engine(Protocol):
    """A compiler and what runs its programs."""

    def fingerprint(self) -> str:
        """What the compiler's output depends on beside the module: versions, flags, target."""
        ...

    def compile(self, module: bytes, signature: Signature) -> Program:
        """Compile a StableHLO module (text or bytecode) whose only function is `main`."""
        ...

    def load(self, serialized: bytes, signature: Signature) -> Program:
        """Load what `Program.serialize` gave; raises ValueError for anything else."""
        ...


# What an input's address is a multiple of. Programs take windows that start elsewhere apart.
ALIGNMENT_BYTES = 64
