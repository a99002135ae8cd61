"""Tell a build by its steps: one line for each, in place of all that apt and pip print."""

import re
import time
from dataclasses import dataclass, field

from gpu_profile.printable import printable

_LINE = re.compile(r"#(?P<number>\d+) (?P<text>.*)")
_STEP = re.compile(r"\[(?P<stage>[^\]]+?)(?: +\d+/\d+)?\] (?P<command>.*)")
_DONE = re.compile(r"DONE (?P<seconds>\d+\.\d)s")
_EXPORT = "exporting to image"
_SILENT_S = 30.0  # after so long without a line, the running step's own last line is shown
_LONGEST = 100  # letters of a line


@dataclass
class BuildSteps:
    """Reads each line of BuildKit's plain output, and returns what to show of it, mostly nothing.

    Example: `#8 DONE 32.3s` is `torch: 32.3 s`.
    """

    _names: dict[str, str] = field(default_factory=dict)
    _shown_at: float = field(default_factory=time.monotonic)

    def describe(self, line: str) -> str:
        """Return the line that tells the step's end, or that a long one goes on; "" otherwise."""
        match = _LINE.fullmatch(line)
        if match is None:
            return ""
        number, text = match["number"], match["text"]
        if number not in self._names:
            self._names[number] = _name_step(text)
        return self._show(self._describe_step(self._names[number], text))

    def _describe_step(self, name: str, text: str) -> str:
        done = _DONE.fullmatch(text)
        if not name:
            return ""
        if text == "CACHED":
            return f"{name}: made before"
        if done:
            return f"{name}: {done['seconds']} s"
        is_long = time.monotonic() - self._shown_at >= _SILENT_S
        return f"{name}: … {text}" if is_long else ""

    def _show(self, line: str) -> str:
        if line:
            self._shown_at = time.monotonic()
        return printable(line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…")


def _name_step(text: str) -> str:
    """Return a step's name by its first line; "" for BuildKit's internal ones."""
    if text == _EXPORT:
        return "image: export"
    match = _STEP.fullmatch(text)
    if match is None or match["stage"] == "internal":
        return ""
    command = match["command"]
    is_component = command.startswith("RUN") and "target=/mnt/setup.sh" in command
    instruction = command.partition(" --mount=")[0].replace(" --link", "").strip()
    return match["stage"] if is_component else f"{match['stage']}: {instruction}"[:60].rstrip()
