"""Builds torch_trainium._C against the PyTorch that is installed."""

import subprocess
import sys
from pathlib import Path

import jaxlib
import torch
from setuptools import Extension, setup
from torch.utils.cpp_extension import BuildExtension, CppExtension, include_paths

ROOT = Path(__file__).resolve().parent
SUPPORTED_TORCH = ((2, 13), (2, 14))

# The OpenMP that PyTorch uses: without it at::parallel_for runs on one thread.
LINK_FLAGS = ["-fopenmp"]

# Of the interface through which XLA's programs call handlers.
JAXLIB_INCLUDE = str(Path(jaxlib.__file__).parent / "include")

COSTS = "torch_trainium.hardware._costs"
XLA_BUFFERS = "torch_trainium.engines._xla_buffers"
TORCH_KERNELS = "torch_trainium.engines._torch_kernels"

SOURCES = [
    "csrc/aten/attention.cpp",
    "csrc/aten/autocast.cpp",
    "csrc/aten/boxed.cpp",
    "csrc/aten/call_description.cpp",
    "csrc/aten/classification.cpp",
    "csrc/aten/compiled_eager.cpp",
    "csrc/aten/composite_layout.cpp",
    "csrc/aten/convolution.cpp",
    "csrc/aten/copy.cpp",
    "csrc/aten/determinism.cpp",
    "csrc/aten/factories.cpp",
    "csrc/aten/fallback.cpp",
    "csrc/aten/hbm_redirect.cpp",
    "csrc/aten/histogram.cpp",
    "csrc/aten/host_accesses.cpp",
    "csrc/aten/host_alias.cpp",
    "csrc/aten/host_engine.cpp",
    "csrc/aten/hot_pointwise.cpp",
    "csrc/aten/hot_reductions.cpp",
    "csrc/aten/kaiser_window.cpp",
    "csrc/aten/nested.cpp",
    "csrc/aten/operator_record.cpp",
    "csrc/aten/operator_traits.cpp",
    "csrc/aten/quantized.cpp",
    "csrc/aten/random_choice.cpp",
    "csrc/aten/random_continuous.cpp",
    "csrc/aten/random_discrete.cpp",
    "csrc/aten/random_dropout.cpp",
    "csrc/aten/random_rejection.cpp",
    "csrc/aten/random_tile.cpp",
    "csrc/aten/rnn.cpp",
    "csrc/aten/signature.cpp",
    "csrc/aten/sparse.cpp",
    "csrc/aten/views.cpp",
    "csrc/bindings/call_arguments.cpp",
    "csrc/bindings/compiled_eager.cpp",
    "csrc/bindings/compiled_graph.cpp",
    "csrc/bindings/events.cpp",
    "csrc/bindings/fallbacks.cpp",
    "csrc/bindings/memory.cpp",
    "csrc/bindings/module.cpp",
    "csrc/bindings/plain_call.cpp",
    "csrc/bindings/result_tensors.cpp",
    "csrc/bindings/sanitizer.cpp",
    "csrc/bindings/scope_recorder.cpp",
    "csrc/bindings/timeline.cpp",
    "csrc/bindings/user_line.cpp",
    "csrc/core/activity_profiler.cpp",
    "csrc/core/allocation_trace.cpp",
    "csrc/core/allocator.cpp",
    "csrc/core/block_pool.cpp",
    "csrc/core/device.cpp",
    "csrc/core/device_heap.cpp",
    "csrc/core/generator.cpp",
    "csrc/core/guard.cpp",
    "csrc/core/heap_events.cpp",
    "csrc/core/heap_pools.cpp",
    "csrc/core/heap_report.cpp",
    "csrc/core/heap_segments.cpp",
    "csrc/core/hooks.cpp",
    "csrc/core/host_allocator.cpp",
    "csrc/core/host_time.cpp",
    "csrc/core/memory_extent.cpp",
    "csrc/core/memory_history.cpp",
    "csrc/core/operator_names.cpp",
    "csrc/core/out_of_memory.cpp",
    "csrc/core/profiler_stubs.cpp",
    "csrc/core/stream_clocks.cpp",
    "csrc/core/stream_order.cpp",
    "csrc/core/stream_sanitizer.cpp",
    "csrc/core/trace_rows.cpp",
    "csrc/core/work_recorder.cpp",
    "csrc/runtime/device_fault.cpp",
    "csrc/runtime/emulator.cpp",
    "csrc/runtime/host_memory.cpp",
    "csrc/runtime/runtime.cpp",
]

