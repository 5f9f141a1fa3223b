"""Builds torch_trainium._C against the PyTorch that is installed."""

from pathlib import Path

import torch
from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension, include_paths

ROOT = Path(__file__).resolve().parent
SUPPORTED_TORCH = ((2, 13), (2, 14))

SOURCES: list[str] = []


def torch_minor() -> tuple[int, int]:
    """The (major, minor) of the PyTorch to build against; raises where it is not supported."""
    major, minor = (int(part) for part in torch.__version__.split(".")[:2])
    if (major, minor) not in SUPPORTED_TORCH:
        supported = " and ".join(f"{a}.{b}" for a, b in SUPPORTED_TORCH)
        raise RuntimeError(
            f"torch-trainium builds against PyTorch {supported}; found {torch.__version__}. "
            "Install a supported release (pip install 'torch>=2.13,<2.15') and build again."
        )
    return major, minor


def extension() -> CppExtension:
    """The extension module of every source in SOURCES."""
    torch_headers = include_paths()
    # -isystem rather than -I: the warnings of PyTorch's headers are not ours to fix.
    system_headers = [*torch_headers, f"{torch_headers[0]}/kineto"]
    major, minor = torch_minor()
    return CppExtension(
        "torch_trainium._C",
        SOURCES,
        include_dirs=[str(ROOT / "csrc")],
        define_macros=[
            ("USE_KINETO", None),
            # PyTorch has no stable C++ ABI for backends: one extension serves one minor release.
            ("TORCH_TRAINIUM_BUILT_FOR", f'"{major}.{minor}"'),
        ],
        extra_compile_args=[
            "-std=c++20",
            "-O2",
            "-fvisibility=hidden",
            "-Wall",
            "-Wextra",
            *(flag for path in system_headers for flag in ("-isystem", path)),
        ],
    )


class IncrementalBuild(BuildExtension):
    """Keeps object files, so that an editable install compiles only what changed."""

    def finalize_options(self) -> None:
        """Replace the temporary folder of an editable install by one that stays."""
        super().finalize_options()
        major, minor = torch_minor()
        self.build_temp = str(ROOT / "build" / f"torch-{major}.{minor}")


setup(ext_modules=[extension()], cmdclass={"build_ext": IncrementalBuild})
