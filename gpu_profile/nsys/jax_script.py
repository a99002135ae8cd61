"""Whether a command runs a Python script that imports JAX, by the script's text.

XLA puts most kernels of a step into CUDA graphs (its command buffers), and nsys traces a graph as
one operation by default. https://docs.jax.dev/en/latest/xla_flags.html
"""

import itertools
import re
from collections.abc import Sequence
from pathlib import Path

_JAX = re.compile(r"^\s*(import|from)\s+(jax|flax|optax|equinox|haiku)\b", re.MULTILINE)
_MOST_BYTES = 1 << 20
"""Of a script, read from its begin: imports stand there."""


def imports_jax(command: Sequence[str]) -> bool:
    """Whether the command's script is on this machine and imports JAX or a library on top of it.

    `python3 -u train.py --lr 1e-3` runs train.py, `python3 -m task.train` task/train.py.
    """
    script = _find_script(command)
    if script is None:
        return False
    try:
        with script.open(encoding="utf-8", errors="replace") as file:
            return bool(_JAX.search(file.read(_MOST_BYTES)))
    except OSError:
        return False


def _find_script(command: Sequence[str]) -> Path | None:
    for word, following in itertools.pairwise([*command, ""]):
        if word == "-m":
            return Path(f"{following.replace('.', '/')}.py")
        if word.endswith(".py"):
            return Path(word)
    return None
