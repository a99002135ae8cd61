"""The Python API: `gpu_profile.open` and the schemas of its JSON."""

from gpu_profile.api.open_run import open_run as open
from gpu_profile.api.run import Run
from gpu_profile.schemas import load_schema as schema

__all__ = ["Run", "open", "schema"]
