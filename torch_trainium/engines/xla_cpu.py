"""Programs on the host, by XLA's CPU compiler. The only module that knows jaxlib's internals.

Programs read their inputs in place and write their outputs through a custom call at their end,
which copies from XLA's buffers to the addresses it is given (`csrc/bindings_xla`).
"""

from __future__ import annotations

import ctypes
import hashlib
import platform
import re
import sys
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache, cached_property, partial
from math import prod
from pathlib import Path
from typing import Any

from torch_trainium import config
from torch_trainium.engines import rewrites
from torch_trainium.engines.engine import Buffer, Number, Signature
from torch_trainium.errors import CompilerUnavailableError

JAXLIB_VERSION = "0.10.2"
STORE = "torch_trainium.store"
KERNEL_PREFIX = "torch_trainium.kernel."
# Compiling takes a third of the time of level 3, and programs of one operator run as fast.
OPTIMIZATION_LEVEL = 2

# Element type: (DLPack type code, bits).
DLPACK_TYPES = {
    "i1": (6, 8),
    "i8": (0, 8),
    "i16": (0, 16),
    "i32": (0, 32),
    "i64": (0, 64),
    "ui8": (1, 8),
    "ui16": (1, 16),
    "ui32": (1, 32),
    "ui64": (1, 64),
    "f16": (2, 16),
    "f32": (2, 32),
    "f64": (2, 64),
    "bf16": (4, 16),
    "complex<f32>": (5, 64),
    "complex<f64>": (5, 128),
    "f8E4M3FN": (10, 8),
    "f8E5M2": (13, 8),
}

_NUMBER_TYPES: dict[str, Any] = {
    "i1": ctypes.c_bool,
    "i8": ctypes.c_int8,
    "i16": ctypes.c_int16,
    "i32": ctypes.c_int32,
    "i64": ctypes.c_int64,
    "ui8": ctypes.c_uint8,
    "ui16": ctypes.c_uint16,
    "ui32": ctypes.c_uint32,
    "ui64": ctypes.c_uint64,
    "f32": ctypes.c_float,
    "f64": ctypes.c_double,
    "complex<f32>": ctypes.c_float * 2,
    "complex<f64>": ctypes.c_double * 2,
}
NUMBER_BYTES = 16

_KERNEL_CALL = re.compile(rf'custom_call_target="{KERNEL_PREFIX}(\w+)"')


