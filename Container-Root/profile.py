#!/usr/bin/env python3
"""`/profile.py` of the image: runs profile_ranks.py, whose help has the words.

Manifests and people name this path. A program in `/` that imports `profile`, as cProfile does, gets
the standard library's module.
"""

import runpy
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path

AGENT = "/opt/gpu-profile/agent"

if __name__ == "__main__":
    sys.path[0] = AGENT
    runpy.run_path(f"{AGENT}/profile_ranks.py", run_name="__main__")
else:
    here = Path(__file__).resolve().parent
    spec = PathFinder.find_spec("profile", [p for p in sys.path if Path(p).resolve() != here])
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError("No module named 'profile'", name="profile")
    sys.modules[__name__] = module_from_spec(spec)
    spec.loader.exec_module(sys.modules[__name__])
