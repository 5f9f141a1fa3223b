"""Writes the C++ table of operators that take CPU scalars beside device tensors.

PyTorch's native_functions.yaml says `device_check: NoCheck` for operators on
TensorIterator, which accept a zero-dim CPU tensor next to device tensors. The
dispatcher does not carry that fact, so the build reads it from the copy that
torchgen ships with the installed PyTorch.
"""

import sys
from pathlib import Path

import torchgen
from torchgen.gen import parse_native_yaml
from torchgen.model import DeviceCheckType


def operators_with_cpu_scalars() -> list[str]:
    """Qualified overload names in byte order."""
    folder = Path(torchgen.__file__).parent / "packaged" / "ATen" / "native"
    parsed = parse_native_yaml(str(folder / "native_functions.yaml"), str(folder / "tags.yaml"))
    return sorted(
        f"aten::{function.func.name}"
        for function in parsed.native_functions
        if function.device_check is DeviceCheckType.NoCheck and "generated" not in function.tags
    )


def write(path: Path) -> None:
    """Write the table as an initializer list, unless the file already holds it."""
    text = "".join(f'"{name}",\n' for name in operators_with_cpu_scalars())
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
