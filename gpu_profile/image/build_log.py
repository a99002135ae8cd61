"""Find the failed step and its reason in the output of `docker buildx build`.

A failed build ends with a summary between two rules: the step and its last lines. It is the same
on a terminal and in plain output.
"""

import re
from dataclasses import dataclass, field

from gpu_profile.components.table import COMPONENTS
from gpu_profile.errors import BuildError

_RULE = "------"
_STEP = re.compile(r" > \[(?P<stage>[^\]]+?)(?: +\d+/\d+)?\] .*")
_STAMP = re.compile(r"\d+\.\d+ ")
_DRAWING = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")
_LAST = re.compile(r"ERROR: (?:failed to (?:build|solve): )*(?P<text>.*)")
_KEEP = 10

_ADVICE = (
    ("no space left on device", "Make room: `docker system prune` removes what is not used"),
    (
        r"(?i)certificate|SSL_ERROR|tls:",
        "Set CA_BUNDLE to the file of certificates that this network needs",
    ),
    (
        "syft-scanner",
        "BuildKit's own takes its scanner from a registry; `invoke sbom` needs none",
    ),
    ("checksum mismatch", "The file is not the one that was locked: check its _SHA256 and _URL"),
    (
        r"failed to resolve source metadata|pull access denied|manifest unknown|no such host"
        r"|failed to do request|not found: not found",
        "Set BASE_IMAGE to an image that this machine reaches, or to embedded",
    ),
    (
        r"(?i)could not resolve|cannot fetch|temporary failure|connection (?:refused|timed out)",
        "Set http_proxy and https_proxy, or a mirror for this download",
    ),
    (
        r"(?i)attestation",
        "`invoke sbom` prints one of the image built without it; BuildKit's own needs another"
        " builder: `docker buildx create --use`",
    ),
    (
        "not supported for the docker driver",
        "That needs another builder: `docker buildx create --use`",
    ),
)


@dataclass
class BuildLog:
    """Reads each line of a build. After a failure it has the step and the step's last lines."""

    step: str = ""
    last_lines: tuple[str, ...] = ()
    reason: str = ""
    _summary: list[str] | None = field(default=None, repr=False)

    def feed(self, drawn: str) -> None:
        """Read one line of the build's output, plain or with a terminal's escape sequences."""
        line = _DRAWING.sub("", drawn)
        if line == _RULE:
            self._read(self._summary)
            self._summary = [] if self._summary is None else None
        elif self._summary is not None:
            self._summary.append(line)
        elif match := _LAST.match(line):
            self.reason = match["text"]

    def _read(self, summary: list[str] | None) -> None:
        match = _STEP.match(summary[0]) if summary else None
        if summary and match and match["stage"] != "internal":
            self.step = match["stage"]
            self.last_lines = tuple(_STAMP.sub("", line, 1) for line in summary[1:][-_KEEP:])

    def failure(self, exit_code: int) -> BuildError:
        """Return the error of a failed build: its step, the last line, and what to do."""
        last_line = next((line for line in reversed(self.last_lines) if line.strip()), self.reason)
        last_line = last_line or f"docker buildx build ended with exit code {exit_code}"
        what = f"No build: {last_line}"
        if self.step:
            what = f"The build failed in {self.step}: {last_line}"
        everything = "\n".join([*self.last_lines, self.reason])
        for pattern, advice in _ADVICE:
            if re.search(pattern, everything):
                return BuildError(what, advice)
        script = next((row.script for row in COMPONENTS if row.name == self.step), "")
        if script:
            return BuildError(what, f"See Container-Root/setup.d/{script}")
        return BuildError(what, "`invoke build --verbose` shows all that it printed")
