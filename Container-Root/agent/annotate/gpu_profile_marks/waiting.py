"""Wait for the import of a GPU library. Python 3.8, stdlib only.

PyTorch programs get marks of steps and modules, and all get names for the host's pauses.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from gpu_profile_marks.failure import print_failure
from gpu_profile_marks.import_hook import call_after_import
from gpu_profile_marks.variables import LEVEL

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType

TORCH = frozenset(("torch",))
OTHERS = frozenset(("jax", "cupy", "tensorflow", "numba", "pycuda", "warp"))


def wait_for_library(environ: Mapping[str, str], start_pauses: Callable[[], object]) -> None:
    """Install the marks when the program imports torch, and start the marks of pauses then, or
    with another library that launches work on GPUs. Does nothing without a level.
    """

    def install_marks(torch: ModuleType) -> None:
        from gpu_profile_marks import install

        if install.install(torch, os.environ):
            start_pauses()

    def install_domain(_library: ModuleType) -> None:
        from gpu_profile_marks import install

        if install.open_marks():
            start_pauses()

    if environ.get(LEVEL, "none") not in ("", "none"):
        call_after_import(TORCH, _guard(install_marks))
        call_after_import(OTHERS, _guard(install_domain))


def _guard(call: Callable[[ModuleType], object]) -> Callable[[ModuleType], object]:
    def guarded(module: ModuleType) -> None:
        try:
            call(module)
        except Exception as error:  # a Python without ctypes
            print_failure(error)

    return guarded
