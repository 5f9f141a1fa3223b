"""Writes docs/neuron.md: every name of torch.neuron, from its docstring.

python docs/neuron_api.py          writes the page
python docs/neuron_api.py --check  fails if the page is not current
"""

import inspect
import sys
from pathlib import Path
from types import ModuleType

import torch_trainium  # noqa: F401  (registers torch.neuron)
from torch_trainium import config, neuron

PAGE = Path(__file__).with_name("neuron.md")

INTRODUCTION = """\
# `torch.neuron`

What `torch.cuda` offers, for neuron devices, under the same names and with the same arguments.
Code that shall run on any accelerator uses `torch.accelerator`, all of which works too.

```python
import torch

model = torch.nn.Linear(8, 8).to("neuron")
with torch.neuron.device(1), torch.neuron.stream(torch.neuron.Stream()):
    y = torch.ones(1, 8, device="neuron") * 2
torch.neuron.synchronize()
print(torch.neuron.memory_allocated(), torch.neuron.executed_ops())
```

Differences from CUDA that a program can meet:

- Every operator has run to its end when the call returns. Streams and events keep their meaning,
  event times are the device's, and nothing has to be synchronized for correct numbers;
  [the stream sanitizer](sanitizer.md) finds where a chip would need it.
- A tensor cannot be sent to another process: `multiprocessing` raises and says what to do instead.
- A process forked from one that used a device cannot use it: start workers with `spawn`.
"""

GROUPS = {
    "Devices": "devices",
    "The emulated machine": "instance",
    "Start-up": "startup",
    "Streams and events": "streams",
    "Memory": "memory",
    "Random numbers": "random",
    "Observing the device": "observe",
    "CPU fallbacks": "cpu_fallbacks",
    "Virtual time": "virtual_time",
    "Reports": "reports",
    "Checking streams": "stream_sanitizer",
    "Types named by `Tensor.type()`": "legacy_types",
}
SUBMODULES = {
    "`torch.neuron.amp`": "amp",
    "`torch.neuron.comm`": "comm",
    "`torch.neuron.profiler`": "profiler",
}


def summary(value: object) -> str:
    """The first paragraph of a docstring, as one line."""
    return " ".join((inspect.getdoc(value) or "").split("\n\n")[0].split())


def row(name: str, value: object) -> str:
    """One line of a table."""
    arguments = ""
    if inspect.isfunction(value):
        parameters = inspect.signature(value).parameters.values()
        shown = [
            f"{p.name}={p.default!r}" if p.default is not p.empty else p.name for p in parameters
        ]
        arguments = f"({', '.join(shown)})"
    return f"| `{name}{arguments}` | {summary(value)} |"


def table(title: str, names: list[str], module: ModuleType) -> list[str]:
    """A section with one row for each of `names`."""
    rows = [row(name, getattr(module, name)) for name in names]
    return [f"## {title}", "", "| name | |", "|---|---|", *rows, ""]


def page() -> str:
    """The whole page."""
    lines = [INTRODUCTION]
    for title, module_name in GROUPS.items():
        module = getattr(neuron, module_name)
        lines += table(title, _documented_in(module), module)
    for title, module_name in SUBMODULES.items():
        module = getattr(neuron, module_name)
        lines += table(title, module.__all__, module)
    lines += ["## Environment variables", "", "Read once, when the package is imported; "]
    lines[-1] += "`print(torch.neuron.config())` shows those in force."
    lines += ["", "| variable | type | |", "|---|---|---|"]
    lines += [f"| `{v.name}` | {v.type} | {v.doc} |" for v in config.VARIABLES]
    return "\n".join(lines) + "\n"


def _documented_in(module: ModuleType) -> list[str]:
    """The names of torch.neuron that `module`, or a file split from it, defines."""
    return [
        name
        for name in neuron.__all__
        if getattr(getattr(neuron, name), "__module__", "").startswith(module.__name__)
    ]


if __name__ == "__main__":
    if "--check" in sys.argv:
        if PAGE.read_text() != page():
            sys.exit(f"{PAGE.name} is not current: run python docs/{Path(__file__).name}")
    else:
        PAGE.write_text(page())
