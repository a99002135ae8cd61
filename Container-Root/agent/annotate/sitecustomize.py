"""Start-up module on PYTHONPATH: marks the steps and modules of a PyTorch program for nsys.

Python's `site` imports it before the program (docs.python.org/3/library/site.html). It runs the
environment's own sitecustomize, which it hides, and then waits for `import torch`. A Python older
than 3.8 reads this file, too: it has no marks.
"""

import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - at each start of Python


def _run_hidden_module():  # type: () -> None  # noqa: ANN202 - Python 2 reads this file
    """Run the next `sitecustomize` of sys.path, as `site` would without this one."""
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    places = [place for place in sys.path if os.path.abspath(place) != _HERE]  # noqa: PTH100
    spec = PathFinder.find_spec("sitecustomize", places)
    if spec is not None and spec.loader is not None:
        module = module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


def _start_pauses():  # type: () -> None  # noqa: ANN202
    from gpu_profile_pauses.start import start_pauses

    start_pauses()


def _import_hidden_module():  # type: () -> None  # noqa: ANN202
    """Do the same in a Python without importlib's functions."""
    ours = sys.modules.pop("sitecustomize")
    sys.path[:] = [place for place in sys.path if os.path.abspath(place) != _HERE]  # noqa: PTH100
    try:
        import sitecustomize  # noqa: F401
    except ImportError:
        sys.modules["sitecustomize"] = ours


if sys.version_info < (3, 8):  # noqa: UP036
    _import_hidden_module()
elif "gpu_profile_marks" not in sys.modules:
    try:
        from gpu_profile_marks import waiting
        from gpu_profile_pauses import unpatched  # noqa: F401 - before the program replaces them

        waiting.wait_for_library(os.environ, _start_pauses)
    except Exception as error:
        words = ": ".join((type(error).__name__, str(error))).splitlines()[0][:200]
        sys.stderr.write("gpu-profile: marks are off, the job goes on: " + words + "\n")
    _run_hidden_module()
