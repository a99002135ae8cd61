"""gpu-profile: record a multi-GPU program with Nsight Systems and read the reports.

`gpu_profile.open` reads a run from Python; docs/api.ipynb shows it. The API is imported on first
use: a console command that reads no report starts without numpy.
"""

import importlib

__version__ = "0.1.0"
_API = frozenset({"Run", "open", "schema"})


def __getattr__(name: str) -> object:
    if name in _API:
        return getattr(importlib.import_module("gpu_profile.api"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_API})
