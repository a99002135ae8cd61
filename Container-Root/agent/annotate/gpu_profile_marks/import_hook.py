"""Call a function after the import of a module, with a finder on sys.meta_path.

Python 3.8, stdlib only. A program that never imports the module pays a look-up for each import.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence, Set
    from importlib.machinery import ModuleSpec
    from types import ModuleType


def call_after_import(names: Set[str], call: Callable[[ModuleType], object]) -> None:
    """Call `call` with the first of these modules that the program imports, once."""
    sys.meta_path.insert(0, _Finder(names, call))


class _Finder:
    """Finds a module through the other finders, and calls a function after its import."""

    def __init__(self, names: Set[str], call: Callable[[ModuleType], object]) -> None:
        self._names = names
        self._call = call

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        if name not in self._names:
            return None
        for finder in [finder for finder in sys.meta_path if finder is not self]:
            spec = finder.find_spec(name, path, target) if hasattr(finder, "find_spec") else None
            if spec is not None:
                if spec.loader is not None:
                    self._call_after(spec.loader)
                return spec
        return None

    def _call_after(self, loader: Any) -> None:  # noqa: ANN401 - a loader of any importer
        """Wrap this loader's exec_module.

        Programs also look for the spec of torch to ask whether torch is there, and import nothing.
        """
        execute = loader.exec_module

        def execute_and_call(module: ModuleType) -> None:
            # Before it runs: torch imports hundreds of modules itself, each with a look-up
            # here.
            if self in sys.meta_path:
                sys.meta_path.remove(self)
            execute(module)
            self._call(module)

        loader.exec_module = execute_and_call