# Compiled into both extensions: the cost model also runs alone, without PyTorch.
TIMELINE_SOURCES = [
    "csrc/timeline/constants.cpp",
    "csrc/timeline/cost_attention.cpp",
    "csrc/timeline/cost_collective.cpp",
    "csrc/timeline/cost_convolution.cpp",
    "csrc/timeline/cost_elementwise.cpp",
    "csrc/timeline/cost_indexing.cpp",
    "csrc/timeline/cost_matmul.cpp",
    "csrc/timeline/cost_memory.cpp",
    "csrc/timeline/cost_model.cpp",
    "csrc/timeline/cost_program.cpp",
    "csrc/timeline/cost_reduction.cpp",
    "csrc/timeline/cost_work.cpp",
    "csrc/timeline/graph_record.cpp",
    "csrc/timeline/host_clock.cpp",
    "csrc/timeline/loaded_programs.cpp",
    "csrc/timeline/operator_classes.cpp",
    "csrc/timeline/profile.cpp",
    "csrc/timeline/timeline.cpp",
]

COSTS_SOURCES = [
    "csrc/bindings_costs/module.cpp",
]

# How XLA's programs reach the device's memory; alone, for it needs the headers of jaxlib.
XLA_SOURCES = [
    "csrc/bindings_xla/module.cpp",
    "csrc/bindings_xla/program.cpp",
    "csrc/bindings_xla/store.cpp",
]

# PyTorch's kernels for XLA's programs: needs the headers of both.
TORCH_KERNELS_SOURCES = [
    "csrc/bindings_kernels/convolution.cpp",
    "csrc/bindings_kernels/dot.cpp",
    "csrc/bindings_kernels/kernel_call.cpp",
    "csrc/bindings_kernels/module.cpp",
    "csrc/bindings_kernels/parallel.cpp",
    "csrc/bindings_kernels/scan.cpp",
    "csrc/bindings_kernels/top_k.cpp",
]

# The table that each script of csrc/codegen writes.
GENERATED = {
    "operator_classes.py": "operator_classes.inc",
    "operator_traits.py": "operators_with_cpu_scalars.inc",
}


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


def generated_headers() -> Path:
    """The folder of the C++ tables made from the installed PyTorch and our data files."""
    folder = ROOT / "build" / f"torch-{torch_minor(torch.__version__)}" / "generated"
    for generator, table in GENERATED.items():
        script = ROOT / "csrc" / "codegen" / generator
        subprocess.run([sys.executable, str(script), str(folder / table)], check=True)
    return folder


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
        # The same bits on every CPU, with fused multiply-add or without.
        "-ffp-contract=off",
        # Square roots vectorize only if they need not set errno.
        "-fno-math-errno",
        # at::parallel_for runs on one thread without it.
        "-fopenmp",
        f"-I{ROOT / 'csrc'}",
        f"-I{generated_headers()}",
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

    def build_extension(self, ext: Extension) -> None:
        """Build one extension, its objects apart from those of the others."""
        shared = self.build_temp
        if ext.name in (COSTS, XLA_BUFFERS, TORCH_KERNELS):
            self.build_temp = str(Path(shared) / ext.name.rpartition("_")[2])
        super().build_extension(ext)
        self.build_temp = shared


if __name__ == "__main__":
    # -g1: function names and lines in the stack of a crash.
    flags = ["-O2", "-g1", built_for(torch_minor(torch.__version__))]
    flags += compile_flags(Path(include_paths()[0]))
    setup(
        ext_modules=[
            CppExtension(
                "torch_trainium._C",
                [*SOURCES, *TIMELINE_SOURCES],
                extra_compile_args=flags,
                extra_link_args=LINK_FLAGS,
            ),
            Extension(
                COSTS,
                [*COSTS_SOURCES, *TIMELINE_SOURCES],
                extra_compile_args=flags,
                language="c++",
            ),
            Extension(
                XLA_BUFFERS,
                XLA_SOURCES,
                include_dirs=[str(ROOT / "csrc"), JAXLIB_INCLUDE],
                extra_compile_args=["-std=c++20", "-fvisibility=hidden", "-O2", "-g1"],
                language="c++",
            ),
            CppExtension(
                TORCH_KERNELS,
                TORCH_KERNELS_SOURCES,
                extra_compile_args=[*flags, "-isystem", JAXLIB_INCLUDE],
                extra_link_args=LINK_FLAGS,
            ),
        ],
        cmdclass={"build_ext": IncrementalBuild},
    )
