"""Start-up module on PYTHONPATH: marks the steps and modules of a PyTorch program for nsys.

Python's `site` imports it before the program (docs.python.org/3/library/site.html). It runs the
environment's own sitecustomize, which it hides, and then waits for `import torch`.
"""

import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - at each start of Python


def _run_hidden_module() -> None:
    """Run the next `sitecustomize` of sys.path, as `site` would without this one."""
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    places = [place for place in sys.path if os.path.abspath(place) != _HERE]  # noqa: PTH100
    spec = PathFinder.find_spec("sitecustomize", places)
    if spec is not None and spec.loader is not None:
        module = module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


if "gpu_profile_marks" not in sys.modules:
    try:
        from gpu_profile_marks import waiting

        waiting.wait_for_torch(os.environ)
    except Exception as error:
        words = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        print(f"gpu-profile: marks are off, the job goes on: {words}", file=sys.stderr)
    _run_hidden_module()
