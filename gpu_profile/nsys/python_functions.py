"""Write the JSON for nsys' --python-functions-trace: which functions become NVTX ranges."""

import difflib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpu_profile.command import Command, Steps
from gpu_profile.errors import SettingsError, ToolError

_TARGET = re.compile(r"(?P<module>[^\W\d]\w*(?:\.[^\W\d]\w*)*):(?P<function>[^\W\d]\w*(?:\.\w+)*)")
_COLOR = re.compile(r"(?:#|0[xX])(?P<rgb>[0-9a-fA-F]{6})")

# The job's interpreter runs this, because it can import the functions. The last line of output has
# one list for each target: [] if the function exists, else the problem and similar names.
_CHECK = """
import importlib, json, sys
def look(module, function):
    try:
        value = importlib.import_module(module)
    except BaseException as error:
        return [f"{module} cannot be imported: {type(error).__name__}: {error}", []]
    for name in function.split("."):
        if not hasattr(value, name):
            return [f"{module} has no {function}", [n for n in dir(value) if n[:1] != "_"]]
        value = getattr(value, name)
    return [] if callable(value) else [f"{module}:{function} is not a function", []]
print()
print(json.dumps([look(*target) for target in json.load(sys.stdin)]))
"""


@dataclass(frozen=True)
class Target:
    """One function, or one method of a class: `package.module:Class.method`."""

    module: str
    function: str

    @classmethod
    def parse(cls, text: str) -> "Target":
        """Return the target of `module:function`.

        Raises SettingsError for other text and for `__main__`.
        """
        match = _TARGET.fullmatch(text)
        if match is None:
            raise SettingsError(
                f"{text!r} is not a function", "Use package.module:function or module:Class.method"
            )
        if match["module"] == "__main__":
            raise SettingsError(
                "functions of __main__ cannot be traced: nsys marks a function when its module is"
                " imported, and the script itself never is",
                "Move the function into a module that the script imports",
            )
        return cls(match["module"], match["function"])


@dataclass(frozen=True, kw_only=True)
class Attributes:
    """The domain, category and color of the ranges. `color` is 0xRRGGBB or #RRGGBB."""

    domain: str = ""
    category: str = ""
    color: str = ""

    def entries(self) -> Mapping[str, str]:
        color = _COLOR.fullmatch(self.color)
        if self.color and color is None:
            raise SettingsError(f"{self.color!r} is not a colour", "Use 0xRRGGBB, as in 0x76B900")
        entries = {"domain": self.domain, "category": self.category}
        entries["color"] = f"0x{color['rgb'].upper()}" if color else ""
        return {name: value for name, value in entries.items() if value}


_PYTHON = "Activate the environment whose Python the job will use"


def make_trace_file(words: Iterable[str], attributes: Attributes, *, python: str) -> Steps[str]:
    """Return the file's text, once `python` has imported each `module:function`.

    `python` is the job's interpreter, run in the directory where the job starts. Raises
    SettingsError for an unknown function, with the most similar names.
    """
    targets = tuple(dict.fromkeys(Target.parse(word) for word in words))
    if not targets:
        raise SettingsError("no function to trace", "Give package.module:function …")
    text = render_functions(targets, attributes)
    request = json.dumps([[target.module, target.function] for target in targets])
    done = yield Command(argv=(python, "-c", _CHECK), stdin=request)
    if done.returncode:
        raise ToolError(f"{python} cannot look for the functions: {done.last_line}", _PYTHON)
    for target, answer in zip(targets, json.loads(done.stdout.splitlines()[-1]), strict=True):
        if answer:
            raise SettingsError(answer[0], _find_nearest(target, answer[1]))
    return text


def render_functions(targets: Sequence[Target], attributes: Attributes) -> str:
    """Return the file's text with one entry a module, in the given order."""
    entries: list[dict[str, Any]] = [
        {
            "module": module,
            **attributes.entries(),
            "functions": [target.function for target in targets if target.module == module],
        }
        for module in dict.fromkeys(target.module for target in targets)
    ]
    return json.dumps(entries, indent=4, ensure_ascii=False) + "\n"


def _find_nearest(target: Target, names: Sequence[str]) -> str:
    near = difflib.get_close_matches(target.function.rpartition(".")[2], names)
    if near:
        return f"The nearest it has: {', '.join(near)}"
    return "Check the name, and that the job's own Python and directory are used"