class XlaCpuEngine:
    """XLA's CPU client of this process.

    Attributes:
        with_rewrites: whether programs that it compiles from now on call PyTorch's kernels where
            those take less time than XLA's code.

    """

    def __init__(self, with_rewrites: bool = True) -> None:
        self.with_rewrites = with_rewrites
        client, extension = _jaxlib()
        from torch_trainium.engines import _xla_buffers

        self._buffers = _xla_buffers
        self._make_client = client.make_cpu_client
        self._options = client.CompileOptions()
        debug = self._options.executable_build_options.debug_options
        debug.xla_backend_optimization_level = OPTIMIZATION_LEVEL
        # Infinities, NaNs and signed zeros are PyTorch's, and division is division.
        debug.xla_cpu_enable_fast_math = False
        self._extension = extension

    @cached_property
    def _client(self) -> Any:
        # Not before it is needed: its threads do not survive a fork.
        return self._make_client(asynchronous=False)

    @cached_property
    def _device(self) -> Any:
        return self._client.local_devices()[0]

    @cached_property
    def _devices(self) -> Any:
        return self._extension.DeviceList((self._device,))

    def fingerprint(self) -> str:
        """What the compiler's output depends on beside the module."""
        options = hashlib.sha256(self._options.SerializeAsString()).hexdigest()[:12]
        rewritten = rewrites.fingerprint() if self.with_rewrites else "none"
        return (
            f"xla_cpu jaxlib-{JAXLIB_VERSION} options-{options} rewrites-{rewritten} {_host_isa()}"
        )

    def compile(self, module: bytes, signature: Signature) -> XlaCpuProgram:
        """Compile a StableHLO module whose only function is `main`."""
        loaded = self._client.compile_and_load(
            _prepared(module, signature, self.with_rewrites), self._devices, self._options
        )
        return XlaCpuProgram(self, loaded, signature)

    def load(self, serialized: bytes, signature: Signature) -> XlaCpuProgram:
        """Load what `XlaCpuProgram.serialize` gave."""
        try:
            loaded = self._client.deserialize_executable(serialized, self._devices, self._options)
        except self._extension.JaxRuntimeError as error:
            raise ValueError(f"not a program of this compiler: {error}") from error
        return XlaCpuProgram(self, loaded, signature)

    def serialize(self, loaded: Any) -> bytes:
        """The bytes of a loaded program."""
        return bytes(self._client.serialize_executable(loaded))

    def runner(self, loaded: Any, signature: Signature) -> Any:
        """What fills in the arguments of a loaded program's runs, in C++."""
        return self._buffers.Program(
            loaded.execute_sharded,
            self.lend,
            tuple(_interned(buffer) for buffer in signature.inputs),
            tuple(_interned(Buffer(element, ())) for element in signature.scalars),
            _interned(Buffer("ui64", (len(signature.outputs) + signature.has_error,))),
            len(signature.outputs),
            signature.has_error,
        )

    def lend(self, address: int, buffer: Buffer) -> Any:
        """XLA's array over the bytes at `address`, which no copy was made of."""
        capsule = self._buffers.lend(address, *DLPACK_TYPES[buffer.element], buffer.shape)
        _without_jax.in_force = True
        try:
            loan = self._extension.dlpack_managed_tensor_to_buffer(capsule, self._device, None)
        finally:
            _without_jax.in_force = False
        if 0 not in buffer.shape and loan.unsafe_buffer_pointer() != address:
            raise RuntimeError(f"XLA copied an input at {address:#x} instead of reading it")
        return loan


class XlaCpuProgram:
    """A program that XLA's CPU client has loaded."""

    def __init__(self, engine: XlaCpuEngine, loaded: Any, signature: Signature) -> None:
        self.signature = signature
        self._engine = engine
        self._loaded = loaded
        self._program = engine.runner(loaded, signature)

    def run(self, inputs: Sequence[int], scalars: Sequence[Number], outputs: Sequence[int]) -> int:
        """Run on the arrays at these addresses, and wait; returns the error, 0 if none."""
        error: int = self._program.run(inputs, self.pack(scalars), outputs)
        return error

    def bound(
        self, inputs: Sequence[int], scalars: Sequence[Number], outputs: Sequence[int]
    ) -> Callable[[], Any]:
        """XLA's execution on these arrays and nothing else."""
        return partial(
            self._loaded.execute_sharded,
            self._program.arguments(inputs, self.pack(scalars), outputs),
        )

    def pack(self, scalars: Sequence[Number]) -> bytes:
        """Numbers in 16 bytes each; integers that do not fit wrap around."""
        packed = b""
        for element, number in zip(self.signature.scalars, scalars, strict=True):
            parts = (number.real, number.imag) if isinstance(number, complex) else (number,)
            packed += bytes(_NUMBER_TYPES[element](*parts)).ljust(NUMBER_BYTES, b"\0")
        return packed

    def capsule(self) -> Any:
        """The program for C++, a `runtime::LoadedProgram`."""
        return self._program.capsule()

    def serialize(self) -> bytes:
        """Bytes from which `XlaCpuEngine.load` makes the program again."""
        return self._engine.serialize(self._loaded)

    def kernels(self) -> Counter[str]:
        """How often it calls each of PyTorch's kernels, as `engines.rewrites` arranged."""
        return Counter(_KERNEL_CALL.findall(self.hlo_text()))

    def workspace_bytes(self) -> int:
        """Memory that a run takes beside inputs and outputs."""
        taken: int = self._loaded.get_compiled_memory_stats().temp_size_in_bytes
        # XLA computes the outputs there too, before they are stored at their addresses.
        outputs = sum(
            prod(buffer.shape) * DLPACK_TYPES[buffer.element][1] // 8
            for buffer in self.signature.outputs
        )
        return max(0, taken - outputs)

    def hlo_text(self) -> str:
        """The optimized HLO, for whoever wants to know what runs."""
        return "\n".join(module.to_string() for module in self._loaded.hlo_modules())


