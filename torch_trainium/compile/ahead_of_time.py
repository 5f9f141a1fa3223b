"""Exported programs as callables of the device, and packages of them that capture nothing."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx import GraphModule
from torch.utils._pytree import tree_flatten, tree_unflatten

from torch_trainium.compile import artifacts
from torch_trainium.compile import options as compile_options
from torch_trainium.compile.graph import CompiledGraph
from torch_trainium.compile.program_piece import ProgramPiece
from torch_trainium.errors import UnsupportedOnNeuronError

aten = torch.ops.aten
EXPORTED = "exported.pt2"
PROGRAMS = "programs/"
MUTATIONS = (OutputKind.BUFFER_MUTATION, OutputKind.USER_INPUT_MUTATION)


class AheadOfTime:
    """Calls an exported program on the device, for inference: no gradients flow through it.

    It takes and gives what the exported module did, and changes the buffers and inputs that it did.

    Args:
        exported: what `torch.export.export` made of a module on the device.
        options: those of `torch.compile(backend="neuron")`.

    Raises:
        UnsupportedOnNeuronError: it has inputs that are no tensors and numbers, such as tokens.

    """

    def __init__(self, exported: ExportedProgram, options: Mapping[str, Any] | None = None) -> None:
        self.exported = exported.run_decompositions({})
        signature = self.exported.graph_signature
        given = signature.input_specs
        held = {**self.exported.state_dict, **self.exported.constants}
        for spec in given:
            if spec.kind not in _TENSORS and spec.kind is not InputKind.USER_INPUT:
                raise UnsupportedOnNeuronError(
                    f"the exported program has an input of kind {spec.kind.name}, which no package "
                    "holds; export it without"
                )
        self._held = [held[str(s.target)] for s in given if s.kind in _TENSORS]
        module = _writing(self.exported)
        self._graph = CompiledGraph(module, "exported", compile_options.read(None, options))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the exported module gives.

        Raises:
            ValueError: the arguments are not structured like those that it was exported with.

        """
        flat, spec = tree_flatten((args, kwargs))
        call = self.exported.call_spec
        if spec != call.in_spec:
            raise ValueError(
                f"the program was exported for arguments like {call.in_spec}, and got {spec}"
            )
        return tree_unflatten(self._graph([*self._held, *flat]), call.out_spec)

    def save(self, path: str | Path) -> None:
        """Write a package: the exported program, and the programs compiled for it so far."""
        exported = io.BytesIO()
        torch.export.save(self.exported, exported)
        with zipfile.ZipFile(path, "w") as package:
            package.writestr(EXPORTED, exported.getvalue())
            for piece in self._graph.pieces:
                for compiled in piece.programs if isinstance(piece, ProgramPiece) else ():
                    if compiled.found is not None:
                        entry = artifacts.content(compiled.found)
                        package.writestr(PROGRAMS + compiled.found.key, entry)


def load_package(path: str | Path, options: Mapping[str, Any] | None = None) -> AheadOfTime:
    """What `AheadOfTime.save` wrote; runs without Dynamo, and compiles only what is not in there.

    Its programs are machine code: load only what you trust.
    """
    with zipfile.ZipFile(path) as package:
        for name in package.namelist():
            if name.startswith(PROGRAMS):
                artifacts.keep(name.removeprefix(PROGRAMS), package.read(name))
        exported = torch.export.load(io.BytesIO(package.read(EXPORTED)))
    return AheadOfTime(exported, options)


_TENSORS = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)


def _writing(exported: ExportedProgram) -> GraphModule:
    """The graph with the changes of buffers and inputs as writes, which are results otherwise."""
    module = GraphModule(exported.graph_module, exported.graph)
    graph = module.graph
    inputs = graph.find_nodes(op="placeholder", sort=True)
    specs = exported.graph_signature.input_specs
    by_target = {spec.target: node for spec, node in zip(specs, inputs, strict=True)}
    by_name = {node.name: node for node in inputs}
    output = graph.output_node()
    results = []
    returned: Any = output.args[0]
    with graph.inserting_before(output):
        for spec, value in zip(exported.graph_signature.output_specs, returned, strict=True):
            if spec.kind in MUTATIONS:
                is_buffer = spec.kind is OutputKind.BUFFER_MUTATION
                target = by_target[spec.target] if is_buffer else by_name[str(spec.target)]
                node = graph.call_function(aten.copy_.default, (target, value))
                node.meta = dict(target.meta)
            else:
                results.append(value)
    output.args = (tuple(results),)
    return module
