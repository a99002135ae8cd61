"""Modules of Container-Root can be imported: last, for one has the name of Python's profile."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "Container-Root"))
