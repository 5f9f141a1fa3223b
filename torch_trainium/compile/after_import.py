"""Runs something once a module has been imported, however late that is."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType


class AfterImport(MetaPathFinder):
    """Finds the modules it knows as Python would, and calls their actions after they have run."""

    def __init__(self, actions: Mapping[str, Callable[[], None]]) -> None:
        self._actions = actions

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module's own specification, whose loader calls the action at the end."""
        action = self._actions.get(name)
        if action is None:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            action()

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def after_import(actions: Mapping[str, Callable[[], None]]) -> None:
    """Call each action once its module is imported; now, for those that are."""
    late = {name: action for name, action in actions.items() if name not in sys.modules}
    for name, action in actions.items():
        if name not in late:
            action()
    sys.meta_path.insert(0, AfterImport(late))
