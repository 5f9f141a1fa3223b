"""Write hot_overloads.toml: the overloads that training calls most often.

Counted on the CPU below autograd, so the list does not depend on any backend: one training
step of each program in models.py, and one forward and backward of every module in PyTorch's
module database, in training, as the conformance suite runs them. An overload ranks by the
share of calls it has in a program, averaged over the programs; the module database is one.
"""

import argparse
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from models import PROGRAMS
from torch.testing._internal.common_modules import module_db
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

HOTTEST = 40
OUTPUT = Path(__file__).parent / "hot_overloads.toml"


class CallCounter(TorchDispatchMode):
    """Counts aten overloads by name, such as "add.Tensor"."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[str] = Counter()

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: Any = (),
        kwargs: Any = None,
    ) -> Any:
        if func.namespace == "aten":
            self.calls[func._schema.name.removeprefix("aten::") + "." + func._overloadname] += 1
        return func(*args, **(kwargs or {}))


def count(run: Callable[[], object]) -> Counter[str]:
    with CallCounter() as counter:
        run()
    return counter.calls


def module_database() -> list[tuple[torch.nn.Module, Any]]:
    """Every module, with one input."""
    samples = []
    for info in module_db:
        inputs = info.module_inputs_func(
            info, device="cpu", dtype=torch.float64, requires_grad=True, training=True
        )
        sample = next(entry for entry in inputs if entry.forward_input is not None)
        made = sample.constructor_input
        module = info.module_cls(*made.args, **made.kwargs).double().train()
        samples.append((module, sample.forward_input))
    return samples


def forward_and_backward(samples: list[tuple[torch.nn.Module, Any]]) -> None:
    for module, given in samples:
        outputs = tree_leaves(module(*given.args, **given.kwargs))
        differentiable = [t for t in outputs if isinstance(t, torch.Tensor) and t.requires_grad]
        if differentiable:
            torch.autograd.backward([t.sum() for t in differentiable])


def shares() -> dict[str, float]:
    """Overload -> mean share of calls, the most frequent first."""
    counts = []
    for program in PROGRAMS.values():
        step = program.step_on("cpu")
        step()  # the first step makes the optimizer's state
        counts.append(count(step))
    samples = module_database()
    counts.append(count(lambda: forward_and_backward(samples)))
    total: Counter[str] = Counter()
    for calls in counts:
        for name, number in calls.items():
            total[name] += number / calls.total() / len(counts)
    return dict(total.most_common())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=OUTPUT)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    ranked = list(shares().items())[:HOTTEST]
    lines = [
        "# Written by trace_hot_overloads.py: mean share of the operator calls of a training",
        f"# step on the CPU, PyTorch {torch.__version__.partition('+')[0]}.",
        "[share]",
        *(f'"{name}" = {share:.5f}' for name, share in ranked),
    ]
    args.output.write_text("\n".join(lines) + "\n")
    print(f"wrote {args.output}: {sum(share for _, share in ranked):.0%} of all calls")


if __name__ == "__main__":
    main()
