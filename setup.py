"""Builds torch_trainium._C against the PyTorch that is installed."""

from pathlib import Path

import torch
from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension, include_paths

ROOT = Path(__file__).resolve().parent
SUPPORTED_TORCH = ((2, 13), (2, 14))

SOURCES: list[str] = []


def torch_minor(version: str) -> str:
    """The minor release of a PyTorch version, such as "2.13"; raises where not supported."""
    major, minor = (int(part) for part in version.split(".")[:2])
    if (major, minor) not in SUPPORTED_TORCH:
        supported = " and ".join(f"{a}.{b}" for a, b in SUPPORTED_TORCH)
        raise RuntimeError(
            f"torch-trainium builds against PyTorch {supported}; found {version}. "
            "Install a supported release (pip install 'torch>=2.13,<2.15') and build again."
        )
    return f"{major}.{minor}"


def compile_flags(torch_include: Path) -> list[str]:
    """What every source is compiled with, against the headers of one PyTorch."""
    # -isystem rather than -I: the warnings of PyTorch's headers are not ours to fix.
    system_headers = ("", "torch/csrc/api/include", "kineto")
    return [
        "-std=c++20",
        "-fvisibility=hidden",
        "-Wall",
        "-Wextra",
        "-DUSE_KINETO",
        f"-I{ROOT / 'csrc'}",
        *(flag for name in system_headers for flag in ("-isystem", str(torch_include / name))),
    ]


def built_for(minor: str) -> str:
    """The macro that names the PyTorch an extension serves.

    PyTorch has no stable C++ ABI for backends: one extension serves one minor release.
    """
    return f'-DTORCH_TRAINIUM_BUILT_FOR="{minor}"'


class IncrementalBuild(BuildExtension):
    """Keeps object files, so that an editable install compiles only what changed."""

    def finalize_options(self) -> None:
        """Replace the temporary folder of an editable install by one that stays."""
        super().finalize_options()
        self.build_temp = str(ROOT / "build" / f"torch-{torch_minor(torch.__version__)}")


if __name__ == "__main__":
    # -g1: function names and lines in the stack of a crash.
    flags = ["-O2", "-g1", built_for(torch_minor(torch.__version__))]
    flags += compile_flags(Path(include_paths()[0]))
    setup(
        ext_modules=[CppExtension("torch_trainium._C", SOURCES, extra_compile_args=flags)],
        cmdclass={"build_ext": IncrementalBuild},
    )
