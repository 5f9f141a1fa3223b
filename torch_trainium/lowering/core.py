"""The ground of the builder: a function under construction, its arguments and its checks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from torch_trainium.errors import LoweringError
from torch_trainium.lowering import dtypes
from torch_trainium.lowering.numbers import RANDOM_WORDS, NumberArgument, fits, host_value
from torch_trainium.lowering.values import Number, Operand, Scalar, Value

if TYPE_CHECKING:
    from torch_trainium.lowering.builder import Builder

Given = TypeVar("Given")


class Core:
    """A StableHLO function `main` that grows operation by operation.

    Attributes:
        scalar_arguments: the numbers that the program takes.
        positions: how many random positions it has drawn from so far.
        checks: the exceptions that a program's error stands for, the first for error 1.

    """

    def __init__(self) -> None:
        # jaxlib is loaded by the first program, not by who reads the operator table.
        from jaxlib.mlir import ir
        from jaxlib.mlir.dialects import chlo, func, stablehlo

        from torch_trainium.engines import mlir

        self.ir: Any = ir
        self.hlo: Any = stablehlo
        self.chlo: Any = chlo
        self._func = func
        self._mlir = mlir
        self._context = mlir.context()
        with self._context, ir.Location.unknown():
            self._module = ir.Module.create()
            with ir.InsertionPoint(self._module.body):
                main: Any = func.FuncOp("main", ir.FunctionType.get([], []))
            self._block = main.add_entry_block()
        self._main = main
        self._types: dict[tuple[torch.dtype, tuple[int, ...]], Any] = {}
        self._elements: dict[torch.dtype, Any] = {}
        self._numbers: dict[NumberArgument, Value] = {}
        self.scalar_arguments: list[NumberArgument] = []
        self.positions = 0
        self._saved_stream: list[Value] | None = None
        self.checks: list[tuple[type[Exception], str]] = []
        self._errors: list[Value] = []
        self._checked_where: Value | None = None
        self._entered: list[Any] = []

    def __enter__(self) -> Builder:
        location = self.ir.Location.unknown(self._context)
        for manager in (self._context, location, self.ir.InsertionPoint(self._block)):
            manager.__enter__()
            self._entered.append(manager)
        return self  # type: ignore[return-value]

    def __exit__(self, *exception: object) -> None:
        while self._entered:
            self._entered.pop().__exit__(*exception)

    def argument(self, dtype: torch.dtype, shape: Sequence[int]) -> Value:
        """One more array that the program reads. All of them come before the first number."""
        assert not self.scalar_arguments
        type_ = self.type_of(dtype, shape)
        return self.value(self._block.add_argument(type_, self.ir.Location.unknown()), dtype)

    def number(self, operand: Operand, dtype: torch.dtype) -> Value:
        """An operand as an array of `dtype`: numbers become zero-dim, arrays are converted."""
        if isinstance(operand, Value):
            return operand.to(dtype)
        if not isinstance(operand, Scalar):
            return self.constant(operand, dtype)
        narrow = dtype in dtypes.COMPUTE_DTYPES  # the host has no such numbers
        taken = dtypes.compute_dtype(dtype)
        if dtype is torch.bool:  # any number but zero is true
            taken = {int: torch.int64, float: torch.float32, complex: torch.complex64}.get(
                operand.kind, dtype
            )
            narrow = taken is not dtype
        value = self._number_argument(NumberArgument((operand.index,), taken))
        return value.to(dtype) if narrow else value

    def stored_number(self, operand: Operand, dtype: torch.dtype) -> Value:
        """The same, but a number that `dtype` cannot hold raises RuntimeError, as a fill does."""
        if isinstance(operand, Value) or dtype is torch.bool:
            return self.number(operand, dtype)
        return self.held_number(operand, dtype, dtypes.compute_dtype(dtype)).to(dtype)

    def held_number(self, operand: Operand, holder: torch.dtype, dtype: torch.dtype) -> Value:
        """An operand as an array of `dtype`; RuntimeError for a number that `holder` cannot hold.

        Args:
            operand: a number, or an array, which is converted whatever it holds.
            holder: the dtype that PyTorch's kernels convert the number to first.
            dtype: that of the result; one that the host has numbers of.

        """
        if isinstance(operand, Value) or torch.bool in (holder, dtype):
            return self.number(operand, dtype)
        return self.host_number(fits(holder), [operand], dtype)

    def host_number(
        self, function: str, operands: Sequence[Scalar | Number], dtype: torch.dtype
    ) -> Value:
        """A function of numbers that the host computes in double precision."""
        sources = tuple(o.index for o in operands if isinstance(o, Scalar))
        if len(sources) == len(operands):
            return self._number_argument(NumberArgument(sources, dtype, function))
        if sources:
            raise LoweringError(f"{function} takes numbers of the call or constants, not both")
        known = [o for o in operands if not isinstance(o, Scalar)]
        return self.constant(host_value(NumberArgument((), dtype, function), known), dtype)

    def draw_positions(self, count: int) -> tuple[list[Value], int]:
        """Take `count` positions of the random stream for one operator.

        Returns the words of seed and offset, 32 bits each, and the first position after the offset.
        """
        if self._saved_stream is not None:
            return self._saved_stream, 0
        words, first = self.stream()
        self.positions += -(-count // 4) * 4
        return words, first

    def stream(self) -> tuple[list[Value], int]:
        """The words of the random stream, and the first position that no operator has taken."""
        return [
            self._number_argument(NumberArgument((), torch.uint32, word)) for word in RANDOM_WORDS
        ], self.positions

    @contextmanager
    def drawing_from(self, words: list[Value]) -> Iterator[None]:
        """Let one operator draw the numbers at another seed and offset, and take no positions."""
        self._saved_stream = words
        try:
            yield
        finally:
            self._saved_stream = None

    def _number_argument(self, key: NumberArgument) -> Value:
        if key not in self._numbers:
            type_ = self.type_of(key.dtype, ())
            argument = self._block.add_argument(type_, self.ir.Location.unknown())
            self._numbers[key] = self.value(argument, key.dtype)
            self.scalar_arguments.append(key)
        return self._numbers[key]

    def constant(self, number: Number, dtype: torch.dtype, shape: Sequence[int] = ()) -> Value:
        """An array with one number everywhere."""
        ir = self.ir
        type_ = self.type_of(dtype, shape)
        element = type_.element_type
        if dtype.is_complex:
            real = dtypes.real_dtype(dtype)
            parts = [
                self.constant(p, real, shape) for p in (complex(number).real, complex(number).imag)
            ]
            return self.emit(self.hlo.ComplexOp(parts[0].ir, parts[1].ir), dtype)
        if isinstance(number, complex):
            raise LoweringError(f"a complex number cannot become {dtype}")
        if dtype.is_floating_point:
            attribute = ir.FloatAttr.get(element, float(number))
        elif dtype is torch.bool:
            attribute = ir.IntegerAttr.get(element, int(bool(number)))
        else:
            bits = dtype.itemsize * 8
            wrapped = int(number) & ((1 << bits) - 1)
            if dtype.is_signed and wrapped >> (bits - 1):
                wrapped -= 1 << bits
            attribute = ir.IntegerAttr.get(element, wrapped)
        splat = ir.DenseElementsAttr.get_splat(type_, attribute)
        return self.emit(self.hlo.ConstantOp(splat), dtype)

    def vector(self, numbers: Sequence[Number], dtype: torch.dtype) -> Value:
        """A one-dimensional array of these numbers, real ones or integers."""
        import numpy

        array: Any = numpy.array(numbers, dtype=str(dtype).removeprefix("torch."))
        type_ = self.type_of(dtype, array.shape)
        elements = self.ir.DenseElementsAttr.get(array, type=type_.element_type)
        return self.emit(self.hlo.ConstantOp(elements), dtype)

    def check(self, failed: Value, error: type[Exception], message: str) -> None:
        """Let the program raise `error` where any element of `failed` is true."""
        builder: Any = self
        self.checks.append((error, message))
        code = builder.constant(len(self.checks), torch.int32)
        any_failed = builder.any(failed) if failed.rank else failed
        if self._checked_where is not None:
            any_failed = any_failed & self._checked_where
        self._errors.append(builder.select(any_failed, code, builder.constant(0, torch.int32)))

    @contextmanager
    def checking_where(self, condition: Value) -> Iterator[None]:
        """Let checks fail only where this zero-dim condition holds, too."""
        outer = self._checked_where
        self._checked_where = condition if outer is None else outer & condition
        try:
            yield
        finally:
            self._checked_where = outer

    def region(self, compute: Callable[[], Given]) -> tuple[Given, Value]:
        """What is computed within a region of an operation, and the error of the checks in there.

        The error is the number of the first that fails, or zero. It ends with the region, which
        has to hand it out to `fail_with`.
        """
        outer, self._errors = self._errors, []
        try:
            given, error = compute(), self.error()
        finally:
            self._errors = outer
        return given, self.constant(0, torch.int32) if error is None else error

    def fail_with(self, error: Value) -> None:
        """Let the program raise what an error out of a region stands for; nothing where it is 0."""
        if self.checks:
            self._errors.append(error)

    def error(self) -> Value | None:
        """The number of the first check that fails, or zero; None where there are no checks."""
        builder: Any = self
        while len(self._errors) > 1:
            first, second, *rest = self._errors
            self._errors = [builder.select(first.ne(0), first, second), *rest]
        return self._errors[0] if self._errors else None

    def finish(self, results: Sequence[Value]) -> bytes:
        """End the function with these results, and the error where there are checks."""
        returned = [result.ir for result in results]
        error = self.error()
        if error is not None:
            returned.append(error.ir)
        self._func.ReturnOp(returned)
        inputs = [argument.type for argument in self._block.arguments]
        outputs = [value.type for value in returned]
        signature = self.ir.FunctionType.get(inputs, outputs)
        self._main.attributes["function_type"] = self.ir.TypeAttr.get(signature)
        if not self._module.operation.verify():
            raise LoweringError("the program is not valid StableHLO")
        return self._mlir.bytecode(self._module)

    def text(self) -> str:
        """The program so far, to read."""
        return str(self._module)

    # What builder methods are made of.

    def emit(self, operation: Any, dtype: torch.dtype) -> Value:
        """The only result of an operation."""
        return self.value(operation.result, dtype)

    def value(self, ir_value: Any, dtype: torch.dtype) -> Value:
        """A result of an operation as a value."""
        shape = tuple(ir_value.type.shape)
        return Value(self, ir_value, dtype, shape)  # type: ignore[arg-type]

    def element_type(self, dtype: torch.dtype) -> Any:
        """The MLIR element type."""
        known = self._elements.get(dtype)
        if known is None:
            known = self.ir.Type.parse(dtypes.element_type(dtype), self._context)
            self._elements[dtype] = known
        return known

    def type_of(self, dtype: torch.dtype, shape: Sequence[int]) -> Any:
        """The MLIR tensor type."""
        key = (dtype, tuple(shape))
        if key not in self._types:
            self._types[key] = self.ir.RankedTensorType.get(
                list(shape), self.element_type(dtype), loc=self.ir.Location.unknown(self._context)
            )
        return self._types[key]
