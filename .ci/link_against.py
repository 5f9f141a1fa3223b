"""Compiles csrc and links it against another PyTorch release, without installing that.

Only the headers and the libraries an extension links to are taken out of the package, so a
CUDA build works without any CUDA library. Nothing is run.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from setup import (  # noqa: E402
    JAXLIB_INCLUDE,
    LINK_FLAGS,
    SOURCES,
    TIMELINE_SOURCES,
    TORCH_KERNELS_SOURCES,
    built_for,
    compile_flags,
    torch_minor,
)

LIBRARIES = ("c10", "torch", "torch_cpu", "torch_python")


def unpack(requirement: str, target: Path) -> None:
    """Put the headers and LIBRARIES of a torch package into `target`."""
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as download:
        pip = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:"]
        subprocess.run([*pip, "--quiet", "--dest", download, requirement], check=True)
        (wheel,) = Path(download).glob("torch-*.whl")
        wanted = tuple(f"torch/lib/lib{name}.so" for name in LIBRARIES)
        with zipfile.ZipFile(wheel) as package:
            members = [
                name
                for name in package.namelist()
                if name.startswith("torch/include/") or name in wanted
            ]
            package.extractall(target, members)


def compile_all(flags: list[str], objects: Path) -> list[Path]:
    """Compile what uses PyTorch without optimization, which keeps all inline functions' symbols."""

    def compile_one(source: str) -> Path:
        target = objects / f"{source.replace('/', '_')}.o"
        subprocess.run(
            ["g++", "-O0", "-fPIC", *flags, "-c", ROOT / source, "-o", target], check=True
        )
        print(f"  {source}", flush=True)
        return target

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(compile_one, [*SOURCES, *TIMELINE_SOURCES, *TORCH_KERNELS_SOURCES]))


def symbols(library: Path, kind: str) -> set[str]:
    """The dynamic symbols of a library, less those it can do without (weak undefined ones)."""
    nm = ["nm", "--dynamic", "--format=posix", kind, library]
    lines = subprocess.run(nm, check=True, capture_output=True, text=True).stdout.splitlines()
    return {name for name, symbol_type, *_ in map(str.split, lines) if symbol_type not in "wv"}


def unresolved(library: Path, lib_dir: Path) -> list[str]:
    """The symbols of `library` that neither PyTorch nor the system's libraries define.

    The linker accepts any undefined symbol in a shared library, so they are looked up here.
    Python's own, and those that carry the version of a system library, are there at run time.
    """
    torch_libraries = [lib_dir / f"lib{name}.so" for name in LIBRARIES]
    defined = set().union(*(symbols(path, "--defined-only") for path in torch_libraries))
    return sorted(
        name
        for name in symbols(library, "--undefined-only") - defined
        if "@" not in name and not name.startswith(("Py", "_Py"))
    )


def main(requirement: str) -> None:
    """Compile and link against `requirement`, such as "torch==2.14.1"; exit 1 where it fails."""
    version = requirement.partition("==")[2]
    minor = torch_minor(version)
    torch_root = ROOT / "build" / f"headers-{version}"
    if not torch_root.exists():
        print(f"  taking headers and libraries out of {requirement}", flush=True)
        torch_root.parent.mkdir(exist_ok=True)
        try:
            unpack(requirement, torch_root)
        except BaseException:
            shutil.rmtree(torch_root, ignore_errors=True)
            raise
    lib_dir = torch_root / "torch" / "lib"
    flags = [
        *compile_flags(torch_root / "torch" / "include"),
        built_for(minor),
        f"-I{sysconfig.get_path('include')}",
        f"-isystem{JAXLIB_INCLUDE}",
        "-DTORCH_EXTENSION_NAME=_C",
    ]
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as objects:
        library = Path(objects) / "_C.so"
        link = [*LINK_FLAGS, f"-L{lib_dir}", *(f"-l{name}" for name in LIBRARIES)]
        subprocess.run(
            ["g++", "-shared", *compile_all(flags, Path(objects)), *link, "-o", library], check=True
        )
        if missing := unresolved(library, lib_dir):
            sys.exit(f"PyTorch {version} does not define:\n  " + "\n  ".join(missing))
    print(f"csrc compiles and links against PyTorch {version}")


if __name__ == "__main__":
    main(sys.argv[1])
