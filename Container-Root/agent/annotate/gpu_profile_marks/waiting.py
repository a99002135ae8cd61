"""Wait for `import torch` with a finder on sys.meta_path. Python 3.8, stdlib only.

A program that never imports torch pays a comparison of strings for each import: JAX and
TensorFlow programs stay as they are.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from gpu_profile_marks.failure import print_failure
from gpu_profile_marks.variables import LEVEL

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType


def wait_for_torch(environ: Mapping[str, str]) -> None:
    """Install the marks when the program imports torch. Does nothing without a level."""
    if environ.get(LEVEL, "none") not in ("", "none"):
        sys.meta_path.insert(0, _Finder())


class _Finder:
    """Finds torch through the other finders, and runs `install` behind its import."""

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        if name != "torch":
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

        def execute_and_install(module: ModuleType) -> None:
            if self in sys.meta_path:
                sys.meta_path.remove(self)
            execute(module)
            try:
                from gpu_profile_marks import install

                install.install(module, os.environ)
            except Exception as error:  # a Python without ctypes
                print_failure(error)

        loader.exec_module = execute_and_install
