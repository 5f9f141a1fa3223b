"""The body of most checks: the same probe on the device and on the CPU, sample by sample.

A probe is a function of (operator, sample) that returns a tree of everything it observed. What the
CPU does is the reference, including what it raises, so no list of known CPU defects is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.testing._internal.opinfo.core import SampleInput

from .case import Result, Skip
from .compare import Comparison, same_bits
from .mirror import Mirror, is_wrapper, tensors_in
from .outcome import Outcome, draws_random_numbers, observe

Probe = Callable[[Any, Any], Any]

# Their values are whatever the memory held before.
UNINITIALIZED = frozenset(
    {
        "empty",
        "empty_like",
        "empty_permuted",
        "empty_strided",
        "new_empty",
        "new_empty_strided",
    }
)
MAX_FAILURES = 5


class Differential:
    """Compares `subject` on `device` with `reference` on the CPU and records into `result`."""

    def __init__(
        self,
        result: Result,
        device: str,
        subject: Any,
        reference: Any = None,
        *,
        aliasing: bool = False,
        inputs_after: bool = False,
    ) -> None:
        self.result = result
        self.device = device
        self.subject = subject
        self.reference = subject if reference is None else reference
        self.aliasing = aliasing
        self.inputs_after = inputs_after
        self.values = getattr(subject, "name", "") not in UNINITIALIZED

    def run(self, samples: Iterable[Any], probe: Probe) -> None:
        raised: list[str] = []
        inapplicable: set[str] = set()
        compared = 0
        for index, sample in enumerate(samples):
            try:
                expected = self._sample(index, sample, probe)
            except Skip as skip:
                inapplicable.add(str(skip))
                continue
            compared += 1
            if expected.error is not None:
                raised.append(str(expected))
            if len(self.result.failures) >= MAX_FAILURES:
                break
        self.result.samples += compared
        if self.result.failures:
            return
        if compared == 0:
            raise Skip("; ".join(sorted(inapplicable)) or "no samples")
        if raised and compared == len(raised):
            raise Skip(f"the CPU {min(raised)}")

    def _sample(self, index: int, sample: Any, probe: Probe) -> Outcome:
        mirrored = Mirror(self.device, "cpu")(sample)
        pristine = Mirror("cpu", "cpu")
        spare = pristine(mirrored)
        expected = observe(lambda: probe(self.reference, mirrored))
        if isinstance(expected.error, Skip):
            raise expected.error
        actual = observe(lambda: probe(self.subject, sample))
        problems, bit_equal = self._compare(actual, expected, sample, mirrored)
        returned = expected.error is None and actual.error is None
        if (
            problems
            and returned
            and self.values
            and draws_random_numbers(lambda: probe(self.reference, pristine(spare)))
        ):
            problems = self._random(actual, expected, spare, probe)
        self.result.bit_equal &= bit_equal
        for problem in problems:
            self.result.fail(f"sample {index}: {problem}")
        return expected

    def _compare(
        self, actual: Outcome, expected: Outcome, sample: Any, mirrored: Any
    ) -> tuple[list[str], bool]:
        silenced = actual.is_silent and not expected.is_silent
        if silenced or type(actual.error) is not type(expected.error):
            return [f"{actual}; the CPU {expected}"], False
        if expected.error is not None:
            return [], True
        comparison = Comparison(_result_device(sample, self.device), values=self.values)
        comparison.compare(actual.value, expected.value)
        if self.inputs_after:
            comparison.device_type = torch.device(self.device).type
            comparison.compare(tensors_in(sample), tensors_in(mirrored), "inputs after the call")
        if self.aliasing:
            left, right = aliases(actual.value, sample), aliases(expected.value, mirrored)
            if left != right:
                comparison.problems.append(f"outputs alias inputs as {left}, not as {right}")
        return comparison.problems, comparison.bit_equal

    def _random(self, actual: Outcome, expected: Outcome, spare: Any, probe: Probe) -> list[str]:
        """Random values are held to their metadata and to what a seed promises."""
        where = _result_device(Mirror("cpu", self.device)(spare), self.device)
        comparison = Comparison(where, values=False)
        comparison.compare(actual.value, expected.value)
        first, again, other = (
            self._seeded(self.device, self.subject, seed, spare, probe) for seed in (7, 7, 8)
        )
        if not _same(first, again):
            comparison.problems.append("the same seed gave other numbers")
        on_cpu = (self._seeded("cpu", self.reference, seed, spare, probe) for seed in (7, 8))
        if _same(first, other) and not _same(*on_cpu) and _elements(first) >= 16:
            comparison.problems.append("another seed gave the same numbers")
        return comparison.problems

    def _seeded(
        self, device: str, op: Any, seed: int, spare: Any, probe: Probe
    ) -> list[torch.Tensor]:
        sample = Mirror("cpu", device)(spare)
        torch.manual_seed(seed)
        value = observe(lambda: probe(op, sample)).value
        return [_drawn(tensor.detach()) for tensor in tensors_in(value)]


def _result_device(sample: Any, device: str) -> str:
    """Where results belong: on the device a factory was given, or that of the inputs."""
    if not isinstance(sample, SampleInput):
        return device
    named = [sample.kwargs.get("device"), *sample.args]
    named = [value for value in named if isinstance(value, (str, torch.device))]
    devices = {value.type for value in named if isinstance(value, torch.device)}
    devices |= {value.partition(":")[0] for value in named if isinstance(value, str)}
    devices &= {"cpu", "meta", torch.device(device).type}
    if not devices:
        devices = {tensor.device.type for tensor in tensors_in(sample)} - {"cpu"}
    return min(devices, default="cpu")


def aliases(outputs: Any, inputs: Any) -> list[int]:
    """For each output tensor the index of the input whose storage it shares, or -1."""
    owners: dict[int, int] = {}
    for index, tensor in enumerate(tensors_in(inputs)):
        owners.setdefault(_storage_id(tensor), index)
    owners.pop(0, None)
    return [owners.get(_storage_id(tensor), -1) for tensor in tensors_in(outputs)]


def _storage_id(tensor: torch.Tensor) -> int:
    if tensor.layout is not torch.strided or is_wrapper(tensor):
        return 0
    return int(tensor.untyped_storage()._cdata)


def _same(left: list[torch.Tensor], right: list[torch.Tensor]) -> bool:
    return len(left) == len(right) and all(
        a.shape == b.shape and same_bits(a, b) for a, b in zip(left, right, strict=True)
    )


def _drawn(tensor: torch.Tensor) -> torch.Tensor:
    """The numbers of a tensor of any layout, on the CPU."""
    if tensor.is_nested:
        return torch.cat([_drawn(part).flatten() for part in tensor.unbind()])
    if tensor.layout is torch.sparse_coo:
        tensor = tensor._values()
    elif tensor.layout is not torch.strided:
        tensor = tensor.values()
    return tensor.cpu().resolve_conj().resolve_neg()


def _elements(tensors: list[torch.Tensor]) -> int:
    return sum(tensor.numel() for tensor in tensors)
