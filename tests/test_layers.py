"""Every file uses only the layers below its own."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "torch_trainium"

# Lowest first. Names below the package: a module, a folder, or the extension.
PYTHON_LAYERS = (
    "errors",
    "hardware",
    "config",
    "_C",
    "neuron",
    "engines",
    "lowering",
    "eager",
    "compile",
    "testing",
    "compat",
    "_patches",
    "_registration",
    "_autoload",
    "__init__",
)
CPP_LAYERS = (
    "timeline",
    "bindings_costs",
    "bindings_kernels",
    "runtime",
    "bindings_xla",
    "core",
    "aten",
    "bindings",
)
# What the lower layers may not know, so that they can be built and tested alone.
PYTHON_HEADER = (
    r"Python\.h|pybind11/|torch/extension\.h|torch/csrc/(utils/pybind|Exceptions|DynamicTypes)\.h"
)
FORBIDDEN_HEADERS = {
    "timeline": rf"ATen/|c10/|torch/|{PYTHON_HEADER}",
    "bindings_costs": r"ATen/|c10/|torch/",
    "bindings_kernels": r"torch/|pybind11/",
    "bindings_xla": r"ATen/|c10/|torch/|pybind11/",
    "runtime": rf"ATen/|c10/|torch/|{PYTHON_HEADER}",
    "core": PYTHON_HEADER,
    "aten": PYTHON_HEADER,
}


def python_files() -> list[Path]:
    return sorted((ROOT / PACKAGE).rglob("*.py"))


def layer_of(module: str) -> str:
    """The layer of a dotted name inside the package: torch_trainium.neuron.memory is neuron."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def module_name(path: Path) -> str:
    name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    return (
        name
        if path.name == "__init__.py" and path.parent.name == PACKAGE
        else (name.removesuffix(".__init__"))
    )


def imports(path: Path) -> Iterator[str]:
    """Every module that a file imports, anywhere in it, with the names taken from packages."""
    inside = module_name(path).split(".")
    package = inside if path.name == "__init__.py" else inside[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            prefix = package[: len(package) - node.level + 1] if node.level else []
            source = ".".join([*prefix, *([node.module] if node.module else [])])
            # `from torch_trainium import config` names a layer; what is imported from a
            # layer does not.
            yield from (f"{source}.{a.name}" if source == PACKAGE else source for a in node.names)


def includes(path: Path) -> list[str]:
    return re.findall(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', path.read_text(), re.MULTILINE)


def cpp_files(layer: str) -> list[Path]:
    folder = ROOT / "csrc" / layer
    return sorted([*folder.rglob("*.h"), *folder.rglob("*.cpp")])


def test_every_python_file_belongs_to_a_layer():
    assert {layer_of(module_name(path)) for path in python_files()} <= set(PYTHON_LAYERS)


def test_every_cpp_file_belongs_to_a_layer():
    files = [*(ROOT / "csrc").rglob("*.h"), *(ROOT / "csrc").rglob("*.cpp")]
    assert {path.relative_to(ROOT / "csrc").parts[0] for path in files} == set(CPP_LAYERS)


@pytest.mark.parametrize("path", python_files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_python_imports_point_down(path):
    own = PYTHON_LAYERS.index(layer_of(module_name(path)))
    for name in imports(path):
        if name.split(".")[0] == PACKAGE:
            layer = layer_of(name)
            # A name that the package itself defines, such as its version.
            layer = layer if layer in PYTHON_LAYERS else "__init__"
            assert PYTHON_LAYERS.index(layer) <= own, f"{path.name} imports {name}, which is above"


def test_hardware_imports_no_torch():
    files = sorted((ROOT / PACKAGE / "hardware").rglob("*.py"))
    assert files
    for path in files:
        assert not [name for name in imports(path) if name.split(".")[0] == "torch"], path


def test_only_two_modules_know_jaxlib():
    """Its builder of modules, and its compiler, whose interface is private."""
    for path in python_files():
        used = {name for name in imports(path) if name.split(".")[0] == "jaxlib"}
        if {name for name in used if not name.startswith("jaxlib.mlir")}:
            assert path.name == "xla_cpu.py", path
        if used:
            assert path.parent.name in ("engines", "rewrites", "lowering"), path


@pytest.mark.parametrize("layer", CPP_LAYERS)
def test_cpp_includes_point_down(layer):
    files = cpp_files(layer)
    assert files
    for path in files:
        for header in includes(path):
            owner = header.split("/")[0]
            if (ROOT / "csrc" / header).exists():
                assert CPP_LAYERS.index(owner) <= CPP_LAYERS.index(layer), f"{path}: {header}"


@pytest.mark.parametrize("layer", FORBIDDEN_HEADERS)
def test_lower_cpp_layers_do_not_know_the_upper_world(layer):
    for path in cpp_files(layer):
        known = [h for h in includes(path) if re.match(FORBIDDEN_HEADERS[layer], h)]
        assert not known, f"{path} includes {known}"


def test_only_the_bindings_include_the_whole_of_torch():
    for layer in CPP_LAYERS[:-1]:
        for path in cpp_files(layer):
            assert not {"torch/torch.h", "torch/all.h", "ATen/ATen.h"} & set(includes(path)), path


def test_setup_lists_every_source_once() -> None:
    listed = re.findall(r'^    "(csrc/\S+\.cpp)",$', (ROOT / "setup.py").read_text(), re.MULTILINE)
    found = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "csrc").rglob("*.cpp"))
    assert sorted(listed) == found