class _WithoutJax(threading.local):
    """An import finder for which there is no `jax`, where it is in force in this thread.

    jaxlib asks for it anew with each array that it takes over, to describe the array's type to JAX.
    A search of all of `sys.path` takes longer than all the rest, and finding it would import it.
    """

    in_force = False

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if self.in_force and name == "jax":
            raise ModuleNotFoundError("programs do without jax", name=name)


_without_jax = _WithoutJax()


@cache
def _interned(buffer: Buffer) -> Buffer:
    """One object for equal ones, by which C++ tells them apart."""
    return buffer


@cache
def engine() -> XlaCpuEngine:
    """The engine of this process, as TORCH_TRAINIUM_ENGINE_REWRITES has it."""
    return XlaCpuEngine(with_rewrites=config.current()["TORCH_TRAINIUM_ENGINE_REWRITES"])


@cache
def _jaxlib() -> tuple[Any, Any]:
    """jaxlib's client and extension modules, with our custom calls registered."""
    try:
        from jaxlib import _jax, version, xla_client  # type: ignore[attr-defined]

        from torch_trainium.engines import _torch_kernels, _xla_buffers
    except ImportError as error:
        raise CompilerUnavailableError(
            f"compiled programs need jaxlib {JAXLIB_VERSION} on the emulated device: "
            f"pip install jaxlib=={JAXLIB_VERSION}, then reinstall torch-trainium ({error})"
        ) from error
    if version.__version__ != JAXLIB_VERSION:
        raise CompilerUnavailableError(
            f"compiled programs need jaxlib {JAXLIB_VERSION} and found {version.__version__}: "
            f"pip install jaxlib=={JAXLIB_VERSION}"
        )
    handlers = {STORE: _xla_buffers.store_handler(), **_torch_kernels.handlers()}
    for name, handler in handlers.items():
        _jax.register_custom_call_target(name, handler, "cpu", api_version=1, traits=0)
    sys.meta_path.insert(0, _without_jax)
    return xla_client, _jax


@cache
def _host_isa() -> str:
    """The machine's instruction set: code compiled for one CPU may not run on another."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    flags = next((line for line in lines if line.startswith("flags")), "")
    return f"{platform.machine()}-{hashlib.sha256(flags.encode()).hexdigest()[:12]}"


def _prepared(module: bytes, signature: Signature, with_rewrites: bool) -> bytes:
    """The module with a `main` that stores its results at addresses it takes as last argument."""
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import func

    from torch_trainium.engines import mlir
    from torch_trainium.engines.rewrites.table import rewrite

    with mlir.context(), ir.Location.unknown():
        parsed = ir.Module.parse(module)
        if with_rewrites:
            rewrite(parsed)
        main: Any = next(iter(parsed.body))
        stores = len(signature.outputs) + signature.has_error
        table = ir.RankedTensorType.get([stores], ir.IntegerType.get_unsigned(64))
        body = main.regions[0].blocks[0]
        addresses = body.add_argument(table, ir.Location.unknown())
        result = body.operations[len(body.operations) - 1]
        values = list(result.operands)
        with ir.InsertionPoint(result):
            mlir.custom_call(STORE, [addresses, *values])
            func.ReturnOp([])
        result.erase()
        inputs = [argument.type for argument in body.arguments]
        main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, []))
        if "res_attrs" in main.attributes:
            del main.attributes["res_attrs"]
        return mlir.bytecode(parsed)
