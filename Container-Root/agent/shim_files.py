"""Write shims: programs first in PATH that start each rank under nsys. Python 3.8, stdlib only."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from shim import SETTINGS_FILE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_AGENT = Path(__file__).resolve().parent
_SHIM = f"""#!{sys.executable} -E
import sys
sys.path.insert(0, {str(_AGENT)!r})
import MODULE
sys.exit(MODULE.main(*sys.argv))
"""


def write_shims(
    folder: str, names: Sequence[str], settings: Mapping[str, object], module: str = "shim"
) -> None:
    """Write a shim of each name, which calls `main` of the module with its own path first."""
    Path(folder).mkdir(mode=0o700, parents=True, exist_ok=True)
    Path(folder, SETTINGS_FILE).write_text(json.dumps(settings), encoding="utf-8")
    for name in names:
        file = Path(folder, name)
        file.write_text(_SHIM.replace("MODULE", module), encoding="utf-8")
        file.chmod(0o700)
